"""safetensors: the weights alone, each by a plain name. docs/exporting.md has the table of names."""

from __future__ import annotations

from pathlib import Path

from regard.interop.target import EXACT, ExportSubject, OpenedExport, Tolerance, plain, precision_dtype


def write(subject: ExportSubject, path: Path) -> str:
    """Write every learned tensor by the name that it has in the run."""
    from safetensors.torch import save_file

    dtype = precision_dtype(subject.precision)
    tensors = {name: plain(tensor, dtype) if tensor.is_floating_point() else tensor.contiguous()
               for name, tensor in subject.network.saved_tensors().items()}
    save_file(tensors, path, {"format": "pt"})
    return "safetensors"


def tolerance(subject: ExportSubject, kind: str) -> Tolerance:
    return EXACT


def open_written(subject: ExportSubject, path: Path) -> OpenedExport:
    raise NotImplementedError
