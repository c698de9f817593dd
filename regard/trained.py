"""Loading: from a run folder to a trained model, ready to use.

    model = regard.load("runs/notes")
    print(model.generate("Once upon a time"))
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import as_values, convert, fill
from regard.errors import RunError
from regard.families import Family
from regard.families.outline import check_outline
from regard.families.user import require_trust
from regard.models.missing_tokens import leave_out
from regard.run_folder import RunFolder, check_finite
from regard.tasks import run_task

VISIBLE = "CUDA_VISIBLE_DEVICES"       # of a process: the GPUs that it sees


def load(
    path: str | Path, device: str = "auto", *, trust: bool = False, task: str | None = None, alone: bool = False
) -> Any:
    """Load the model of a run folder with its best weights; return its task's trained class (a Trained, ...).

    With `task`, a run of another task is refused. Code of the user's own that a run names runs only with `trust`.
    A network that is mixed with an n-gram comes without it if `alone`.
    """
    folder = RunFolder.open(path)
    tables = folder.read_settings()
    saved = run_task(tables)
    if task is not None and task != saved.name:
        raise RunError(f"{path} is a run of the task {saved.name}: use it with {saved.card.used_by}")
    kind = run_family(tables, folder, trust)
    data = fill(saved.data, tables.get("data", {}), "data")
    folder.check_tokenizer()
    tokenizer = saved.load_tokenizer(folder.tokenizer_path)
    settings = kind.settings_of_run(tables.get("model", {}))
    tables |= {"data": with_defaults(data, tables, "data"), "model": with_defaults(settings, tables, "model"),
               "training": tables.get("training", {})}
    tensors = folder.read_weights()
    if kind.build is not None:                                    # what is counted has logarithms of zero
        check_finite(tensors, folder.weights_path)
    model = restore(kind, settings, saved.vocab(tokenizer), tensors, tokenizer)
    if saved.mixing is not None and "ngram" in tables and not alone:
        model = saved.mixing.load(model, folder, tables)
    if isinstance(model, nn.Module):
        model = model.to(pick_device(device)).eval()
    return saved.trained(model, tokenizer, tables, folder.path)


def with_defaults(settings: Any, tables: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    """Return a table of a run with what it does not say: settings that came later, or that were taken out by hand."""
    return {**as_values(settings), **tables.get(name, {})}


def run_family(tables: dict[str, dict[str, Any]], folder: RunFolder, trust: bool = False) -> Family:
    """Return the family of a run, as its settings name it."""
    require_trust(tables, folder.path, trust)
    try:
        return run_task(tables).family(convert(tables["run"]["family"], str, "run.family"))
    except KeyError as missing:
        raise RunError(f"{folder.settings_path} is incomplete: it has no {missing}") from None


def restore(kind: Family, settings: Any, vocab: Any, tensors: dict[str, Tensor], tokenizer: Any) -> Any:
    """Return the model of a family with these settings and saved tensors, for this tokenizer."""
    if kind.restore is not None:
        return kind.restore(settings, vocab, tensors)
    assert kind.build is not None
    check_outline(kind, settings, vocab, tensors)
    model = kind.build(settings, vocab)
    model.load_tensors(tensors)
    return leave_out(model, tokenizer)


def list_gpus(device: str) -> list[str]:
    """Return the GPUs that several processes on this device may share out, by their names in CUDA_VISIBLE_DEVICES."""
    if device not in ("auto", "cuda"):
        return []
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    named = [name for name in os.environ.get(VISIBLE, "").split(",") if name]
    return named[:count] if named else [str(number) for number in range(count)]


def pick_device(name: str) -> torch.device:
    """Return the device of this name; `auto` is the GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise RunError(f"--device {name} cannot be used here ({reason}): try --device cpu") from None
    return device
