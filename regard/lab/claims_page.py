"""The page of all claims: every claim with its verdicts, rules, tables and charts, on one page that needs nothing else.

A claim is a section; what was measured on each machine stands next to the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from html import escape
from itertools import groupby

from regard.lab.flipping import did_change, flip_of, rules_with_cause, tell_flips, tell_size
from regard.lab.outcome import Card
from regard.lab.verdict import FAILS, FEWEST, HOLDS, UNCLEAR
from regard.metrics.intervals import SURE
from regard.report.page import Markup, bullets, facts, figure, folded, page
from regard.report.tables import Cell, html_table

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
.index { min-width: 44rem; } .index td, .index th, .rules td, .rules th { text-align: left; white-space: normal;
  vertical-align: top; }
.rules td:not(:first-child) { white-space: nowrap; } .rules td:first-child { min-width: 10rem; }
details { margin: .4rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem .9rem; margin: .6rem 0; font-size: .93rem; }
dt { margin: 0; } dd { min-width: 0; overflow-wrap: anywhere; } summary { color: var(--soft); }
@media (max-width: 40rem) { body { padding: 1.2rem 1rem 3rem; } dl { display: block; } dt { margin-top: .4rem; } }
"""


HOW = (
    "Each verdict comes from rules that stood before the run; a claim whose rules were changed after a first look at "
    "its numbers says so. A rule is a number for each seed, and a bound. It holds when the whole 95% interval of the "
    "median over seeds is on its side of the bound, fails when all of it is on the other, and is unclear else; fewer "
    f"than {FEWEST} seeds are never enough. From {SURE} seeds on the interval assumes nothing about how seeds scatter; "
    "below, it is that of Student's t or wider. An exact rule is about a theorem: one seed breaks it. A condition says "
    "that the claim could be tested at all: where it does not hold, the claim is unclear. Else a claim holds if all of "
    "its rules do, and fails if one does. Each rule that carries a claim is also judged with its cause taken away: "
    "where it does not come out otherwise, that cause has not been shown.")
OLD = "measured by an earlier version of this experiment's code; shown as it was, until it is run again"


def make_page(cards: Sequence[Card], missing: Sequence[str] = (), old: Collection[tuple[str, str]] = ()) -> str:
    """The page. `old` are the (name, machine) that were measured by other code than today's."""
    machines = sorted({card["machine"] for card in cards})
    claims = [list(group) for _, group in groupby(cards, key=lambda card: card["name"])]
    shown = {(card["name"], card["machine"]) for card in cards}
    gone = ", ".join(f"{name} ({machine})" for name, machine in old if (name, machine) not in shown)
    late = f'<p class="soft">Not measured yet: {escape(", ".join(missing))}.</p>' if missing else ""
    late += f'<p class="soft">Measured by an earlier version of the lab, not shown: {escape(gone)}.</p>' if gone else ""
    return page("The lab: every claim, measured", [
        f"<h1>The lab: every claim of the lectures, measured</h1>{_lead(cards, machines, len(claims))}{late}",
        html_table(("#", "claim", *machines, "with its causes taken away"),
                   [_row(group, machines) for group in claims], label="Summary", kind="index"),
        *(_claim(group, old) for group in claims)], MORE)


# ------------------------------------------------------------------------------------------------ the summary


def _lead(cards: Sequence[Card], machines: Sequence[str], claims: int) -> str:
    lines = [f"{claims} claim{'s' * (claims != 1)} measured."]
    for machine in machines:
        count = Counter(card["verdict"] for card in cards if card["machine"] == machine)
        lines.append(f"On {machine} {count[HOLDS]} hold, {count[FAILS]} fail, {count[UNCLEAR]} are unclear.")
    return (f'<p class="lead">{escape(" ".join(lines))}</p><p>{escape(HOW)}</p><p>{escape(_flips(cards))}</p>'
            f"{_late(cards)}")


def _flips(cards: Sequence[Card]) -> str:
    carried = [(card, rule, flip_of(card, rule)) for card in cards for rule in rules_with_cause(card)]
    ran = [(card, flip) for card, _, flip in carried if flip is not None]
    same = [f"{card['name']} on {card['machine']} ({flip['says']}: {flip['before']} -> {flip['after']})"
            for card, flip in ran if not did_change(flip)]
    told = (f"{len(carried)} rules carry the claims. With its cause taken away {len(ran)} were judged again; "
            f"{len(ran) - len(same)} came out otherwise")
    return f"{told}, and not: {'; '.join(same)}." if same else f"{told}."


