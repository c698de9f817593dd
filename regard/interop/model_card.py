"""The model card of an export: README.md, written from the measurements of the run and from nothing else."""

from __future__ import annotations

from regard.interop.target import ExportSubject


def write_card(subject: ExportSubject, kind: str) -> str:
    return f"# {subject.name}\n"
