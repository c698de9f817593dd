"""The report of translators: learning, quality and cost against length, and what they make of the same sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape

from regard.compare.learning_curves import seeds_over_time, styles, while_training
from regard.compare.plan import Plan
from regard.compare.subject import Record, Row
from regard.compare.table import budget, with_interval_named
from regard.compare.translation_table import bleu
from regard.report.curves import Curve, plot
from regard.report.page import Markup, figure, grid, visible
from regard.report.tables import Cell, html_table


def lead(plan: Plan, rows: Sequence[Row]) -> str:
    there = [row for row in rows if row["bleu"] is not None]
    best, tied = there[0], [row["family"] for row in there if row["tied"]]
    langs = f" of {escape(plan.text['langs'])}" if plan.text.get("langs") else ""
    said = (f"{escape(best['family'])} translates the held-out pairs{langs} best after {escape(budget(plan))}: "
            f"<strong>{escape(with_interval_named(bleu(best)))}</strong> BLEU")
    return said + (f", within the noise of it {escape(', '.join(tied))}." if tied else ".")


def sections(plan: Plan, rows: Sequence[Row], done: Sequence[Record]) -> Iterator[tuple[str, Iterator[str]]]:
    yield "Learning curves", learning(plan, done)
    yield "Short and long sources", lengths(plan, rows)
    yield "Cost against length", cost(plan, done)
    yield "What they make of the same sentences", written(plan, done)


def learning(plan: Plan, done: Sequence[Record]) -> Iterator[str]:
    yield grid((
        *seeds_over_time(plan, done, lambda r: r["curve"].get("bleu", []), "BLEU, without a search", of="BLEU"),
        *seeds_over_time(plan, done, lambda r: r["curve"]["valid"], "held-out nats a token", of="Loss"),
        *while_training(plan, done, "nats a token of what is read")))


def lengths(plan: Plan, rows: Sequence[Row]) -> Iterator[str]:
    lines = []
    for row in rows:
        found = [(int(words.split("-")[0].rstrip("+")), value) for words, value in row.get("by_length", {}).items()]
        lines.append(Curve(row["family"], sorted(found), styles(plan)[row["family"]]))
    heading = "BLEU by the length of the source"
    yield grid([figure(
        heading, "The mean over seeds. Each point is all sources from so many words up to the next point.",
        plot(lines, title=heading, x="words of the source, from", y="BLEU"))])
    known = list(dict.fromkeys(words for row in rows for words in row.get("by_length", {})))
    if known:
        known.sort(key=lambda words: int(words.split("-")[0].rstrip("+")))
        yield html_table(("words", *known), [
            [row["family"], *(f"{row['by_length'][words]:.1f}" if words in row["by_length"] else "" for words in known)]
            for row in rows if row.get("by_length")], label=heading)


def cost(plan: Plan, done: Sequence[Record]) -> Iterator[str]:
    first = {record["family"]: record for record in reversed(done) if "cost" in record}

    def drawn(heading: str, caption: str, y: str, points: Callable[[Record], Sequence[tuple[float, float]]]) -> str:
        curves = [Curve(family, points(record), styles(plan)[family]) for family, record in first.items()]
        return figure(heading, caption, plot(curves, title=heading, x="tokens", y=y, log_x=True, log_y=True))

    yield grid((
        drawn("Reading a source and writing as much", "Milliseconds for one source of this length and a target as "
              "long, token by token. A line ends where the model's context does.", "milliseconds",
              lambda r: [(n, 1e3 * s) for n, s in r["cost"]]),
        drawn("What is kept", "Bytes of state, what was read of the source included.", "bytes",
              lambda r: [(int(n), max(1, size)) for n, size in r["state"].items()])))


def written(plan: Plan, done: Sequence[Record]) -> Iterator[str]:
    """The first held-out sources, as the best seed of each family translates them."""
    best = {}
    for entry in plan.entries:
        own = [r for r in done if r["family"] == entry.family]
        if own:
            best[entry.family] = max(own, key=lambda r: r["bleu"])
    if not best:
        return
    for place, shown in enumerate(next(iter(best.values()))["translations"]):
        body = [["source", shown["source"]], ["reference", shown["reference"]]]
        body += [[family, record["translations"][place]["text"]] for family, record in best.items()]
        yield html_table((), [[Cell(name, heading=True), Cell(Markup(visible(text)), "left")] for name, text in body],
                         label=f"Sentence {place + 1}") + "<br>"
