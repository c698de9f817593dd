"""How fast a core of the reference machine trains: seconds a step, fitted to what was timed of each family.

    seconds = a + b * weights + tokens * (c + d * weights)

a and b are of the update, c and d of the passes over the tokens of a step. Fitted by relative error, no number below 0.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from regret_parts.files import read_rows
from regret_parts.texts import SOURCES


class Paces:
    """Seconds a step of each kind of corpus and family, on the reference core."""

    def __init__(self, path: Path):
        groups: dict[tuple[str, str], list[tuple[float, float, float]]] = defaultdict(list)
        for row in read_rows(path):
            seconds = row["tokens_a_step"] / row["tokens_a_second"] / row.get("pace", 1.0)
            groups[SOURCES[row["corpus"]].kind, row["family"]].append((row["weights"], row["tokens_a_step"], seconds))
        self.fits = {key: fit_steps(np.array(points)) for key, points in groups.items()}

    def seconds_a_step(self, kind: str, family: str, weights: int, tokens: float) -> float:
        fit = self.fits[kind, "transformer" if family == "hybrid" else family]      # as fast as attention
        return float(step_terms(np.array([[weights, tokens]]))[0] @ fit)

    def tokens_a_second(self, kind: str, family: str, weights: int, tokens: float) -> float:
        return tokens / self.seconds_a_step(kind, family, weights, tokens)


def step_terms(points: np.ndarray) -> np.ndarray:
    weights, tokens = points[:, 0], points[:, 1]
    return np.stack([np.ones_like(weights), weights, tokens, tokens * weights], 1)


def fit_steps(points: np.ndarray) -> np.ndarray:
    """Return a, b, c and d of points (weights, tokens, seconds); a number that comes out negative is left out."""
    terms, kept = step_terms(points) / points[:, 2:], [True] * 4
    while True:
        found = np.zeros(4)
        found[kept] = np.linalg.lstsq(terms[:, kept], np.ones(len(points)), rcond=None)[0]
        if (found >= 0).all():
            return found
        kept[int(np.argmin(found * np.abs(terms).mean(0)))] = False
