"""Curves of a run with few points, among them the least and the greatest of every stretch: no spike is lost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.serve.run_logs import AXES, FollowedRun


def decimate(values: NDArray[np.float64], points: int) -> NDArray[np.int64]:
    """Return the places of at most `points` values, in order, among them the least and the greatest of every bucket.

    A spike of one step is the greatest of its bucket, so it is never lost. First and last are among them too.
    """
    count = len(values)
    if count <= points:
        return np.arange(count)
    edges = np.linspace(0, count, max(1, (points - 2) // 2) + 1).astype(np.int64)
    starts = edges[:-1]
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    bucket = np.repeat(np.arange(len(starts)), np.diff(edges))
    firsts = [_first(values == extreme[bucket], bucket) for extreme in (low, high)]
    return np.unique(np.concatenate([[0, count - 1], *firsts]))


def _first(hit: NDArray[np.bool_], bucket: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first place in each bucket where it is true."""
    places = np.flatnonzero(hit)
    return places[np.unique(bucket[places], return_index=True)[1]]


def shares(
    values: NDArray[np.float64], chosen: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return, for each chosen place, the mean and the number of the values since the place before it.

    A smoothed curve is made of these: extremes alone would lead it astray.
    """
    if not len(chosen):
        return np.zeros(0), np.zeros(0)
    ends = chosen + 1
    total = np.append(0.0, np.cumsum(values))[ends]
    weight = np.diff(ends, prepend=0).astype(np.float64)
    return np.diff(total, prepend=0.0) / weight, weight


def curves(
    run: FollowedRun, points: int, start: int, first: float = -math.inf, last: float = math.inf
) -> dict[str, dict[str, Any]]:
    """Return every series of the run from row `start` on, between two steps, with at most so many points each."""
    axes = {name: run.table.column(name)[start:] for name in AXES}
    within = (axes["step"] >= first) & (axes["step"] <= last)
    series = {}
    for name in run.table.series:
        values = run.table.column(name)[start:]
        had = within & ~np.isnan(values)
        places = np.flatnonzero(had & np.isfinite(values))
        chosen = decimate(values[places], points)
        rows, (mean, weight) = places[chosen], shares(values[places], chosen)
        series[name] = {**{axis: _numbers(column[rows]) for axis, column in axes.items()},
                      "value": _numbers(values[rows]), "mean": _numbers(mean), "weight": _numbers(weight),
                      "count": len(places), "infinite": int(had.sum()) - len(places)}
    return series


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]
