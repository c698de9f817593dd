"""Two ranks train together; one is killed at a call on the disk or a step, and both go on later, to the same bits.

Mostly the other rank is killed with it, as a machine that goes down kills both; now and then it is left alone, and must
end by itself in one line.
"""

from random import Random

from tests.soak.campaign import LIVES, Campaign, Failure

LEFT = 20                                # one in so many survivors is left to notice by itself, which takes seconds
FOLDER = None
KNOWN = {}


def warm():
    import torch.distributed

    from tests.soak.lives import warm_up

    warm_up()
    assert torch.distributed


def prepare(folder):
    global FOLDER
    FOLDER = folder


def undisturbed(variant):
    """The points of both ranks' lives, and the outcome."""
    from tests.soak.lives import outcome
    from tests.soak.together import live_together

    if variant.name not in KNOWN:
        out = FOLDER / variant.name.replace(" ", "-").replace(",", "")
        ended = live_together(variant, out)
        assert [each.how for each in ended] == ["done", "done"], ended
        KNOWN[variant.name] = [each.noted for each in ended], outcome(out)
    return KNOWN[variant.name]


def run(seed, folder):
    from tests.soak.lives import FIRST, difference, every_variant, outcome
    from tests.soak.together import live_together

    chance = Random(f"ranks {seed}")
    every = [*FIRST, *(each for each in every_variant() if each.task == "lm" and not each.family.startswith("ngram"))]
    variant, rank, out = every[seed // 10 % len(every)], seed % 2, folder / "run"
    points, expected = undisturbed(variant)
    for turn in range(2):
        point = 1 + chance.randrange(points[rank])
        said = f"{variant.name}, rank {rank} killed at point {point} of {points[rank]}, time {turn + 1}"
        ended = live_together(variant, out, rank, point, left=seed % LEFT == turn)
        if any(each.how == "broken" or "\n" in each.line for each in ended):
            return Failure(f"{said}: {ended}")
    ended = live_together(variant, out)
    if [each.how for each in ended] != ["done", "done"]:
        return Failure(f"{said}: they do not go on: {ended}")
    differs = difference(outcome(out), expected)
    return Failure(f"{said}: other bits in {differs}") if differs else None


CAMPAIGN = Campaign(
    "rank-kills", "one of two ranks that train together is killed at a call on the disk or a step, twice; they go on",
    holds="0 differing bits; a rank that is left ends in one line", ci=2, soak=300, run=run, prepare=prepare, warm=warm,
    short="tests/training/test_lost_ranks.py", patience=400.0,
    also=(*LIVES, "tests/soak/together.py"))
