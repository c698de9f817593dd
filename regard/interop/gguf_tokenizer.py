"""Byte-level tokenizers in llama.cpp: ours of byte pairs and of bytes, and those that models came with.

llama.cpp cuts a text into chunks by a pattern of its own before it merges. It knows the patterns of GPT-2, Llama 3 and
Qwen among others, and no pattern of a file's. Of ours GPT-2's is the nearest. Where it cuts otherwise the ids differ,
and the text that they spell does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.data.tokens.foreign import ForeignTokenizer
from regard.data.tokens.vocabulary import SPECIALS, UNK, Tokenizer
from regard.errors import SettingError
from regard.interop.target import ExportSubject

GPT2, LLAMA3, QWEN2 = "gpt-2", "llama-bpe", "qwen2"            # llama.cpp's names of patterns
PUBLISHED = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
             r"|\s+(?!\S)|\s+")
PATTERNS = {PUBLISHED % r"\p{N}{1,3}": LLAMA3, PUBLISHED % r"\p{N}": QWEN2}
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5          # llama.cpp's types of tokens
ROLES = ("bos", "eos", "unk", "pad")


@dataclass(frozen=True)
class GGUFVocabulary:
    """Tokens in the order of their ids, and merges in the order of their ranks."""

    tokens: tuple[str, ...]
    merges: tuple[str, ...]
    types: tuple[int, ...]
    pattern: str                           # by which llama.cpp cuts a text into chunks
    adds_bos: bool                         # whether llama.cpp shall set it before a text
    adds_eos: bool


def read_vocabulary(subject: ExportSubject) -> GGUFVocabulary:
    """Return the vocabulary for llama.cpp; a kind that it cannot hold is a SettingError."""
    return own_vocabulary(subject.tokenizer) if subject.found is None else found_vocabulary(subject.found, subject)


def own_vocabulary(tokenizer: Tokenizer) -> GGUFVocabulary:
    """A text begins with <bos>, which llama.cpp adds."""
    if tokenizer.kind not in ("bpe", "byte"):
        raise SettingError(f"tokenizer.kind = {tokenizer.kind}: llama.cpp has no tokenizer that gives the same ids; "
                           "train with --tokenizer bpe (or byte), or export with --to hf")
    model = tokenizer.to_dict()["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    special = [UNKNOWN if id == UNK else CONTROL for id in range(len(SPECIALS))]
    types = special + [NORMAL] * (len(tokens) - len(special))
    return GGUFVocabulary(tuple(tokens), merges_of(model, tokens), tuple(types), GPT2, True, False)


def found_vocabulary(tokenizer: ForeignTokenizer, subject: ExportSubject) -> GGUFVocabulary:
    """A text has the special tokens around it that the tokenizer's own file sets there."""
    pattern, model = pattern_of(tokenizer), tokenizer.value["model"]
    added = {token["id"]: token for token in tokenizer.value.get("added_tokens") or ()}
    tokens, types = [], []
    for id, name in enumerate(tokenizer.file_names()):
        tokens.append(f"[unused {id}]" if name is None else name)
        own = added.get(id)
        types.append(UNUSED if name is None else NORMAL if own is None else CONTROL if own["special"] else USER_DEFINED)
    around = tokenizer.around()
    return GGUFVocabulary(tuple(tokens), merges_of(model, tokens), tuple(types), pattern,
                          around[0] == [subject.token("bos")], around[1] == [subject.token("eos")])


def pattern_of(tokenizer: ForeignTokenizer) -> str:
    """Return llama.cpp's name of the pattern by which a tokenizer.json cuts; one that it has not is a SettingError."""
    cut = tokenizer.value.get("pre_tokenizer") or {}
    parts = cut.get("pretokenizers", []) if cut.get("type") == "Sequence" else [cut]
    kinds, last = [part.get("type") for part in parts], parts[-1] if parts else {}
    rule = None
    if kinds == ["ByteLevel"] and last.get("use_regex", True) and not last.get("add_prefix_space"):
        rule = GPT2
    elif kinds == ["Split", "ByteLevel"] and not last.get("use_regex", True):
        split = parts[0]
        rule = PATTERNS.get(split["pattern"].get("Regex", "")) if split["behavior"] == "Isolated" else None
    if rule is None or not tokenizer.is_byte_level:
        raise SettingError("the tokenizer that this model came with cuts texts by none of the rules of llama.cpp that "
                           "Regard writes (byte pairs of GPT-2, Llama 3 or Qwen); export with --to hf")
    return rule


def merges_of(model: dict[str, Any], tokens: list[str]) -> tuple[str, ...]:
    """Return the merges; llama.cpp wants a list that is not empty, and no text holds a special token twice."""
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    return tuple(merges or [f"{tokens[0]} {tokens[0]}"])


def add_tokenizer(writer: Any, vocabulary: GGUFVocabulary, subject: ExportSubject) -> None:
    """Write the vocabulary. <eos> in a text stays text."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(vocabulary.pattern)
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.types)
    writer.add_token_merges(vocabulary.merges)
    for role, add in zip(ROLES, (writer.add_bos_token_id, writer.add_eos_token_id, writer.add_unk_token_id,
                                 writer.add_pad_token_id), strict=True):
        if (id := subject.token(role)) is not None:
            add(id)
    writer.add_add_bos_token(vocabulary.adds_bos)
    writer.add_add_eos_token(vocabulary.adds_eos)
