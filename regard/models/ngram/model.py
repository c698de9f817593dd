"""The n-gram language model: the next word given the n - 1 before it, by counting.

Read with back-off: the longest n-gram that was seen gives the probability, and each longer context that was
seen, but not before this word, costs its back-off weight. B batch · T time · V vocabulary · n order
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from regard.contract import LanguageModel, Source, State
from regard.errors import RunError, SettingError, did_you_mean
from regard.models.ngram.counting import (
    PAD,
    UNPREDICTED,
    Bools,
    adjusted_counts,
    count_grams,
    document_starts,
    framed,
)
from regard.models.ngram.kneser_ney import KneserNey
from regard.models.ngram.lookup import all_words, score_documents
from regard.models.ngram.order_table import OrderTable
from regard.models.ngram.path import longest_seen, path
from regard.models.ngram.room import Floats, Ints, room_for
from regard.models.ngram.saved import orders_of, tensors_of
from regard.models.ngram.smoothing import AddK, SmoothingRule, Unsmoothed, smooth
from regard.watching import watching

SMOOTHINGS = ("kneser-ney", "add-k", "none")
BACKOFF = "back-off"        # the smoothing of a model that came from elsewhere, already smoothed
KNOWN = (*SMOOTHINGS, BACKOFF)
HIGHEST = 7
DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass
class LastWords(State):
    """The state of an n-gram: the last n - 1 words, at the right, and how many of them are real."""

    words: Tensor       # (B, n-1), <pad> where there is none yet
    count: Tensor       # (B,)


class Contexts(NamedTuple):
    """The contexts of some words, whose shape `...` is, as far as an n-gram has seen them."""

    known: Tensor       # (...) the length of the longest that was seen
    left: Tensor        # (..., n-1) log γ of each length: what it leaves to shorter ones; 0 where it was not seen

    @classmethod
    def of(cls, known: Ints, left: Floats) -> Self:
        return cls(torch.from_numpy(known), torch.from_numpy(left))


@dataclass(eq=False, repr=False)
class NGram(LanguageModel):
    """An n-gram model of any order from 1 to 7. Make one with `fit`, or from what was saved with `from_tensors`."""

    orders: list[OrderTable]
    _: KW_ONLY
    vocab: int
    smoothing: str = "kneser-ney"
    k: float = 0.1
    dtype: torch.dtype = torch.float32
    discounts: list[list[float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    prune: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.order = len(self.orders)
        self.reach = max(1, self.order - 1)

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
        prune: tuple[int, ...] = (),
        counts: bool = True,
        memory: float = 0.0,
        folder: Path | None = None,
    ) -> Self:
        """Count the text and smooth. `ends` says where each document ends (its <eos> included); None: one stream.

        `prune` gives for each order (the last for all above it) how often an n-gram may have been seen to be left out;
        `counts` are kept for a watcher. What takes more than `memory` GB is counted on the disk, in `folder`.
        """
        check_settings(order=order, smoothing=smoothing, k=k, vocab=vocab, prune=prune)
        prune = thresholds(prune, order)
        room = room_for(len(tokens), order, memory, folder or Path(tempfile.gettempdir()))
        grams = count_grams(framed(tokens, ends, vocab, room), vocab, order, room)
        rule: SmoothingRule = AddK(k, vocab) if smoothing == "add-k" else Unsmoothed()
        amounts: Iterable[Ints] = [each.counts for each in grams]
        if smoothing == "kneser-ney":
            rule, amounts = KneserNey(), adjusted_counts(grams, room)
        orders = smooth(grams, amounts, rule, vocab, dtype=np.float64 if dtype == torch.float64 else np.float32,
                        prune=prune, keep_counts=counts, room=room)
        return cls(orders, vocab=vocab, smoothing=smoothing, k=k, dtype=dtype, discounts=rule.discounts,
                   notes=rule.notes, prune=prune)

    # ------------------------------------------------------------------------------------- the contract

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def start(self, batch: int, capacity: int | None = None, source: Source | None = None) -> LastWords:
        return LastWords(torch.full((batch, self.order - 1), PAD), torch.zeros(batch, dtype=torch.long))

    def score(
        self, tokens: Tensor, targets: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, LastWords | None]:
        scores, _, after = self.score_in_context(tokens, targets, state, lengths)
        return scores, after

    def score_in_context(
        self, tokens: Tensor, targets: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Contexts, LastWords | None]:
        """As `score`, with what was seen of each target's contexts, (B, T) each."""
        read, real = _real(tokens, lengths)
        before = np.zeros((len(read), 0), np.int64) if state is None else _last_words(state)
        texts, scored = _texts(before, read, np.where(real, targets.numpy(), PAD), real, self.order - 1)
        values, matched, ending = np.empty(len(texts)), np.empty(len(texts), np.int8), np.empty(len(texts), np.int64)
        weights = np.zeros((len(texts), self.order - 1), np.float32)
        score_documents(self.orders, texts, np.zeros(0, np.int64), self.smoothing == "add-k", values,
                        (ending, weights), matched)
        result = np.zeros(read.shape, np.float64 if self.dtype == torch.float64 else np.float32)
        result[real] = values[scored]
        known = np.zeros(read.shape, np.int64)
        known[real] = np.where(read[real] == PAD, 0, ending[scored])
        left = np.zeros((*read.shape, self.order - 1), np.float32)
        left[real] = weights[scored]
        self._show(matched[scored], result, real, read, targets.numpy(), state)
        after = None if state is None else self._after(state, read, real)
        return torch.from_numpy(result), Contexts.of(known, left), after

    def score_text_in_context(self, tokens: Ints, ends: Ints | None = None) -> tuple[Tensor, Contexts]:
        """As `score_text`, with what was seen of each token's contexts, (N,) each."""
        known, left = np.empty(len(tokens), np.int64), np.empty((len(tokens), self.order - 1), np.float32)
        return self.score_text(tokens, ends, (known, left)), Contexts.of(known, left)

    def score_text(
        self, tokens: Ints, ends: Ints | None = None, contexts: tuple[Ints, Floats] | None = None
    ) -> Tensor:
        """(N,) log-probabilities of the tokens of a text, each document after <bos>; None: it is one document.

        What `score` says of them in any batches, but quicker, unwatched, and with little of a long text held at a time.
        """
        starts = np.zeros(1, np.int64) if ends is None else document_starts(np.asarray(ends), len(tokens))
        values = np.empty(len(tokens), np.float64 if self.dtype == torch.float64 else np.float32)
        score_documents(self.orders, tokens, starts, self.smoothing == "add-k", values, contexts)
        return torch.from_numpy(values)

    def step(self, tokens: Tensor, state: State, lengths: Tensor | None = None) -> tuple[Tensor, LastWords]:
        log_probs, _, after = self.step_in_context(tokens, state, lengths)
        return log_probs, after

    def step_in_context(
        self, tokens: Tensor, state: State, lengths: Tensor | None = None
    ) -> tuple[Tensor, Contexts, LastWords]:
        """As `step`, with what was seen of the contexts, (B,) each."""
        after = self._after(state, *_real(tokens, lengths))
        values, known, left = all_words(self.orders, _last_words(after), self.smoothing == "add-k")
        return torch.from_numpy(values).to(self.dtype), Contexts.of(known, left), after

    def _after(self, state: State, read: Ints, real: Bools) -> LastWords:
        """The state after these words (B, T)."""
        assert isinstance(state, LastWords)
        kept, lengths = self.order - 1, real.sum(axis=1)
        words = np.concatenate([_last_words(state), read], axis=1)
        last = np.take_along_axis(words, lengths[:, None] + np.arange(kept), axis=1)
        return LastWords(torch.from_numpy(last), (state.count + torch.from_numpy(lengths)).clamp(max=kept))

    # ------------------------------------------------------------------------------------- what it read

    def _show(
        self, matched: Ints, scores: Floats, real: Bools, read: Ints, targets: Ints, state: State | None
    ) -> None:
        """To a watcher: the length of the n-gram that gave each probability, and the whole path to it."""
        recorder = watching()
        if recorder is None:
            return
        before = np.zeros((len(read), self.order - 1), np.int64) if state is None else _last_words(state)
        history = _histories(before, read, real, self.order - 1)[:, 1:]
        found = path(self.orders, history, targets[real], smoothing=self.smoothing, k=self.k, discounts=self.discounts,
                     pruned=any(self.prune))
        lengths = torch.zeros(real.shape, dtype=torch.long)
        lengths[torch.from_numpy(real)] = torch.from_numpy(matched).long()
        missing = "" if self.orders[0].counts is not None else (
            "this model has kept no counts: train it with counts = true; a model from an ARPA file has none")
        recorder.add(self, "back-off", lengths, order=self.order, smoothing=self.smoothing, discounts=self.discounts,
                     missing=missing, log_prob=torch.from_numpy(scores),
                     **{name: _spread(each, real) for name, each in found.items()})

    def impossible(self, read: Tensor, target: int) -> tuple[int, ...]:
        """The n-gram that was never seen and so makes this target impossible after the words read (T,)."""
        words = read.numpy()[None].astype(np.int64)
        history = _histories(np.zeros((1, 0), np.int64), words, np.ones(words.shape, bool), self.order - 1)[-1:, 1:]
        length = 1 if target < UNPREDICTED else int(longest_seen(self.orders, history)[0])
        return (*history[0, self.order - length:].tolist(), target)

    # ------------------------------------------------------------------------------------- keeping

    @property
    def settings(self) -> dict[str, Any]:
        """The plain values that `from_tensors` needs beside the tensors."""
        return {"vocab": self.vocab, "order": self.order, "smoothing": self.smoothing, "k": self.k,
                "prune": self.prune, "dtype": str(self.dtype).removeprefix("torch."), "notes": self.notes}

    def saved_tensors(self) -> dict[str, Tensor]:
        """The whole model; saved.py says what they are."""
        return tensors_of(self.orders, self.discounts)

    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.saved_tensors().values())

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], settings: dict[str, Any]) -> Self:
        """The model that gave these tensors and settings; the tensors may be memory-mapped, and stay so."""
        order, vocab, prune = int(settings["order"]), int(settings["vocab"]), tuple(settings.get("prune", ()))
        check_settings(order=order, smoothing=settings["smoothing"], k=settings["k"], vocab=vocab, prune=prune,
                       known=KNOWN)
        orders = orders_of(tensors, order, vocab)
        discounts = tensors["discounts"].tolist() if "discounts" in tensors else []
        if discounts and (tensors["discounts"].dim() != 2 or not tensors["discounts"].isfinite().all()):
            raise RunError("the discounts of the n-gram model are no table of numbers: take the file from a copy")
        return cls(orders, vocab=vocab, smoothing=settings["smoothing"], k=float(settings["k"]), prune=prune,
                   dtype=DTYPES[settings["dtype"]], discounts=discounts, notes=settings.get("notes") or [])


