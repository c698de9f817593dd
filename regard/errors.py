"""Errors: the mistakes of users, each one line with the setting, the value and the cure.

    RegardError
    ├── DataError       the text: missing, empty, binary, badly encoded
    ├── SettingError    a setting: unknown, impossible, not changeable
    ├── RunError        a run folder: missing, damaged, of another kind
    ├── TrainingStopped training could not go on: a non-finite loss, no memory left
    ├── Interrupted     asked to stop; everything is saved
    ├── EndedTogether   another process says why
    └── StorageError    the disk: full, read-only, failing

The command line prints the message and exits with the class's exit code. What a user should know without its being a
mistake is a `RegardNote`, a warning. Anything that is not a RegardError is our mistake, and shows its traceback.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable


class RegardError(Exception):
    """A mistake a user can mend. Its message is one line: a reason that a library gives may have several."""

    exit_code = 1

    def __init__(self, message: str = ""):
        super().__init__(" ".join(message.splitlines()))


class DataError(RegardError):
    """The text cannot be used as it is."""


class SettingError(RegardError):
    """A setting is unknown, out of range, or cannot be changed now."""


class RunError(RegardError):
    """A run folder cannot be used as it is."""


class TrainingStopped(RegardError):
    """Training stopped before it could do harm."""


class Interrupted(RegardError):
    """Asked to stop, by Ctrl-C or SIGTERM; everything is saved."""

    exit_code = 130


class EndedTogether(RegardError):
    """This process ends with the others that trained with it; one of them has said why, and this one says nothing."""

    def __init__(self, exit_code: int = 1):
        super().__init__("this process ended with the others that trained with it")
        self.exit_code = exit_code


class StorageError(RegardError):
    """The disk refused."""


class RegardNote(UserWarning):
    """Something a user should know of, though all goes on. The command line prints it as one line."""


def note(text: str) -> None:
    """Say it once: Python shows a warning of the same words from the same place no second time.

    A folder's name may hold bytes that are no text: they are spelled out, so that any reader of warnings can take them.
    """
    warnings.warn(text.encode("utf-8", "backslashreplace").decode(), RegardNote, stacklevel=2)


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """`: did you mean layers?`, with `prefix` before the name, or the list of what exists when nothing is near."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f": did you mean {prefix}{near[0]}?"
    return f" (there are: {', '.join(names)})" if names else ""


LONGEST_LINE = 2000                # characters that are shown of a message
JOINERS = "\u200c\u200d"           # words and emoji are spelled with them


def one_line(text: str) -> str:
    """Return a message as it may be shown, whatever names and values of others are in it: spaces in the place of line
    breaks, control characters spelled out, and of an endless one the beginning and the end."""
    if len(text) > LONGEST_LINE:
        text = f"{text[:LONGEST_LINE // 2]} … {text[-LONGEST_LINE // 4:]}"
    if text.isprintable():
        return text
    return "".join(map(_shown, " ".join(text.splitlines())))


def _shown(char: str) -> str:
    if char.isprintable() or char in JOINERS:
        return char
    return " " if char == "\t" else char.encode("unicode_escape").decode("ascii")
