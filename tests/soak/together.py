"""Two ranks of a run, each a fork of this process, meeting on loopback as torchrun's do."""

import json
import os
import signal
import socket
import time
from functools import partial
from pathlib import Path

from tests.soak.lives import Ended, Points, Variant, act_of, kill_at, watched_life

RANKS, DEADLINE = 2, 90.0                # seconds for both to end


def live_together(
    variant: Variant, out: Path, victim: int | None = None, point: int = 0, left: bool = False
) -> list[Ended]:
    """One life of two ranks, one of them killed at a point if one is named; unless it is left, the other is killed with
    it. Each notes how many points it had."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    started = {}
    for rank in range(RANKS):
        points = Points(kill_at(point) if rank == victim else None)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(read)
                be_rank(rank, port)
                told = json.dumps(act_of(partial(watched_life, variant, out, points)))
                with os.fdopen(write, "w") as file:
                    file.write(told)
            finally:
                os._exit(0)
        os.close(write)
        started[child] = (rank, read)
    return follow(started, victim, left)


def be_rank(rank: int, port: int) -> None:
    """Be this rank, in a fork: as torchrun says it, with what is counted under another folder for each."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS),
                   "LOCAL_WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    signal.alarm(int(DEADLINE))


def follow(started: dict[int, tuple[int, int]], victim: int | None, left: bool) -> list[Ended]:
    """Wait for both; return how each ended."""
    ended: dict[int, Ended] = {}
    waiting, late = dict(started), time.monotonic() + DEADLINE
    while waiting:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child not in waiting:
            if time.monotonic() > late:
                for each in waiting:
                    os.kill(each, signal.SIGKILL)
            time.sleep(0.02)
            continue
        rank, read = waiting.pop(child)
        with os.fdopen(read) as file:
            raw = file.read()
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        ended[rank] = (Ended(*json.loads(raw)) if raw else Ended("killed") if number == signal.SIGKILL
                       else Ended("broken", f"it told nothing, and ended by signal {number}"))
        if rank == victim and not left:
            for each in waiting:
                os.kill(each, signal.SIGKILL)
    return [ended[rank] for rank in range(RANKS)]
