"""Our tokenizers in llama.cpp: byte pairs, and bytes, which are byte pairs without a merge.

llama.cpp cuts a text into chunks by a pattern of its own before it merges; of those that it knows, GPT-2's cuts most
like ours. Where it cuts otherwise the ids differ, and the text that they spell does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.data.tokens.vocabulary import BOS, EOS, PAD, SPECIALS, UNK, Tokenizer
from regard.errors import SettingError

PATTERN = "gpt-2"
NORMAL, UNKNOWN, CONTROL = 1, 2, 3                  # llama.cpp's types of tokens


@dataclass(frozen=True)
class GGUFVocabulary:
    """Tokens in the order of their ids, and merges in the order of their ranks."""

    tokens: tuple[str, ...]
    merges: tuple[str, ...]

    @property
    def types(self) -> list[int]:
        special = [UNKNOWN if id == UNK else CONTROL for id in range(len(SPECIALS))]
        return special + [NORMAL] * (len(self.tokens) - len(special))


def read_vocabulary(tokenizer: Tokenizer) -> GGUFVocabulary:
    """Return the vocabulary for llama.cpp; a kind that it cannot hold is a SettingError."""
    if tokenizer.kind not in ("bpe", "byte"):
        raise SettingError(f"tokenizer.kind = {tokenizer.kind}: llama.cpp has no tokenizer that gives the same ids; "
                           "train with --tokenizer bpe (or byte), or export with --to hf")
    model = tokenizer.to_dict()["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    return GGUFVocabulary(tuple(tokens), tuple(merges or [NO_MERGE]))


NO_MERGE = f"{SPECIALS[PAD]} {SPECIALS[PAD]}"       # llama.cpp wants a list that is not empty; no text holds these


def add_tokenizer(writer: Any, vocabulary: GGUFVocabulary) -> None:
    """Write the vocabulary. A text begins with <bos>, which llama.cpp adds; <eos> in a text stays text."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(PATTERN)
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.types)
    writer.add_token_merges(vocabulary.merges)
    for add, id in ((writer.add_bos_token_id, BOS), (writer.add_eos_token_id, EOS), (writer.add_unk_token_id, UNK),
                    (writer.add_pad_token_id, PAD)):
        add(id)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
