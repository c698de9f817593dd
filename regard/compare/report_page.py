"""The report: one HTML file that needs nothing else, with every figure beside how it was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from regard.compare.differences import LEVEL, FamilyDifference, OverSentences
from regard.compare.family_curves import family_colour
from regard.compare.plan import ComparisonPlan, Record, Row
from regard.compare.results_table import cells, headings, notes
from regard.compare.subject import Subject, measured_part, subject_of
from regard.metrics.intervals import SEEDS, SENTENCES, OverSeeds
from regard.report.numbers import NOTHING, show_chance, show_signed
from regard.report.page import Markup, bullets, facts, folded, page, section
from regard.report.tables import Cell, html_table


def make_report(
    plan: ComparisonPlan, rows: Sequence[Row], records: Sequence[Record], differences: Sequence[FamilyDifference],
    command: str,
) -> str:
    """The page, as HTML."""
    subject = subject_of(plan.task)
    title = f"{subject.title} of {', '.join(plan.files)} compared"
    done = [r for r in records if r["status"] == "done"]
    there = any(row[subject.metric] is not None for row in rows)
    return page(title, [
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">{subject.lead(plan, rows) if there else "No trial has ended yet."}</p>',
        tell_unfinished(plan, records), results_table(subject, plan, rows),
        section("Which differences are beyond the noise", *list_differences(rows, differences)) if differences else "",
        *(section(heading, *own) for heading, own in subject.sections(plan, rows, done)),
        section("Every trial", *list_trials(subject, records)), section("Settings", *list_settings(done)),
        section("The text, the machine, the command", *tell_origin(plan, done, command)),
        section("How each column was measured", facts({each.name: each.about for each in subject.columns(plan)}),
                '<p class="soft">Every trial ran alone, in a process of its own, one after another.</p>'),
    ])


def tell_unfinished(plan: ComparisonPlan, records: Sequence[Record]) -> str:
    missing = len(plan.trials()) - len(records)
    return f'<p class="soft">{missing} of {len(plan.trials())} trials are still to come.</p>' if missing else ""


def results_table(subject: Subject, plan: ComparisonPlan, rows: Sequence[Row]) -> str:
    """Every family in its row; the interval stands below the number."""
    body: list[list[object]] = []
    kinds = []
    for place, row in enumerate(rows):
        first, second, *others = cells(row, plan)
        dot = f'<span class="dot" style="background:{family_colour(plan, row["family"])}"></span>'
        name = Cell(Markup(dot + escape(first)), heading=True, title=row["about"])
        failed = row[subject.metric] is None
        body.append([name, second] if failed else [name, Markup(escape(second).replace(" (", "<br>(")), *others])
        kinds.append("base" if row["counted"] else "best" if place == 0 or row["tied"] else "")
    return (html_table(headings(plan), body, label="Results", row_kinds=kinds)
            + bullets(notes(rows, plan), "notes"))


def list_differences(rows: Sequence[Row], differences: Sequence[FamilyDifference]) -> Iterator[str]:
    """Every pair of families, in the order of the table."""
    of = next((row["units"] for row in rows if row.get("units")), None)
    here = f"; sentences are here {escape(of)}" if of not in (None, "sentences") else ""
    yield (f"<p>The first minus the second, paired: the same seeds of both ({SEEDS}, of the median; p by a paired t) "
           f"and the same sentences of both ({SENTENCES}; p by exchanging them at random, all seeds of a sentence "
           f"together{here}). p is the larger of the two: a difference must stand against both. It is corrected "
           f"by Holm for all {len(differences)} pairs. Below {LEVEL} the difference is beyond the noise. –: not "
           "judged.</p>")
    yield html_table(("families", "difference", SEEDS, SENTENCES, "p", "p, corrected", "beyond the noise"), [
        [f"{each.a} − {each.b}", show_signed(each.difference), show_range(each.over_seeds),
         show_range(each.over_sentences), show_chance(each.p), show_chance(each.p_corrected),
         NOTHING if each.p is None else "yes" if each.beyond else "no"] for each in differences], label="Differences")


def show_range(between: OverSeeds | OverSentences | None) -> str:
    return NOTHING if between is None else f"{show_signed(between.low)} to {show_signed(between.high)}"


def list_trials(subject: Subject, records: Sequence[Record]) -> Iterator[str]:
    columns = subject.trial_columns()
    body = [[r["name"], f"failed: {r['reason']}"] if r["status"] == "failed" else
            [r["name"], *(show(r) for show in columns.values())] for r in records]
    yield html_table(("trial", *columns), body, label="Every trial")


def list_settings(done: Sequence[Record]) -> Iterator[str]:
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


def tell_origin(plan: ComparisonPlan, done: Sequence[Record], command: str) -> Iterator[str]:
    text, train, valid = plan.text, plan.text["train"], plan.text["valid"]
    split = f"the held-out text is {', '.join(text['held_out'])}" if text["held_out"] else \
        "what is held out was cut off before anything was learned, the tokenizer included"
    yield (f"<p>{train['tokens']:,} tokens ({train['bytes']:,} bytes) to learn from, {valid['tokens']:,} tokens "
           f"({valid['bytes']:,} bytes) held out; {escape(split)}. "
           + (f"Choices are made on {subject_of(plan.task).choosing_part(plan)}; figures are of "
              f"{escape(describe_measured(plan))}, which training never reads. " if text.get("measured_on") else "")
           + f"Tokenizer: {escape(text['tokenizer'])}, "
           f"{text['vocab']:,} tokens. A document is a {escape(text['documents'])}.</p>")
    machines = list({tuple(sorted(r["machine"].items())): r["machine"] for r in done}.values())
    for each in machines:
        gpu = f", {each['gpu']}" if "gpu" in each else ""
        yield (f"<p>{escape(each['processor'])}, {each['cores']} cores, {each['threads']} threads{escape(gpu)}; "
               f"Python {escape(each['python'])}, torch {escape(each['torch'])}, {escape(each['system'])}.</p>")
    if len(machines) > 1:
        yield "<p><strong>The trials ran on different machines or devices: speeds cannot be compared.</strong></p>"
    yield f"<pre>{escape(command)}</pre>"


def describe_measured(plan: ComparisonPlan) -> str:
    files, counts = plan.text.get("test_files"), plan.text.get("test")
    return (measured_part(plan) + (f" ({', '.join(files)})" if files else "")
            + (f", {counts['tokens']:,} tokens ({counts['bytes']:,} bytes)" if counts else ""))
