"""The report: one HTML file that needs nothing else, with every figure beside how it was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from regard import storage
from regard.compare.differences import LEVEL, Difference, OverSentences
from regard.compare.learning_curves import coloured
from regard.compare.parts import chosen_on, measured_on
from regard.compare.plan import Plan
from regard.compare.subject import Record, Row, Subject, subject_of
from regard.compare.table import NOTHING, cells, notes
from regard.metrics.intervals import SEEDS, SENTENCES, OverSeeds
from regard.report.page import Markup, bullets, facts, folded, page, section
from regard.report.tables import Cell, html_table


def write_report(
    path: Path, plan: Plan, rows: Sequence[Row], records: Sequence[Record], found: Sequence[Difference], command: str
) -> None:
    storage.write_file(path, report(plan, rows, records, found, command))


def report(
    plan: Plan, rows: Sequence[Row], records: Sequence[Record], found: Sequence[Difference], command: str
) -> str:
    """The page, as HTML."""
    subject = subject_of(plan.task)
    title = f"{subject.title} of {', '.join(plan.files)} compared"
    done = [r for r in records if r["status"] == "done"]
    there = any(row[subject.metric] is not None for row in rows)
    return page(title, [
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">{subject.lead(plan, rows) if there else "No trial has ended yet."}</p>',
        unfinished(plan, records), results_table(subject, plan, rows),
        *([section("Which differences are beyond the noise", *differences(rows, found))] if found else []),
        *(section(heading, *own) for heading, own in subject.sections(plan, rows, done)),
        section("Every trial", *every_trial(subject, records)), section("Settings", *settings(done)),
        section("The text, the machine, the command", *origin(plan, done, command)),
        section("How each column was measured", facts(subject.how),
                '<p class="soft">Every trial ran alone, in a process of its own, one after another.</p>'),
    ])


def unfinished(plan: Plan, records: Sequence[Record]) -> str:
    missing = len(plan.trials()) - len(records)
    return f'<p class="soft">{missing} of {len(plan.trials())} trials are still to come.</p>' if missing else ""


def results_table(subject: Subject, plan: Plan, rows: Sequence[Row]) -> str:
    """Every family in its row; the interval stands below the number."""
    body: list[list[object]] = []
    kinds = []
    for place, row in enumerate(rows):
        first, second, *others = cells(row, plan)
        dot = f'<span class="dot" style="background:{coloured(plan, row["family"])}"></span>'
        name = Cell(Markup(dot + escape(first)), heading=True, title=row["about"])
        failed = row[subject.metric] is None
        body.append([name, second] if failed else [name, Markup(escape(second).replace(" (", "<br>(")), *others])
        kinds.append("base" if row["counted"] else "best" if place == 0 or row["tied"] else "")
    return (html_table(subject.headings, body, label="Results", row_kinds=kinds)
            + bullets(notes(rows, plan), "notes"))


def differences(rows: Sequence[Row], found: Sequence[Difference]) -> Iterator[str]:
    """Every pair of families, in the order of the table."""
    of = next((row["units"] for row in rows if row.get("units")), None)
    here = f"; sentences are here {escape(of)}" if of not in (None, "sentences") else ""
    yield (f"<p>The first minus the second, paired: the same seeds of both ({SEEDS}, of the median; p by a paired t) "
           f"and the same sentences of both ({SENTENCES}; p by exchanging them at random, all seeds of a sentence "
           f"together{here}). p is the larger of the two: a difference must stand against both. It is corrected "
           f"by Holm for all {len(found)} pairs. Below {LEVEL} the difference is beyond the noise. –: not judged.</p>")
    yield html_table(("families", "difference", SEEDS, SENTENCES, "p", "p, corrected", "beyond the noise"), [
        [f"{each.a} − {each.b}", signed(each.difference), spoken(each.over_seeds), spoken(each.over_sentences),
         chance(each.p), chance(each.p_corrected),
         NOTHING if each.p is None else "yes" if each.beyond else "no"] for each in found], label="Differences")


def signed(value: float) -> str:
    return f"{value:+.4g}" if math.isfinite(value) else NOTHING


def spoken(between: OverSeeds | OverSentences | None) -> str:
    return NOTHING if between is None else f"{signed(between.low)} to {signed(between.high)}"


def chance(p: float | None) -> str:
    return NOTHING if p is None else "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def every_trial(subject: Subject, records: Sequence[Record]) -> Iterator[str]:
    body = [[r["name"], f"failed: {r['reason']}"] if r["status"] == "failed" else
            [r["name"], *(told(r) for told in subject.trial.values())] for r in records]
    yield html_table(("trial", *subject.trial), body, label="Every trial")


def settings(done: Sequence[Record]) -> Iterator[str]:
    seen: set[str] = set()
    for record in done:
        if record["family"] in seen:
            continue
        seen.add(record["family"])
        body = [[f"{table}.{key}", ", ".join(map(str, value)) if isinstance(value, list) else str(value)]
                for table, values in record["settings"].items() for key, value in values.items() if value is not None]
        if record["order"] is not None:
            body = [row for row in body if row[0].startswith("model.")]
        yield folded(record["family"],
                     html_table(("setting", "value"), body, label=f"Settings of {record['family']}"))


def origin(plan: Plan, done: Sequence[Record], command: str) -> Iterator[str]:
    text, train, valid = plan.text, plan.text["train"], plan.text["valid"]
    split = f"the held-out text is {', '.join(text['held_out'])}" if text["held_out"] else \
        "what is held out was cut off before anything was learned, the tokenizer included"
    yield (f"<p>{train['tokens']:,} tokens ({train['bytes']:,} bytes) to learn from, {valid['tokens']:,} tokens "
           f"({valid['bytes']:,} bytes) held out; {escape(split)}. "
           + (f"Choices are made on {chosen_on(plan)}; figures are of {escape(reported(plan))}, which training never "
              "reads. " if text.get("measured_on") else "") + f"Tokenizer: {escape(text['tokenizer'])}, "
           f"{text['vocab']:,} tokens. A document is a {escape(text['documents'])}.</p>")
    machines = list({tuple(sorted(r["machine"].items())): r["machine"] for r in done}.values())
    for each in machines:
        gpu = f", {each['gpu']}" if "gpu" in each else ""
        yield (f"<p>{escape(each['processor'])}, {each['cores']} cores, {each['threads']} threads{escape(gpu)}; "
               f"Python {escape(each['python'])}, torch {escape(each['torch'])}, {escape(each['system'])}.</p>")
    if len(machines) > 1:
        yield "<p><strong>The trials ran on different machines or devices: speeds cannot be compared.</strong></p>"
    yield f"<pre>{escape(command)}</pre>"


def reported(plan: Plan) -> str:
    files, counts = plan.text.get("test_files"), plan.text.get("test")
    return (measured_on(plan) + (f" ({', '.join(files)})" if files else "")
            + (f", {counts['tokens']:,} tokens ({counts['bytes']:,} bytes)" if counts else ""))
