"""The report: every claim with its verdict, rule, table and charts, on one page that needs nothing else."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any

from regard.compare.style import STYLE
from regard.lab.outcome import Card

MORE = """
.card { border-top: 1px solid var(--line); padding: 1.2rem 0; } .card h2 { border: 0; margin: 0 0 .4rem; padding: 0; }
.verdict { display: inline-block; border-radius: 999px; padding: .05rem .7rem; font-size: .9rem; font-weight: 600;
  border: 2px solid currentColor; margin-left: .6rem; }
.holds { color: #0a6b4c; } .fails { color: #a3260f; } .unclear { color: #6b5600; }
@media (prefers-color-scheme: dark) {
  .holds { color: #5fd3aa; } .fails { color: #ff9d86; } .unclear { color: #e6c84f; } }
img { background: #fff; border-radius: 6px; width: 100%; max-width: 46rem; height: auto; display: block; }
.index td, .index th { text-align: left; white-space: normal; }
"""


def report(cards: Sequence[Card], missing: Sequence[str] = ()) -> str:
    count = Counter(card["verdict"] for card in cards)
    told = ", ".join(f"{count[name]} {name if name != 'holds' else 'hold'}" for name in ("holds", "fails", "unclear"))
    lead = (f"{len(cards)} claims measured: {told}. A verdict comes from a rule with a bound, written down before the "
            "run, and an interval over seeds; flipping takes away the supposed cause, and the verdict has to change.")
    late = f'<p class="soft">Not measured yet: {escape(", ".join(missing))}.</p>' if missing else ""
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>The lab: every claim, measured</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<style>{STYLE}{MORE}</style></head><body>"
            f'<h1>The lab: every claim of the lectures, measured</h1><p class="lead">{escape(lead)}</p>{late}'
            f"{_index(cards)}{''.join(map(_card, cards))}</body></html>\n")


def _index(cards: Sequence[Card]) -> str:
    rows = "".join(
        f'<tr><td>{card["number"]}</td><td><a href="#{_anchor(card)}">{escape(card["title"])}</a></td>'
        f'<td>{escape(card["machine"])}</td><td class="{card["verdict"]}">{card["verdict"]}</td>'
        f'<td>{escape(_flipped(card))}</td><td>{card["seconds"]:.0f} s</td></tr>' for card in cards)
    return ('<div class="scroll"><table class="index"><thead><tr><th>#</th><th>claim</th><th>on</th><th>verdict</th>'
            f"<th>flipped</th><th>time</th></tr></thead><tbody>{rows}</tbody></table></div>")


def _anchor(card: Card) -> str:
    return f"{card['name']}-{card['machine']}"


def _flipped(card: Card) -> str:
    return card["flipped"]["verdict"] if card.get("flipped") else "not run"


def _card(card: Card) -> str:
    plots = "".join(
        f'<figure><img alt="{escape(plot["title"])}" src="data:image/svg+xml;base64,'
        f'{base64.b64encode(plot["svg"].encode()).decode()}"></figure>' for plot in card["plots"])
    facts = {"Source": card["source"], "Equation": card["equation"], "What would refute it": card["refuted"],
             "Rule": card["rule"], "Measured": "; ".join(map(_measured, card["rules"])),
             "Flipped": f"{card['flip']}: {_flipped(card)}", "Notes": card.get("notes", ""),
             "Where and when": f"{card['where']}; {card['when']}; {card['seeds']} seeds{', quick' * card['quick']}; "
                               f"{card['seconds']:.0f} s"}
    listed = "".join(f"<dt>{name}</dt><dd>{escape(str(value))}</dd>" for name, value in facts.items() if value)
    return (f'<section class="card" id="{_anchor(card)}"><h2>{card["number"]}. {escape(card["title"])}'
            f'<span class="verdict {card["verdict"]}">{card["verdict"]}</span></h2><p>{escape(card["claim"])}</p>'
            f"{plots}{_table(card['table'])}<dl>{listed}</dl><pre>{escape(card['command'])}</pre></section>")


def _measured(rule: dict[str, Any]) -> str:
    return (f"{rule['says']}: {rule['mean']:.3g} ({rule['low']:.3g} to {rule['high']:.3g}), to be {rule['side']} "
            f"{rule['bound']:g}: {rule['verdict']}")


def _table(table: dict[str, Any]) -> str:
    head = "".join(f"<th>{escape(str(name))}</th>" for name in table["columns"])
    rows = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in table["rows"])
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
