"""Vocabularies of other programs: whose token has which of our roles, and the rows of roles that no token has.

Our ids 0 to 3 are <pad> <bos> <eos> <unk>. A token with two roles, as GPT-2's end of text, which begins texts too, is
one token: it is <eos>, and may be written; <bos> reads as that token does. The rows of roles that no token has are
empty, and are left out of the softmax, so that all others keep their probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from regard.data.tokens.characters import BYTE_LEVEL
from regard.data.tokens.foreign import ADDED, ForeignTokenizer
from regard.data.tokens.subwords import CHUNKS, SubwordTokenizer
from regard.data.tokens.vocabulary import BOS, Tokenizer, added_tokens
from regard.errors import DataError
from regard.interop.hf_folder import TOKENIZER, Config, load_json

ROLES = ("pad", "bos", "eos", "unk")       # as our ids have them
FIRST_SERVED = ("eos", "bos", "unk", "pad")
OF_TOKENS = ("embedding.weight", "encoder.embedding.weight", "head.weight", "head.bias")     # a row for each
KEPT = ("tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")
MERGES = "merges.txt"          # of a GPT-2 that is older than tokenizer.json
LARGEST_KEPT = 2**22           # bytes: larger ones are none of these, and an export does without


def load_foreign_tokenizer(
    folder: Path, config: Config, rows: int, *, masked: bool = False, value: dict[str, Any] | None = None,
    usual: Mapping[str, str] = MappingProxyType({}),
) -> Tokenizer:
    """Return the tokenizer of a model that knows so many tokens; of a masked model, one of them is for blanks.

    `value` is its tokenizer.json, where it was loaded already, and `usual` the token in a role that no file names.
    """
    value = tokenizer_value(folder) if value is None else value
    mask = token_of("mask", folder, config, value, rows) if masked else None
    if masked and mask is None:
        raise DataError(f"{config.name} has no mask_token_id, which a masked model must have")
    if mask in (None, rows - 1) and (ours := own_subwords(value, rows if mask is None else mask)) is not None:
        return ours
    wanted = {role: token_of(role, folder, config, value, rows) for role in ROLES}
    for role, name in usual.items():
        wanted[role] = id_of(name, value) if wanted[role] is None else wanted[role]
    roles: dict[str, int] = {}
    for role in FIRST_SERVED:
        own = wanted[role]
        roles[role] = ADDED if own is None or own in (*roles.values(), mask) else own
    alike = {n: own for n, role in enumerate(ROLES)
             if roles[role] == ADDED and (own := wanted[role]) is not None and own != mask}
    if roles["bos"] == ADDED and BOS not in alike and wanted["eos"] is not None:
        alike[BOS] = wanted["eos"]                             # no token begins texts: they begin where others end
    with readable_tokenizer(folder, folder / TOKENIZER):
        return ForeignTokenizer(value, [roles[role] for role in ROLES], rows, alike=alike, mask=mask,
                                files=files_beside(folder))


@contextmanager
def readable_tokenizer(folder: Path, path: Path) -> Iterator[None]:
    """Turn whatever a library raises at a tokenizer's file into one line."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{folder}: {error}") from None
    except Exception as error:              # the library raises plain Exception, and a file may hold anything
        reason = str(error).split("\n")[0] or type(error).__name__
        raise DataError(f"{path} is no tokenizer that can be read ({reason}): fetch it again") from None


def files_beside(folder: Path) -> dict[str, str]:
    """Return what else describes the tokenizer, as it stands there: an export of this model has it too."""
    paths = [folder / name for name in KEPT]
    return {path.name: path.read_text("utf-8", "replace") for path in paths
            if path.is_file() and path.stat().st_size <= LARGEST_KEPT}


def own_subwords(value: dict[str, Any], rows: int) -> SubwordTokenizer | None:
    """Return our own tokenizer, where one was exported that cuts into subwords; None for any other."""
    try:
        chunks = value["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
        if chunks != CHUNKS or value["normalizer"] is not None or value["decoder"] != BYTE_LEVEL:
            return None
        found = SubwordTokenizer({**value, "post_processor": None, "added_tokens": added_tokens()})
    except Exception:                       # the library raises plain Exception, and a file may hold anything
        return None
    return found if found.vocab_size == rows else None


def tokenizer_value(folder: Path) -> dict[str, Any]:
    """Return tokenizer.json; of a folder with vocab.json and merges.txt alone, what stands for them."""
    if (folder / TOKENIZER).is_file() or not (folder / MERGES).is_file():
        return load_json(folder / TOKENIZER)
    vocab = load_json(folder / "vocab.json")
    lines = (folder / MERGES).read_text("utf-8", "replace").splitlines()
    merges = [line for line in lines if line and not line.startswith("#version")]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    special = [{"id": vocab[name], "content": name, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True} for name in ("<|endoftext|>",) if name in vocab]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
            "pre_tokenizer": level, "post_processor": None, "decoder": level, "model": {
                "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                "vocab": vocab, "merges": merges}}


def token_of(role: str, folder: Path, config: Config, value: dict[str, Any], rows: int) -> int | None:
    """Return the id of the token in a role: as config.json says, or by the name that the tokenizer's files give it."""
    token = config.values.get(f"{role}_token_id")
    token = token[0] if isinstance(token, list) and token else token
    if token is None:
        token = id_of(token_name(role, folder, value), value)
    if token is None:
        return None
    if type(token) is not int or not 0 <= token < rows:
        raise DataError(f"{config.name}: {role}_token_id = {token!r}: the model has {rows:,} tokens, from 0 on")
    return token


def token_name(role: str, folder: Path, value: dict[str, Any]) -> str | None:
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        if (folder / file).is_file():
            named = load_json(folder / file).get(f"{role}_token")
            named = named.get("content") if isinstance(named, dict) else named
            if isinstance(named, str):
                return named
    model = value.get("model")
    found = model.get("unk_token") if role == "unk" and isinstance(model, dict) else None
    return found if isinstance(found, str) else None


def id_of(name: str | None, value: dict[str, Any]) -> int | None:
    if name is None:
        return None
    added = value.get("added_tokens")
    for token in added if isinstance(added, list) else []:
        if isinstance(token, dict) and token.get("content") == name:
            return token.get("id")
    model = value.get("model")
    vocab = model.get("vocab") if isinstance(model, dict) else None
    return vocab.get(name) if isinstance(vocab, dict) else None


# ------------------------------------------------------------------------------------------ the rows


def add_rows(tensors: dict[str, Tensor], tokenizer: Tokenizer) -> dict[str, Tensor]:
    """Return the tensors with rows in our order; those that were added are zero."""
    if not isinstance(tokenizer, ForeignTokenizer):
        return tensors
    order = torch.from_numpy(tokenizer.rows)
    found = dict(tensors)
    for name in OF_TOKENS:
        if name in tensors:
            found[name] = tensors[name][order.clamp(min=0)]
            found[name][order == ADDED] = 0.0
    return found
