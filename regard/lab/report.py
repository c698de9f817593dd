"""The report: every claim with its verdicts, rules, tables and charts, on one page that needs nothing else.

A claim is a section; what was measured on each machine stands next to the others.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Collection, Sequence
from html import escape
from itertools import groupby
from typing import Any

from regard.compare.style import STYLE
from regard.lab.outcome import Card, did_change, flip_told, size_told
from regard.lab.verdict import FAILS, FEWEST, HOLDS, UNCLEAR

MORE = """
.claim { border-top: 1px solid var(--line); padding: 1.4rem 0; } .claim h2 { border: 0; margin: 0 0 .3rem; padding: 0; }
.machines { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1.2rem 1.8rem;
  margin-top: 1rem; align-items: start; }
.machine { min-width: 0; } .machine h3 { margin: 0 0 .5rem; }
.verdict { display: inline-block; border-radius: 999px; padding: 0 .6rem; font-size: .85rem; font-weight: 600;
  border: 2px solid currentColor; white-space: nowrap; }
.holds { color: #0a6b4c; } .fails { color: #a3260f; } .unclear { color: #6b5600; }
@media (prefers-color-scheme: dark) {
  .holds { color: #5fd3aa; } .fails { color: #ff9d86; } .unclear { color: #e6c84f; } a { color: #8ec7ff; } }
img { background: #fff; border-radius: 6px; width: 100%; max-width: 46rem; height: auto; display: block;
  margin-bottom: .8rem; }
.index { min-width: 44rem; } .index td, .index th, .rules td, .rules th { text-align: left; white-space: normal;
  vertical-align: top; }
.rules td:not(:first-child) { white-space: nowrap; } .rules td:first-child { min-width: 10rem; }
details { margin: .4rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem .9rem; margin: .6rem 0; font-size: .93rem; }
dt { margin: 0; } dd { min-width: 0; overflow-wrap: anywhere; } summary { color: var(--soft); }
@media (max-width: 40rem) { body { padding: 1.2rem 1rem 3rem; } dl { display: block; } dt { margin-top: .4rem; } }
"""


HOW = (
    "Each verdict comes from rules that stood before the run (docs/lab.md names those changed after an earlier one): a "
    "number for each seed, and a bound. A rule holds when "
    "the whole 95% bootstrap interval of the mean over seeds is on its side of the bound, fails when all of it is on "
    f"the other, and is unclear else; fewer than {FEWEST} seeds are never enough. An exact rule is about a theorem: "
    "every seed has to keep it. A claim holds if all of its rules do, and fails if one does. Flipping takes away the "
    "supposed cause: where the verdict does not change, it has not been shown to be the cause.")
OLD = "measured by an earlier version of this experiment's code; shown as it was, until it is run again"


def report(cards: Sequence[Card], missing: Sequence[str] = (), old: Collection[tuple[str, str]] = ()) -> str:
    """The page. `old` are the (name, machine) that were measured by other code than today's."""
    machines = sorted({card["machine"] for card in cards})
    claims = [list(group) for _, group in groupby(cards, key=lambda card: card["name"])]
    late = f'<p class="soft">Not measured yet: {escape(", ".join(missing))}.</p>' if missing else ""
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>The lab: every claim, measured</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<style>{STYLE}{MORE}</style></head><body><main>"
            f"<h1>The lab: every claim of the lectures, measured</h1>{_lead(cards, machines, len(claims))}{late}"
            f"{_index(claims, machines)}{''.join(_claim(group, old) for group in claims)}</main></body></html>\n")


# ------------------------------------------------------------------------------------------------ the summary


def _lead(cards: Sequence[Card], machines: Sequence[str], claims: int) -> str:
    lines = [f"{claims} claim{'s' * (claims != 1)} measured."]
    for machine in machines:
        count = Counter(card["verdict"] for card in cards if card["machine"] == machine)
        lines.append(f"On {machine} {count[HOLDS]} hold, {count[FAILS]} fail, {count[UNCLEAR]} are unclear.")
    return f'<p class="lead">{escape(" ".join(lines))}</p><p>{escape(HOW)}</p><p>{escape(_flips(cards))}</p>'


def _flips(cards: Sequence[Card]) -> str:
    flipped = [card for card in cards if card.get("flipped")]
    same = [f"{card['name']} ({card['machine']})" for card in flipped if did_change(card["flipped"]) is False]
    changed = sum(did_change(card["flipped"]) is True for card in flipped)
    told = f"Flipped: {len(flipped)} of {len(cards)} results; the verdict changed in {changed}"
    return f"{told}, and did not change in {len(same)}: {', '.join(same)}." if same else f"{told}."


def _index(claims: Sequence[Sequence[Card]], machines: Sequence[str]) -> str:
    head = "".join(f"<th>{escape(machine)}</th>" for machine in machines)
    rows = "".join(_row(group, machines) for group in claims)
    return (f'<div class="scroll" tabindex="0" role="region" aria-label="Summary"><table class="index"><thead><tr>'
            f"<th>#</th><th>claim</th>{head}<th>flipped</th></tr></thead><tbody>{rows}</tbody></table></div>")


def _row(group: Sequence[Card], machines: Sequence[str]) -> str:
    by_machine = {card["machine"]: card for card in group}
    verdicts = "".join(f"<td>{_verdict(by_machine[each]) if each in by_machine else 'not run'}</td>"
                       for each in machines)
    told = {card["machine"]: flip_told(card) for card in group}
    alike = len(set(told.values())) == 1 and (len(machines) == 1 or set(told.values()) == {flip_told({})})
    flips = escape(flip_told(group[0])) if alike else "<br>".join(escape(f"{on}: {how}") for on, how in told.items())
    first = group[0]
    return (f'<tr><td>{first["number"]}</td><td><a href="#{escape(first["name"])}">{escape(first["title"])}</a></td>'
            f"{verdicts}<td>{flips}</td></tr>")


def _verdict(card: Card) -> str:
    quick = ' <span class="soft">quick</span>' * card["quick"]
    return f'<span class="verdict {escape(card["verdict"])}">{escape(card["verdict"])}</span>{quick}'


# -------------------------------------------------------------------------------------------------- a claim


def _claim(group: Sequence[Card], old: Collection[tuple[str, str]]) -> str:
    first = group[0]
    facts = _facts({"Source": first["source"], "Equation": first["equation"], "Refuted by": first["refuted"],
                    "Flipping": first["flip"]})
    return (f'<section class="claim" id="{escape(first["name"])}"><h2>{first["number"]}. {escape(first["title"])}</h2>'
            f"<p>{escape(first['claim'])}</p>{facts}"
            f'<div class="machines">{"".join(_machine(card, old) for card in group)}</div>'
            f"{_facts({'Notes': first.get('notes', '')})}</section>")


def _machine(card: Card, old: Collection[tuple[str, str]]) -> str:
    plots = "".join(
        f'<figure><img alt="{escape(plot["title"])}" src="data:image/svg+xml;base64,'
        f'{base64.b64encode(plot["svg"].encode()).decode()}"></figure>' for plot in card["plots"])
    facts = _facts({"Flipped": flip_told(card), "Where": card["where"], "When": card["when"],
                    "What was run": f"{size_told(card)}, {card['seconds']:,.0f} s of arms",
                    "Note": (card["name"], card["machine"]) in old and OLD})
    flipped = card.get("flipped") or {}
    commands = "\n".join(filter(None, (card["command"], flipped.get("command"))))
    taken_away = (f"<details><summary>The rules with the cause taken away</summary>{_rules(flipped['rules'])}</details>"
                  if flipped.get("rules") else "")
    return (f'<div class="machine"><h3>{escape(card["machine"])} {_verdict(card)}</h3>{_rules(card["rules"])}{facts}'
            f"{taken_away}<pre>{escape(commands)}</pre><p></p>{plots}<details><summary>The numbers</summary>"
            f"{_table(card['table'], card['title'])}</details></div>")


def _facts(facts: dict[str, Any]) -> str:
    listed = "".join(f"<dt>{name}</dt><dd>{escape(str(value))}</dd>" for name, value in facts.items() if value)
    return f"<dl>{listed}</dl>"


def _rules(rules: Sequence[dict[str, Any]]) -> str:
    rows = "".join(
        f"<tr><td>{escape(rule['says'])}</td><td>{rule['mean']:.3g}{escape(rule.get('unit', ''))}</td>"
        f"<td>{rule['low']:.3g} to {rule['high']:.3g}{' (exact: all seeds)' * bool(rule.get('exact'))}</td>"
        f"<td>{rule['side']} {rule['bound']:g}</td>"
        f'<td class="{escape(rule["verdict"])}">{escape(rule["verdict"])}</td></tr>' for rule in rules)
    return ('<div class="scroll" tabindex="0" role="region" aria-label="Rules"><table class="rules"><thead><tr>'
            "<th>rule</th><th>mean</th><th>interval</th><th>to be</th><th></th></tr></thead>"
            f"<tbody>{rows}</tbody></table></div>")


def _table(table: dict[str, Any], title: str) -> str:
    head = "".join(f"<th>{escape(str(name))}</th>" for name in table["columns"])
    rows = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in table["rows"])
    return (f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title)}"><table><thead><tr>{head}</tr>'
            f"</thead><tbody>{rows}</tbody></table></div>")
