"""A model as named tensors, which model.safetensors holds and which can be used where they lie in a mapped file.

For each order K:

    words.K                            the last word of each K-gram, in 1, 2 or 4 bytes       (from order 2)
    first.K, landmarks.K               where what follows each (K-1)-gram begins (Pointers)   (from order 2)
    logprobs.K                         log p of each K-gram
    backoffs.K, backoff_values.K       log γ of each K-gram as a context (Coded or plain)     (but for the last order)
    counts.K, count_values.K           as they were smoothed (Coded or plain), if they were kept

and `discounts`, if there are any. With a vocabulary of up to 65,536 that is 7 or 8 bytes for a K-gram of the highest
order, and 11 to 13 below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from regard.errors import RunError
from regard.models.ngram.order_table import OrderTable
from regard.models.ngram.packed import Coded, Numbers, Pointers, coded, smallest
from regard.models.ngram.room import Floats, Ints


def tensors_of(orders: Sequence[OrderTable], discounts: Sequence[Sequence[float]]) -> dict[str, Tensor]:
    kept: dict[str, Numbers] = {}
    for k, order in enumerate(orders, start=1):
        if k > 1:
            kept[f"words.{k}"] = order.words
            kept[f"first.{k}"], kept[f"landmarks.{k}"] = order.first.distances, order.first.landmarks
        kept[f"logprobs.{k}"] = order.logprobs
        for name, numbers in (("backoff", order.backoffs), ("count", order.counts)):
            if isinstance(numbers, Coded):
                kept[f"{name}s.{k}"], kept[f"{name}_values.{k}"] = numbers.codes, numbers.values
            elif numbers is not None:
                kept[f"{name}s.{k}"] = numbers
    if len(discounts):
        kept["discounts"] = np.array(discounts)
    return {name: torch.from_numpy(array) for name, array in kept.items()}


def orders_of(tensors: Mapping[str, Tensor], order: int, vocab: int) -> list[OrderTable]:
    """The orders that gave these tensors."""
    orders: list[OrderTable] = []
    for k in range(1, order + 1):
        wanted = ["logprobs"] + ["backoffs"] * (k < order) + ["words", "first", "landmarks"] * (k > 1)
        missing = [f"{name}.{k}" for name in wanted if f"{name}.{k}" not in tensors]
        if missing:
            cure = "it is of an earlier version; count it again" if f"keys.{k}" in tensors else (
                f"it is damaged, or of another order than {order}")
            raise RunError(f"the n-gram model lacks {missing[0]}: {cure}")
        if k == 1:
            words, first = np.arange(vocab), Pointers.from_sizes(np.array([vocab]))
        else:
            words = tensors[f"words.{k}"].numpy()
            first = Pointers(tensors[f"landmarks.{k}"].numpy(), tensors[f"first.{k}"].numpy())
        made = OrderTable(words, first, tensors[f"logprobs.{k}"].numpy(), _numbers(tensors, "backoff", k), vocab,
                          _numbers(tensors, "count", k))
        # Not all of it is read here: that would take as long as using it.
        arrays = (array for array in (made.words, made.logprobs, made.backoffs, made.counts) if array is not None)
        contexts = len(orders[-1]) if orders else 1
        if len(first) != contexts or {*map(len, arrays)} != {first.total}:
            raise RunError(f"the {k}-grams of the model do not fit together: the file is damaged")
        orders.append(made)
    return orders


def _numbers(tensors: Mapping[str, Tensor], name: str, k: int) -> Numbers | Coded | None:
    if f"{name}s.{k}" not in tensors:
        return None
    array = tensors[f"{name}s.{k}"].numpy()
    values = tensors.get(f"{name}_values.{k}")
    return array if values is None else Coded(array, values.numpy())


# --------------------------------------------------------------------------------------------- from elsewhere


def order_from_keys(keys: Ints, logprobs: Floats, backoffs: Floats | None, *, contexts: int, vocab: int) -> OrderTable:
    """An order from sorted keys: context id * vocab + word."""
    sizes = np.bincount(keys // vocab, minlength=contexts)
    return OrderTable((keys % vocab).astype(smallest(vocab - 1)), Pointers.from_sizes(sizes), logprobs,
                 None if backoffs is None else coded(backoffs), vocab)
