"""The report: one HTML file that needs nothing else, with every figure beside how it was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from regard import storage
from regard.compare.curves import Line, colour_of, plot
from regard.compare.plan import Plan
from regard.compare.recall import CUE, PASSAGE, SEQUENCES
from regard.compare.style import STYLE
from regard.compare.summary import Record, Row
from regard.compare.table import HEADINGS, amount, bits, budget, cells, crossed, name, notes, rate

SHOWN = 480                  # characters of sample text
STRETCHES = 40               # points of a training curve


def write_report(path: Path, plan: Plan, rows: Sequence[Row], records: Sequence[Record], command: str) -> None:
    storage.write_file(path, page(plan, rows, records, command))


def page(plan: Plan, rows: Sequence[Row], records: Sequence[Record], command: str) -> str:
    title = f"Language models of {', '.join(plan.files)} compared"
    done = [r for r in records if r["status"] == "done"]
    parts = [
        f"<h1>{escape(title)}</h1>", lead(plan, rows), unfinished(plan, records), results_table(plan, rows),
        section("Learning curves", *learning(plan, rows, done)), section("Cost against length", *cost(plan, done)),
        section("Recall at distance", *recalled(plan, rows)), section("What they write", *written(plan, done)),
        section("Every trial", *every_trial(plan, records)), section("The n-gram, order by order", *orders(plan, done)),
        section("Settings", *settings(done)),
        section("The text, the machine, the command", *facts(plan, done, command)),
        section("How each column was measured", *measured(plan)),
    ]
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<style>{STYLE}</style></head>\n<body>\n" + "\n".join(parts) + "\n</body></html>\n")


def section(heading: str, *parts: str) -> str:
    return f"<section><h2>{escape(heading)}</h2>\n" + "\n".join(parts) + "</section>"


def styles(plan: Plan) -> dict[str, int]:
    """A colour for each family; what is counted is grey, as the line to cross."""
    trained = [entry.family for entry in plan.entries if not entry.counted]
    return {entry.family: -1 for entry in plan.entries} | {family: n for n, family in enumerate(trained)}


# ------------------------------------------------------------------------------------------- the table


def lead(plan: Plan, rows: Sequence[Row]) -> str:
    there = [row for row in rows if row["bits_per_byte"] is not None]
    if not there:
        return '<p class="lead">No trial has ended yet.</p>'
    best, tied = there[0], [row["family"] for row in there if row["tied"]]
    said = f"{escape(name(best))} predicts the held-out text best: <strong>{escape(bits(best))}</strong> bits per byte"
    said += f", tied with {escape(', '.join(tied))}. " if tied else ". "
    base = next((row for row in there if row["counted"]), None)
    neural = [row for row in there if row["crosses"]]
    if base is not None and neural:
        across = [row for row in neural if row["crosses"]["crossed"] == row["crosses"]["of"]]
        said += (f"The best n-gram, of order {base['order']}, needs {bits(base).removesuffix(' =')}; "
                 f"{len(across)} of {len(neural)} trained families fall below it within {budget(plan)}.")
    return f'<p class="lead">{said}</p>'


def unfinished(plan: Plan, records: Sequence[Record]) -> str:
    missing = len(plan.trials()) - len(records)
    return f'<p class="soft">{missing} of {len(plan.trials())} trials are still to come.</p>' if missing else ""


def results_table(plan: Plan, rows: Sequence[Row]) -> str:
    head = "".join(f'<th scope="col">{"<br>".join(map(escape, heading))}</th>' for heading in HEADINGS)
    body = []
    for place, row in enumerate(rows):
        first, second, *others = cells(row, plan)
        dot = f'<span class="dot" style="background:{colour_of(styles(plan)[row["family"]])}"></span>'
        kind = "base" if row["counted"] else "best" if place == 0 or row["tied"] else ""
        cell = f'<th scope="row" title="{escape(row["about"], quote=True)}">{dot}{escape(first)}</th>'
        if row["bits_per_byte"] is None:
            cell += f'<td class="failed" colspan="{len(HEADINGS) - 1}">{escape(second)}</td>'
        else:
            cell += "".join(f"<td>{escape(text)}</td>" for text in (second, *others))
        body.append(f'<tr class="{kind}">{cell}</tr>')
    said = "".join(f"<li>{escape(note)}</li>" for note in notes(rows, plan))
    return (f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
            f'<ul class="notes">{said}</ul>')


def simple_table(headings: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table of texts; a row that is short says in its last cell why."""
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    lines = []
    for row in body:
        wide = len(headings) - len(row) + 1
        last = f'<td class="failed" colspan="{wide}">' if wide > 1 else "<td>"
        lines.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row[:-1])
                     + f"{last}{escape(row[-1])}</td></tr>")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


