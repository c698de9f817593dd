"""Special tokens: the tokens with a meaning of their own, and the tokens that are never written.

Each task has them from here, once: validation, samples, use, looks and the server search among the same texts.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.contract import LanguageModel
from regard.data.tokens.vocabulary import Tokenizer, TokenizerPair
from regard.decoding.source_attention import reads_source


@dataclass(frozen=True)
class SpecialTokens:
    """The tokens at which a text begins and ends, and those that are never written."""

    begin: int
    end: int
    banned: tuple[int, ...] = ()


def text_special_tokens(tokenizer: Tokenizer) -> SpecialTokens:
    """Return those of a language model or a captioner: <pad>, <bos>, <unk> and what has no text are never written."""
    t = tokenizer
    return SpecialTokens(t.bos, t.eos, (t.pad, t.bos, t.unk, *t.unspelled))


def pair_special_tokens(tokenizer: TokenizerPair, model: LanguageModel) -> SpecialTokens:
    """Return those of a translator or a summariser: <unk> is written only where it can be spelled as a source word.

    Tokens of the source's vocabulary alone are never written.
    """
    t = tokenizer
    spelled = not t.target.lossless and reads_source(model)
    return SpecialTokens(t.bos, t.eos, (t.pad, t.bos, *(() if spelled else (t.unk,)), *t.unspelled,
                                        *range(t.target.vocab_size, model.vocab)))
