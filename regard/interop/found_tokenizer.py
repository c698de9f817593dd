"""The files of a tokenizer that came with a model: as they were found, beside whatever the model becomes."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from regard import storage
from regard.data.tokens.foreign import ADDED, ForeignTokenizer
from regard.data.tokens.vocabulary import SPECIALS
from regard.errors import RunError
from regard.interop.foreign_rows import KEPT
from regard.interop.from_marian import SOURCE, TARGET
from regard.interop.target import ExportSubject

CONFIG = KEPT[0]
NOT_KEPT = ("auto_map",)                   # entries that would have a program fetch code and run it


def found_files(tokenizer: ForeignTokenizer, context: int) -> dict[str, bytes]:
    """Return the files by their names: tokenizer.json, or the SentencePiece models and vocab.json. The names are known
    ones: a run that somebody else made must not choose where an export writes."""
    files = {name: tokenizer.files[name].encode() for name in KEPT if name in tokenizer.files}
    files[CONFIG] = dump(config_of(tokenizer, context))
    if not tokenizer.pieces:
        return {"tokenizer.json": dump(tokenizer.value), **files}
    try:
        models = {name: base64.b64decode(tokenizer.files[name], validate=True) for name in (SOURCE, TARGET)}
    except (KeyError, ValueError):
        raise RunError("the run has lost the SentencePiece models that it came with: import it again") from None
    return {**models, "vocab.json": dump({piece: id for id, piece in enumerate(tokenizer.pieces)}), **files}


def config_of(tokenizer: ForeignTokenizer, context: int) -> dict[str, Any]:
    """Return tokenizer_config.json as it was found; of a tokenizer that had none, what it must say."""
    found = read_object(tokenizer.files.get(CONFIG, ""))
    if found is not None:
        return {name: value for name, value in found.items() if name not in NOT_KEPT}
    if tokenizer.pieces:
        return {"tokenizer_class": "MarianTokenizer", "separate_vocabs": False, "model_max_length": context}
    names, roles = tokenizer.file_names(), {}
    for id, role in enumerate(SPECIALS):
        own = tokenizer.alike.get(id, int(tokenizer.order[id]))
        if own != ADDED:
            roles[f"{role.strip('<>')}_token"] = names[own]
    return {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": context,
            "clean_up_tokenization_spaces": False, **roles}


def read_object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def write_found(tokenizer: ForeignTokenizer, folder: Path, context: int) -> None:
    for name, raw in found_files(tokenizer, context).items():
        storage.write_part(folder / name, raw)


def save_tokenizer(subject: ExportSubject, folder: Path) -> None:
    """Write the tokenizers beside an export: the model's own, or the one that it came with."""
    if subject.found is None:
        subject.tokenizer.save(folder)
    else:
        write_found(subject.found, folder, subject.trained.context)


def dump(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def found_pieces(tokenizer: ForeignTokenizer) -> list[str]:
    """Return the tokens in the order of the file's ids, each as the file writes it; rows that have none are named."""
    return [name or f"<beyond {id}>" for id, name in enumerate(tokenizer.file_names())]
