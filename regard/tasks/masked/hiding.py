"""Hiding: the batches of a masked model, in which some tokens of a text are hidden.

Devlin et al. 2018: of 15% of the tokens, 80% become <mask>, 10% a random token and 10% stay as they are, so that
a model must be ready to doubt any of them. Which ones is a pure function of (seed, step): a step can be taken
again exactly, and the same sentence is hidden differently each time it is read.   B batch · T time
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batching.shuffle import key_of, mix
from regard.data.batching.text_batches import Batch, SparseBatch
from regard.data.reading.corpus import Corpus
from regard.data.tokens.vocabulary import FIRST, PAD, Tokenizer
from regard.errors import SettingError
from regard.tasks.lm.batches import HeldOut, training_batches

SHARE = 0.15                     # of a row's tokens are hidden, one at least
TO_MASK, TO_RANDOM = 0.8, 0.1    # of the hidden ones; the rest stays as it is
HELD_OUT = 0x6D61736B            # the key of what is hidden in held-out text: the same for every run

_WHICH, _FATE, _WORD = range(3)  # what a random number is for


@dataclass(frozen=True)
class Hiding:
    """The rule by which tokens are hidden. Only tokens of text are: no <bos>, <eos> or <unk>."""

    mask: int                    # the id of <mask>, which is also the number of tokens before it
    share: float = SHARE
    to_mask: float = TO_MASK
    to_random: float = TO_RANDOM

    def hide(self, text: Batch, key: int, rows: NDArray[np.int64] | None = None) -> SparseBatch:
        """The batch of `text` (whose targets are the tokens, in their places) with some of them hidden.

        `rows` are the numbers of its rows, from which and from the key every random number comes.
        """
        tokens = text.targets.numpy()
        numbers = np.arange(len(tokens)) if rows is None else rows
        hidden = self.which(tokens, noise(numbers, tokens.shape[1], key_of(key, _WHICH)))
        fate = noise(numbers, tokens.shape[1], key_of(key, _FATE))
        drawn = noise(numbers, tokens.shape[1], key_of(key, _WORD))
        word = FIRST + (drawn * (self.mask - FIRST)).astype(np.int64)
        seen = np.where(fate < self.to_mask, self.mask, np.where(fate < self.to_mask + self.to_random, word, tokens))
        read = np.where(hidden, seen, tokens)
        targets = np.where(hidden, tokens, PAD)
        return SparseBatch(torch.from_numpy(read), torch.from_numpy(targets), text.lengths)

    def which(self, tokens: NDArray[np.int64], noise: NDArray[np.float64]) -> NDArray[np.bool_]:
        """(B, T): the share of each row's tokens with the lowest noise, one at least where there is one."""
        hideable = tokens >= FIRST                                                     # pads are not, either
        count = hideable.sum(1)
        wanted = np.where(count > 0, np.maximum(1, np.round(self.share * count)), 0)
        ranks = np.argsort(np.argsort(np.where(hideable, noise, 2.0), 1, kind="stable"), 1)
        return hideable & (ranks < wanted[:, None])


def noise(rows: NDArray[np.int64], time: int, key: int) -> NDArray[np.float64]:
    """(B, T) numbers from 0 up to 1, each from its row's number, its position and the key."""
    at = (rows[:, None] * 2**32 + np.arange(time)).astype(np.uint64)
    return (mix(mix(at, key), key) >> np.uint64(11)).astype(np.float64) * 2.0**-53


class MaskedBatches:
    """The batches of a text with tokens hidden, other ones at each step."""

    def __init__(self, text: Any, hiding: Hiding, seed: int):
        self.text, self.hiding, self.seed = text, hiding, seed

    def __len__(self) -> int:
        return len(self.text)

    def batch(self, step: int) -> SparseBatch:
        return self.hiding.hide(self.text.batch(step), key_of(self.seed, step))


@dataclass(frozen=True)
class MaskedHeldOut(HeldOut):
    """The held-out split with the same tokens hidden each time, all behind <mask>, whatever the size of a batch."""

    mask: int = 0

    def __iter__(self) -> Iterator[Batch]:
        hiding = Hiding(self.mask, to_mask=1.0)
        for index, batch in enumerate(super().__iter__()):
            first = index * self.every * self.batch                            # the number of its first row
            yield hiding.hide(batch, HELD_OUT, first + np.arange(len(batch.targets)))


def batches(corpus: Corpus, s: Any, context: int) -> MaskedBatches:
    if s.reading == "streams":
        raise SettingError("training.reading = 'streams' carries a state on, but a masked model reads in both "
                           "directions: use training.reading = 'windows' or 'documents'")
    return MaskedBatches(training_batches(corpus, s, context), Hiding(mask_id(corpus.tokenizer)), s.seed)


def held_out(corpus: Corpus, s: Any, context: int) -> MaskedHeldOut:
    tokenizer = corpus.tokenizer
    return MaskedHeldOut(
        corpus.valid, context, s.batch, tokenizer.bos, s.reading == "documents", mask=mask_id(tokenizer))


def mask_id(tokenizer: Tokenizer) -> int:
    """<mask> stands behind every token of the tokenizer, which does not know it: no text holds one."""
    return tokenizer.vocab_size