def check_settings(
    *, order: int, smoothing: str, k: float, vocab: int, prune: tuple[int, ...] = (),
    known: tuple[str, ...] = SMOOTHINGS,
) -> None:
    if not 1 <= order <= HIGHEST:
        raise SettingError(f"order {order}: an n-gram has between 1 and {HIGHEST} words")
    if smoothing not in known:
        raise SettingError(f"unknown smoothing {smoothing}{did_you_mean(smoothing, known)}")
    if smoothing == "add-k" and not (0 < k < float("inf")):
        raise SettingError(f"k {k}: add-k adds a number above 0; for none at all say smoothing none")
    if vocab <= UNPREDICTED:
        raise SettingError(f"vocab {vocab}: a vocabulary has <pad>, <bos> and at least one word to predict")
    check_prune(prune, order, smoothing)


def check_prune(prune: tuple[int, ...], order: int, smoothing: str) -> None:
    if not any(prune):
        return
    spelt = ",".join(map(str, prune))
    if smoothing != "kneser-ney":
        raise SettingError(f"prune {spelt}: what is pruned is left to shorter contexts, which smoothing {smoothing} "
                           "does not ask; prune with kneser-ney")
    if len(prune) > order:
        raise SettingError(f"prune {spelt}: there are {len(prune)} thresholds for the orders 1 to {order}")
    if prune[0] != 0 or any(above < below for below, above in pairwise(prune)):
        raise SettingError(f"prune {spelt}: thresholds begin with 0, as every word is kept, and never fall: try 0,0,1")


