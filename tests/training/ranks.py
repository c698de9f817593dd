"""Starts processes that train together, as torchrun does, with a deadline: a rank that hangs is a failure."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEADLINE = 120.0


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def start_ranks(count, command, port=None, **environment):
    """Start `python ARGUMENTS` as so many ranks; return the processes."""
    shared = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(port or free_port()), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT),
              "PYTHONWARNINGS": "ignore", **environment}
    return [subprocess.Popen([sys.executable, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, env=os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
            for rank in range(count)]


def end_ranks(processes, deadline=DEADLINE):
    """Wait until all have ended, and return (exit code, stdout, stderr) of each; kill those that are late, and fail."""
    until, found = time.monotonic() + deadline, []
    try:
        for process in processes:
            out, err = process.communicate(timeout=max(0.1, until - time.monotonic()))
            found.append((process.returncode, out, err))
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
    return found


def run_ranks(count, command, deadline=DEADLINE, **environment):
    return end_ranks(start_ranks(count, command, **environment), deadline)
