"""Import: a model of another program becomes a run, with everything that runs can do.

    model = regard.import_model("gpt2")              # a folder of transformers, an ARPA file, or hub:OWNER/NAME
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
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard import storage
from regard.config import as_values, fill
from regard.data.pairs.pair_corpus import PairTokenizerSettings
from regard.data.pairs.pair_readers import PairSettings
from regard.data.reading.corpus import DataSettings, TokenizerSettings
from regard.data.tokens.vocabulary import FIRST
from regard.data.tokens.words import WhitespaceTokenizer
from regard.errors import DataError, SettingError
from regard.families.ngram import NGramSettings
from regard.families.outline import check_outline
from regard.interop.converters import TRANSLATORS, convert_model
from regard.interop.foreign_rows import add_rows, load_foreign_tokenizer
from regard.interop.from_marian import convert_marian, load_marian_tokenizers
from regard.interop.from_nanogpt import CHECKPOINT, convert_nanogpt, find_tokenizer, is_checkpoint, unpickled
from regard.interop.hf_folder import CONFIG, Config, FoundWeights, load_json
from regard.manifest import FORMAT
from regard.models.missing_tokens import leave_out
from regard.models.ngram import read_arpa
from regard.run_folder import RunFolder
from regard.tasks import task_named
from regard.tasks.trained_model import count_parameters
from regard.trained import load
from regard.training.settings import TrainingSettings

HUB = "hub:"                               # before OWNER/NAME
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


def import_model(
    source: str | Path, out: str | Path | None = None, *, context: int | None = None,
    tokenizer: str | Path | None = None, revision: str | None = None,
) -> Any:
    """Import a model, and return it as `regard.load` does."""
    return load(import_run(source, out, context=context, tokenizer=tokenizer, revision=revision).path)


def import_run(
    source: str | Path, out: str | Path | None = None, *, context: int | None = None,
    tokenizer: str | Path | None = None, revision: str | None = None,
) -> Imported:
    """Write the model at `source`, a path or hub:OWNER/NAME, as a run: all of it, or nothing.

    `context` is how many tokens it shall read at once, where that is fewer than it can. `tokenizer` is the file of a
    model that comes without one, a checkpoint of nanoGPT; `revision` is of the hub.
    """
    if str(source).startswith(HUB):
        return import_from_hub(str(source), out, context, tokenizer, revision)
    if revision is not None:
        raise SettingError(f"--revision {revision}: {source} is a path; it is of a model {HUB}OWNER/NAME")
    began, source = time.monotonic(), Path(source)
    path = Path(out) if out is not None else Path("runs") / source.name.split(".")[0]
    if path.exists():
        raise SettingError(f"-o {path} exists already: give another path, or remove it")
    foreign = read_source(source, context, None if tokenizer is None else Path(tokenizer))
    with storage.folders_above(path):
        part = storage.own_part(path)
        try:
            write_run(RunFolder(part), source, foreign)
            storage.move_folder(part, path)
        finally:
            if part.exists():
                shutil.rmtree(part, ignore_errors=True)
    main = getattr(foreign.tokenizer, "main", foreign.tokenizer)
    return Imported(path, foreign.kind, foreign.family, count_parameters(foreign.model), foreign.tokenizer.vocab_size,
                    getattr(main, "added", 0), time.monotonic() - began)


def import_from_hub(
    source: str, out: str | Path | None, context: int | None, tokenizer: str | Path | None, revision: str | None
) -> Imported:
    """Import a model that is fetched for this from the hub."""
    from regard.interop.pulling import fetched_model

    path = Path(out) if out is not None else Path("runs") / source.rpartition("/")[2]
    if path.exists():
        raise SettingError(f"-o {path} exists already: give another path, or remove it")
    with fetched_model(source, revision, path) as folder:
        return import_run(folder, path, context=context, tokenizer=tokenizer)


def write_run(folder: RunFolder, source: Path, foreign: ForeignModel) -> None:
    """Write the files of a run; what only training knows is as a run that reads this text anew would begin."""
    folder.begin()
    training = replace(TrainingSettings(), optimizer="adamw", learning_rate=RATE, muon_rate=RATE)
    folder.save_tokenizer(foreign.tokenizer)
    folder.save_settings({
        "run": {"format": FORMAT, "task": foreign.task, "family": foreign.family, "imported": source.name},
        "data": as_values(foreign.data), "tokenizer": as_values(foreign.tokens), "model": as_values(foreign.settings),
        "training": as_values(training)})
    folder.save_weights(foreign.model.saved_tensors())


# ------------------------------------------------------------------------------------------ what is read


@dataclass(frozen=True)
class ForeignModel:
    """A model of another program in our terms."""

    kind: str                              # what it was
    task: str
    family: str
    tokenizer: Any                         # or the pair of a translator
    data: Any                              # the [data] table
    tokens: TokenizerSettings              # the [tokenizer] table
    settings: Any                          # the [model] table
    model: Any


def read_source(source: Path, context: int | None, tokenizer: Path | None) -> ForeignModel:
    """Return the model at a path, whatever it is; what is none of those that are known is one clear line."""
    if not source.exists():
        raise DataError(f"there is nothing at {source}: give the folder of a model, a {CHECKPOINT} or an ARPA file")
    if is_checkpoint(source):
        return read_checkpoint(source / CHECKPOINT if source.is_dir() else source, context, tokenizer)
    if tokenizer is not None:
        raise SettingError(f"--tokenizer {tokenizer}: {source} has its tokens with it; leave it out")
    if source.is_dir():
        return read_folder(source, context)
    if source.name.endswith(ARPA):
        return read_counts(source)
    raise DataError(f"{source} is no folder of a model, no {CHECKPOINT} and no ARPA file ({', '.join(ARPA)})")


def read_folder(source: Path, context: int | None) -> ForeignModel:
    """A folder of transformers."""
    config = Config(load_json(source / CONFIG), str(source / CONFIG))
    kind = config.text("model_type", default="")
    if kind in TRANSLATORS:
        return read_translator(source, config, context)
    converted = convert_model(config, FoundWeights(source))
    tokenizer = load_foreign_tokenizer(source, config, converted.rows, masked=converted.fills_blanks)
    cut = cut_context(converted.model, add_rows(converted.tensors, tokenizer), context)
    settings, network = build_network(converted.task, converted.family, tokenizer, cut, source)
    return ForeignModel(kind, converted.task, converted.family, tokenizer, DataSettings((), documents="file"),
                        TokenizerSettings(tokenizer.kind, tokenizer.vocab_size), settings, network)


def read_checkpoint(source: Path, context: int | None, tokenizer: Path | None) -> ForeignModel:
    """A checkpoint of nanoGPT, which another process unpickles."""
    if tokenizer is not None and not tokenizer.exists():
        raise DataError(f"--tokenizer {tokenizer}: there is nothing there")
    with unpickled(source) as folder:
        config = Config(load_json(folder / CONFIG), f"model_args of {source}")
        converted = convert_nanogpt(config, FoundWeights(folder, str(source), "model_args"))
    found = find_tokenizer(source, tokenizer, converted.rows)
    cut = cut_context(converted.model, add_rows(converted.tensors, found), context)
    settings, network = build_network("lm", converted.family, found, cut, source)
    return ForeignModel("nanogpt", "lm", converted.family, found, DataSettings((), documents="file"),
                        TokenizerSettings(found.kind, found.vocab_size), settings, network)


def read_translator(source: Path, config: Config, context: int | None) -> ForeignModel:
    """A translator of Marian's, with two SentencePiece models."""
    tokenizer = load_marian_tokenizers(source, config)
    model, tensors = convert_marian(config, FoundWeights(source))
    cut = cut_context(model, add_rows(tensors, tokenizer.target), context)
    settings, network = build_network("translate", "transformer", tokenizer, cut, source)
    return ForeignModel(config.text("model_type"), "translate", "transformer", tokenizer,
                        PairSettings((), langs=languages(source)),
                        PairTokenizerSettings(tokenizer.kind, tokenizer.vocab_size, shared=False), settings, network)


