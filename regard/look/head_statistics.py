"""Statistics of heads: how spread out a head reads, how far back, and how much of the first token and the one before.

N layers · H heads · R rows · C columns
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from regard.look.track import Track


def statistics(track: Track) -> dict[str, list[list[float]] | None]:
    """Statistics of each head (N, H), from the amounts of its rows as shares, whatever their sign; means over rows.

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
