"""A run on disk: everything that is the model, in one folder that can be moved and shared.

    runs/NAME/
      run.toml              every setting, resolved
      tokenizer.json        Hugging Face format
      model.safetensors     the best weights
      metrics.jsonl         one object a line, append-only
      samples.jsonl         what the model wrote at validations, likewise
      checkpoints/STEP/     weights, optimizer, generators, data position; manifest.json written last

Nothing here is pickled: tensors are safetensors, the rest JSON and TOML. A checkpoint's manifest holds the hash
of each of its files, so that a damaged one is seen and the newest good one is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard import storage
from regard.config import read_toml, write_toml
from regard.errors import RunError

SETTINGS, TOKENIZER, WEIGHTS, METRICS, SAMPLES, CHECKPOINTS = (
    "run.toml", "tokenizer.json", "model.safetensors", "metrics.jsonl", "samples.jsonl", "checkpoints")
MANIFEST = "manifest.json"


class RunFolder:
    """The files of one run."""

    def __init__(self, path: str | Path):
        self.path = Path(path)

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """A run that exists; anything else is one clear line."""
        folder = cls(path)
        if not folder.path.exists():
            raise RunError(f"there is no run at {path}: train one with `regard train`, or check the path")
        if not folder.settings_path.is_file():
            raise RunError(f"{path} is not a run folder: it has no {SETTINGS}")
        return folder

    @property
    def settings_path(self) -> Path:
        return self.path / SETTINGS

    @property
    def tokenizer_path(self) -> Path:
        return self.path / TOKENIZER

    @property
    def weights_path(self) -> Path:
        return self.path / WEIGHTS

    @property
    def metrics_path(self) -> Path:
        return self.path / METRICS

    @property
    def samples_path(self) -> Path:
        return self.path / SAMPLES

    @property
    def checkpoints_path(self) -> Path:
        return self.path / CHECKPOINTS

    # ------------------------------------------------------------------------------------- settings

    def create(self) -> None:
        storage.make_folder(self.checkpoints_path)
        storage.remove_unfinished(self.path)
        storage.remove_unfinished(self.checkpoints_path)

    def save_settings(self, tables: Mapping[str, Mapping[str, Any]]) -> None:
        storage.write_file(self.settings_path, write_toml(tables, heading="every setting of this run, resolved"))

    def read_settings(self) -> dict[str, dict[str, Any]]:
        return read_toml(self.settings_path)

    # -------------------------------------------------------------------------------------- weights

    def save_weights(self, tensors: Mapping[str, Any]) -> None:
        storage.write_file(self.weights_path, pack(tensors))

    def read_weights(self) -> dict[str, Any]:
        if not self.weights_path.is_file():
            raise RunError(f"{self.path} has no {WEIGHTS} yet: training has not reached its first validation; "
                           "go on with --resume")
        return mapped(self.weights_path)

    # ---------------------------------------------------------------------------------- checkpoints

    def save_checkpoint(self, step: int, files: Mapping[str, bytes], keep: int) -> Path:
        """Write a checkpoint whole, verify it, and only then drop the oldest ones."""
        final = self.checkpoints_path / f"{step:08d}"
        if final.exists():                                   # resumed onto a damaged one, or the same step again
            storage.remove(final)
        part = final.with_name(f"{storage.TEMPORARY}{final.name}")
        if part.exists():
            storage.remove(part)
        storage.make_folder(part)
        for name, data in files.items():
            storage.write_part(part / name, data)
        manifest = {"step": step, "files": {name: storage.digest(data) for name, data in files.items()}}
        storage.write_part(part / MANIFEST, json.dumps(manifest, indent=2))
        storage.move_folder(part, final)
        if verified(final) is not None:
            self._rotate(keep)
        return final

    def _rotate(self, keep: int) -> None:
        for old in self.checkpoints()[:-keep]:
            storage.remove(old)

    def checkpoints(self) -> list[Path]:
        """The checkpoints' folders, oldest first, good or not."""
        if not self.checkpoints_path.is_dir():
            return []
        return sorted(p for p in self.checkpoints_path.iterdir() if re.fullmatch(r"\d+", p.name))

    def newest_checkpoint(self) -> tuple[dict[str, bytes] | None, list[str]]:
        """The files of the newest checkpoint that verifies, and the names of newer ones that do not."""
        damaged: list[str] = []
        for path in reversed(self.checkpoints()):
            files = verified(path)
            if files is not None:
                return files, damaged
            damaged.append(path.name)
        return None, damaged


def verified(path: Path) -> dict[str, bytes] | None:
    """The checkpoint's files, if every one is there and hashes to what its manifest says."""
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        files = {name: (path / name).read_bytes() for name in manifest["files"] if "/" not in name}
        good = all(storage.digest(files[name]) == digest for name, digest in manifest["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return files if good else None


def pack(tensors: Mapping[str, Any]) -> bytes:
    """Tensors as safetensors bytes. Tied ones are stored once, under the first of their names."""
    from safetensors.torch import save

    return save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})


def mapped(path: Path) -> dict[str, Any]:
    """The tensors of a file where they lie in it: its pages are fetched as they are used."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, ValueError, KeyError, OSError) as error:
        raise RunError(f"{path} is damaged or no safetensors file ({error}): "
                       "resume from a checkpoint, or take it from a copy") from None


def unpack(data: bytes, where: Path | str) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise RunError(f"{where} is damaged or no safetensors file ({error}): "
                       "resume from a checkpoint, or take it from a copy") from None
