"""Bits flip, a file is cut or loses a block, anywhere in a run folder or the cache: then it is used, resumed, trained
from. All is detected, in one line, or of no effect; a damaged checkpoint gives way to the one before it.
"""

from functools import partial
from random import Random

from tests.soak.campaign import LIVES, Campaign, Failure

SHORT, RARE = 500, 50                    # cases in CI; one in so many is resumed, and one trained from a damaged cache
RUNS = ("transformer", "rnn in streams", "translator, accumulated", "lm-ngram", "classify-window", "masked-rnn",
        "caption-rnn-attention", "summarise-transformer")
UNDISTURBED, FOLDER = None, None
KNOWN, VARIANTS = {}, {}
LOGS = ("metrics.jsonl", "samples.jsonl")


def warm():
    from tests.soak.lives import warm_up

    warm_up()


def prepare(folder):
    global UNDISTURBED, FOLDER
    from tests.soak.lives import FIRST, Undisturbed, every_variant, steady

    UNDISTURBED, FOLDER = Undisturbed(folder), folder
    VARIANTS.update({each.name: each for each in (*FIRST, *every_variant()) if each.name in RUNS})
    steady()


def good(variant):
    """The undisturbed run of a variant, one that stands in the middle, the cache of both, and what the run answers."""
    from tests.fixtures.runs import measure
    from tests.soak.injected import stop_after
    from tests.soak.lives import run_apart

    if variant.name not in KNOWN:
        _, expected = UNDISTURBED(variant)
        whole = FOLDER / variant.name.replace(" ", "-").replace(",", "")
        half = FOLDER / f"{whole.name}.half"
        if not variant.family.startswith("ngram"):
            ended = run_apart(partial(stop_after, variant, half, 4))
            assert ended.how == "done", ended
        KNOWN[variant.name] = whole, half, FOLDER / f"{whole.name}.cache", expected, measure(whole)
    return KNOWN[variant.name]


def run(seed, folder):
    chance = Random(f"flips {seed}")
    names = RUNS[:4] if seed < SHORT else RUNS
    variant = VARIANTS[names[seed // RARE % len(names)]]
    way = {0: resume, 1: train_from_cache}.get(seed % RARE, use)
    if way is resume and variant.family.startswith("ngram"):
        way = use                                            # counted in one go
    wrong = way(variant, folder, chance)
    return Failure(wrong) if wrong else None


def use(variant, folder, chance):
    """Load a damaged run and ask it: a line, or the same answer as before."""
    import shutil

    from regard.errors import RegardError
    from tests.fixtures.runs import measure
    from tests.soak.damage import damage, notes_of

    whole, _, _, _, answer = good(variant)
    path = folder / "run"
    shutil.copytree(whole, path)
    name, how = damage(path, chance)
    said = f"{variant.name}, {name}: {how}"
    with notes_of() as notes:
        try:
            found = measure(path)
        except RegardError as error:
            return f"{said}: {error}" if "\n" in str(error) else ""
    if found != answer and not any(name in each or "cannot be checked" in each for each in notes):
        return f"{said}: another answer, and nothing was said ({notes})"
    return ""


def resume(variant, folder, chance):
    """Go on with a damaged run: to the same bits, or refused in a line; a checkpoint gives way to the one before it."""
    import shutil

    from tests.soak.damage import damage
    from tests.soak.lives import difference, outcome, run_apart

    _, half, _, expected, _ = good(variant)
    path = folder / "run"
    shutil.copytree(half, path)
    others = len(list((path / "checkpoints").glob("[0-9]*"))) > 1            # the first one has none before it
    name, how = damage(path, chance)
    said = f"{variant.name}, {name}: {how}, and resumed"
    ended = run_apart(partial(resume_told, variant, path))
    if ended.how == "refused" and "\n" not in ended.line:
        gives_way = others and name.startswith("checkpoints/")
        return f"{said}: a checkpoint should give way: {ended.line}" if gives_way else ""
    if ended.how != "done":
        return f"{said}: {ended}"
    differs = [each for each in difference(outcome(path), expected).split(", ") if each and "damaged-" not in each]
    lines = " ".join(ended.noted)
    forgiven = {*LOGS, "run.toml", "manifest.json"} if any(
        word in lines for word in ("was changed", "was damaged", "could not be read", "cannot be checked")) else set()
    if left := [each for each in differs if each not in forgiven]:
        return f"{said}: other bits in {', '.join(left)} ({lines[-500:]})"
    return ""


def resume_told(variant, path):
    """Train on, and return what was said and noted on the way."""
    import os
    from unittest.mock import patch

    from regard.training.report import TrainingProgress
    from tests.soak.damage import notes_of
    from tests.soak.lives import train

    os.environ["REGARD_CACHE"] = f"{path}.cache"
    said = []
    with patch.object(TrainingProgress, "say", lambda self, text: said.append(text)), notes_of() as notes:
        train(variant, path)
    return [*said, *notes]                                   # the notes are there once they are all given


def train_from_cache(variant, folder, chance):
    """Train anew beside a damaged cache: the same bits."""
    import shutil

    from tests.soak.damage import damage
    from tests.soak.lives import difference, live, outcome

    _, _, cache, expected, _ = good(variant)
    shutil.copytree(cache, folder / "run.cache")
    name, how = damage(folder / "run.cache", chance)
    ended = live(variant, folder / "run")
    if ended.how != "done":
        return f"{variant.name}, {name} of the cache: {how}: {ended}"
    differs = difference(outcome(folder / "run"), expected)
    return f"{variant.name}, {name} of the cache: {how}: other bits in {differs}" if differs else ""


CAMPAIGN = Campaign(
    "bit-flips", "bits flip, or a file is cut or loses a block, in a run folder or the cache; it is used, or resumed",
    holds="detected in one line, or the same numbers; a checkpoint gives way to the one before it", ci=SHORT,
    soak=50_000, run=run, prepare=prepare, warm=warm, also=(
        *LIVES, "tests/soak/damage.py", "tests/soak/injected.py"))
