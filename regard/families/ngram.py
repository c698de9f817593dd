"""The n-gram: counted, not trained."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.families import transformer
from regard.families.family import Family
from regard.models.mixture import Mixture
from regard.models.ngram import NGram
from regard.models.ngram.model import check_settings
from regard.models.ngram.room import check_memory
from regard.storage import cache_folder


@dataclass(frozen=True)
class NGramSettings:
    order: int = 5
    smoothing: str = "kneser-ney"          # kneser-ney · add-k · none
    k: float = 0.1                         # what add-k adds to each count
    prune: tuple[int, ...] = ()            # order by order, how often an n-gram may have been seen to be left out
    counts: bool = True                    # keep them, so that a watcher can be told: 1 or 2 bytes an n-gram
    memory: float = 0.0                    # GB to count in, beyond which the disk is used; 0: half of what is free

    def __post_init__(self) -> None:
        check_settings(order=self.order, smoothing=self.smoothing, k=self.k, vocab=5, prune=self.prune)
        check_memory(self.memory)


def count_ngram(s: NGramSettings, vocab: int, tokens: np.ndarray, ends: np.ndarray | None) -> NGram:
    return NGram.fit(tokens, ends, vocab=vocab, **dataclasses.asdict(s), folder=cache_folder() / "counting")


def restore_ngram(s: NGramSettings, vocab: int, tensors: dict[str, Tensor]) -> NGram:
    return NGram.from_tensors(tensors, {"vocab": vocab, "dtype": "float32", **dataclasses.asdict(s)})


def tiny_ngram(dtype: torch.dtype) -> NGram:
    text = np.random.default_rng(0).integers(2, 11, 200)
    return NGram.fit(text, None, vocab=11, order=3, dtype=dtype)


def tiny_mixture(dtype: torch.dtype) -> Mixture:
    numbers = torch.tensor([[0.3, -0.2], [-0.5, 0.4], [0.1, 1.0]])
    cache = torch.tensor([[-1.5, 0.2], [-1.0, 0.5], [-0.5, 0.3], [0.2, -0.1], [0.5, 0.4]])
    return Mixture(transformer.FAMILY.example(dtype), tiny_ngram(dtype), numbers, cache, remembered=6).eval()


FAMILY = Family(
    "ngram", "counts of the last n-1 tokens, with interpolated Kneser-Ney smoothing",
    NGramSettings, count=count_ngram, restore=restore_ngram, example=tiny_ngram)
# Not in the table: any network of it may be mixed. It is here for the laws.
MIXTURE = Family("mixture", "a network, an n-gram and a cache, believed by shares", NGramSettings, example=tiny_mixture)
