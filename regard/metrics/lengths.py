"""Quality by the length of the source: what a bottleneck costs shows on long sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.metrics.translation_quality import measure

BINS = (1, 6, 11, 16, 21, 31, 51)          # words of the source at which the next bin begins


@dataclass(frozen=True)
class Bin:
    """Sentences whose sources have from `first` to `last` words; None: any more."""

    first: int
    last: int | None
    sentences: int
    bleu: float
    chrf: float
    exact_match: float

    @property
    def name(self) -> str:
        return f"{self.first}+" if self.last is None else f"{self.first}-{self.last}"

    def as_dict(self) -> dict[str, Any]:
        return {"words": self.name, "sentences": self.sentences, "bleu": self.bleu, "chrf": self.chrf,
                "exact_match": self.exact_match}


def by_length(
    sources: Sequence[str], translations: Sequence[str], references: Sequence[str], *, lang: str = "",
    bins: Sequence[int] = BINS,
) -> list[Bin]:
    """The quality in each bin that has sentences; blank sources are in none."""
    lengths = [len(source.split()) for source in sources]
    quality = []
    for first, after in zip(bins, [*bins[1:], None], strict=True):
        chosen = [at for at, length in enumerate(lengths) if first <= length and (after is None or length < after)]
        if chosen:
            scores = measure([translations[at] for at in chosen], [references[at] for at in chosen], lang=lang,
                          intervals=False)
            last = None if after is None else after - 1
            quality.append(Bin(first, last, len(chosen), scores.bleu, scores.chrf, scores.exact_match))
    return quality
