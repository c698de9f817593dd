"""Checkpoints of nanoGPT, ckpt.pt: a pickle with the weights, and nothing of the tokenizer.

Another process makes safetensors of it (unpickling.py), which are read as any folder's. Texts are cut by a
tokenizer.json, as GPT-2's, or by a table of characters in a meta.json: {"itos": {"0": "\\n", "1": " ", ...}}.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.data.tokens.characters import EVERY_CHARACTER
from regard.data.tokens.foreign import ADDED, ForeignTokenizer
from regard.data.tokens.vocabulary import BOS, FIRST, Tokenizer, split_at
from regard.errors import DataError
from regard.interop import unpickling
from regard.interop.foreign_rows import MERGES, load_foreign_tokenizer, readable_tokenizer
from regard.interop.from_hf import Converted, put_head
from regard.interop.hf_folder import TOKENIZER, Config, FoundWeights, load_json

CHECKPOINT, TABLE, PICKLED_TABLE = "ckpt.pt", "meta.json", "meta.pkl"
PATIENCE, RATE = 120.0, 5e6    # seconds, and bytes a second beside them
END_OF_TEXT = "<|endoftext|>"  # of GPT-2, by which nanoGPT parts documents
UNKNOWN = "<unk>"
CURE = ("python -c \"import json, pickle; json.dump({{'itos': pickle.load(open('{path}', 'rb'))['itos']}}, "
        "open('meta.json', 'w'))\"")


def is_checkpoint(path: Path) -> bool:
    return path.suffix == ".pt" or (path.is_dir() and not (path / "config.json").exists()
                                    and (path / CHECKPOINT).is_file())


@contextmanager
def unpickled(path: Path) -> Iterator[Path]:
    """Yield a folder with config.json and model.safetensors of a checkpoint, for the length of a block."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        seconds = PATIENCE + path.stat().st_size / RATE
        command = [sys.executable, "-P", unpickling.__file__, str(path.resolve()), folder]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  timeout=seconds, text=True, errors="replace", cwd=folder)
        except subprocess.TimeoutExpired:
            raise DataError(f"{path} was not converted within {seconds:.0f} s: give a ckpt.pt that nanoGPT saved") \
                from None
        except OSError as error:
            raise DataError(f"{path} could not be converted in a process of its own ({error.strerror or error})") \
                from None
        if done.returncode:
            told = done.stderr.strip().splitlines()
            reason = told[-1] if told else f"the process that reads it ended by signal {-done.returncode}"
            raise DataError(f"{path} could not be converted ({reason}): give a ckpt.pt that nanoGPT saved")
        yield Path(folder)


# ------------------------------------------------------------------------------------------ the weights


def convert_nanogpt(config: Config, weights: FoundWeights) -> Converted:
    """GPT-2's block with the exact GELU, with biases or without; matrices are (out, in), as ours."""
    width, layers, heads, context = (config.size(name) for name in ("n_embd", "n_layer", "n_head", "block_size"))
    vocab, inner, start = config.size("vocab_size", default=50304), 4 * width, "transformer."
    tensors: dict[str, Tensor] = {
        "embedding.weight": weights.take(f"{start}wte.weight", vocab, width),
        "stack.layers.0.table": weights.take(f"{start}wpe.weight", context, width)}
    biased = f"{start}ln_f.bias" in weights

    def put(theirs: str, ours: str, *shape: int) -> None:
        tensors[f"{ours}.weight"] = weights.take(f"{start}{theirs}.weight", *shape)
        if biased:
            tensors[f"{ours}.bias"] = weights.take(f"{start}{theirs}.bias", shape[0])

    for number in range(layers):
        here, ours = f"h.{number}", f"stack.layers.{number + 1}"
        put(f"{here}.attn.c_attn", f"{ours}.mixer.qkv", 3 * width, width)
        put(f"{here}.attn.c_proj", f"{ours}.mixer.out", width, width)
        put(f"{here}.mlp.c_fc", f"{ours}.feed.up", inner, width)
        put(f"{here}.mlp.c_proj", f"{ours}.feed.down", width, inner)
        put(f"{here}.ln_1", f"{ours}.mixer_norm", width)
        put(f"{here}.ln_2", f"{ours}.feed_norm", width)
    put("ln_f", "norm", width)
    tied = put_head(tensors, weights, (vocab, width), "lm_head.weight" not in weights, "lm_head.weight")
    return Converted("transformer", {
        "layers": layers, "width": width, "heads": heads, "context": context, "positions": "learned",
        "bias": "all" if biased else "none", "activation": "gelu", "expand": 4.0, "tied": tied}, tensors)


# ---------------------------------------------------------------------------------------- the tokenizer


def find_tokenizer(checkpoint: Path, given: Path | None, rows: int) -> Tokenizer:
    """Return the tokenizer that was given, or that lies beside the checkpoint; where there is none, what to do."""
    where = given or checkpoint.parent
    for path in [where] if where.is_file() else [where / name for name in (TOKENIZER, TABLE, PICKLED_TABLE)]:
        if path.is_file() and path.suffix == ".pkl":
            raise DataError(f"{path} is a pickle, which runs code when it is loaded: if you trust it, write "
                            f"{TABLE} by {CURE.format(path=path)} and give that by --tokenizer")
        if path.is_file():
            value = load_json(path)
            if "itos" in value:
                return read_table(value["itos"], path, rows)
            return read_subwords(value, path.parent, rows)
    if where.is_dir() and (where / MERGES).is_file():
        return read_subwords(None, where, rows)
    raise DataError(f"{checkpoint} has no tokenizer in it, and {where} none: give --tokenizer PATH, the {TOKENIZER} of "
                    f"GPT-2 where it was trained on its tokens, or a {TABLE} with its characters")


def read_subwords(value: dict[str, Any] | None, folder: Path, rows: int) -> Tokenizer:
    """GPT-2's tokens, or others': of 50,304 rows those beyond the tokenizer's own are never written."""
    return load_foreign_tokenizer(folder, Config({}, str(folder)), rows, value=value,
                                  usual={"eos": END_OF_TEXT})


def read_table(itos: Any, path: Path, rows: int) -> Tokenizer:
    """Characters by their ids; any other becomes <unk>. A text begins as after the end of a line."""
    characters = list(itos) if isinstance(itos, list) else []
    if isinstance(itos, dict):
        characters = [itos.get(str(id)) for id in range(len(itos))]
    if not characters or not all(isinstance(each, str) and len(each) == 1 for each in characters) or \
            len(set(characters)) < len(characters):
        raise DataError(f"{path}: itos is no table of characters by their ids, from 0 on: "
                        '{"itos": {"0": "\\n", "1": " ", ...}}')
    if len(characters) > rows:
        raise DataError(f"{path} has {len(characters):,} characters and the model {rows:,} tokens: they are of "
                        "different models")
    vocab = {character: id for id, character in enumerate(characters)}
    value: dict[str, Any] = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": split_at(EVERY_CHARACTER, "Isolated"), "post_processor": None, "decoder": {"type": "Fuse"},
        "model": {"type": "WordLevel", "vocab": {**vocab, UNKNOWN: rows}, "unk_token": UNKNOWN}}
    with readable_tokenizer(path.parent, path):
        return ForeignTokenizer(value, [ADDED] * FIRST, rows, alike={BOS: vocab.get("\n", 0)})
