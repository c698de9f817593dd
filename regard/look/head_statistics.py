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
