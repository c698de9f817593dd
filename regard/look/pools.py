"""Many maps made into few, or into small ones: thumbnails, views of layers and heads, words, and what a head is like.

    thumbnails(track.values, 64)                         # (N, H, 64, 64), the largest amount of each bin
    view(track, layer="mean", head=3)                    # (R, C)
    by_words(cells, row_groups, column_groups)           # pieces put together into words
    statistics(track)                                    # entropy, distance, share on the first, and on the one before

Amounts stay float32, and no copy is made of all of them: 12 layers of 12 heads of 512 tokens are 38 million.
N layers · H heads · R rows · C columns
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.errors import SettingError, did_you_mean
from regard.look.parts import Floats, Look, Side, Track

Pick = int | str                             # a layer or a head by its number, or all of them put together
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
    check_pool(pool)
    rows, columns = (bounds(side, size) for side in values.shape[2:])
    if pool == "sum":
        made = [np.add.reduceat(np.add.reduceat(layer, rows, -2), columns, -1) for layer in values]
        return np.stack(made)
    # Rows first: whole rows are compared at once, and only a few are left for the columns.
    high = np.stack([np.maximum.reduceat(np.maximum.reduceat(layer, rows, -2), columns, -1) for layer in values])
    if not signed:
        return high
    low = np.stack([np.minimum.reduceat(np.minimum.reduceat(layer, rows, -2), columns, -1) for layer in values])
    return np.where(-low > high, low, high)


def thumbnails_by_definition(values: Floats, size: int = 64, pool: str = "max") -> Floats:
    """Bin by bin."""
    check_pool(pool)
    rows, columns = ([*bounds(side, size), side] for side in values.shape[2:])
    made = np.zeros((*values.shape[:2], len(rows) - 1, len(columns) - 1), np.float32)
    for place in np.ndindex(made.shape):
        layer, head, r, c = place
        inside = values[layer, head, rows[r]:rows[r + 1], columns[c]:columns[c + 1]]
        made[place] = inside.sum() if pool == "sum" else inside.flat[np.abs(inside).argmax()]
    return made


def bounds(side: int, size: int) -> NDArray[np.int64]:
    """Where each of at most `size` bins begins."""
    if size < 1:
        raise SettingError(f"size = {size}: a thumbnail has at least 1 row and column")
    count = min(side, size)
    return np.arange(count, dtype=np.int64) * side // count


def check_pool(pool: str) -> None:
    if pool not in POOLS:
        raise SettingError(f"pool = {pool}{did_you_mean(pool, POOLS)}")


# ------------------------------------------------------------------------------------------------- views


def view(track: Track, layer: Pick = "mean", head: Pick = "mean") -> Floats:
    """(R, C): one layer and head by their numbers, or the mean or the largest of them, or the layers rolled out."""
    layer, head = as_pick("layer", layer, track.layers, LAYER_POOLS), as_pick("head", head, track.heads, HEAD_POOLS)
    values = track.values
    if layer == "rollout":
        return rollout(track, head)
    if isinstance(layer, int):
        return pooled(values[layer - 1], head)
    return pooled(np.stack([pooled(own, head) for own in values]), layer)


def pooled(values: Floats, pick: Pick) -> Floats:
    """(H, R, C) to (R, C): one of them, their mean, or the largest, which keeps its sign."""
    if isinstance(pick, int):
        return values[pick - 1]
    if len(values) == 1:
        return values[0]
    if pick == "mean":
        return values.mean(0)
    high, low = values.max(0), values.min(0)
    return np.where(-low > high, low, high)


def as_pick(name: str, pick: Pick, count: int, pools: Sequence[str]) -> Pick:
    if not isinstance(pick, int) and not str(pick).isdecimal():
        if pick not in pools:
            raise SettingError(f"{name} = {pick}{did_you_mean(str(pick), pools)}")
        return pick
    if not 1 <= int(pick) <= count:
        raise SettingError(f"{name} = {pick}: there are {count}, counted from 1; or one of {', '.join(pools)}")
    return int(pick)


def rollout(track: Track, head: Pick = "mean") -> Floats:
    """(T, T): A_N ... A_1 with A = (W + I) / 2, rows summing to 1: what each position holds of each input, if half of
    it passes by the attention of every layer (Abnar & Zuidema 2020)."""
    if track.kind != "weights" or track.rows != track.columns:
        raise SettingError(f"layer = rollout: {track.name} is not the attention of one text to itself")
    size = track.shape[2]
    found = np.eye(size, dtype=np.float32)
    for own in track.values:
        mixed = (1 - RESIDUAL) * pooled(own, head) + RESIDUAL * np.eye(size, dtype=np.float32)
        found = (mixed / mixed.sum(-1, keepdims=True)) @ found
    return found


# ------------------------------------------------------------------------------------------------- words


def groups(side: Side) -> list[Span]:
    """Tokens that belong to one word, as spans; one that belongs to none is a group of its own."""
    return spans([token.word for token in side.tokens])


def row_groups(look: Look, track: Track) -> list[Span]:
    """The same of a track's rows, by the token that each is named by: the one it read, or the one it writes."""
    words = [token.word for token in look.sides[track.rows].tokens]
    if track.row_label == "read" or look.in_place:
        return spans(words)
    return spans([*words[1:], -1])


