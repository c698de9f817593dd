"""Mutations guided by coverage: a file with which Regard reaches a new line becomes a parent of those that follow.

A chain of files is a pure function of its kind and its seed, so that any can be made again.
"""

import os
import sys
import time
from functools import partial
from random import Random

import regard
from tests.fuzz.running import fork, limit_memory, limit_time, use

ROUNDS = 60                      # files of a chain
LARGEST = 2**16                  # bytes of a parent: small files are quick, and can be kept
MOST_EVENTS = 20_000             # lines that are noted of one file; then it goes on unseen, and quicker
PACKAGE = os.path.dirname(regard.__file__)


def reach(kind, path):
    """How the file is used, and the lines of Regard that this reaches."""
    lines, left = set(), MOST_EVENTS

    def note(frame, event, arg):
        nonlocal left
        lines.add((frame.f_code.co_filename, frame.f_lineno))
        left -= 1
        if left < 0:
            sys.settrace(None)
            return None
        return note

    def enter(frame, event, arg):
        return note if frame.f_code.co_filename.startswith(PACKAGE) else None

    sys.settrace(enter)
    try:
        how = use(kind, path)
    finally:
        sys.settrace(None)
    return how, lines


def run_chain(kind, folder, seed, rounds, write):
    """Tell of each file: its number, how many new lines it reached, and how it ended; `tried` is the file itself."""
    good, chance = kind.good(folder), Random(f"guided {seed}")
    reach(kind, kind.place(folder, good))                    # imports
    began = time.process_time()
    _, seen = reach(kind, kind.place(folder, good))
    seconds = time.process_time() - began
    parents = [good]
    for number in range(rounds):
        parent = parents[-1] if chance.random() < 0.3 else chance.choice(parents)
        raw = kind.changed(parent, number, seed)
        (folder / "tried").write_bytes(raw)
        path = kind.place(folder, raw)
        limit_memory()                                       # for each anew: what a process keeps adds up
        limit_time(seconds)
        how, lines = reach(kind, path)
        write(f"{number} {len(lines - seen)} {how}")
        if how not in ("done", "refused"):
            return
        if lines - seen and len(raw) <= LARGEST:
            parents.append(raw)
        seen |= lines


def find_fault(kind, folder, seed, rounds=ROUNDS):
    """(what was wrong with the last file of a chain, or nothing; the file; how many files reached new lines)."""
    told = fork(partial(run_chain, kind, folder, seed, rounds))
    new, last = sum(int(line.split()[1]) > 0 for line in told if line.split()[1].isdigit()), told[-1] if told else ""
    number, _, how = (*last.split(" ", 2), "", "", "")[:3]
    if last and how not in ("done", "refused"):
        return f"file {number}: {last[:1500]}", (folder / "tried").read_bytes(), new
    if len(told) < rounds:
        raw = (folder / "tried").read_bytes() if (folder / "tried").exists() else b""
        return f"file {len(told)}: the process ended: too much memory or time, or a crash", raw, new
    return "", b"", new
