"""Marks: the tokens with a meaning of their own, and the tokens that are never written.

Each task has its marks from here, once: validation, samples, use, looks and the server search among the same texts.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.contract import LanguageModel
from regard.data.tokens.tokenizer_pair import TokenizerPair
from regard.data.tokens.vocabulary import Tokenizer
from regard.decoding.reading import reads_source


@dataclass(frozen=True)
class Marks:
    """Where a text begins and ends, and which tokens are never written."""

    begin: int
    end: int
    banned: tuple[int, ...] = ()


def text_marks(tokenizer: Tokenizer) -> Marks:
    """Of a language model and a captioner: <pad>, <bos> and <unk> are never written."""
    t = tokenizer
    return Marks(t.bos, t.eos, (t.pad, t.bos, t.unk))


def pair_marks(tokenizer: TokenizerPair, model: LanguageModel) -> Marks:
    """Of a translator and a summariser: <unk> is written only where it can be spelled as what was read.

    Tokens that only the source has are never written.
    """
    t = tokenizer
    spelled = not t.target.lossless and reads_source(model)
    return Marks(t.bos, t.eos, (t.pad, t.bos, *(() if spelled else (t.unk,)), *range(t.target.vocab_size, model.vocab)))
