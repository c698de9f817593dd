"""tokenizer.json as transformers wants it: the run's own, with the frame that a text has in training.

`split_special_tokens` keeps a promise: `<eos>` in a user's text is five characters, and never the end.
"""

from __future__ import annotations

from typing import Any

from regard.data.tokens.vocabulary import SPECIALS, Tokenizer, added_tokens
from regard.interop.target import ExportSubject

MASK = "<mask>"
PAD, BOS, EOS, UNK = SPECIALS


def tokenizer_files(subject: ExportSubject, vocab: int) -> dict[str, dict[str, Any]]:
    """Return the files of the tokenizer, or of both of a translator, as the values of their JSON."""
    tokenizer, context = subject.tokenizer, subject.trained.context
    if getattr(subject.network, "needs_source", False):
        files = one_tokenizer(tokenizer.source, context, [], [EOS])
        if not tokenizer.shared:
            files |= {f"target-tokenizer/{name}": values
                      for name, values in one_tokenizer(tokenizer.target, context, [], [EOS]).items()}
        return files
    if subject.writes_on:
        return one_tokenizer(tokenizer, context, [BOS], [])
    framed = subject.trained.framed
    return one_tokenizer(tokenizer, context, [], [EOS] if framed else [], mask=vocab - 1)


def one_tokenizer(
    tokenizer: Tokenizer, context: int, before: list[str], after: list[str], mask: int | None = None
) -> dict[str, dict[str, Any]]:
    """Return tokenizer.json and tokenizer_config.json, with these special tokens around every text."""
    value = tokenizer.to_dict()
    special = {"pad_token": PAD, "bos_token": BOS, "eos_token": EOS, "unk_token": UNK}
    if mask is not None:
        special["mask_token"] = MASK
        value["added_tokens"] = [*value["added_tokens"], {**added_tokens()[0], "id": mask, "content": MASK}]
    if before or after:
        value["post_processor"] = frame(before, after)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **special, "model_max_length": context,
              "split_special_tokens": True, "clean_up_tokenization_spaces": False}
    return {"tokenizer.json": value, "tokenizer_config.json": config}


def frame(before: list[str], after: list[str]) -> dict[str, Any]:
    """Return the post-processor that sets special tokens around a text."""
    def special(name: str) -> dict[str, Any]:
        return {"SpecialToken": {"id": name, "type_id": 0}}

    text = [{"Sequence": {"id": "A", "type_id": 0}}]
    single = [*map(special, before), *text, *map(special, after)]
    pair = [*single, {"Sequence": {"id": "B", "type_id": 0}}, *map(special, after)]
    tokens = {name: {"id": name, "ids": [SPECIALS.index(name)], "tokens": [name]} for name in (*before, *after)}
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens}
