"""A number that is none, or memory that runs out, at every site of training: it stops before the update, in one line.

Whatever was saved before stays good: every checkpoint is whole and finite, and the run goes on to the bits of one that
nothing happened to. Memory that runs out in a pass may also be met by fewer rows at once.
"""

from functools import partial

from tests.soak.campaign import LIVES, Campaign, Failure

VALUES = (("nan", "memory"), ("inf", "memory of torch"), ("-inf", "nan"))     # by turns
SITES = ("loss", "gradient", "update", "weights", "validation", "checkpoint", "optimizer", "best weights")
SHORT = 2 * len(SITES)                   # cases in CI: a number and no memory at every site, of three families
UNDISTURBED = None
ALL = []


def warm():
    from tests.soak.lives import warm_up

    warm_up()


def prepare(folder):
    global UNDISTURBED
    from tests.soak.lives import Undisturbed, every_variant

    UNDISTURBED = Undisturbed(folder)
    ALL[:] = [each for each in every_variant() if not each.family.startswith("ngram")]


def chosen(seed):
    """The variant, the site, the value and the step of a case."""
    from tests.soak.lives import FIRST

    turn = seed // SHORT
    value, site = VALUES[turn % 3][seed % 2], SITES[seed // 2 % len(SITES)]
    variant = FIRST[seed % 3] if turn == 0 else ALL[(turn - 1) % len(ALL)]
    return variant, site, value, 1 + (seed + 3 * turn) % 6


def run(seed, folder):
    from tests.soak.injected import life_with
    from tests.soak.lives import run_apart

    variant, site, value, step = chosen(seed)
    _, expected = UNDISTURBED(variant)
    out, said = folder / "run", f"{variant.name}, {value} in {site} at step {step}"
    ended = run_apart(partial(life_with, variant, out, site, value, step))
    return check(said, variant, out, ended, site, expected)


def check(said, variant, out, ended, site, expected):
    """What is wrong after an injection, and after the run went on; nothing if all held."""
    from tests.soak.lives import difference, live, outcome

    if ended.how == "done" and ended.noted == "fewer rows":      # halved micro-batches: other sums, and no harm
        return None
    if ended.how == "done" and ended.noted == "nothing struck" and site == "best weights":
        return None
    if ended.how != "refused" or "\n" in ended.line:
        return Failure(f"{said}: it should be refused in one line: {ended}")
    if ended.noted is None and (wrong := not_finite(out)):
        return Failure(f"{said}: {wrong} ({ended.line})")
    ended = live(variant, out)
    if ended.how != "done":
        return Failure(f"{said}: it does not go on: {ended}")
    differs = difference(outcome(out), expected)
    return Failure(f"{said}: other bits in {differs}") if differs else None


def not_finite(out):
    """What is saved and is not finite; nothing, if all is."""
    import torch

    from regard.run_folder import RunFolder, unpack, verified

    folder = RunFolder(out)
    for path in folder.checkpoints():
        files = verified(path)
        if files is None:
            return f"the checkpoint {path.name} is damaged"
        for name in ("model.safetensors", "training.safetensors"):
            if not all(torch.isfinite(each).all() for each in unpack(files[name], name).values()):
                return f"the checkpoint {path.name} has numbers in {name} that are not finite"
    if folder.weights_path.exists() and not all(
            torch.isfinite(each).all() for each in unpack(folder.weights_path.read_bytes(), "the weights").values()):
        return "the best weights are not finite"
    return ""


CAMPAIGN = Campaign(
    "non-finite", "NaN, Inf or no memory in the loss, the gradients, the update, a validation, what is saved or loaded",
    holds="one line before an update or a file is spoilt; it goes on from the last checkpoint to the same bits",
    ci=SHORT, soak=2_400, run=run, prepare=prepare, warm=warm,
    also=(*LIVES, "tests/soak/injected.py"))
