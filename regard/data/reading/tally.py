"""The account of what was read: every line kept or dropped, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

EMPTY = "empty"
BAD_UTF8 = "bad UTF-8"
BAD_JSON = "bad JSON"


@dataclass
class Tally:
    """Lines read, kept and dropped by reason; what was mended inside the kept ones; documents found."""

    read: int = 0
    kept: int = 0
    documents: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    mended: Counter[str] = field(default_factory=Counter)
    noun: str = "line"                  # "record" when everything came from Parquet

    def keep(self, count: int = 1) -> None:
        self.read += count
        self.kept += count

    def drop(self, reason: str, count: int = 1) -> None:
        self.read += count
        self.dropped[reason] += count

    def line(self) -> str:
        """`40,000 lines read: 39,998 kept, 2 dropped (2 bad UTF-8)`."""
        text = f"{_amount(self.read, self.noun)} read: {self.kept:,} kept, {self.dropped.total():,} dropped"
        if self.dropped:
            text += f" ({_reasons(self.dropped)})"
        if self.mended:
            text += f"; mended: {_reasons(self.mended)}"
        return text

    def add(self, other: Tally) -> None:
        self.read += other.read
        self.kept += other.kept
        self.documents += other.documents
        self.dropped += other.dropped
        self.mended += other.mended

    def to_dict(self) -> dict[str, Any]:
        return {"read": self.read, "kept": self.kept, "documents": self.documents,
                "dropped": dict(sorted(self.dropped.items())), "mended": dict(sorted(self.mended.items())),
                "noun": self.noun}

    @staticmethod
    def from_dict(value: dict[str, Any]) -> Tally:
        return Tally(int(value["read"]), int(value["kept"]), int(value["documents"]),
                     Counter(value["dropped"]), Counter(value["mended"]), str(value["noun"]))


def _amount(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _reasons(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.items()))