def spans(words: Sequence[int]) -> list[Span]:
    found: list[Span] = []
    for at, word in enumerate(words):
        if found and word >= 0 and words[at - 1] == word:
            found[-1] = found[-1][0], at + 1
        else:
            found.append((at, at + 1))
    return found


def by_words(cells: Floats, rows: Sequence[Span], columns: Sequence[Span]) -> Floats:
    """(..., R, C) with pieces put together: what the pieces of a column's word got is added up, rows are averaged."""
    summed = np.add.reduceat(cells, [first for first, _ in columns], -1)
    added = np.add.reduceat(summed, [first for first, _ in rows], -2)
    return (added / np.array([last - first for first, last in rows], np.float32)[:, None]).astype(np.float32)


# -------------------------------------------------------------------------------------------- statistics


def statistics(track: Track) -> dict[str, list[list[float]] | None]:
    """What each head (N, H) is like, over the amounts of its rows as shares, whatever their sign; means over rows.

        entropy     - sum p log2 p, in bits: 0 where a row reads a single column
        distance    sum p |row - column|, of a text that reads itself
        first       the share that falls on the first column
        previous    the share that falls on the one before, of a text that reads itself, from its second row on
    """
    itself = track.rows == track.columns
    found: dict[str, Any] = {"entropy": [], "distance": [], "first": [], "previous": []}
    for layer in track.values:                                   # one at a time: what is made on the way stays small
        for name, value in layer_statistics(torch.from_numpy(layer), itself, track.signed).items():
            found[name].append(value)
    if not itself:
        found["distance"] = found["previous"] = None
    return found


def layer_statistics(values: torch.Tensor, itself: bool, signed: bool) -> dict[str, list[float]]:
    """Of one layer (H, R, C). With S the sum of a row's amounts a, the entropy is log S - (sum a log a) / S."""
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


def statistics_by_definition(track: Track) -> dict[str, Any]:
    """Head by head and row by row, in float64."""
    names = ("entropy", "distance", "first", "previous")
    found: dict[str, Any] = {name: np.zeros(track.shape[:2]) for name in names}
    for n, h in np.ndindex(track.shape[:2]):
        rows: dict[str, list[float]] = {name: [] for name in names}
        for r, amounts in enumerate(np.abs(track.values[n, h].astype(np.float64))):
            if not amounts.sum():
                continue
            p = amounts / amounts.sum()
            rows["entropy"].append(-sum(each * np.log2(each) for each in p if each > 0))
            rows["distance"].append(sum(each * abs(r - c) for c, each in enumerate(p)))
            rows["first"].append(p[0])
            if r:
                rows["previous"].append(p[r - 1] if r - 1 < len(p) else 0.0)
        for name in names:
            found[name][n, h] = np.mean(rows[name]) if rows[name] else 0.0
    if track.rows != track.columns:
        found["distance"] = found["previous"] = None
    return found