def languages(source: Path) -> str:
    """Return both languages as `fr-en`, where the folder names them."""
    path = source / "tokenizer_config.json"
    named = load_json(path) if path.is_file() else {}
    both = [named.get("source_lang"), named.get("target_lang")]
    return "-".join(map(str, both)) if all(isinstance(name, str) and name.isalpha() for name in both) else ""


class NothingDrawn(TorchFunctionMode):
    """Weights that are loaded in a moment are not drawn first, which takes seconds where they are many."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        return (args[0] if args else named["tensor"]) if func in DRAWS else func(*args, **named)


DRAWS = (nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_, Tensor.normal_, Tensor.uniform_)


def build_network(
    task: str, name: str, tokenizer: Any, converted: tuple[dict[str, Any], dict[str, Tensor]], source: Path
) -> tuple[Any, Any]:
    """Return the settings and the network with these tensors."""
    model, tensors = converted
    family = task_named(task).family(name)
    settings: Any = fill(family.settings, {**model, "dropout": 0.0}, "model")
    assert family.build is not None
    check_outline(family, settings, task_named(task).vocab(tokenizer), tensors)
    with NothingDrawn():
        network = family.build(settings, task_named(task).vocab(tokenizer))
    load_checked(network, tensors, source)
    return settings, leave_out(network, tokenizer).eval()


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
    tokenizer = WhitespaceTokenizer(words[FIRST:])
    return ForeignModel("arpa", "lm", "ngram", tokenizer, DataSettings((), documents="line"),
                        TokenizerSettings(tokenizer.kind, tokenizer.vocab_size), settings, model)
