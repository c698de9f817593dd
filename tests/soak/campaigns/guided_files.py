"""Chains of malformed files, guided by the lines of Regard that they reach; a file that shows a fault is kept."""

import os
from pathlib import Path

from tests.soak.campaign import ROOT, Campaign, Failure

FOUND = ROOT / ".soak-state" / "found"                      # move those to tests/fuzz/found, by a name of their own
FOLDER = Path()


def prepare(folder):
    global FOLDER
    os.environ["REGARD_CACHE"] = str(folder / "cache")
    FOLDER = folder


def run(seed, folder):
    from tests.fuzz.guided import find_fault
    from tests.fuzz.kinds import KINDS

    kind = list(KINDS.values())[seed % len(KINDS)]
    wrong, raw, _ = find_fault(kind, kind.prepare(FOLDER / str(seed % len(KINDS))), seed)
    if not wrong:
        return None
    FOUND.mkdir(parents=True, exist_ok=True)
    (FOUND / f"{kind.name} - {seed}").write_bytes(raw)
    return Failure(f"{kind.name}, {wrong}")


CAMPAIGN = Campaign(
    "guided-files", "sixty files of a kind, each a change of one that reached a new line of Regard", ci=13,
    soak=15_600, run=run, prepare=prepare, short="tests/fuzz/test_guided_files.py",
    also=("tests/fuzz/kinds.py", "tests/fuzz/mutations.py", "tests/fuzz/running.py", "tests/fuzz/guided.py"),
    holds="read, or refused in one line, within 1 s and 256 MB beyond the good file's")
