"""The n-gram: counted, not trained."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.families.family import Family
from regard.models.ngram import NGram
from regard.models.ngram.model import check_settings


@dataclass(frozen=True)
class NGramSettings:
    order: int = 5
    smoothing: str = "kneser-ney"          # kneser-ney · add-k · none
    k: float = 0.1                         # what add-k adds to each count

    def __post_init__(self) -> None:
        check_settings(order=self.order, smoothing=self.smoothing, k=self.k, vocab=5)


def count_ngram(s: NGramSettings, vocab: int, tokens: np.ndarray, ends: np.ndarray | None) -> NGram:
    return NGram.fit(tokens, ends, vocab=vocab, order=s.order, smoothing=s.smoothing, k=s.k)


def restore_ngram(s: NGramSettings, vocab: int, tensors: dict[str, Tensor]) -> NGram:
    return NGram.from_tensors(tensors, {"vocab": vocab, "dtype": "float32", **dataclasses.asdict(s)})


def tiny_ngram(dtype: torch.dtype) -> NGram:
    text = np.random.default_rng(0).integers(2, 11, 200)
    return NGram.fit(text, None, vocab=11, order=3, dtype=dtype)


FAMILY = Family(
    "ngram", "counts of the last n-1 tokens, with interpolated Kneser-Ney smoothing",
    NGramSettings, count=count_ngram, restore=restore_ngram, example=tiny_ngram)
