"""The definition: the same models with dictionaries, one word at a time, straight from the equations.

Far too slow for real text, and the one to read first. A test holds the fast one equal to it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from regard.models.ngram.counting import BOS, PAD, UNPREDICTED

Gram = tuple[int, ...]


class Definition:
    """An n-gram model of texts (each a list of ids, begun with <bos>) whose equations can be read."""

    def __init__(
        self, texts: Sequence[Sequence[int]], *, vocab: int, order: int, smoothing: str = "kneser-ney", k: float = 0.1,
        prune: Sequence[int] = (),                                                        # a threshold for each order
    ) -> None:
        self.vocab, self.order, self.smoothing, self.k = vocab, order, smoothing, k
        self.counts: list[Counter[Gram]] = [Counter() for _ in range(order + 1)]          # by length
        for text in texts:
            assert text[0] == BOS and BOS not in text[1:]
            for end in range(1, len(text) + 1):
                for length in range(1, min(order, end) + 1):
                    self.counts[length][tuple(text[end - length:end])] += 1
        del self.counts[1][(BOS,)]                                                        # read, never predicted
        self.pruned = {gram for threshold, counts in zip(prune, self.counts[1:], strict=False)
                       for gram, count in counts.items() if count <= threshold}
        if smoothing == "kneser-ney":
            self.counts = self._adjusted()
            self.discounts = [[0.0] * 4, *(_discounts(self.counts[length]) for length in range(1, order + 1))]
        self.after: defaultdict[Gram, list[Gram]] = defaultdict(list)                     # context -> what continues it
        for length in range(1, order + 1):
            for gram in self.counts[length]:
                self.after[gram[:-1]].append(gram)

    def probability(self, word: int, context: Sequence[int]) -> float:
        """p(word | context), of which the last n - 1 words count, and none before a <bos>."""
        seen = self._read(context)
        if word in (PAD, BOS):
            return 0.0
        if self.smoothing == "kneser-ney":
            return self._kneser_ney(word, seen)
        return self._add_k(word, seen) if self.smoothing == "add-k" else self._unsmoothed(word, seen)

    def _read(self, context: Sequence[int]) -> Gram:
        seen = tuple(context)[max(0, len(context) - self.order + 1):]
        if BOS in seen:
            seen = seen[len(seen) - 1 - seen[::-1].index(BOS):]
        return seen

    def _kneser_ney(self, word: int, context: Gram) -> float:
        below = self._kneser_ney(word, context[1:]) if context else 1 / (self.vocab - UNPREDICTED)
        return self.own(word, context) + self.weight(context) * below

    def own(self, word: int, context: Gram) -> float:
        """The share of the context itself: (a(cw) - D(a(cw))) / a(c·)."""
        gram, total = (*context, word), self._total(context)
        return (self.counts[len(gram)][gram] - self._taken(gram)) / total if total else 0.0

    def weight(self, context: Gram) -> float:
        """γ: what is left to the shorter context; all, if nothing was seen after this one."""
        total = self._total(context)
        return sum(self._taken(gram) for gram in self.after[context]) / total if total else 1.0

    def _taken(self, gram: Gram) -> float:
        count = self.counts[len(gram)][gram]
        return count if gram in self.pruned else self.discounts[len(gram)][min(count, 3)]

    def path(self, word: int, context: Sequence[int]) -> list[dict[str, float]]:
        """By Kneser-Ney, from order 1 up: count, total, discount, weight, and the share of the probability."""
        read, rows, left = self._read(context), [], 1.0
        for length in range(min(len(read), self.order - 1), -1, -1):
            tail = read[len(read) - length:]
            count = 0 if (*tail, word) in self.pruned else self.counts[length + 1][(*tail, word)]
            discount = self.discounts[length + 1][min(count, 3)]
            rows.append({"count": count, "total": self._total(tail), "discount": discount,
                         "weight": self.weight(tail), "share": left * self.own(word, tail)})
            left *= self.weight(tail)
        return rows[::-1]

    def _add_k(self, word: int, context: Gram) -> float:
        count = self.counts[len(context) + 1][(*context, word)]
        return (count + self.k) / (self._total(context) + self.k * (self.vocab - UNPREDICTED))

    def _unsmoothed(self, word: int, context: Gram) -> float:
        total = self._total(context)
        if total == 0:
            return self._unsmoothed(word, context[1:])
        return self.counts[len(context) + 1][(*context, word)] / total

    def _total(self, context: Gram) -> int:
        return sum(self.counts[len(context) + 1][gram] for gram in self.after.get(context, ()))

    def _adjusted(self) -> list[Counter[Gram]]:
        """Below the highest order: after how many different words, not how often; but from <bos> how often."""
        adjusted: list[Counter[Gram]] = [Counter() for _ in range(self.order)]
        for length in range(1, self.order):
            adjusted[length].update(gram[1:] for gram in self.counts[length + 1])
            adjusted[length].update({gram: n for gram, n in self.counts[length].items() if gram[0] == BOS})
        return [*adjusted, self.counts[self.order]]


def _discounts(counts: Counter[Gram]) -> list[float]:
    """D(0), D(1), D(2), D(3 or more): modified Kneser-Ney's, or one for all where those are undefined."""
    n = Counter(counts.values())
    y = n[1] / (n[1] + 2 * n[2]) if n[1] and n[2] else 0.5
    if n[1] and n[2] and n[3]:
        modified = [i - (i + 1) * y * n[i + 1] / n[i] for i in (1, 2, 3)]
        if all(0 < d <= i for i, d in enumerate(modified, start=1)):
            return [0.0, *modified]
    return [0.0, y, y, y]
