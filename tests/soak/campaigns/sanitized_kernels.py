"""The kernels in C under sanitizers, on random shapes in memory of exactly their size."""

from itertools import islice

from tests.soak.campaign import Campaign, Failure

AT_ONCE = 200                            # cases of one process
PROGRAM = None


def prepare(folder):
    global PROGRAM
    from tests.kernels.cpu.sanitized import build

    PROGRAM = build(folder)


def run_many(seeds, folder):
    from tests.kernels.cpu.sanitized import drive

    seeds = iter(seeds)
    while some := list(islice(seeds, AT_ONCE)):
        while some:
            many = next((at for at, seed in enumerate(some) if seed != some[0] + at), len(some))
            found = drive(PROGRAM, some[0], many)
            done = many if found is None else found[0] - some[0] + 1
            for seed in some[:done]:
                failed = found is not None and seed == found[0]
                yield seed, Failure(found[1]) if failed else None
            some = some[done:]


def run(seed, folder):
    return next(run_many([seed], folder))[1]


CAMPAIGN = Campaign(
    "sanitized-kernels", "a kernel in C, built with sanitizers, computes on a random shape", ci=800, soak=100_000,
    holds="no byte is read or written out of place, nothing is undefined, the numbers are the definition's",
    run=run, run_many=run_many, prepare=prepare,
    also=("tests/kernels/cpu/sanitized.c", "tests/kernels/cpu/sanitized.py"))
