"""Mixed runs: a network leaves alone, its n-gram beside it as ARPA, and the cost of leaving it out is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from regard.errors import RegardError
from regard.interop.target import ExportSubject
from regard.interop.to_arpa import write as write_ngram
from regard.run_folder import RunFolder


def beside(path: Path, is_folder: bool) -> Path:
    """Return where the n-gram of an export at this path stands: in the folder, or beside the file."""
    return path / "ngram.arpa" if is_folder else path.with_name(f"{path.stem}-ngram.arpa")


def write_beside(subject: ExportSubject, path: Path) -> str:
    """Write the n-gram that is mixed with the network; return why it could not be, or nothing."""
    try:
        write_ngram(replace(subject, counted=True), path)
    except RegardError as error:
        return f"the n-gram is left out: {error}"
    return ""


def describe_cost(subject: ExportSubject) -> str:
    """Return one line on what the network loses without its n-gram and cache; nothing for a network that has none."""
    if subject.ngram is None or subject.counted:
        return ""
    line = "this network was mixed with an n-gram and a cache, which no other program mixes in"
    figures = {} if subject.trained.path is None else RunFolder(subject.trained.path).read_test() or {}
    mixed, alone, bits = (figures.get(f"test_{name}") for name in ("loss", "network_loss", "bits_per_byte"))
    if not (mixed and alone and bits):
        return f"{line}; the cost was not measured"
    return f"{line}: alone it needs {bits * alone / mixed:.4f} bits per byte on the test part, and {bits:.4f} with them"