def thresholds(prune: tuple[int, ...], order: int) -> tuple[int, ...]:
    """One for each order: the last one given goes for all above it."""
    return prune + prune[-1:] * (order - len(prune)) if any(prune) else ()


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
        contexts = _histories(before, read, real, reach)
        follow, scored = targets[real][:, None], np.ones((len(contexts), 1), bool)
    edge = 1 + contexts.shape[1]
    texts = np.zeros((len(contexts), edge + follow.shape[1]), np.int64)
    texts[:, 1:edge], texts[:, edge:] = contexts, follow
    where = np.zeros(texts.shape, bool)
    where[:, edge:] = scored
    useful = (where | (texts != PAD)).ravel()
    useful[1:] |= useful[:-1]                                               # of many pads one is enough
    return texts.ravel()[useful], where.ravel()[useful]


def _histories(before: Ints, read: Ints, real: Bools, reach: int) -> Ints:
    """(M, n) the last n words before each of the M targets; row by row, of the real ones."""
    words = np.pad(np.concatenate([before, read], axis=1), ((0, 0), (reach - before.shape[1], 0)))
    return np.lib.stride_tricks.sliding_window_view(words, reach + 1, axis=1)[real]


def _spread(values: np.ndarray, real: Bools) -> Tensor:
    """(M, ...) back to (B, T, ...), with zeros at pads."""
    whole = np.zeros((*real.shape, *values.shape[1:]), values.dtype)
    whole[real] = values
    return torch.from_numpy(whole)
