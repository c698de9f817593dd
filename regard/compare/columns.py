"""Columns of a results table: a heading, what a row shows under it, and how it was measured. Subjects share most."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from regard.compare.plan import Record, Row
from regard.report.numbers import show_bytes, show_count, show_seconds


@dataclass(frozen=True)
class Column:
    heading: tuple[str, ...]                 # in one line or two
    cell: Callable[[Row], str]
    about: str = ""                          # how it was measured, for the report

    @property
    def name(self) -> str:
        return " ".join(self.heading)


def name_family(row: Row) -> str:
    """rnn; ngram (order 5)."""
    return f"{row['family']} (order {row['order']})" if row["counted"] else row["family"]


def _show_size(row: Row) -> str:
    return f"{show_bytes(row['bytes'])} of counts" if row["counted"] else f"{row['parameters']:,}"


def _show_tried(row: Row) -> str:
    """6 orders; 1; 1 by --set."""
    tuning = row["tuning"]
    return " ".join(filter(None, (str(tuning["tried"]), tuning["of"], "by --set" if tuning["given"] else "")))


def show_interval(row: Row, digits: int) -> str:
    """The interval over seeds in brackets; empty where there is none."""
    if row["interval"] is None:
        return ""
    low, high = row["interval"]
    return f" ({low:.{digits}f} to {high:.{digits}f})"


FAMILY = Column(("family",), name_family)
SIZE = Column(
    ("parameters",), _show_size, "Everything that is learned, embeddings included, a tied one once. For a family that "
    "is counted: the bytes of its tables.")
TRIED = Column(
    ("settings", "tried"), _show_tried, "How many settings were trained to find the one that is shown, the best by "
    "validation: all orders of an n-gram, one setting of each other family. What --set gave was chosen before: how "
    "many were tried is unknown.")
TRAINED_FOR = Column(("trained", "for"), lambda row: show_seconds(row["training_seconds"]))
TRAINING_RATE = Column(
    ("training", "tokens/s"), lambda row: show_count(row["training_rate"]), "Tokens that are predicted, over the steps "
    "of training, validations and checkpoints left out. For the n-gram: reading, counting, saving and one scoring.")
MEMORY = Column(
    ("peak", "memory"), lambda row: show_bytes(row["memory"]), "What the trial's own process grew by while training, "
    "beyond Python and its libraries; on a GPU, the most that torch held there. –: training had ended before the trial "
    "was taken up again.")

# Columns of the table of all trials that every subject has.
OF_TRAINING: Mapping[str, Callable[[Record], str]] = {
    "steps": lambda record: show_count(record["trained"].get("step")),
    "tokens": lambda record: show_count(record["trained"].get("tokens")),
    "seconds": lambda record: f"{record['trained'].get('seconds', 0):.1f}",
    "peak memory": lambda record: show_bytes((record["memory"] or {}).get("bytes"))}
