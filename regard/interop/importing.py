"""Import: a model of another program becomes a run, with everything that runs can do.

    model = regard.import_model("gpt2")              # a folder of transformers, or an ARPA file
    print(model.generate("Once upon a time"))
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import storage
from regard.config import as_values, fill
from regard.data.reading.corpus import DataSettings, TokenizerSettings
from regard.data.tokens.vocabulary import FIRST, Tokenizer
from regard.data.tokens.words import WhitespaceTokenizer
from regard.errors import DataError, SettingError
from regard.families.ngram import NGramSettings
from regard.interop.foreign_rows import add_rows, load_foreign_tokenizer
from regard.interop.from_hf import convert_model
from regard.interop.hf_folder import CONFIG, Config, FoundWeights, load_json
from regard.manifest import FORMAT
from regard.models.ngram import read_arpa
from regard.run_folder import RunFolder
from regard.tasks import task_named
from regard.tasks.trained_model import count_parameters
from regard.trained import load
from regard.training.settings import TrainingSettings

ARPA = (".arpa", ".arpa.gz", ".lm", ".lm.gz")
# Fine-tuning takes a third of it: a model that has learned already is moved by small steps.
RATE = 1.5e-4


@dataclass(frozen=True)
class Imported:
    """The result of an import."""

    path: Path                             # the run
    kind: str                              # what it was: "gpt2", "arpa"
    family: str
    parameters: int
    vocab: int
    added: int                             # rows that no token of the other program stands behind
    seconds: float


def import_model(source: str | Path, out: str | Path | None = None, *, context: int | None = None) -> Any:
    """Import a model, and return it as `regard.load` does."""
    return load(import_run(source, out, context=context).path)


def import_run(source: str | Path, out: str | Path | None = None, *, context: int | None = None) -> Imported:
    """Write the model at `source` as a run: all of it, or nothing.

    `context` is how many tokens it shall read at once, where that is fewer than it can.
    """
    began, source = time.monotonic(), Path(source)
    path = Path(out) if out is not None else Path("runs") / source.name.split(".")[0]
    if path.exists():
        raise SettingError(f"-o {path} exists already: give another path, or remove it")
    if not source.exists():
        raise DataError(f"there is nothing at {source}: give the folder of a model, or an ARPA file")
    if source.is_dir():
        found = read_folder(source, context)
    elif source.name.endswith(ARPA):
        found = read_counts(source)
    else:
        raise DataError(f"{source} is no folder of a model, and no ARPA file ({', '.join(ARPA)})")
    storage.make_folder(path.parent)
    part = storage.own_part(path)
    try:
        write_run(RunFolder(part), source, found)
        storage.move_folder(part, path)
    finally:
        if part.exists():
            shutil.rmtree(part, ignore_errors=True)
    return Imported(path, found.kind, found.family, count_parameters(found.model), found.tokenizer.vocab_size,
                    getattr(found.tokenizer, "added", 0), time.monotonic() - began)


def write_run(folder: RunFolder, source: Path, found: ForeignModel) -> None:
    """Write the files of a run; what only training knows is as a run that reads this text anew would begin."""
    folder.begin()
    training = replace(TrainingSettings(), optimizer="adamw", learning_rate=RATE, muon_rate=RATE)
    folder.save_tokenizer(found.tokenizer)
    folder.save_settings({
        "run": {"format": FORMAT, "task": "lm", "family": found.family, "imported": str(source.name)},
        "data": as_values(DataSettings((), documents=found.documents)),
        "tokenizer": as_values(TokenizerSettings(found.tokenizer.kind, found.tokenizer.vocab_size)),
        "model": as_values(found.settings),
        "training": as_values(training)})
    folder.save_weights(found.model.saved_tensors())


# ------------------------------------------------------------------------------------------ what is read

@dataclass(frozen=True)
class ForeignModel:
    """A model of another program in our terms."""

    kind: str                              # what it was
    family: str
    tokenizer: Tokenizer
    settings: Any                          # the [model] table
    model: Any
    documents: str                         # what it took for a text: file, or line


def read_folder(source: Path, context: int | None) -> ForeignModel:
    """A folder of transformers."""
    config = Config(load_json(source / CONFIG), str(source / CONFIG))
    converted = convert_model(config, FoundWeights(source))
    tokenizer, alike = load_foreign_tokenizer(source, config, len(converted.tensors["embedding.weight"]))
    model, tensors = add_rows(converted, tokenizer, alike)
    model, tensors = cut_context(model, tensors, context)
    family = task_named("lm").family(converted.family)
    settings: Any = fill(family.settings, {**model, "dropout": 0.0}, "model")
    assert family.build is not None
    network = family.build(settings, tokenizer.vocab_size)
    load_checked(network, tensors, source)
    return ForeignModel(config.text("model_type"), converted.family, tokenizer, settings, network.eval(), "file")


def cut_context(
    model: dict[str, Any], tensors: dict[str, Tensor], context: int | None
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read fewer tokens at once; learned positions beyond them are left out."""
    if context is None:
        return model, tensors
    if not 2 <= context <= model["context"]:
        raise SettingError(f"--context {context}: the model reads from 2 to {model['context']:,} tokens at once")
    table = tensors.get("stack.layers.0.table")
    return {**model, "context": context}, tensors if table is None else {
        **tensors, "stack.layers.0.table": table[:context]}


def load_checked(network: Any, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Load the tensors; one that is not finite would make every answer meaningless."""
    for name, tensor in tensors.items():
        if not math.isfinite(float(tensor.sum(dtype=torch.float64))):
            raise DataError(f"{source}: the weights of {name} are not all numbers: fetch the folder again")
    network.load_tensors(dict(tensors))


def read_counts(source: Path) -> ForeignModel:
    """An ARPA file: its words are the tokens, and spaces stand between them."""
    model, words = read_arpa(source)
    settings = NGramSettings(order=len(model.orders), counts=False)
    return ForeignModel("arpa", "ngram", WhitespaceTokenizer(words[FIRST:]), settings, model, "line")
