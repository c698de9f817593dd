"""Overlap between the parts of a text: held-out lines that stand in the training part too, word for word or nearly.

A model that has read a line is not surprised by it: what is measured on such lines says nothing of new text. A line is
nearly the same where one line of the training part holds most of its runs of three words. Lines of few words are left
out: they are alike by chance. Only the held-out lines are held in memory, the training part is read past them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from regard.data.reading.corpus import DataSettings, find_parts

RUN = 3                    # words
LEAST = 5                  # words of a line, at least
NEARLY = 0.8               # of a line's runs, at least, in one line of the training part
COMMON = 50                # held-out lines that share a run, at most: a more common one says nothing
SHOWN = 3                  # examples kept of each kind


@dataclass
class Overlap:
    """A held-out part, and its lines that stand in the training part too."""

    part: str
    lines: list[str] = field(repr=False)                   # those of enough words
    short: int = 0                                         # lines of fewer words, left out
    same: set[int] = field(default_factory=set)            # numbers of lines that stand there word for word
    near: dict[int, str] = field(default_factory=dict)     # of others the line that is nearly the same

    @property
    def shared(self) -> list[bool]:
        """For each line whether it stands in the training part, word for word or nearly."""
        return [number in self.same or number in self.near for number in range(len(self.lines))]

    def as_dict(self) -> dict[str, Any]:
        return {"part": self.part, "lines": len(self.lines), "short": self.short, "same": len(self.same),
                "near": len(self.near), "examples": self.examples()}

    def examples(self) -> list[list[str]]:
        """Some lines of this part, each with the line of the training part that it repeats."""
        same = [[self.lines[number]] * 2 for number in sorted(self.same)[:SHOWN]]
        return same + [[self.lines[number], other] for number, other in sorted(self.near.items())[:SHOWN]]


def check_overlap(data: DataSettings) -> tuple[int, list[Overlap]]:
    """Return the number of training lines, and the overlap of each held-out part with them."""
    parts = find_parts(data)
    overlaps = [hold_lines(name, lines_of(texts())) for name, texts in parts.items() if name != "train"]
    return find_overlap(lines_of(parts["train"]()), overlaps), overlaps


def lines_of(texts: Iterable[str]) -> Iterator[str]:
    """The lines of some texts that are not empty, white space put in order."""
    rest = ""
    for text in texts:
        *whole, rest = (rest + text).split("\n")
        yield from filter(None, (" ".join(line.split()) for line in whole))
    if rest.strip():
        yield " ".join(rest.split())


def hold_lines(part: str, lines: Iterable[str]) -> Overlap:
    held = Overlap(part, [])
    for line in lines:
        if line.count(" ") + 1 < LEAST:
            held.short += 1
        else:
            held.lines.append(line)
    return held


def find_overlap(train: Iterable[str], overlaps: list[Overlap]) -> int:
    """Fill in which held-out lines stand in the training part; return the number of its lines."""
    exact: dict[str, list[tuple[int, int]]] = {}           # the part of a line, and its number there
    runs: dict[int, list[tuple[int, int]]] = {}
    needed: dict[tuple[int, int], float] = {}
    for part, each in enumerate(overlaps):
        for number, line in enumerate(each.lines):
            exact.setdefault(line, []).append((part, number))
            own = hash_runs(line)
            needed[part, number] = NEARLY * len(own)
            for run in own:
                runs.setdefault(run, []).append((part, number))
    read = 0
    for line in train:
        read += 1
        for part, number in exact.get(line, ()):
            overlaps[part].same.add(number)
        found: Counter[tuple[int, int]] = Counter()
        for run in hash_runs(line):
            holders = runs.get(run, ())
            if len(holders) <= COMMON:
                found.update(holders)
        for (part, number), count in found.items():
            if count >= needed[part, number]:
                overlaps[part].near.setdefault(number, line)
    for each in overlaps:
        each.near = {number: line for number, line in each.near.items() if number not in each.same}
    return read


def hash_runs(line: str) -> set[int]:
    """The runs of three words in a line, without regard to case, as hashes."""
    words = line.lower().split(" ")
    return {hash(tuple(words[start:start + RUN])) for start in range(len(words) - RUN + 1)}
