"""A second interpreter that trains what it is told, with other hashes of strings: `python -m tests.soak.twin`.

What comes of a set's order, of a dictionary of hashes or of what a process did before differs there, and shows.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[2]
HASHES = "20261119"                      # of strings: any number that the other interpreter has not


class Twin:
    """The other interpreter, from the first thing it is asked until it is closed, or this process ends."""

    def __init__(self):
        environment = os.environ | {"PYTHONHASHSEED": HASHES, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen([sys.executable, "-m", "tests.soak.twin"], cwd=ROOT, env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def train(self, variant, out: Path, before: int):
        """Return how a life ended there; `before` says which other thing its process did first."""
        from tests.soak.lives import Ended

        self.process.stdin.write(json.dumps([asdict(variant), str(out), before]) + "\n")
        self.process.stdin.flush()
        return Ended(**json.loads(self.process.stdout.readline()))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def disturb(before: int, folder: Path) -> None:
    """Leave traces in this process that must not matter: numbers drawn, and another model trained."""
    import random

    import numpy as np
    import torch

    from tests.soak.lives import FIRST, train

    random.seed(before)
    np.random.seed(before)
    torch.rand(1 + before)
    if before % 4 == 1:
        train(FIRST[before % 3], folder / "before")


def train_disturbed(variant, out: Path, before: int) -> None:
    from tests.soak.lives import train

    os.environ["REGARD_CACHE"] = f"{out}.cache"
    disturb(before, out.parent)
    train(variant, out)


def main() -> None:
    from tests.soak.lives import Variant, run_apart, warm_up

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)                                             # what training prints is no answer
    warm_up()
    for line in sys.stdin:
        variant, out, before = json.loads(line)
        ended = run_apart(partial(train_disturbed, Variant(**variant), Path(out), before))
        answers.write(json.dumps(vars(ended)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
