"""Files that others wrote, distrusted: a damaged one is one line about one run, and hurts no other.

    with reading("model.safetensors"):               # any failure in here becomes Damaged, with one line
        parameters = count_parameters(path)

A line names the file and not its folder: clients get no path of this machine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.errors import RegardError
from regard.serve.refusals import log

CURE = "take it from a copy, or train again"
DEEPEST = 40                   # levels of a value that is passed on; the lab's results have fewer than ten
LONGEST = 300                  # characters of a line
ABSOLUTE = re.compile(r"(?:/[^\s/:'\"(),;]+)+/?")


class Damaged(Exception):
    """A file of a run cannot be used; the message is one line, without a path."""


@contextmanager
def reading(file: str, of: str = "") -> Iterator[None]:
    """Turn any failure to read a file into Damaged. A failure that no user could mend is also logged."""
    try:
        yield
    except RegardError as error:                               # it has its line, and its cure
        raise Damaged(in_one_line(str(error))) from error
    except FileNotFoundError:
        raise Damaged(f"{file} is missing: {CURE}") from None
    except OSError as error:
        raise Damaged(f"{file} cannot be read ({error.strerror or type(error).__name__}): {CURE}") from None
    except Exception as error:
        log.warning("%s of %s is damaged: %s: %s", file, of or "a run", type(error).__name__, error)
        raise Damaged(f"{file} is damaged: {CURE}") from None


def in_one_line(text: str) -> str:
    line = without_paths(" ".join(text.split()))
    return line if len(line) <= LONGEST else f"{line[:LONGEST - 1]}…"


def without_paths(text: str) -> str:
    """Return the text with the last part alone of every absolute path of this machine."""
    return ABSOLUTE.sub(lambda match: Path(match[0]).name if _is_of_this_machine(match[0]) else match[0], text)


def _is_of_this_machine(path: str) -> bool:
    """Return True if the first folder of the path exists: a route (/v1/completions) or a fraction is no path."""
    parts = Path(path).parts
    try:
        return len(parts) > 2 and Path(*parts[:2]).is_dir()
    except (OSError, ValueError):
        return False


# ------------------------------------------------------------------------------------------------- values


def plain(value: Any, depth: int = DEEPEST) -> Any:
    """Return the value as JSON can have it: no nan or infinity, no half of a surrogate pair, nothing too deep."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    if depth and isinstance(value, dict):
        return {plain(str(name)): plain(each, depth - 1) for name, each in value.items()}
    if depth and isinstance(value, list | tuple):
        return [plain(each, depth - 1) for each in value]
    return None if isinstance(value, dict | list | tuple) else plain(str(value))


def number(value: Any) -> float | None:
    """Return a number as a float, infinite or nan where it says so; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def count(value: Any) -> int | None:
    """Return a whole number of things, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None
