"""The table of translators: BLEU, chrF, loss, short and long sources, speeds, memory, and what is kept of a source."""

from __future__ import annotations

from collections.abc import Sequence

from regard.compare.parts import chosen_on, measured_on, why_not_divided
from regard.compare.plan import Plan
from regard.compare.subject import Row
from regard.compare.table import NOTHING, amount, between, minutes, rate, shortened, size, tried

STATE_LENGTHS = (16, 64, 256)
HEADINGS = (("family",), ("BLEU",), ("chrF",), ("held-out", "nats/token"), ("BLEU of the shorter", "/ longer half"),
            ("parameters",), ("settings", "tried"), ("trained", "for"), ("training", "tokens/s"),
            ("sentences/s", "by beam 5"), ("peak", "memory"), ("state bytes at", " / ".join(map(str, STATE_LENGTHS))))


def cells(row: Row, plan: Plan) -> list[str]:
    return [row["family"], bleu(row), f"{row['chrf']:.2f}", f"{row['loss']:.3f}",
            f"{score(row['shorter'])} / {score(row['longer'])}", size(row), tried(row),
            minutes(row["training_seconds"]), rate(row["training_rate"]), rate(row["translation_rate"]),
            amount(row["memory"]),
            " / ".join(kept(row["state"][str(n)]) for n in STATE_LENGTHS)]


def bleu(row: Row) -> str:
    return f"{row['bleu']:.2f}{between(row, 2)}{' =' if row['tied'] else ''}"


def score(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f}"


def kept(size: int | None) -> str:
    return NOTHING if size is None else shortened(size)


def notes(rows: Sequence[Row], plan: Plan) -> list[str]:
    said = []
    there = [row for row in rows if row["bleu"] is not None]
    if there:
        said.append(f"BLEU and chrF are of {there[0]['sentences']:,} held-out pairs ({there[0]['signature']}); the "
                    "weights of each model are those of its best validation on " + (
                        f"{chosen_on(plan)}: these are of {measured_on(plan)}, by which nothing was chosen."
                        if plan.text.get("measured_on") else f"them, which favours all alike{why_not_divided(plan)}."))
    if len({row["signature"] for row in there}) > 1:
        said.append("Signatures differ: these scores cannot be compared.")
    unknown = plan.text["valid"]["unknown"]
    if unknown:
        said.append(f"{unknown:,} of the {plan.text['valid']['tokens']:,} held-out target tokens are <unk>: the loss "
                    "cannot be compared with that of another vocabulary.")
    return said
