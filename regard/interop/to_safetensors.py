"""safetensors: the learned tensors alone, by the names that docs/exporting.md lists, with the settings beside them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from regard import storage
from regard.interop.checking import CheckLine, our_greedy, our_log_probs
from regard.interop.target import EXACT, ROUNDED, ExportSubject, OpenedExport, Tolerance, plain, precision_dtype
from regard.trained import restore

KEPT = ("run", "tokenizer", "model")               # tables of run.toml that go along


def write(subject: ExportSubject, path: Path) -> str:
    """Write every learned tensor once, tied ones under the first of their names."""
    from safetensors.torch import save

    dtype = precision_dtype(subject.precision)
    tensors = {name: plain(tensor, dtype) if tensor.is_floating_point() else plain(tensor, tensor.dtype)
               for name, tensor in subject.network.saved_tensors().items()}
    settings = {name: subject.tables[name] for name in KEPT if name in subject.tables}
    about = {"format": "pt", "regard": json.dumps(settings)}
    storage.write_part(path, save(tensors, about))
    return "safetensors"


def tolerance(subject: ExportSubject, kind: str) -> Tolerance:
    return EXACT if subject.precision == "float32" else ROUNDED


def open_written(subject: ExportSubject, path: Path) -> OpenedExport:
    """Build the network of the settings anew, with the tensors of the file."""
    import safetensors
    from safetensors.torch import load_file

    network = rebuild(subject, load_file(path))

    def log_probs(tokens: Sequence[int], source: Sequence[int] | None) -> Tensor:
        return our_log_probs(network, line_of(tokens, source))

    def greedy(tokens: Sequence[int], count: int, source: Sequence[int] | None) -> list[int]:
        return our_greedy(network, line_of(tokens, source), count, subject.tokenizer.eos)[0]

    return OpenedExport("safetensors", safetensors.__version__, log_probs, greedy if subject.writes_on else None)


def rebuild(subject: ExportSubject, tensors: dict[str, Tensor]) -> Any:
    task, tables = subject.trained.task, subject.tables
    family = task.family(tables["run"]["family"])
    vocab = task.vocab(subject.tokenizer)
    network = restore(family, family.settings_of_run(tables["model"]), vocab, tensors, subject.tokenizer)
    return network.eval() if hasattr(network, "eval") else network


def line_of(tokens: Sequence[int], source: Sequence[int] | None) -> CheckLine:
    return CheckLine(tuple(tokens), None if source is None else tuple(source))
