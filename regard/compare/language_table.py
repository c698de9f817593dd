"""The table of language models: bits per byte, speeds, memory, what is recalled, and when the n-gram is crossed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from regard.compare.measure import STATE_LENGTHS
from regard.compare.parts import chosen_on, measured_on, why_not_divided
from regard.compare.plan import Plan
from regard.compare.recall import DISTANCES
from regard.compare.subject import Row
from regard.compare.table import NOTHING, amount, between, budget, kept, minutes, name, rate, size, tried
from regard.metrics.perplexity import warn_of_unknown

LENGTHS = " / ".join(str(n) if n < 1024 else f"{n // 1024}k" for n in STATE_LENGTHS)
HEADINGS = (("family",), ("bits/byte",), ("parameters",), ("settings", "tried"), ("trained", "for"),
            ("training", "tokens/s"), ("generation", "tokens/s"), ("peak", "memory"), ("state bytes at", LENGTHS),
            ("recall at", " / ".join(map(str, DISTANCES))), ("crosses", "the n-gram"))        # in one line or two


def cells(row: Row, plan: Plan) -> list[str]:
    return [name(row), bits(row), size(row), tried(row), minutes(row["training_seconds"]), rate(row["training_rate"]),
            rate(row["generation_rate"]["1"]), amount(row["memory"]),
            " / ".join(kept(row["state"][str(n)]) for n in STATE_LENGTHS),
            " / ".join(gain(row["recall"][str(d)]) for d in DISTANCES), crossed(row, plan)]


def bits(row: Row) -> str:
    if not math.isfinite(row["bits_per_byte"]):
        return "infinite"
    return f"{row['bits_per_byte']:.4f}{between(row, 4)}{' =' if row['tied'] else ''}"


def gain(found: dict[str, Any]) -> str:
    return NOTHING if found["gain"] is None else f"{found['gain']:.2f}".replace("-0.00", "0.00")


def crossed(row: Row, plan: Plan) -> str:
    found = row["crosses"]
    if found is None:
        return "" if row["counted"] else NOTHING
    if not found["crossed"]:
        return f"not within {budget(plan)}"
    when = f"{'before ' if found['earlier'] else ''}{minutes(found['seconds'])}"
    return when if found["crossed"] == found["of"] else f"{when} ({found['crossed']} of {found['of']} seeds)"


def notes(rows: Sequence[Row], plan: Plan) -> list[str]:
    best = f"The n-gram's order is the best of {', '.join(map(str, plan.orders))} on"
    said = [f"{best} {chosen_on(plan)}, and the weights kept of the others are those of their best validation on it; "
            f"what is measured is {measured_on(plan)}, by which nothing was chosen."
            if plan.text.get("measured_on") else
            f"{best} the held-out text itself, which favours it; the weights kept of the others are those of their "
            f"best validation on it, which favours them{why_not_divided(plan)}."]
    if any((state or {}).get("bounded") for row in rows for state in row.get("state", {}).values()):
        said.append("* reads no more than its context at once, and keeps no more than this, whatever the length.")
    parts = max((row.get("valid_one_in", 1) for row in rows), default=1)
    if parts > 1:
        said.append(f"While training, validation read one in {parts:,} of the held-out batches, or more of them: when "
                    "the n-gram is crossed is known the less exactly.")
    said.append("Recall: bits a token saved by having read a passage so many tokens ago; – is out of reach.")
    counts = plan.text.get("test") or plan.text["valid"]
    if counts["unknown"]:
        said.append(f"{warn_of_unknown(counts['unknown'], counts['tokens'], 'held-out tokens')}.")
    return said
