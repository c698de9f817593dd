"""Loading: from a run folder to a trained model, ready to use.

    model = regard.load("runs/notes")
    print(model.generate("Once upon a time"))
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import convert, fill
from regard.errors import RunError
from regard.families import Family
from regard.families.user import require_trust
from regard.models.missing_tokens import leave_out
from regard.run_folder import RunFolder
from regard.tasks import run_task


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
    fill(saved.data, tables.get("data", {}), "data")
    folder.check_tokenizer()
    tokenizer = saved.load_tokenizer(folder.tokenizer_path)
    settings = kind.settings_of_run(tables.get("model", {}))
    model = restore(kind, settings, saved.vocab(tokenizer), folder.read_weights(), tokenizer)
    if saved.mixing is not None and "ngram" in tables and not alone:
        model = saved.mixing.load(model, folder, tables)
    if isinstance(model, nn.Module):
        model = model.to(pick_device(device)).eval()
    return saved.trained(model, tokenizer, tables, folder.path)


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
    model = kind.build(settings, vocab)
    model.load_tensors(tensors)
    return leave_out(model, tokenizer)


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
