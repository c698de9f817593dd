"""Export: one call from a run to a file or folder of another program, checked there.

    regard.export("runs/notes", "hf", "notes-hf")
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard import storage
from regard.errors import RegardError, RunError, SettingError
from regard.interop import TARGETS, TargetRow, find_target
from regard.interop.checking import Checked, check_export, first_line
from regard.interop.mixtures import beside, describe_cost, write_beside
from regard.interop.target import ExportSubject, ExportTarget
from regard.trained import load

Say = Callable[[str], None]


@dataclass(frozen=True)
class Exported:
    """The result of an export: the path, the size, the check."""

    path: Path
    to: str
    kind: str                              # the class or format: "GPTNeoXForCausalLM"
    size: int                              # bytes
    seconds: float                         # to write it
    checked: Checked | None                # None: it was not, and `notes` say why
    beside: tuple[Path, ...] = ()          # what else was written
    notes: tuple[str, ...] = ()


def export(
    run: Any, to: str, out: str | Path | None = None, *, check: bool = True, precision: str | None = None,
    trust: bool = False,
) -> Exported:
    """Write a run, or a trained model, for another program; open it there if it is installed, and compare.

    What differs by more than the target's tolerance is an error, and nothing is left behind.
    """
    target, row = find_target(to), TARGETS[to]
    trained = load(run, "cpu", trust=trust) if isinstance(run, str | Path) else run
    name = Path(trained.path).name if trained.path else "model"
    subject = ExportSubject(trained, choose_precision(to, precision), name, row.counted, row.recounted)
    path = Path(out) if out is not None else Path(f"{name}-{to}{row.suffix}")
    mixed = subject.ngram is not None and not row.counted
    places = (path, beside(path, row.is_folder)) if mixed else (path,)
    refuse_taken(*places)
    with storage.folders_above(path):
        part = storage.own_part(path)
        try:
            began = time.monotonic()
            kind = target.write(subject, part)
            notes = _write_ngram(subject, part, row) if mixed else ()
            seconds = time.monotonic() - began
            checked, more = _check(subject, target, row, part, kind) if check else (None, ())
            size = size_of(part)
            others = _move(part, path, row)
        finally:
            storage.remove(part)
            storage.remove(beside(part, False))
    return Exported(path, to, kind, size, seconds, checked, others, (*notes, *more))


def choose_precision(to: str, precision: str | None) -> str:
    """Return a precision that the target has: its first, unless another was asked for."""
    known = TARGETS[to].precisions
    if precision is not None and precision not in known:
        raise SettingError(f"--precision {precision}: --to {to} writes {', '.join(known)}")
    return precision or known[0]


def _write_ngram(subject: ExportSubject, part: Path, row: TargetRow) -> tuple[str, ...]:
    """Write the n-gram of a mixture beside its network; return lines for the user."""
    lines = (write_beside(subject, beside(part, row.is_folder)), describe_cost(subject))
    return tuple(line for line in lines if line)


def _move(part: Path, path: Path, row: TargetRow) -> tuple[Path, ...]:
    """Bring what was written into place, if nobody was quicker; return what stands beside it."""
    ngram = beside(part, row.is_folder)
    other = beside(path, row.is_folder) if ngram.exists() else None
    with storage.locked(path.parent):
        refuse_taken(path, *() if other is None else (other,))
        if not row.is_folder and other is not None:
            storage.perform("rename", other, lambda: ngram.replace(other))
        if part.is_dir():
            storage.move_folder(part, path)
        else:
            storage.perform("rename", path, lambda: part.replace(path))
    return () if other is None else (other,)


def refuse_taken(*paths: Path) -> None:
    for path in paths:
        if path.exists():
            raise SettingError(f"-o {path} exists already: give another path, or remove it")


def _check(
    subject: ExportSubject, target: ExportTarget, row: TargetRow, part: Path, kind: str
) -> tuple[Checked | None, tuple[str, ...]]:
    try:
        opened = target.open_written(subject, part)
    except ImportError as missing:
        what = f": pip install '{row.install}'" if row.install else ""
        return None, (f"not checked: {row.program} is not installed ({missing.name or missing}){what}",)
    except RegardError:
        raise
    except Exception as error:             # a program may raise anything at a file that it does not like
        raise RunError(f"{row.program} does not open what was written ({first_line(error)}): the export was not "
                       "kept") from error
    try:
        return check_export(subject, opened, target.tolerance(subject, kind)), opened.notes
    finally:
        opened.close()


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all in a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
