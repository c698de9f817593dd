"""The same text, settings, seed and threads: the same bits, twice, for every family of every task.

The second time another interpreter trains, with other hashes of strings, after it drew random numbers and, now and
then, trained something else.
"""

import atexit
from dataclasses import replace
from functools import partial

from tests.soak.campaign import LIVES, Campaign, Failure

SHORT = 7                                # cases in CI: one family of each task
TWIN = None
ALL = []


def warm():
    from tests.soak.lives import warm_up

    warm_up()


def prepare(folder):
    global TWIN
    from tests.soak.lives import every_variant
    from tests.soak.twin import Twin

    TWIN = Twin()
    atexit.register(TWIN.close)
    tasks = {}
    for each in every_variant():
        tasks.setdefault(each.task, []).append(each)
    ALL[:] = [group[at] for at in range(max(map(len, tasks.values()))) for group in tasks.values() if at < len(group)]


def chosen(seed):
    """The families in turn, each task's first ones first; the first round with one thread, later ones with two, too."""
    variant, turn = ALL[seed % len(ALL)], seed // len(ALL)
    if variant.family.startswith("ngram"):
        return variant
    training = {**variant.settings["training"], "seed": seed, **({"threads": 1} if turn == 0 else {})}
    return replace(variant, settings={**variant.settings, "training": training})


def run(seed, folder):
    from tests.soak.lives import difference, outcome, run_apart, train

    variant = chosen(seed)
    first, second = folder / "first", folder / "second"
    for ended in (run_apart(partial(train, variant, first)), TWIN.train(variant, second, seed)):
        if ended.how != "done":
            return Failure(f"{variant.name}: {ended}")
    differs = difference(outcome(first), outcome(second))
    return Failure(f"{variant.name}: other bits in {differs}") if differs else None


CAMPAIGN = Campaign(
    "same-bits", "every family of every task is trained twice, the second time by another interpreter with a past",
    holds="0 differing bits of weights, optimizer, generators, metrics and samples", ci=SHORT, soak=500, run=run,
    prepare=prepare, warm=warm, also=(*LIVES, "tests/soak/twin.py"))
