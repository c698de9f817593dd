"""Does attention look where it should? The share of what a word reads that lies in its region of the picture.

Chance is the share of the picture that the region takes: what a word would read there if it read everything alike.
A patch that lies partly in a region counts by that part.   N layers · H heads · T words · L patches
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float32]                      # (N, H, T, L)
Shares = NDArray[np.float64]                       # (L,) of each patch, how much lies in a region


@dataclass
class Gaze:
    """Sums over words that have a region: what each layer and head read inside, and what chance would."""

    inside: NDArray[np.float64] | None = None      # (N, H)
    chance: float = 0.0
    words: int = 0
    by_word: dict[str, tuple[float, float]] = field(default_factory=dict)

    def add(self, weights: Weights, words: Sequence[str], regions: Iterable[Shares | None]) -> None:
        """One caption: what its words read, and the region of each, or None for one that names nothing."""
        for at, (word, shares) in enumerate(zip(words, regions, strict=True)):
            if shares is None or not shares.any():
                continue
            read = weights[:, :, at].astype(np.float64)                            # (N, H, L)
            inside = (read * shares).sum(-1) / np.maximum(read.sum(-1), 1e-12)
            self.inside = inside if self.inside is None else self.inside + inside
            self.chance += float(shares.mean())
            self.words += 1
            mass, chance = self.by_word.get(word, (0.0, 0.0))
            self.by_word[word] = mass + float(inside.mean()), chance + float(shares.mean())

    @property
    def mean(self) -> float:
        """The share inside, of the mean of all layers and heads."""
        return 0.0 if self.inside is None else float(self.inside.mean()) / self.words

    @property
    def times_chance(self) -> float:
        return self.mean * self.words / self.chance if self.chance else 0.0

    def as_dict(self) -> dict[str, Any]:
        heads = [] if self.inside is None else (self.inside / self.words).tolist()
        best = 0.0 if self.inside is None else float(self.inside.max()) / self.chance
        return {"attention_inside": self.mean, "attention_chance": self.chance / max(1, self.words),
                "attention_times_chance": self.times_chance, "attention_best_head_times_chance": best,
                "attention_heads": heads, "attention_words": self.words,
                "attention_by_word": {word: mass / chance for word, (mass, chance) in sorted(self.by_word.items())}}
