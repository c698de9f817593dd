"""A call in a process of its own, with a limit of time and of memory: what should be refused may otherwise take the
machine with it."""

import os
import resource
import signal
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass

from regard.errors import RegardError


@dataclass
class Outcome:
    """How a call ended: `refused` with the line of a RegardError, `done`, or anything else, which is a fault."""

    how: str
    line: str


def run_bounded(call, seconds=20, megabytes=600):
    """Return how the call ended in a forked process that may take so many seconds, and so much memory on top."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with suppress(BaseException):
            how, line = _call(call, seconds, megabytes)
            os.write(write, f"{how}\n{line}".encode(errors="backslashreplace")[:60_000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        how, _, line = file.read().decode(errors="replace").partition("\n")
    _, status = os.waitpid(child, 0)
    return Outcome(how or f"ended by signal {os.waitstatus_to_exitcode(status)}", line)


def _call(call, seconds, megabytes):
    import torch

    torch.set_num_threads(1)
    sys.stdout = sys.stderr = open(os.devnull, "w")              # noqa: SIM115
    signal.signal(signal.SIGALRM, signal.SIG_DFL)                # nothing can catch it: it ends the process
    signal.alarm(seconds)
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + megabytes * 2**20,) * 2)
    try:
        call()
    except RegardError as error:
        return "refused", str(error)
    except SystemExit as end:
        return f"exit {end.code}", ""
    except BaseException:
        return "traceback", traceback.format_exc()[-3000:]
    return "done", ""
