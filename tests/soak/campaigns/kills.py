"""A run is killed at an enumerated call on the disk or step, killed three times more while it recovers, and left to
end: 200 kills in CI."""

from random import Random

from tests.soak.campaign import LIVES, Campaign, Failure

SHORT, BLOCK = 54, 25                    # cases in CI, of three families; then so many of each family and task in turn
UNDISTURBED = None
ALL = []


def warm():
    from tests.soak.lives import warm_up

    warm_up()


def prepare(folder):
    global UNDISTURBED
    from tests.soak.lives import Undisturbed, every_variant

    UNDISTURBED = Undisturbed(folder)
    ALL[:] = every_variant()


def chosen(seed):
    """The variant of a case, and where in its life (0 to 1) it is killed first."""
    from tests.soak.lives import FIRST

    if seed < SHORT:
        each = -(-SHORT // len(FIRST))
        return FIRST[seed % len(FIRST)], (seed // len(FIRST) + 0.5) / each
    return ALL[(seed - SHORT) // BLOCK % len(ALL)], Random(seed).random()


def run(seed, folder):
    from tests.soak.lives import difference, live, outcome

    variant, place = chosen(seed)
    points, expected = UNDISTURBED(variant)
    chance, out = Random(f"kills {seed}"), folder / "run"
    wanted = [1 + int(place * points), *(1 + int(chance.random() * most) for most in (60, points / 2, 60))]
    said = f"{variant.name}, killed at points {wanted} of up to {points}"
    for point in (*wanted, None):
        ended = live(variant, out, point)
        if ended.how != ("killed" if point else "done"):
            break
    if ended.how != "done":
        return Failure(f"{said}: it does not go on: {ended}")
    differs = difference(outcome(out), expected)
    return Failure(f"{said}: other bits in {differs}") if differs else None


CAMPAIGN = Campaign(
    "kills", "SIGKILL in training at a call on the disk or a step, three more while it recovers; then it ends",
    holds="0 differing bits of weights, optimizer, generators, metrics and samples", ci=SHORT, soak=2_500, run=run,
    prepare=prepare, warm=warm, also=LIVES)
