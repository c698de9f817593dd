"""The table of verdicts by part and operator, the survivors with what is known of them, and docs/mutants.md."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from mutants.draw import PARTS, ROOT, SEED
from mutants.operators import OPERATORS
from mutants.run import CAUGHT

PAGE = ROOT / "docs" / "mutants.md"
SURVIVORS = ROOT / "mutants" / "survivors.toml"
Verdict = dict[str, Any]


def load_survivors() -> dict[str, dict[str, str]]:
    """By id: `harmless`, why no test can see it, or `test`, the one that now catches it."""
    return tomllib.loads(SURVIVORS.read_text("utf-8"))


def count_caught(verdicts: Iterable[Verdict]) -> tuple[int, int]:
    found = [verdict["verdict"] in CAUGHT for verdict in verdicts]
    return sum(found), len(found)


def table(verdicts: list[Verdict]) -> list[str]:
    """Caught of drawn, in Markdown: a row for each part, a column for each operator."""
    rows = ["| | " + " | ".join(OPERATORS) + " | all |", "|---" * (len(OPERATORS) + 2) + "|"]
    for part in (*PARTS, "all"):
        own = [verdict for verdict in verdicts if part in (verdict["part"], "all")]
        cells = [[verdict for verdict in own if verdict["operator"] == operator] for operator in OPERATORS]
        rows.append(f"| {part} | " + " | ".join(_cell(cell) for cell in (*cells, own)) + " |")
    return rows


def summary(verdicts: list[Verdict]) -> str:
    caught, drawn = count_caught(verdicts)
    kinds = Counter(verdict["verdict"] for verdict in verdicts)
    each = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    return f"{caught} of {drawn} mutants are caught, {caught / max(1, drawn):.1%}: {each}."


def survivors(verdicts: list[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict["verdict"] not in CAUGHT]


def unexplained(verdicts: list[Verdict], known: dict[str, dict[str, str]]) -> list[Verdict]:
    return [verdict for verdict in survivors(verdicts) if "harmless" not in known.get(verdict["id"], {})]


def write_page(verdicts: list[Verdict], seed: int = SEED) -> None:
    known = load_survivors()
    PAGE.write_text("\n".join(page(verdicts, known, seed, f"{datetime.now(UTC):%Y-%m-%d}")) + "\n", "utf-8")


def page(verdicts: list[Verdict], known: dict[str, dict[str, str]], seed: int, date: str) -> list[str]:
    """The lines of docs/mutants.md."""
    left = survivors(verdicts)
    found = [verdict for verdict in verdicts if "test" in known.get(verdict["id"], {})]
    first = len(verdicts) - len({verdict["id"] for verdict in (*left, *found)})
    lines = [
        "# Mutants", "",
        "A mutant is the code with one small fault in it. A test that fails catches it. `make mutants` draws mutants",
        f"from a seed and runs the tests that run the changed line. It wrote this page on {date}.", "",
        f"`make mutants COUNT={len(verdicts)} SEED={seed}`: {summary(verdicts)}",
        f"Without the tests that are listed below it would be {first} ({first / max(1, len(verdicts)):.1%}).", "",
        "Caught of drawn, by part and by operator. [`mutants/operators.py`](../mutants/operators.py) defines the",
        "operators, [`mutants/draw.py`](../mutants/draw.py) the parts.", "",
        *table(verdicts), "",
        "## Survivors", "", f"{len(left)} mutants survive. Each has the reason why it is harmless.", ""]
    for verdict in left:
        lines += _entry(verdict, known.get(verdict["id"], {}).get("harmless", "No reason is known yet."))
    lines += ["", "## Caught by a test that was added", "",
              f"{len(found)} mutants survived at first. Each has the test that was written for it.", ""]
    for verdict in found:
        lines += _entry(verdict, f"`{known[verdict['id']]['test']}`")
    return lines


def _entry(verdict: Verdict, reason: str) -> list[str]:
    path = verdict["place"].partition(":")[0]
    return [f"- `{path}`, `{verdict['scope']}`, {verdict['operator']}: `{verdict['change']}`", f"  {reason}"]


def _cell(verdicts: list[Verdict]) -> str:
    caught, drawn = count_caught(verdicts)
    return f"{caught}/{drawn}" if drawn else ""
