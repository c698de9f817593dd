"""Cases in a process of their own, which a case may end: then the next one goes on with another."""

import os
import resource
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

from regard.errors import RegardError

SECONDS, MEGABYTES = 1.0, 256        # of a CPU and of memory, beyond what the good file needs
PATIENCE = 60                        # seconds by the clock: for what waits, and uses no CPU


@dataclass
class Found:
    """How cases of a kind ended: so many done and refused, and the others, which are faults, by number."""

    counts: Counter = field(default_factory=Counter)
    faults: dict = field(default_factory=dict)


def run_cases(kind, folder, numbers, seed, until=None):
    """Run mutations of the kind by their numbers; what they came to. With `until`, no case begins after that second."""
    found, left = Found(), list(numbers)
    needed = fork(lambda write: write(f"0 done {measure(kind, folder)}"))[-1]
    if " done " not in needed:
        raise AssertionError(f"the good file of {kind.name} cannot be used: {needed}")
    seconds = float(needed.split()[2])
    while left and (until is None or time.monotonic() < until):
        lines = fork(partial(run_some, kind, folder, left, seed, seconds, until))
        for line in lines:
            number, how, *why = line.split(" ", 2)
            found.counts[how] += 1
            if how not in ("done", "refused"):
                found.faults[int(number)] = (how, why[0] if why else "")
        begun = len(lines)
        if begun == 0 or (begun < len(left) and (until is None or time.monotonic() < until)):
            found.faults[left[begun]] = ("ended", "the process ended: too much memory or time, or a crash")
            found.counts["ended"] += 1
            begun += 1
        left = left[begun:]
    return found


def measure(kind, folder):
    """The seconds of CPU that the good file takes, once everything is imported."""
    for _ in range(2):
        began = time.process_time()
        kind.use(kind.place(folder, kind.good(folder)))
    return time.process_time() - began


def fork(call):
    """The lines that `call(write)` wrote in a forked process, however that ended."""
    read, out = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            quieten()
            call(lambda line: os.write(out, (" ".join(line.split("\n")) + "\n").encode(errors="backslashreplace")))
        except BaseException:
            os.write(out, ("0 broken " + traceback.format_exc().replace("\n", " | ")[-3000:] + "\n").encode())
        os._exit(0)
    os.close(out)
    with os.fdopen(read, "rb") as file:
        told = file.read().decode(errors="replace")
    os.waitpid(child, 0)
    return [line for line in told.split("\n") if line]


def quieten():
    import torch

    torch.set_num_threads(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    sys.stdout = sys.stderr = open(os.devnull, "w")              # noqa: SIM115
    warnings.simplefilter("ignore")


def limit_memory():
    """Allow this process so much more than it has, and let it end when its time is over."""
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEGABYTES * 2**20, most))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)                # nothing can catch it: it ends the process
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def limit_time(seconds):
    signal.setitimer(signal.ITIMER_PROF, SECONDS + 2 * seconds)
    signal.alarm(PATIENCE)


def run_some(kind, folder, numbers, seed, seconds, until, write):
    raw = kind.good(folder)
    limit_memory()
    for number in numbers:
        if until is not None and time.monotonic() > until:
            return
        path = kind.place(folder, kind.changed(raw, number, seed))
        limit_time(seconds)
        write(f"{number} {use(kind, path)}")


def use(kind, path):
    """`done`, `refused`, or what went wrong."""
    try:
        kind.use(path)
    except RegardError as error:
        lines = len(str(error).splitlines())
        return "refused" if lines == 1 else f"lines {lines} lines: {str(error)[:300]!r}"
    except BaseException:
        return f"traceback {traceback.format_exc()[-1500:].replace(chr(10), ' | ')}"
    return "done"
