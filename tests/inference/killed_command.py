"""Runs a command over files in small pieces, and kills a process of it after some of them.

`python -m tests.inference.killed_command main|rank|nobody COMMAND...`, by itself or under torchrun.
"""

import os
import signal
import sys

from regard.cli import main
from regard.inference import answer_files, answer_worker

AFTER = 2                     # pieces


def kill_main():
    add, done = answer_files.PieceProgress.add, []

    def counted(self):
        add(self)
        done.append(1)
        if len(done) == AFTER:
            os.kill(os.getpid(), signal.SIGKILL)

    answer_files.PieceProgress.add = counted


def kill_rank():
    if os.environ["RANK"] != "1":
        return
    write, done = answer_worker.Answerer.write_part, []

    def counted(self, *given):
        write(self, *given)
        done.append(1)
        if len(done) == AFTER:
            os.kill(os.getpid(), signal.SIGKILL)

    answer_worker.Answerer.write_part = counted


if __name__ == "__main__":
    answer_files.PIECE = 5
    {"main": kill_main, "rank": kill_rank, "nobody": lambda: None}[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
