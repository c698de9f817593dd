"""A folder of another program, read and not believed: config.json, safetensors in one file or several, a tokenizer.

Nothing in it is run. Weights that are only pickled are refused, since whoever loads a pickle runs what it says. What
cannot be is a DataError that names the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import DataError

CONFIG, ONE, INDEX, TOKENIZER = "config.json", "model.safetensors", "model.safetensors.index.json", "tokenizer.json"
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
LARGEST_JSON = 2**27           # bytes: tokenizers of a quarter of a million tokens have a tenth of it
LARGEST = 2**24                # of a size in config.json
HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
# Masks and angles that older versions saved beside the weights.
NO_WEIGHTS = re.compile(r"(\.attn\.bias|\.attn\.masked_bias|\.attention\.bias|\.attention\.masked_bias"
                        r"|\.rotary_emb\.inv_freq|\.position_ids)$")


def load_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file."""
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise DataError(f"{path} is larger than {LARGEST_JSON:,} bytes: it is no such file")
        text = path.read_bytes().decode("utf-8-sig")
        value = json.loads(text)
        if HALF_PAIR.search(text):
            json.dumps(value, ensure_ascii=False).encode()     # half a pair is no character: a ValueError
    except FileNotFoundError:
        raise DataError(f"{path.parent} has no {path.name}: give the folder of a model as transformers saves it") \
            from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"could not read {path} ({str(error).splitlines()[0]}): fetch it again") from None
    if not isinstance(value, dict):
        raise DataError(f"{path} holds no object: fetch it again")
    return value


class Config:
    """config.json, each entry with the kind and the bounds that it must have."""

    def __init__(self, values: dict[str, Any], name: str = CONFIG):
        self.values, self.name = values, name

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None

    def size(self, *names: str, default: int | None = None) -> int:
        """The first of these entries that is there: a whole number from 1 on."""
        return self._checked(names, default, lambda value: type(value) is int and 0 < value <= LARGEST,
                             f"a whole number from 1 to {LARGEST:,}")

    def number(self, *names: str, default: float | None = None) -> float:
        return float(self._checked(names, default, lambda value: type(value) in (int, float) and 0 < value < 1e15,
                                   "a number above 0"))

    def flag(self, name: str, default: bool) -> bool:
        return self._checked((name,), default, lambda value: isinstance(value, bool), "true or false")

    def text(self, *names: str, default: str | None = None) -> str:
        return self._checked(names, default, lambda value: isinstance(value, str), "a text")

    def part(self, name: str) -> Config:
        """The object under this name; empty where there is none."""
        value = self.values.get(name)
        return Config(value if isinstance(value, dict) else {}, f"{self.name}: {name}")

    def require(self, name: str, *allowed: Any, default: Any = None) -> None:
        """Refuse any other value of an entry than these; one that is missing has the default."""
        value = self.values.get(name, default)
        if value not in allowed:
            raise DataError(f"{self.name}: {name} = {value!r}: Regard has no such layer; a model with "
                            f"{' or '.join(map(repr, allowed))} can be imported")

    def _checked(self, names: Sequence[str], default: Any, right: Any, kind: str) -> Any:
        for name in names:
            if (value := self.values.get(name)) is not None:
                if not right(value):
                    raise DataError(f"{self.name}: {name} = {value!r}: expected {kind}")
                return value
        if default is None:
            raise DataError(f"{self.name} has no {names[0]}, which a {self.values.get('model_type')} must have")
        return default


class FoundWeights:
    """The tensors of a folder, each taken once, with the shape that it must have. Errors tell the name of the model and
    of what describes it."""

    def __init__(self, folder: Path, name: str = "", config: str = CONFIG):
        self.name, self.config = name or str(folder), config
        self.files = weight_files(folder)                      # name of a tensor -> file
        self.open: dict[Path, Any] = {}
        self.taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def take(self, name: str, *shape: int) -> Tensor:
        """Return a tensor in float32."""
        if name not in self.files:
            raise DataError(f"{self.name} has no tensor {name}, which its {self.config} asks for: fetch it again")
        tensor = self._handle(self.files[name]).get_tensor(name)
        if tuple(tensor.shape) != shape:
            raise DataError(f"{self.name}: the tensor {name} has the shape {tuple(tensor.shape)}, and {self.config} "
                            f"asks for {shape}: they are of different models")
        if not tensor.is_floating_point() or tensor.element_size() < 2:
            raise DataError(f"{self.name}: the tensor {name} is in {tensor.dtype}: import a model that is not "
                            "quantised")
        self.taken.add(name)
        return tensor.to(torch.float32)

    def maybe(self, name: str, *shape: int) -> Tensor | None:
        return self.take(name, *shape) if name in self.files else None

    def finish(self, *spare: str) -> None:
        """Refuse a folder with weights that were not asked for, but for these: there is more in its model."""
        rest = sorted(name for name in set(self.files) - self.taken - set(spare) if not NO_WEIGHTS.search(name))
        if rest:
            raise DataError(f"{self.name}: {len(rest)} tensors have no place in the architecture that {self.config} "
                            f"names, {rest[0]} among them: it is another model")

    def _handle(self, path: Path) -> Any:
        if path not in self.open:
            self.open[path] = open_safetensors(path)
        return self.open[path]


def weight_files(folder: Path) -> dict[str, Path]:
    """Return the file of each tensor."""
    if (folder / INDEX).is_file():
        names = load_json(folder / INDEX).get("weight_map")
        if not isinstance(names, dict) or not all(isinstance(file, str) for file in names.values()):
            raise DataError(f"{folder / INDEX} has no weight_map: fetch it again")
        for file in set(names.values()):
            if Path(file).name != file or not file.endswith(".safetensors"):
                raise DataError(f"{folder / INDEX} names the file {file!r}: weights lie beside it, as .safetensors")
        held = {file: set(open_safetensors(folder / file).keys()) for file in set(names.values())}
        for name, file in names.items():
            if name not in held[file]:
                raise DataError(f"{folder / file} has no tensor {name}, though {INDEX} says so: fetch it again")
        return {name: folder / file for name, file in names.items()}
    if (folder / ONE).is_file():
        return dict.fromkeys(open_safetensors(folder / ONE).keys(), folder / ONE)
    pickled = sorted(path.name for pattern in PICKLED for path in folder.glob(pattern))
    if pickled:
        raise DataError(f"{folder} has its weights in {pickled[0]} only, a pickle, which runs code when it is loaded: "
                        f"take a version with {ONE}, or convert it with the program it came from")
    raise DataError(f"{folder} has no {ONE}: give the folder of a model as transformers saves it")


def open_safetensors(path: Path) -> Any:
    from safetensors import SafetensorError, safe_open

    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path} is damaged or no safetensors file ({reason}): fetch it again") from None