def _late(cards: Sequence[Card]) -> str:
    """The claims that were changed after a first look, one a line."""
    looked = [card for card in cards if card.get("looked")]
    late = dict.fromkeys(f"{card['number']}. {card['title']}: {card['looked']}." for card in looked)
    return folded(f"{len(late)} changed after a first look", bullets(late)) if late else ""


def _row(group: Sequence[Card], machines: Sequence[str]) -> list[object]:
    by_machine = {card["machine"]: card for card in group}
    verdicts = [_verdict(by_machine[each]) if each in by_machine else "not run" for each in machines]
    told = {card["machine"]: tell_flips(card) for card in group}
    alike = len(set(told.values())) == 1 and (len(machines) == 1 or "not run" in told.values())
    flips = escape(tell_flips(group[0])) if alike else "<br>".join(escape(f"{on}: {how}") for on, how in told.items())
    first = group[0]
    link = f'<a href="#{escape(first["name"])}">{escape(first["title"])}</a>'
    return [first["number"], Markup(link), *verdicts, Markup(flips)]


def _verdict(card: Card) -> Markup:
    quick = ' <span class="soft">quick</span>' * card["quick"]
    return Markup(f'<span class="verdict {escape(card["verdict"])}">{escape(card["verdict"])}</span>{quick}')


# -------------------------------------------------------------------------------------------------- a claim


def _claim(group: Sequence[Card], old: Collection[tuple[str, str]]) -> str:
    first = group[0]
    about = facts({"Source": first["source"], "Equation": first["equation"], "Refuted by": first["refuted"],
                   "Flipping": first["flip"]})
    return (f'<section class="claim" id="{escape(first["name"])}"><h2>{first["number"]}. {escape(first["title"])}</h2>'
            f"<p>{escape(first['claim'])}</p>{about}"
            f'<div class="machines">{"".join(_machine(card, old) for card in group)}</div>'
            f"{facts({'Notes': first.get('notes', '')})}</section>")


def _machine(card: Card, old: Collection[tuple[str, str]]) -> str:
    plots = "".join(figure(plot["svg"].encode(), plot["title"]) for plot in card["plots"])
    fixed = card.get("fixed") or {}
    about = facts({"Flipped": tell_flips(card), "Where": card["where"], "When": card["when"],
                   "What was run": f"{tell_size(card)}, {card['seconds']:,.0f} s of arms",
                   "Rules": card.get("looked") or (fixed and f"stand since {fixed['on']}"),
                   "Note": (card["name"], card["machine"]) in old and OLD})
    numbers = html_table(list(map(str, card["table"]["columns"])), card["table"]["rows"], label=card["title"])
    commands = "\n".join([card["command"], *(flip["command"] for flip in card.get("flips", {}).values())])
    return (f'<div class="machine"><h3>{escape(card["machine"])} {_verdict(card)}</h3>{_rules(card)}{about}'
            f"<pre>{escape(commands)}</pre><p></p>{plots}{folded('The numbers', numbers)}</div>")


def _rules(card: Card) -> str:
    return html_table(("rule", "median", "95% over seeds", "to be", "", "cause taken away"), [
        [Markup(f"{escape(rule['says'])}{_condition(rule)}"), f"{rule['median']:.3g}{rule.get('unit', '')}",
         f"{rule['low']:.3g} to {rule['high']:.3g}{' (exact: all seeds)' * bool(rule.get('exact'))}",
         f"{rule['side']} {rule['bound']:g}", Cell(rule["verdict"], rule["verdict"]), Markup(_flip(card, rule))]
        for rule in card["rules"]], label="Rules", kind="rules")


def _condition(rule: Card) -> str:
    return f'<br><span class="soft">condition: {escape(rule["condition"])}</span>' if rule.get("condition") else ""


def _flip(card: Card, rule: Card) -> str:
    """The verdict of a rule without its cause, and what was done; empty for a condition."""
    if rule.get("condition"):
        return ""
    flip = flip_of(card, rule)
    if flip is None:
        return "not run"
    does = card["flips"][rule["cause"]]["does"]
    return (f'<span class="{escape(flip["after"])}" title="{escape(does)}">{escape(flip["after"])}</span>: '
            f'{flip["median"]:.3g} <span class="soft">({escape(rule["cause"])})</span>')
