"""Views of a track: many maps pooled into one, thumbnails, tokens joined into words; and statistics of its heads.

    thumbnails(track.values, 64)                         # (N, H, 64, 64), the largest amount of each bin
    view(track, layer="mean", head=3)                    # (R, C)
    join_words(cells, row_spans, column_spans)          # pieces put together into words

Amounts stay float32, and no copy is made of all of them: 12 layers of 12 heads of 512 tokens are 38 million.
N layers · H heads · R rows · C columns
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.config import one_of
from regard.errors import SettingError, did_you_mean
from regard.look.look import Look, LookSide
from regard.look.track import Floats, Track

Pick = int | str                             # a layer or a head by its number, or all of them put together
Array = NDArray[Any]                         # float32 of a track, or float64 of a map
Span = tuple[int, int]                       # tokens from, to
LAYER_POOLS, HEAD_POOLS = ("mean", "max", "rollout"), ("mean", "max")
POOLS = ("max", "sum")
RESIDUAL = 0.5                               # of a rollout: the share that passes by the attention


# -------------------------------------------------------------------------------------------- thumbnails


def thumbnails(values: Floats, size: int = 64, pool: str = "max", signed: bool = True) -> Floats:
    """(N, H, r, c) with at most `size` rows and columns: of each bin the largest amount with its sign, or the sum.

    Bins are as even as can be, and each row and column is in one of them, so that sums keep all of the mass. Amounts
    that are not `signed` need half of the work.
    """
    one_of("pool", pool, POOLS)
    rows, columns = (bounds(side, size) for side in values.shape[2:])

    def reduce(by: np.ufunc) -> Floats:
        # Rows first: whole rows are compared at once, and only a few are left for the columns.
        return np.stack([by.reduceat(by.reduceat(layer, rows, -2), columns, -1) for layer in values])

    if pool == "sum":
        return reduce(np.add)
    high = reduce(np.maximum)
    return larger(high, reduce(np.minimum)) if signed else high


def bounds(side: int, size: int) -> NDArray[np.int64]:
    """The positions at which each of at most `size` bins begins."""
    if size < 1:
        raise SettingError(f"size = {size}: a thumbnail has at least 1 row and column")
    count = min(side, size)
    return np.arange(count, dtype=np.int64) * side // count


def larger(high: Array, low: Array) -> Array:
    """Return whichever of two amounts is further from zero, with its sign."""
    return np.where(-low > high, low, high)


# ------------------------------------------------------------------------------------------------- views


def view(track: Track, layer: Pick = "mean", head: Pick = "mean") -> Floats:
    """(R, C): one layer and head by their numbers, or the mean or the largest of them, or the layers rolled out."""
    layer = check_pick("layer", layer, track.layers, LAYER_POOLS)
    head = check_pick("head", head, track.heads, HEAD_POOLS)
    return rollout(track, head) if layer == "rollout" else pool_layers(track.values, layer, head)


def pool_layers(values: Array, layer: Pick, head: Pick) -> Array:
    """(N, H, R, C) to (R, C): the heads of each layer first, then the layers."""
    if isinstance(layer, int):
        return pool(values[layer - 1], head)
    return pool(np.stack([pool(heads, head) for heads in values]), layer)


def pool(values: Array, pick: Pick) -> Array:
    """(H, R, C) to (R, C): one of them, their mean, or the largest, which keeps its sign."""
    if isinstance(pick, int):
        return values[pick - 1]
    if len(values) == 1:
        return values[0]
    if pick == "mean":
        return values.mean(0)
    return larger(values.max(0), values.min(0))


def check_pick(name: str, pick: Pick, count: int, pools: Sequence[str]) -> Pick:
    """The number of a layer or head, or the name of a pool; refuses what is not there."""
    if not str(pick).isdecimal():
        if pick not in pools:
            raise SettingError(f"{name} = {pick}{did_you_mean(str(pick), pools)}")
        return pick
    if not 1 <= int(pick) <= count:
        others = f"; or one of {', '.join(pools)}" if pools else ""
        raise SettingError(f"{name} = {pick}: there are {count}, counted from 1{others}")
    return int(pick)


def describe_pick(name: str, pick: Pick, count: int) -> str:
    """`layer 2`, or `max of 8 heads`; empty where there is only one."""
    if count == 1:
        return ""
    return f"{name} {pick}" if isinstance(pick, int) else f"{pick} of {count} {name}s"


def rollout(track: Track, head: Pick = "mean") -> Floats:
    """(T, T): A_N ... A_1 with A = (W + I) / 2, rows summing to 1: what each position holds of each input, if half of
    it passes by the attention of every layer (Abnar & Zuidema 2020)."""
    if track.kind != "weights" or track.rows != track.columns:
        raise SettingError(f"layer = rollout: {track.name} is not the attention of one text to itself")
    size = track.shape[2]
    found = np.eye(size, dtype=np.float32)
    for own in track.values:
        mixed = (1 - RESIDUAL) * pool(own, head) + RESIDUAL * np.eye(size, dtype=np.float32)
        found = (mixed / mixed.sum(-1, keepdims=True)) @ found
    return found


# ------------------------------------------------------------------------------------------------- words


def word_spans(side: LookSide) -> list[Span]:
    """Tokens that belong to one word, as spans; one that belongs to none is a group of its own."""
    return join_spans([token.word for token in side.tokens])


def row_spans(look: Look, track: Track) -> list[Span]:
    """Rows of a track that belong to one word, by the token that names each: the one it read, or the one it writes."""
    words = [token.word for token in look.sides[track.rows].tokens]
    if track.row_label == "read" or look.in_place:
        return join_spans(words)
    return join_spans([*words[1:], -1])


def join_spans(words: Sequence[int]) -> list[Span]:
    spans: list[Span] = []
    for at, word in enumerate(words):
        if spans and word >= 0 and words[at - 1] == word:
            spans[-1] = spans[-1][0], at + 1
        else:
            spans.append((at, at + 1))
    return spans


def join_words(cells: Floats, rows: Sequence[Span], columns: Sequence[Span]) -> Floats:
    """(..., R, C) with pieces put together: what the pieces of a column's word got is added up, rows are averaged."""
    summed = np.add.reduceat(cells, [first for first, _ in columns], -1)
    added = np.add.reduceat(summed, [first for first, _ in rows], -2)
    return (added / np.array([last - first for first, last in rows], np.float32)[:, None]).astype(np.float32)


