"""The baseline of a classifier: logistic regression over the n-grams of tokens that a text has.

    P(label | x) = softmax(W x + b),  x[g] = (how often the text has the n-gram g) / sqrt(its n-grams)

No order beyond the n-grams, and nothing to tune. The fit is the one minimum of a convex function, by L-BFGS, so that no
seed changes it. Wang and Manning 2012 show how hard it is to beat. n-grams are counted by a hash: the few that share
one share a weight.   N texts · F hashes of n-grams · L labels
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.tokens.vocabulary import BOS
from regard.errors import DataError

ORDERS = {"char": 3, "byte": 3}          # the longest n-gram, by the kind of tokens
ORDER = 2                                # of words and subwords
HASHES = 18                              # bits
MOST = 2**21                             # n-grams that are learned from: of more, evenly spaced texts
STRENGTH = 1e-5                          # of what holds W at zero
ITERATIONS = 60                          # of L-BFGS
FACTOR = np.uint64(0x9E3779B97F4A7C15)   # an odd number with its bits well mixed

Texts = Sequence[Sequence[int]]          # as token ids


@dataclass(frozen=True)
class BagOfNGrams:
    """The weights of the hashes that occur in the texts it learned from."""

    order: int
    hashes: NDArray[np.int64]            # (F,), rising
    weights: NDArray[np.float32]         # (F, L)
    bias: NDArray[np.float32]            # (L,)

    def predict(self, texts: Texts) -> NDArray[np.float32]:
        """Return (N, L) log-probabilities of the labels of these texts."""
        if not len(texts):
            return np.zeros((0, len(self.bias)), np.float32)
        x = read_features(texts, self.order, self.hashes)
        return (x.times(torch.from_numpy(self.weights)) + torch.from_numpy(self.bias)).log_softmax(-1).numpy()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all of it as arrays, to be saved."""
        return {"order": np.array(self.order), "hashes": self.hashes, "weights": self.weights, "bias": self.bias}

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]], count: int) -> BagOfNGrams:
        """Return the classifier that these arrays are, of `count` labels."""
        try:
            order, hashes, weights, bias = (arrays[name] for name in ("order", "hashes", "weights", "bias"))
            shapes = (order.shape, weights.shape, bias.shape) == ((), (len(hashes), count), (count,))
            kinds = (order.dtype.kind, hashes.dtype.kind, weights.dtype, bias.dtype) == ("i", "i", "f4", "f4")
            ranges = shapes and 1 <= order <= max(ORDERS.values()) and ((hashes >= 0) & (hashes < 2**HASHES)).all()
            if not (kinds and ranges):
                raise ValueError("shapes, kinds or ranges are others")
        except (KeyError, ValueError, TypeError) as error:
            raise DataError(f"the baseline of this run is none of {count} labels ({error}): take baseline.safetensors "
                            "from a copy of the run") from None
        return BagOfNGrams(int(order), hashes, weights, bias)


def fit_bag(texts: Texts, labels: Sequence[int], *, count: int, kind: str = "word") -> BagOfNGrams:
    """Return the classifier of texts into `count` labels; `kind` is that of the tokens."""
    order = ORDERS.get(kind, ORDER)
    every = 1 + order * sum(map(len, texts)) // MOST
    texts, labels = texts[::every], labels[::every]
    hashes = np.unique(hash_ngrams(texts, order)[1])
    weights, bias = descend(read_features(texts, order, hashes), torch.tensor(labels), count)
    return BagOfNGrams(order, hashes, weights.numpy(), bias.numpy())


def descend(x: Features, labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return W (F, L) and b (L,) at the least mean surprise plus strength / 2 |W|^2."""
    weights = torch.zeros(x.width, count, requires_grad=True)
    bias = torch.zeros(count, requires_grad=True)
    rows = torch.arange(len(labels))
    optimizer = torch.optim.LBFGS([weights, bias], max_iter=ITERATIONS, history_size=10, line_search_fn="strong_wolfe")

    @torch.no_grad()
    def closure() -> float:
        log_probs = (x.times(weights) + bias).log_softmax(-1)
        error = log_probs.exp()
        error[rows, labels] -= 1
        error /= len(labels)
        weights.grad, bias.grad = x.turned_times(error) + STRENGTH * weights, error.sum(0)
        return float(-log_probs[rows, labels].mean() + 0.5 * STRENGTH * weights.square().sum())

    optimizer.step(closure)
    return weights.detach(), bias.detach()


# --------------------------------------------------------------------------------------------- n-grams


@dataclass(frozen=True)
class Features:
    """A sparse matrix x (N, F): the row, the column and the value of each entry, row after row."""

    rows: Tensor
    columns: Tensor
    values: Tensor
    starts: Tensor                       # (N,): the first entry of each row
    width: int                           # F

    def times(self, weights: Tensor) -> Tensor:
        """Return x W, (N, L)."""
        return torch.nn.functional.embedding_bag(
            self.columns, weights, self.starts, mode="sum", per_sample_weights=self.values)

    def turned_times(self, error: Tensor) -> Tensor:
        """Return x' E, (F, L), of E (N, L)."""
        found = torch.zeros(self.width, error.shape[1])
        return found.index_add_(0, self.columns, error[self.rows] * self.values[:, None])


def hash_ngrams(texts: Texts, order: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row and the hash of every n-gram of every text, each text with <bos> before it, row after row."""
    lengths = np.array([len(text) + 1 for text in texts])
    row = np.repeat(np.arange(len(texts)), lengths)
    first = np.cumsum(lengths) - lengths
    tokens = np.full(int(lengths.sum()), BOS, np.uint64)
    tokens[np.setdiff1d(np.arange(len(tokens)), first)] = [id for text in texts for id in text]
    place = np.arange(len(tokens)) - first[row]
    hashes = np.zeros((len(tokens), order), np.int64)
    there = np.zeros((len(tokens), order), bool)
    key = tokens * FACTOR
    for size in range(order):                                  # the n-gram that ends one earlier, and one token more
        if size:
            key = np.append(np.uint64(0), key[:-1])
            key = (key ^ (key >> np.uint64(29)) ^ tokens) * FACTOR + np.uint64(size)
        hashes[:, size] = key >> np.uint64(64 - HASHES)
        there[:, size] = place >= size
    return np.broadcast_to(row[:, None], hashes.shape)[there], hashes[there]


def read_features(texts: Texts, order: int, hashes: NDArray[np.int64]) -> Features:
    """Return the n-grams of each text that are known; what a text has several times is there as often."""
    row, ngrams = hash_ngrams(texts, order)
    column = np.full(2**HASHES, -1)
    column[hashes] = np.arange(len(hashes))
    number = np.bincount(row, minlength=len(texts))
    values = (1 / np.sqrt(number))[row].astype(np.float32)
    known = column[ngrams] >= 0
    row, column, values = row[known], column[ngrams][known], values[known]
    counts = np.bincount(row, minlength=len(texts))
    entries = map(torch.from_numpy, (row, column, values, np.cumsum(counts) - counts))
    return Features(*entries, width=len(hashes))                                       # type: ignore[misc, arg-type]
