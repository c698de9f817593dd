"""The n-gram language model: the next word given the n - 1 before it, by counting.

Read with back-off: the longest n-gram that was seen gives the probability, and each longer context that was
seen, but not before this word, costs its back-off weight. B batch · T time · V vocabulary · n order
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from regard.contract import LanguageModel, Source, State, watching
from regard.errors import RunError, SettingError, did_you_mean
from regard.models.ngram.counting import PAD, UNPREDICTED, Bools, Ints, count_grams, framed
from regard.models.ngram.kneser_ney import kneser_ney
from regard.models.ngram.lookup import all_words, score_words
from regard.models.ngram.smoothing import Floats, Smoothed, add_k, unsmoothed
from regard.models.ngram.table import Order

SMOOTHINGS = ("kneser-ney", "add-k", "none")
BACKOFF = "back-off"        # the smoothing of a model that came from elsewhere, already smoothed
KNOWN = (*SMOOTHINGS, BACKOFF)
HIGHEST = 7
DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass
class LastWords(State):
    """What an n-gram remembers: the last n - 1 words, at the right, and how many of them are real."""

    words: Tensor       # (B, n-1), <pad> where there is none yet
    count: Tensor       # (B,)


class NGram(LanguageModel):
    """An n-gram model of any order from 1 to 7. Make one with `fit`, or from what was saved with `from_tensors`."""

    def __init__(
        self,
        orders: list[Order],
        *,
        vocab: int,
        smoothing: str = "kneser-ney",
        k: float = 0.1,
        dtype: torch.dtype = torch.float32,
        discounts: list[list[float]] | None = None,
        notes: list[str] | None = None,
    ) -> None:
        self.orders = orders
        self.order = len(orders)
        self.vocab = vocab
        self.smoothing = smoothing
        self.k = k
        self.dtype = dtype
        self.discounts = discounts or []
        self.notes = notes or []

    @classmethod
    def fit(
        cls,
        tokens: np.ndarray,
        ends: np.ndarray | None = None,
        *,
        vocab: int,
        order: int = 5,
        smoothing: str = "kneser-ney",
        k: float = 0.1,
        dtype: torch.dtype = torch.float32,
    ) -> Self:
        """Count the text and smooth. `ends` says where each document ends (its <eos> included); None: one stream."""
        check_settings(order=order, smoothing=smoothing, k=k, vocab=vocab)
        grams = count_grams(framed(tokens, ends, vocab), vocab, order)
        number = np.float64 if dtype == torch.float64 else np.float32
        made: Smoothed
        if smoothing == "kneser-ney":
            made = kneser_ney(grams, vocab, number)
        elif smoothing == "add-k":
            made = add_k(grams, vocab, k, number)
        else:
            made = unsmoothed(grams, vocab, number)
        orders = assemble([each.keys for each in grams], made.logprobs, made.backoffs, vocab)
        return cls(orders, vocab=vocab, smoothing=smoothing, k=k, dtype=dtype, discounts=made.discounts,
                   notes=made.notes)

    # ------------------------------------------------------------------------------------- the contract

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def start(self, batch: int, capacity: int | None = None, source: Source | None = None) -> LastWords:
        return LastWords(torch.full((batch, self.order - 1), PAD), torch.zeros(batch, dtype=torch.long))

    def score(
        self, tokens: Tensor, targets: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, LastWords | None]:
        read, real = _real(tokens, lengths)
        before = np.zeros((len(read), 0), np.int64) if state is None else _last_words(state)
        texts, scored = _texts(before, read, np.where(real, targets.numpy(), PAD), real, self.order - 1)
        values, matched = score_words(self.orders, texts, self.smoothing == "add-k")
        result = np.zeros(read.shape, np.float64 if self.dtype == torch.float64 else np.float32)
        result[real] = values[scored]
        self._show(matched[scored], real)
        return torch.from_numpy(result), None if state is None else self._after(state, read, real)

    def step(self, tokens: Tensor, state: State, lengths: Tensor | None = None) -> tuple[Tensor, LastWords]:
        after = self._after(state, *_real(tokens, lengths))
        values = all_words(self.orders, _last_words(after), self.smoothing == "add-k")
        return torch.from_numpy(values).to(self.dtype), after

    def _after(self, state: State, read: Ints, real: Bools) -> LastWords:
        """What is remembered after these words (B, T)."""
        assert isinstance(state, LastWords)
        kept, lengths = self.order - 1, real.sum(axis=1)
        words = np.concatenate([_last_words(state), read], axis=1)
        last = np.take_along_axis(words, lengths[:, None] + np.arange(kept), axis=1)
        return LastWords(torch.from_numpy(last), (state.count + torch.from_numpy(lengths)).clamp(max=kept))

    def _show(self, matched: Ints, real: Bools) -> None:
        recorder = watching()
        if recorder is not None:
            lengths = torch.zeros(real.shape, dtype=torch.long)
            lengths[torch.from_numpy(real)] = torch.from_numpy(matched).long()
            recorder.add(self, "back-off", lengths, order=self.order, smoothing=self.smoothing,
                         discounts=self.discounts)

    # ------------------------------------------------------------------------------------- keeping

    @property
    def settings(self) -> dict[str, Any]:
        """What `from_tensors` needs beside the tensors: plain values."""
        return {"vocab": self.vocab, "order": self.order, "smoothing": self.smoothing, "k": self.k,
                "dtype": str(self.dtype).removeprefix("torch."), "discounts": self.discounts, "notes": self.notes}

    def saved_tensors(self) -> dict[str, Tensor]:
        """The whole model: for each order `keys.K` (from 2), `logprobs.K` and, but for the last, `backoffs.K`."""
        kept: dict[str, Tensor] = {}
        for k, order in enumerate(self.orders, start=1):
            if k > 1:
                kept[f"keys.{k}"] = torch.from_numpy(order.keys)
            kept[f"logprobs.{k}"] = torch.from_numpy(order.logprobs)
            if order.backoffs is not None:
                kept[f"backoffs.{k}"] = torch.from_numpy(order.backoffs)
        return kept

    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.saved_tensors().values())

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], settings: dict[str, Any]) -> Self:
        """The model that gave these tensors and settings; the tensors may be memory-mapped, and stay so."""
        order, vocab = int(settings["order"]), int(settings["vocab"])
        check_settings(order=order, smoothing=settings["smoothing"], k=settings["k"], vocab=vocab, known=KNOWN)
        names = [f"{part}.{k}" for k in range(1, order + 1) for part in ("keys", "logprobs", "backoffs")]
        names = [name for name in names if name not in ("keys.1", f"backoffs.{order}")]
        missing = [name for name in names if name not in tensors]
        if missing:
            raise RunError(f"the n-gram model lacks {missing[0]}: it is damaged, or of another order than {order}")
        arrays = {name: tensors[name].numpy() for name in names}
        keys = [np.arange(vocab), *(arrays[f"keys.{k}"] for k in range(2, order + 1))]
        orders = assemble(keys, [arrays[f"logprobs.{k}"] for k in range(1, order + 1)],
                          [arrays[f"backoffs.{k}"] for k in range(1, order)], vocab)
        return cls(orders, vocab=vocab, smoothing=settings["smoothing"], k=float(settings["k"]),
                   dtype=DTYPES[settings["dtype"]], discounts=settings.get("discounts"), notes=settings.get("notes"))


def assemble(keys: list[Ints], logprobs: list[Floats], backoffs: list[Floats], vocab: int) -> list[Order]:
    """Orders 1 to n from their arrays, checked against one another."""
    orders: list[Order] = []
    for k, (each, values) in enumerate(zip(keys, logprobs, strict=True), start=1):
        below = len(orders[-1].keys) if orders else 1
        weights = backoffs[k - 1] if k < len(keys) else None
        sizes = {len(each), len(values), len(each) if weights is None else len(weights)}
        if len(sizes) > 1 or (len(each) and not 0 <= int(each[0]) <= int(each[-1]) < below * vocab):
            raise RunError(f"the {k}-grams of the model do not fit together: the file is damaged")
        orders.append(Order(each, values, weights, below, vocab))
    return orders


def check_settings(*, order: int, smoothing: str, k: float, vocab: int, known: tuple[str, ...] = SMOOTHINGS) -> None:
    if not 1 <= order <= HIGHEST:
        raise SettingError(f"order {order}: an n-gram has between 1 and {HIGHEST} words")
    if smoothing not in known:
        raise SettingError(f"unknown smoothing {smoothing}{did_you_mean(smoothing, known)}")
    if smoothing == "add-k" and not (0 < k < float("inf")):
        raise SettingError(f"k {k}: add-k adds a number above 0; for none at all say smoothing none")
    if vocab <= UNPREDICTED:
        raise SettingError(f"vocab {vocab}: a vocabulary has <pad>, <bos> and at least one word to predict")


def _real(tokens: Tensor, lengths: Tensor | None) -> tuple[Ints, Bools]:
    """The tokens (B, T), with <pad> where they are not real; and where they are."""
    words = tokens.numpy()
    if lengths is None:
        return words, np.ones(words.shape, bool)
    real = np.arange(words.shape[1]) < lengths.numpy()[:, None]
    return np.where(real, words, PAD), real


def _last_words(state: State) -> Ints:
    assert isinstance(state, LastWords), f"an n-gram's state is LastWords, not {type(state).__name__}"
    return state.words.numpy()


def _texts(before: Ints, read: Ints, targets: Ints, real: Bools, reach: int) -> tuple[Ints, Bools]:
    """Contexts and targets as one long row of texts with <pad> between, and where in it the targets stand.

    before (B, H) are the words remembered, read (B, T) those read now, and targets (B, T) follow each of the latter.
    """
    if np.all((read[:, 1:] == targets[:, :-1]) | ~real[:, 1:]):             # each target is the next word read
        contexts = np.concatenate([before, read[:, :1]], axis=1)
        follow, scored = targets, real
    else:                                                                   # each target is a text of its own
        words = np.pad(np.concatenate([before, read], axis=1), ((0, 0), (reach - before.shape[1], 0)))
        contexts = np.lib.stride_tricks.sliding_window_view(words, reach + 1, axis=1)[real]
        follow, scored = targets[real][:, None], np.ones((len(contexts), 1), bool)
    edge = 1 + contexts.shape[1]
    texts = np.zeros((len(contexts), edge + follow.shape[1]), np.int64)
    texts[:, 1:edge], texts[:, edge:] = contexts, follow
    where = np.zeros(texts.shape, bool)
    where[:, edge:] = scored
    useful = (where | (texts != PAD)).ravel()
    useful[1:] |= useful[:-1]                                               # of many pads one is enough
    return texts.ravel()[useful], where.ravel()[useful]