# ------------------------------------------------------------------------------------- statistics of heads


def statistics(track: Track) -> dict[str, list[list[float]] | None]:
    """Statistics of each head (N, H), from the amounts of its rows as shares, whatever their sign; means over rows.

        entropy     - sum p log2 p, in bits: 0 where a row reads a single column
        distance    sum p |row - column|, of a text that reads itself
        first       the share that falls on the first column
        previous    the share that falls on the one before, of a text that reads itself, from its second row on
    """
    itself = track.rows == track.columns
    by_name: dict[str, Any] = {"entropy": [], "distance": [], "first": [], "previous": []}
    for layer in track.values:                                   # one at a time: what is made on the way stays small
        for name, value in layer_statistics(torch.from_numpy(layer), itself, track.signed).items():
            by_name[name].append(value)
    if not itself:
        by_name["distance"] = by_name["previous"] = None
    return by_name


def layer_statistics(values: torch.Tensor, itself: bool, signed: bool) -> dict[str, list[float]]:
    """Statistics of a layer (H, R, C). With S the sum of a row of amounts a, entropy is log S - (sum a log a) / S."""
    if signed:
        values = values.abs()
    total = values.sum(-1)                                                            # (H, R)
    read = total > 0                                             # a row that read nothing says nothing
    total = total.where(read, 1.0)
    rows = read.sum(-1).clamp(min=1)
    surprise = torch.special.entr(values).sum(-1)
    entropy = torch.where(read, surprise / total + total.log(), 0.0).clamp(min=0) / np.log(2)
    found = {"entropy": entropy, "first": values[:, :, 0] / total}
    if itself:
        at = torch.arange(values.shape[1])
        away = (at[:, None] - at).abs().to(values.dtype)
        found["distance"] = torch.einsum("hrc,rc->hr", values, away) / total
    means = {name: (each.sum(-1) / rows).tolist() for name, each in found.items()}
    if itself:
        before = values.diagonal(-1, 1, 2) / total[:, 1:]                             # (H, R - 1)
        means["previous"] = (before.sum(-1) / read[:, 1:].sum(-1).clamp(min=1)).tolist()
    return means
