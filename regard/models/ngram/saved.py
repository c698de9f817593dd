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
from regard.models.ngram.packed import AT_ONCE, SPACING, Coded, Numbers, Pointers, coded, smallest
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
        contexts = len(orders[-1]) if orders else 1
        try:
            orders.append(_order(tensors, k, contexts, vocab))
        except ValueError as error:
            raise RunError(f"the {k}-grams of the model do not fit together ({error}): the file is damaged; take it "
                           "from a copy, or count the text again") from None
    return orders


def _order(tensors: Mapping[str, Tensor], k: int, contexts: int, vocab: int) -> OrderTable:
    """The k-grams, looked through once: a number out of its range would be a place outside of some array."""
    logprobs = no_nan(_array(tensors, f"logprobs.{k}", "f"))
    if k == 1:
        words, first = np.arange(vocab), Pointers.from_sizes(np.array([vocab]))
    else:
        words = in_range(_array(tensors, f"words.{k}", "iu"), vocab)
        first = rising(Pointers(_array(tensors, f"landmarks.{k}", "iu"), _array(tensors, f"first.{k}", "iu")), contexts)
    made = OrderTable(words, first, logprobs, _numbers(tensors, "backoff", k, "f"), vocab,
                      _numbers(tensors, "count", k, "iu"))
    arrays = (array for array in (made.words, made.logprobs, made.backoffs, made.counts) if array is not None)
    if {*map(len, arrays)} != {first.total}:
        raise ValueError("there are more of some tensors than of others")
    return made


def _array(tensors: Mapping[str, Tensor], name: str, kinds: str) -> Numbers:
    tensor = tensors[name]
    if tensor.dim() != 1 or tensor.dtype not in TYPES[kinds]:
        raise ValueError(f"{name} has {tensor.dim()} dimensions of {str(tensor.dtype).removeprefix('torch.')}")
    array: Numbers = tensor.numpy()
    return array


TYPES = {"f": (torch.float32, torch.float64),
         "iu": (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32)}


def in_range(array: Ints, size: int) -> Ints:
    if len(array) and not 0 <= int(array.min()) <= int(array.max()) < size:
        raise ValueError(f"a number from {array.min()} to {array.max()} is none of {size:,}")
    return array


def no_nan(array: Floats) -> Floats:
    """Minus infinity is the logarithm of what is impossible; nan and infinity are none."""
    if len(array) and not float(array.max()) < np.inf:
        raise ValueError("a logarithm is nan or infinite")
    return array


def rising(first: Pointers, contexts: int) -> Pointers:
    """The pointers, if there is one for each context, and none lies before the last one."""
    if len(first) != contexts or len(first.landmarks) != contexts // SPACING + 1:
        raise ValueError(f"there are {len(first):,} pointers for {contexts:,} contexts")
    last = 0
    for start in range(0, contexts + 1, AT_ONCE):
        begins = first.begin(np.arange(start, min(start + AT_ONCE, contexts + 1)))
        if begins[0] < last or (start == 0 and begins[0] != 0) or (np.diff(begins) < 0).any():
            raise ValueError("its pointers do not rise")
        last = int(begins[-1])
    return first


def _numbers(tensors: Mapping[str, Tensor], name: str, k: int, kinds: str) -> Numbers | Coded | None:
    if f"{name}s.{k}" not in tensors:
        return None
    many = f"{name}_values.{k}"
    values = no_nan(_array(tensors, many if many in tensors else f"{name}s.{k}", kinds))
    if kinds == "iu":
        in_range(values, 2**62)
    if many not in tensors:
        return values
    return Coded(in_range(_array(tensors, f"{name}s.{k}", "iu"), len(values)), values)


# --------------------------------------------------------------------------------------------- from elsewhere


def order_from_keys(keys: Ints, logprobs: Floats, backoffs: Floats | None, *, contexts: int, vocab: int) -> OrderTable:
    """An order from sorted keys: context id * vocab + word."""
    sizes = np.bincount(keys // vocab, minlength=contexts)
    return OrderTable((keys % vocab).astype(smallest(vocab - 1)), Pointers.from_sizes(sizes), logprobs,
                 None if backoffs is None else coded(backoffs), vocab)
