"""What the lab measured of a claim, read from its results: nothing on a page says it again by hand."""

from __future__ import annotations

import json
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from regard.lab.outcome import Card, load_card

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "lab" / "results"
MACHINES = {"cpu": "on a CPU", "cuda": "on a GPU"}


class NoSuchClaim(Exception):
    """A name in a page that the lab has no results of."""


@cache
def cards(name: str) -> tuple[Card, ...]:
    """What was concluded of a claim, machine by machine."""
    files = [RESULTS / machine / f"{name}.json" for machine in MACHINES]
    found = tuple(card for file in files if file.is_file() and (card := load_card(file)) is not None)
    if not found:
        raise NoSuchClaim(f"{name}: lab/results has no such claim, or nothing was concluded of it")
    return found


def verdict_html(name: str, picture: str = "") -> str:
    """A claim as a card: the sentence, the verdict of each machine, and the rules with their numbers."""
    found = cards(name)
    first = found[0]
    badges = " ".join(f'<span class="verdict {escape(card["verdict"])}">{escape(card["verdict"])} '
                      f'{MACHINES[card["machine"]]}</span>' for card in found)
    return (f'<aside class="claim" aria-label="Claim {first["number"]} of the lab">'
            f'<p class="claim-says"><strong>Claim {first["number"]}.</strong> {escape(first["claim"])}</p>'
            f'<p>{badges}</p>{"".join(map(rules_html, found))}{picture}'
            f'<p class="claim-foot">Refuted by: {escape(first["refuted"])}. Measured {told(first)}. '
            f'Again: <code>regard lab run {escape(name)}</code></p></aside>')


def told(card: Card) -> str:
    size = "quick run" if card["quick"] else f"{card['seeds']} seeds"
    return f"{escape(card['when'])}, {size}, {escape(card['where'])}"


def rules_html(card: Card) -> str:
    rows = "".join(
        f"<tr><td>{escape(rule['says'])}{condition(rule)}</td>"
        f"<td>{number(rule['median'])}{escape(rule.get('unit', ''))}</td>"
        f"<td>{number(rule['low'])} to {number(rule['high'])}</td><td>{escape(rule['side'])} {rule['bound']:g}</td>"
        f'<td class="{escape(rule["verdict"])}">{escape(rule["verdict"])}</td></tr>' for rule in card["rules"])
    return (f'<details><summary>The rules and the numbers, {MACHINES[card["machine"]]}</summary>'
            f'<div class="table-wrapper"><table class="docutils">'
            "<thead><tr><th>rule</th><th>median</th><th>95% over seeds</th><th>to be</th><th></th></tr></thead>"
            f"<tbody>{rows}</tbody></table></div></details>")


def condition(rule: dict[str, Any]) -> str:
    return f" <em>(condition: {escape(rule['condition'])})</em>" if rule.get("condition") else ""


def number(value: float) -> str:
    return f"{value:.3g}"


def chart_of(name: str, which: int) -> tuple[Path, str]:
    """The file of a claim's chart, and its title."""
    (card, *_) = cards(name)
    plots = json.loads((RESULTS / card["machine"] / f"{name}.json").read_text("utf-8"))["plots"]
    if not 1 <= which <= len(plots):
        raise NoSuchClaim(f"{name} has {len(plots)} charts: there is no number {which}")
    return RESULTS / card["machine"] / plots[which - 1]["file"], plots[which - 1]["title"]
