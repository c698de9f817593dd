"""Vocabularies of other programs: whose token has which of our roles, and the rows of roles that no token has.

Our ids 0 to 3 are <pad> <bos> <eos> <unk>. A token with two roles, as GPT-2's end of text, which begins texts too, is
one token: it is <eos>, and may be written; <bos> is a row that reads as that token does. Rows that were added have a
bias of NEVER on their logit, so that all others keep their probabilities.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.tokens.foreign import ADDED, ForeignTokenizer
from regard.data.tokens.vocabulary import FIRST
from regard.errors import DataError
from regard.interop.from_hf import Converted
from regard.interop.hf_folder import TOKENIZER, Config, load_json

ROLES = ("pad", "bos", "eos", "unk")       # as our ids have them
FIRST_SERVED = ("eos", "bos", "unk", "pad")
NEVER = -1e4                               # of a logit: exp of it is zero, in half precision too


def load_foreign_tokenizer(folder: Path, config: Config, rows: int) -> tuple[ForeignTokenizer, dict[int, int]]:
    """Return the tokenizer, and for each of our ids that was added the id of theirs which it reads as, if there is one.
    `rows` is how many tokens the model knows."""
    value = tokenizer_value(folder)
    wanted = {role: token_of(role, folder, config, value, rows) for role in ROLES}
    taken: dict[str, int] = {}
    for role in FIRST_SERVED:
        own = wanted[role]
        taken[role] = ADDED if own is None or own in taken.values() else own
    alike = {n: own for n, role in enumerate(ROLES) if taken[role] == ADDED and (own := wanted[role]) is not None}
    if taken["bos"] == ADDED and 1 not in alike and wanted["eos"] is not None:
        alike[1] = wanted["eos"]                               # no token begins texts: they begin where others end
    try:
        return ForeignTokenizer(value, [taken[role] for role in ROLES], rows), alike
    except DataError as error:
        raise DataError(f"{folder}: {error}") from None
    except Exception as error:              # the library raises plain Exception, and a file may hold anything
        reason = str(error).split("\n")[0] or type(error).__name__
        raise DataError(f"{folder / TOKENIZER} is no tokenizer that can be read ({reason}): fetch it again") from None


def tokenizer_value(folder: Path) -> dict[str, Any]:
    """Return tokenizer.json; of a folder with vocab.json and merges.txt alone, what stands for them."""
    if (folder / TOKENIZER).is_file() or not (folder / "merges.txt").is_file():
        return load_json(folder / TOKENIZER)
    vocab = load_json(folder / "vocab.json")
    lines = (folder / "merges.txt").read_text("utf-8", "replace").splitlines()
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
    found = config.values.get(f"{role}_token_id")
    found = found[0] if isinstance(found, list) and found else found
    if found is None:
        found = id_of(token_name(role, folder, value), value)
    if found is None:
        return None
    if type(found) is not int or not 0 <= found < rows:
        raise DataError(f"{config.name}: {role}_token_id = {found!r}: the model has {rows:,} tokens, from 0 on")
    return found


def token_name(role: str, folder: Path, value: dict[str, Any]) -> str | None:
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        if (folder / file).is_file():
            named = load_json(folder / file).get(f"{role}_token")
            named = named.get("content") if isinstance(named, dict) else named
            if isinstance(named, str):
                return named
    model = value.get("model")
    return model.get("unk_token") if role == "unk" and isinstance(model, dict) else None


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


def add_rows(
    converted: Converted, tokenizer: ForeignTokenizer, alike: dict[int, int]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the [model] table and the tensors with rows in our order; added ones read as tokens `alike`, or as
    nothing, and are never written."""
    order = torch.from_numpy(tokenizer.order)
    added = order == ADDED
    tensors = dict(converted.tensors)
    for name in ("embedding.weight", "head.weight"):
        if name in tensors:
            rows = tensors[name][order.clamp(min=0)]
            rows[added] = 0.0
            if name == "embedding.weight":
                for ours, theirs in alike.items():
                    rows[ours] = tensors[name][theirs]
            tensors[name] = rows
    if added.any():
        assert added[FIRST:].sum() == 0
        tensors["head.bias"] = torch.where(added, NEVER, 0.0)
    return {**converted.model, "logit_bias": bool(added.any())}, tensors