# --------------------------------------------------------------------------------------------- figures


def figure(heading: str, caption: str, drawn: str) -> str:
    return f"<figure><h3>{escape(heading)}</h3>{drawn}<figcaption>{escape(caption)}</figcaption></figure>"


def smoothed(points: Sequence[Sequence[float]], column: int, to_bits: float) -> list[tuple[float, float]]:
    """Training losses as [tokens, seconds, loss], averaged to a few dozen points; the wild first ones are left out."""
    size = max(1, len(points) // STRETCHES)
    parts = [points[i:i + size] for i in range(0, len(points), size)]
    means = [(sum(p[column] for p in part) / len(part), sum(p[2] for p in part) / len(part) * to_bits)
             for part in parts]
    return [point for point in means[len(means) // 20:] if point[0] > 0]


def learning(plan: Plan, rows: Sequence[Row], done: Sequence[Record]) -> Iterator[str]:
    held = plan.text["valid"]
    to_bits = held["tokens"] / max(1, held["bytes"]) / math.log(2)          # nats a token to bits per byte
    base = next((row for row in rows if row["counted"] and row["bits_per_byte"] is not None), None)
    level = None if base is None else (f"n-gram, order {base['order']}", base["loss"] * to_bits)
    sides = (("Against tokens read", 0, "tokens"), ("Against time", 1, "seconds of training"))
    yield '<div class="grid">'
    for heading, column, unit in sides:
        lines = []
        for family, style in styles(plan).items():
            own = [r for r in done if r["family"] == family and r["seed"] is not None]
            for place, record in enumerate(own):
                valid = [point for point in record["curve"]["valid"] if point[column] > 0]
                points = [(point[column], point[2] * to_bits) for point in valid]
                lines.append(Line(family, points, style, labelled=place == 0, dotted=False))
        drawn = plot(lines, title=heading, x=unit, y="held-out bits per byte", log_x=True, level=level)
        yield figure(heading, "Each line is one seed, from its first validation to its last.", drawn)
    for heading, column, unit in sides:
        lines = [Line(r["family"], smoothed(r["curve"]["train"], column, to_bits), styles(plan)[r["family"]],
                      dotted=False) for r in done if r["seed"] == 0]
        drawn = plot(lines, title=f"{heading}, while training", x=unit, y="bits per byte of what is read", log_x=True,
                     level=level)
        yield figure(f"{heading}, while training", "What each model was being trained on, averaged over stretches of "
                     "steps; the first seed. With dropout it is above the held-out loss, learned by heart below it.",
                     drawn)
    yield "</div>"
    table = [[row["family"], crossed(row, plan), rate((row["crosses"] or {}).get("tokens"))]
             for row in rows if row.get("crosses")]
    if table:
        yield "<h3>Where each crosses the n-gram</h3>"
        yield simple_table(("family", "after", "tokens read by then"), table)


def cost(plan: Plan, done: Sequence[Record]) -> Iterator[str]:
    best: dict[str, Record] = {}
    for record in done:                                      # of what is counted, the order that predicts best
        held = best.get(record["family"])
        if "cost" in record and (held is None or (held["seed"] is None and record["loss"] < held["loss"])):
            best[record["family"]] = record
    known = {family: (record, styles(plan)[family]) for family, record in best.items()}

    def lines(points: Any) -> list[Line]:
        found = []
        for family, (record, style) in known.items():
            own, limit = points(record), record["context"]
            beyond = next((n for n, (length, _) in enumerate(own) if limit is not None and length > limit), None)
            found.append(Line(family, own, style, open_from=beyond))
        return found

    yield '<div class="grid">'
    yield figure("Reading a text", "Milliseconds to score a text of this length once, alone. Open points: read in "
                 "windows of the model's context, because it reads no more at once.",
                 plot(lines(lambda r: [(n, s * 1e3) for n, s in r["cost"]["read"]]), title="Reading a text",
                      x="length in tokens", y="milliseconds", log_x=True, log_y=True))
    yield figure("Writing the next token", "Milliseconds for one more token after so many. A line ends where the "
                 "model's context does: beyond, it reads half of it again now and then.",
                 plot(lines(lambda r: [(n, s * 1e3) for n, s in r["cost"]["step"]]), title="Writing the next token",
                      x="position", y="milliseconds", log_x=True, log_y=True))
    yield figure("What is kept of the past", "Bytes of state for one text of this length. Open points: bounded by the "
                 "context.", plot(lines(lambda r: [(int(n), max(1, s["bytes"])) for n, s in r["state"].items()]),
                                  title="What is kept of the past", x="length in tokens", y="bytes", log_x=True,
                                  log_y=True))
    yield "</div>"


def recalled(plan: Plan, rows: Sequence[Row]) -> Iterator[str]:
    lines = []
    for row in rows:
        found = {int(d): each["gain"] for d, each in row.get("recall", {}).items() if each["gain"] is not None}
        lines.append(Line(row["family"], sorted(found.items()), styles(plan)[row["family"]]))
    yield (f"<p>A passage of {PASSAGE} held-out tokens is read, then other held-out text, then the first {CUE} tokens "
           f"of the passage again; the {PASSAGE - CUE} that follow are scored. The same is done with another passage "
           "in the first place. Plotted is the difference: bits a token that the first reading saves, the mean over "
           f"{SEQUENCES} passages and all seeds. 0: nothing is remembered from so far back.</p>")
    yield '<div class="grid">'
    yield figure("Bits a token saved by having read it before", "A line ends where the model's context does, or the "
                 "held-out text is too short.",
                 plot(lines, title="Recall", x="tokens between the two readings", y="bits a token saved", log_x=True))
    yield "</div>"


# -------------------------------------------------------------------------------------- text and settings


def written(plan: Plan, done: Sequence[Record]) -> Iterator[str]:
    yield ('<p class="soft">Drawn with temperature 0.8 from one seed; underlined is the prompt, from the held-out text.'
           "</p>")
    yield '<div class="grid">'
    for entry in plan.entries:
        own = [r for r in done if r["family"] == entry.family and "samples" in r]
        if not own:
            continue
        record = min(own, key=lambda r: r["loss"])
        texts = "".join(f"<pre>{'<b>' + visible(s['prompt']) + '</b>' if s['prompt'] else ''}"
                        f"{visible(s['text'][:SHOWN])}</pre>" for s in record["samples"])
        yield f'<div class="sample"><h3>{escape(entry.family)}</h3>{texts}</div>'
    yield "</div>"


def visible(text: str) -> str:
    """Text for a page: what a model may write of control characters would spoil it."""
    return escape("".join(c if c in "\n\t" or (c.isprintable() or c == " ") else "�" for c in text))


def every_trial(plan: Plan, records: Sequence[Record]) -> Iterator[str]:
    body = []
    for r in records:
        if r["status"] == "failed":
            body.append([r["name"], f"failed: {r['reason']}"])
        else:
            trained = r["trained"]
            body.append([r["name"], f"{r['bits_per_byte']:.4f}", f"{r['loss']:.4f}", f"{r['perplexity']:,.2f}",
                         rate(trained.get("step")), rate(trained.get("tokens")), f"{trained.get('seconds', 0):.1f}",
                         amount((r["memory"] or {}).get("bytes"))])
    yield simple_table(
        ("trial", "bits/byte", "nats/token", "perplexity", "steps", "tokens", "seconds", "peak memory"), body)


def orders(plan: Plan, done: Sequence[Record]) -> Iterator[str]:
    own = [r for r in done if r["order"] is not None]
    yield simple_table(
        ("order", "bits/byte", "nats/token", "perplexity", "size", "seconds to read, count and score"),
        [[str(r["order"]), f"{r['bits_per_byte']:.4f}", f"{r['loss']:.4f}", f"{r['perplexity']:,.2f}",
          amount(r["bytes"]), f"{r['trained'].get('seconds', 0):.2f}"] for r in own])


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
        yield (f"<details><summary>{escape(record['family'])}</summary>"
               f"{simple_table(('setting', 'value'), body)}</details>")


def facts(plan: Plan, done: Sequence[Record], command: str) -> Iterator[str]:
    text, train, valid = plan.text, plan.text["train"], plan.text["valid"]
    split = f"the held-out text is {', '.join(text['held_out'])}" if text["held_out"] else \
        "what is held out was cut off before anything was learned, the tokenizer included"
    yield (f"<p>{train['tokens']:,} tokens ({train['bytes']:,} bytes) to learn from, {valid['tokens']:,} tokens "
           f"({valid['bytes']:,} bytes) held out; {escape(split)}. Tokenizer: {escape(text['tokenizer'])}, "
           f"{text['vocab']:,} tokens. A document is a {escape(text['documents'])}.</p>")
    machines = list({tuple(sorted(r["machine"].items())): r["machine"] for r in done}.values())
    for each in machines:
        gpu = f", {each['gpu']}" if "gpu" in each else ""
        yield (f"<p>{escape(each['processor'])}, {each['cores']} cores, {each['threads']} threads{escape(gpu)}; "
               f"Python {escape(each['python'])}, torch {escape(each['torch'])}, {escape(each['system'])}.</p>")
    if len(machines) > 1:
        yield "<p><strong>The trials ran on different machines or devices: speeds cannot be compared.</strong></p>"
    yield f"<pre>{escape(command)}</pre>"


def measured(plan: Plan) -> Iterator[str]:
    yield "<dl>"
    for heading, how in (
        ("bits/byte", "All the surprise over the whole held-out text, in bits, divided by its bytes: it can be "
         "compared between tokenizers. A trained model is scored in windows of its training context; its weights are "
         "those of its best validation."),
        ("parameters", "Everything that is learned, embeddings included, a tied one once. For the n-gram: the bytes of "
         "its tables."),
        ("training tokens/s", "Over the steps of training, validations and checkpoints left out. For the n-gram: "
         "reading, counting, saving and one scoring."),
        ("generation tokens/s", "One text at a time, up to 256 tokens from nothing, carrying the state. "
         "results.json also has 16 at once."),
        ("peak memory", "What the trial's own process grew by while training, beyond Python and its libraries; on a "
         "GPU, the most that torch held there. –: training had ended before the trial was taken up again."),
        ("state", "Bytes that must be kept to go on with one text after so many tokens."),
        ("recall", "See above: bits a token."),
        ("crosses the n-gram", "Time of training, validations included, at which the validation loss first falls below "
         "that of the best n-gram, on a straight line between two validations; the mean over the seeds that do."),
    ):
        yield f"<dt>{escape(heading)}</dt><dd>{escape(how)}</dd>"
    yield '</dl><p class="soft">Every trial ran alone, in a process of its own, one after another.</p>'
