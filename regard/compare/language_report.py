"""The report of language models: learning, cost against length, recall at a distance, what they write."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape

from regard.compare.language_table import bits, crossed
from regard.compare.learning_curves import seeds_over_time, styles, while_training
from regard.compare.plan import Plan
from regard.compare.recall import CUE, PASSAGE, SEQUENCES
from regard.compare.subject import Record, Row
from regard.compare.table import amount, budget, name, rate, with_interval_named
from regard.report.curves import Curve, plot
from regard.report.page import figure, grid, visible
from regard.report.tables import html_table

SHOWN = 480                  # characters of sample text


def lead(plan: Plan, rows: Sequence[Row]) -> str:
    there = [row for row in rows if row["bits_per_byte"] is not None]
    best, tied = there[0], [row["family"] for row in there if row["tied"]]
    said = (f"{escape(name(best))} predicts the held-out text best: "
            f"<strong>{escape(with_interval_named(bits(best)))}</strong> bits per byte")
    said += f", within the noise of it {escape(', '.join(tied))}. " if tied else ". "
    base = next((row for row in there if row["counted"]), None)
    neural = [row for row in there if row["crosses"]]
    if base is not None and neural:
        across = [row for row in neural if row["crosses"]["crossed"] == row["crosses"]["of"]]
        said += (f"The best n-gram, of order {base['order']}, needs {bits(base).removesuffix(' =')}; "
                 f"{len(across)} of {len(neural)} trained families fall below it within {budget(plan)}.")
    return said


def sections(plan: Plan, rows: Sequence[Row], done: Sequence[Record]) -> Iterator[tuple[str, Iterator[str]]]:
    yield "Learning curves", learning(plan, rows, done)
    yield "Cost against length", cost(plan, done)
    yield "Recall at distance", recalled(plan, rows)
    yield "What they write", written(plan, done)
    yield "The n-gram, order by order", orders(done)


def learning(plan: Plan, rows: Sequence[Row], done: Sequence[Record]) -> Iterator[str]:
    held = plan.text["valid"]
    to_bits = held["tokens"] / max(1, held["bytes"]) / math.log(2)          # nats a token to bits per byte
    base = next((row for row in rows if row["counted"] and row["bits_per_byte"] is not None), None)
    level = None if base is None else (f"n-gram, order {base['order']}", base["valid_loss"] * to_bits)
    yield grid((
        *seeds_over_time(plan, done, lambda r: r["curve"]["valid"], "held-out bits per byte", scale=to_bits,
                         level=level),
        *while_training(plan, done, "bits per byte of what is read", scale=to_bits, level=level)))
    table = [[row["family"], crossed(row, plan), rate((row["crosses"] or {}).get("tokens"))]
             for row in rows if row.get("crosses")]
    if table:
        yield "<h3>Where each crosses the n-gram</h3>"
        yield html_table(("family", "after", "tokens read by then"), table, label="Where each crosses the n-gram")


def cost(plan: Plan, done: Sequence[Record]) -> Iterator[str]:
    best: dict[str, Record] = {}
    for record in done:                                      # of what is counted, the order that predicts best
        held = best.get(record["family"])
        if "cost" in record and (held is None or (held["seed"] is None and record["loss"] < held["loss"])):
            best[record["family"]] = record

    def drawn(
        heading: str, caption: str, x: str, y: str, points: Callable[[Record], Sequence[tuple[float, float]]]
    ) -> str:
        curves = []
        for family, record in best.items():
            own, limit = points(record), record["context"]
            beyond = next((n for n, (length, _) in enumerate(own) if limit is not None and length > limit), None)
            curves.append(Curve(family, own, styles(plan)[family], open_from=beyond))
        return figure(heading, caption, plot(curves, title=heading, x=x, y=y, log_x=True, log_y=True))

    yield grid((
        drawn("Reading a text", "Milliseconds to score a text of this length once, alone. Open points: read in "
              "windows of the model's context, because it reads no more at once.", "length in tokens", "milliseconds",
              lambda r: [(n, s * 1e3) for n, s in r["cost"]["read"]]),
        drawn("Writing the next token", "Milliseconds for one more token after so many. A line ends where the "
              "model's context does: beyond, it reads half of it again now and then.", "position", "milliseconds",
              lambda r: [(n, s * 1e3) for n, s in r["cost"]["step"]]),
        drawn("What is kept of the past", "Bytes of state for one text of this length. Open points: bounded by the "
              "context.", "length in tokens", "bytes",
              lambda r: [(int(n), max(1, s["bytes"])) for n, s in r["state"].items()])))


def recalled(plan: Plan, rows: Sequence[Row]) -> Iterator[str]:
    lines = []
    for row in rows:
        found = {int(d): each["gain"] for d, each in row.get("recall", {}).items() if each["gain"] is not None}
        lines.append(Curve(row["family"], sorted(found.items()), styles(plan)[row["family"]]))
    yield (f"<p>A passage of {PASSAGE} held-out tokens is read, then other held-out text, then the first {CUE} tokens "
           f"of the passage again; the {PASSAGE - CUE} that follow are scored. The same is done with another passage "
           "in the first place. Plotted is the difference: bits a token that the first reading saves, the mean over "
           f"{SEQUENCES} passages and all seeds. 0: nothing is remembered from so far back.</p>")
    yield grid([figure(
        "Bits a token saved by having read it before", "A line ends where the model's context does, or the held-out "
        "text is too short.",
        plot(lines, title="Recall", x="tokens between the two readings", y="bits a token saved", log_x=True))])


def written(plan: Plan, done: Sequence[Record]) -> Iterator[str]:
    yield ('<p class="soft">Drawn with temperature 0.8 from one seed; underlined is the prompt, from the held-out text.'
           "</p>")
    shown = []
    for entry in plan.entries:
        own = [r for r in done if r["family"] == entry.family and "samples" in r]
        if not own:
            continue
        record = min(own, key=lambda r: r["loss"])
        texts = "".join(f"<pre>{'<b>' + visible(s['prompt']) + '</b>' if s['prompt'] else ''}"
                        f"{visible(s['text'][:SHOWN])}</pre>" for s in record["samples"])
        shown.append(f'<div class="sample"><h3>{escape(entry.family)}</h3>{texts}</div>')
    yield grid(shown)


def orders(done: Sequence[Record]) -> Iterator[str]:
    own = [r for r in done if r["order"] is not None]
    yield html_table(
        ("order", "bits/byte", "nats/token", "perplexity", "size", "seconds to read, count and score"),
        [[str(r["order"]), f"{r['bits_per_byte']:.4f}", f"{r['loss']:.4f}", f"{r['perplexity']:,.2f}",
          amount(r["bytes"]), f"{r['trained'].get('seconds', 0):.2f}"] for r in own],
        label="The n-gram, order by order")
