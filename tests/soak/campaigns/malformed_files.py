"""Files of every kind that Regard reads, changed at random: read, or refused in one line, soon and in little memory."""

import os
from itertools import islice
from pathlib import Path

from tests.soak.campaign import Campaign, Failure

SEED, AT_ONCE = 7, 40                   # the seed of the mutations; cases of a kind in one process
FOLDER = Path()


def prepare(folder):
    global FOLDER
    os.environ["REGARD_CACHE"] = str(folder / "cache")
    FOLDER = folder


def run_many(seeds, folder):
    """Seed s is mutation s // K of kind s % K. Many of a kind go together, which saves preparing it."""
    from tests.fuzz.kinds import KINDS
    from tests.fuzz.running import run_cases

    kinds, seeds = list(KINDS.values()), iter(seeds)
    while block := list(islice(seeds, AT_ONCE * len(kinds))):
        for at, kind in enumerate(kinds):
            some = [seed for seed in block if seed % len(kinds) == at]
            if not some:
                continue
            place = kind.prepare(FOLDER / str(at))
            found = run_cases(kind, place, [seed // len(kinds) for seed in some], SEED)
            for seed in some:
                how, why = found.faults.get(seed // len(kinds), (None, ""))
                yield seed, None if how is None else Failure(f"{kind.name}, number {seed // len(kinds)}: {how} {why}")


def run(seed, folder):
    return next(run_many([seed], folder))[1]


CAMPAIGN = Campaign(
    "malformed-files", "one of 38 kinds of files is changed at random, and used", ci=2_660, soak=1_000_000, run=run,
    run_many=run_many, prepare=prepare, short="tests/fuzz", patience=900.0,
    also=("tests/fuzz/kinds.py", "tests/fuzz/mutations.py", "tests/fuzz/running.py"),
    holds="read, or refused in one line, within 1 s and 256 MB beyond the good file's")
