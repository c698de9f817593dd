"""Language models compared by bits per byte of the held-out text, with speed, state, cost against length and recall."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, ClassVar

import numpy as np

from regard.compare import measure
from regard.compare.columns import FAMILY, MEMORY, SIZE, TRAINED_FOR, TRAINING_RATE, TRIED, Column
from regard.compare.family_curves import Levels, draw_figure, family_line, plot_cost
from regard.compare.plan import ComparisonPlan, Entry, Record, Row
from regard.compare.recall import CUE, DISTANCES, PASSAGE, SEQUENCES, recall
from regard.compare.subject import Section, Subject, mean, measured_part, why_not_divided
from regard.compare.units import unit_bytes
from regard.config import fill
from regard.data.reading.corpus import Corpus
from regard.data.tokens.vocabulary import EOS
from regard.metrics.perplexity import warn_of_unknown
from regard.metrics.resampling import Counts, Scores
from regard.metrics.text_units import unit_ends
from regard.report.charts import Chart
from regard.report.numbers import NOTHING, shorten, show_bytes, show_count, show_seconds
from regard.report.page import grid, sample, visible
from regard.report.tables import html_table
from regard.tasks.lm.mixing import mix_beside
from regard.tasks.lm.trained import Trained
from regard.training.settings import TrainingSettings

PROBED = 2**21               # held-out tokens, at most, from which passages and texts to time are taken
SHOWN = 480                  # characters of sample text
NOTE = "Drawn with temperature 0.8 from one seed; underlined is the prompt, from the held-out text."


class LanguageModels(Subject):
    title, metric, metric_name = "Language models", "bits_per_byte", "bits per byte"
    higher, digits, loss_name = False, 4, "bits per byte"
    measures: ClassVar = {
        "bits/byte": lambda record: f"{record['bits_per_byte']:.4f}",
        "nats/token": lambda record: f"{record['loss']:.4f}",
        "perplexity": lambda record: f"{record['perplexity']:,.2f}"}

    # ------------------------------------------------------------------------------------------ measuring

    def held_out(self, trained: Trained, corpus: Corpus) -> Record:
        """Bits per byte of the measured text, and the loss on the text that choices are made by."""
        shard = corpus.judged
        ends, of = unit_ends(shard)
        nats = trained.unit_nats(shard, ends)
        surprise = trained.surprise(shard, float(nats.sum()))
        valid_loss = trained.score_shard(corpus.valid).loss if corpus.test else surprise.loss
        return {**{name: surprise.as_dict()[name] for name in ("loss", "perplexity", "bits_per_byte")},
                "valid_loss": valid_loss,
                "units": {"of": of, "counts": np.stack([nats, unit_bytes(shard, ends, trained.tokenizer)], 1)}}

    def score(self, totals: Counts) -> Scores:
        """Bits per byte of summed nats and bytes (..., 2)."""
        return totals[..., 0] / math.log(2) / np.maximum(1, totals[..., 1])

    def measure(self, trained: Trained, corpus: Corpus, full: bool) -> Record:
        model, text = trained.model, corpus.valid.tokens[:PROBED]
        stream = text[text != EOS]                               # documents one after another
        record: Record = {
            "mixed": self.measure_mixture(trained, corpus),
            "generation_rate": {str(rows): measure.generation_rate(trained, rows) for rows in (1, 16)},
            "recall": recall(model, stream, DISTANCES, SEQUENCES),
        }
        if full:
            record["state"] = measure.state_bytes(model, tuple(sorted({*measure.STATE_LENGTHS, *measure.LENGTHS})))
            record["cost"] = measure.costs(model, stream, measure.LENGTHS)
            record["samples"] = measure.samples(trained, measure.opening(corpus.valid, trained.tokenizer))
        return record

    def measure_mixture(self, trained: Trained, corpus: Corpus) -> float | None:
        """Bits per byte of the measured text, of a network mixed with a 5-gram; None for what is counted itself."""
        if trained.learner is None:
            return None
        mixture = mix_beside(trained, corpus, fill(TrainingSettings, trained.tables["training"], "training"))
        both = replace(trained, model=mixture)
        return both.score_shard(corpus.judged).bits_per_byte

    def row(self, entry: Entry, done: Sequence[Record], level: float | None) -> Row:
        first = next((r for r in done if "state" in r), None) or {}
        mixed = [record["mixed"] for record in done if record.get("mixed") is not None]
        return {
            "mixed": median(mixed) if mixed else None,
            "generation_rate": {n: mean(r["generation_rate"][n] for r in done) for n in done[0]["generation_rate"]},
            "state": {str(n): first.get("state", {}).get(str(n)) for n in measure.STATE_LENGTHS},
            "recall": {str(d): mean_recall(done, str(d)) for d in DISTANCES},
            "crosses": None if entry.counted or level is None else mean_crossing(done, level),
        }

    # -------------------------------------------------------------------------------------------- showing

    def columns(self, plan: ComparisonPlan) -> Sequence[Column]:
        lengths = " / ".join(str(n) if n < 1024 else f"{n // 1024}k" for n in measure.STATE_LENGTHS)
        return (
            FAMILY,
            Column(("bits/byte",), self.show_metric,
                   "All the surprise over the whole held-out text, in bits, divided by its bytes: it can be compared "
                   "between tokenizers, unless some of the text is <unk>. A trained model is scored in windows of its "
                   "training context; its weights are those of its best validation."),
            Column(("with the", "n-gram"), lambda row: f"{row['mixed']:.4f}" if row.get("mixed") else NOTHING,
                   "Bits per byte of the family mixed with a 5-gram of the same text, as --mix would have it: the "
                   "median over the seeds."),
            SIZE, TRIED, TRAINED_FOR, TRAINING_RATE,
            Column(("generation", "tokens/s"), lambda row: show_count(row["generation_rate"]["1"]),
                   "One text at a time, up to 256 tokens from nothing, carrying the state. results.json also has 16 at "
                   "once."),
            MEMORY,
            Column(("state bytes at", lengths),
                   lambda row: " / ".join(show_state(row["state"][str(n)]) for n in measure.STATE_LENGTHS),
                   "Bytes that must be kept to go on with one text after so many tokens."),
            Column(("recall at", " / ".join(map(str, DISTANCES))),
                   lambda row: " / ".join(show_gain(row["recall"][str(d)]) for d in DISTANCES),
                   "See above: bits a token."),
            Column(("crosses", "the n-gram"), lambda row: show_crossing(row, plan),
                   "Time of training, validations included, at which the validation loss first falls below that of the "
                   "best n-gram, on a straight line between two validations; the mean over the seeds that do."))

    def show_metric(self, row: Row) -> str:
        return super().show_metric(row) if math.isfinite(row[self.metric]) else "infinite"

    def notes(self, rows: Sequence[Row], plan: ComparisonPlan) -> list[str]:
        best = f"The n-gram's order is the best of {', '.join(map(str, plan.orders))} on"
        lines = [f"{best} {self.choosing_part(plan)}, and the weights kept of the others are those of their best "
                 f"validation on it; what is measured is {measured_part(plan)}, by which nothing was chosen."
                 if plan.text.get("measured_on") else
                 f"{best} the held-out text itself, which favours it; the weights kept of the others are those of "
                 f"their best validation on it, which favours them{why_not_divided(plan)}."]
        if any((state or {}).get("bounded") for row in rows for state in row.get("state", {}).values()):
            lines.append("* reads no more than its context at once, and keeps no more than this, whatever the length.")
        parts = max((row.get("valid_one_in", 1) for row in rows), default=1)
        if parts > 1:
            lines.append(f"While training, validation read one in {parts:,} of the held-out batches, or more of them: "
                         "when the n-gram is crossed is known the less exactly.")
        lines.append("Recall: bits a token saved by having read a passage so many tokens ago; – is out of reach.")
        counts = plan.text.get("test") or plan.text["valid"]
        if counts["unknown"]:
            lines.append(f"{warn_of_unknown(counts['unknown'], counts['tokens'], 'held-out tokens')}.")
        return lines

    def praise(self, plan: ComparisonPlan) -> str:
        return "predicts the held-out text best"

    def lead(self, plan: ComparisonPlan, rows: Sequence[Row]) -> str:
        text, there = super().lead(plan, rows), self.measured_rows(rows)
        base = next((row for row in there if row["counted"]), None)
        neural = [row for row in there if row["crosses"]]
        if base is None or not neural:
            return text
        across = [row for row in neural if row["crosses"]["crossed"] == row["crosses"]["of"]]
        return (f"{text} The best n-gram, of order {base['order']}, needs {self.show_metric(base).removesuffix(' =')}; "
                f"{len(across)} of {len(neural)} trained families fall below it within {plan.show_budget()}.")

    def sections(self, plan: ComparisonPlan, rows: Sequence[Row], done: Sequence[Record]) -> Iterator[Section]:
        yield from super().sections(plan, rows, done)
        yield "Cost against length", plot_costs(plan, done)
        yield "Recall at distance", plot_recall(plan, rows)
        yield "What they write", show_samples(plan, done)
        yield "The n-gram, order by order", list_orders(done)

    def learning(self, plan: ComparisonPlan, rows: Sequence[Row], done: Sequence[Record]) -> Iterator[str]:
        yield from super().learning(plan, rows, done)
        table = [[row["family"], show_crossing(row, plan), show_count((row["crosses"] or {}).get("tokens"))]
                 for row in rows if row.get("crosses")]
        if table:
            yield "<h3>Where each crosses the n-gram</h3>"
            yield html_table(("family", "after", "tokens read by then"), table, label="Where each crosses the n-gram")

    def loss_scale(self, plan: ComparisonPlan) -> float:
        held = plan.text["valid"]
        return float(held["tokens"] / max(1, held["bytes"]) / math.log(2))

    def baselines(self, plan: ComparisonPlan, rows: Sequence[Row]) -> Levels:
        return [(f"n-gram, order {row['order']}", row["valid_loss"] * self.loss_scale(plan))
                for row in self.measured_rows(rows) if row["counted"]][:1]


SUBJECT = LanguageModels()


# ------------------------------------------------------------------------------------------------ values of a row


def mean_crossing(done: Sequence[Record], level: float) -> dict[str, Any]:
    """The time at which the n-gram is crossed: the mean over the seeds that do, and how many of how many do."""
    found = [find_crossing(r["curve"]["valid"], level) for r in done]
    there = [each for each in found if each is not None]
    return {"of": len(found), "crossed": len(there), "seconds": mean(each["seconds"] for each in there),
            "tokens": mean(each["tokens"] for each in there), "earlier": any(each["earlier"] for each in there)}


def find_crossing(points: Sequence[Sequence[float]], level: float) -> dict[str, Any] | None:
    """The first point where a curve of [tokens, seconds, loss] falls below a level, on the straight line between two.

    A first point that is below already says only that it happened before it. None: it never falls so far.
    """
    before: Sequence[float] | None = None
    for tokens, seconds, loss in points:
        if loss < level:
            if before is None:
                return {"tokens": tokens, "seconds": seconds, "earlier": True}
            share = (before[2] - level) / (before[2] - loss)
            return {"tokens": before[0] + share * (tokens - before[0]),
                    "seconds": before[1] + share * (seconds - before[1]), "earlier": False}
        before = (tokens, seconds, loss)
    return None


def mean_recall(done: Sequence[Record], distance: str) -> dict[str, Any]:
    """Recall at one distance over all seeds."""
    found = [r["recall"][distance] for r in done if distance in r["recall"]]
    gain = mean(each["gain"] for each in found)
    why = next((each["why"] for each in found if "why" in each), None)
    return {"gain": gain, "error": mean(each.get("error") for each in found), "why": why}


def show_state(state: dict[str, Any] | None) -> str:
    """66k; with * where the context bounds it."""
    return NOTHING if state is None else shorten(state["bytes"]) + ("*" if state["bounded"] else "")


def show_gain(found: dict[str, Any]) -> str:
    return NOTHING if found["gain"] is None else f"{found['gain']:.2f}".replace("-0.00", "0.00")


def show_crossing(row: Row, plan: ComparisonPlan) -> str:
    """1.2 min (2 of 3 seeds)."""
    crossing = row["crosses"]
    if crossing is None:
        return "" if row["counted"] else NOTHING
    if not crossing["crossed"]:
        return f"not within {plan.show_budget()}"
    when = f"{'before ' if crossing['earlier'] else ''}{show_seconds(crossing['seconds'])}"
    every = crossing["crossed"] == crossing["of"]
    return when if every else f"{when} ({crossing['crossed']} of {crossing['of']} seeds)"


# ------------------------------------------------------------------------------------------- sections of the report


def plot_costs(plan: ComparisonPlan, done: Sequence[Record]) -> Iterator[str]:
    yield grid((
        plot_cost(plan, done, "Reading a text", "Milliseconds to score a text of this length once, alone. Open points: "
                  "read in windows of the model's context, because it reads no more at once.", "length in tokens",
                  "milliseconds", lambda r: [(n, s * 1e3) for n, s in r["cost"]["read"]]),
        plot_cost(plan, done, "Writing the next token", "Milliseconds for one more token after so many. A line ends "
                  "where the model's context does: beyond, it reads half of it again now and then.", "position",
                  "milliseconds", lambda r: [(n, s * 1e3) for n, s in r["cost"]["step"]]),
        plot_cost(plan, done, "What is kept of the past", "Bytes of state for one text of this length. Open points: "
                  "bounded by the context.", "length in tokens", "bytes",
                  lambda r: [(int(n), max(1, s["bytes"])) for n, s in r["state"].items()])))


def plot_recall(plan: ComparisonPlan, rows: Sequence[Row]) -> Iterator[str]:
    lines = []
    for row in rows:
        gains = {int(d): each["gain"] for d, each in row.get("recall", {}).items() if each["gain"] is not None}
        lines.append(family_line(plan, row["family"], sorted(gains.items())))
    yield (f"<p>A passage of {PASSAGE} held-out tokens is read, then other held-out text, then the first {CUE} tokens "
           f"of the passage again; the {PASSAGE - CUE} that follow are scored. The same is done with another passage "
           "in the first place. Plotted is the difference: bits a token that the first reading saves, the mean over "
           f"{SEQUENCES} passages and all seeds. 0: nothing is remembered from so far back.</p>")
    yield grid([draw_figure(
        Chart("Bits a token saved by having read it before", "tokens between the two readings", "bits a token saved",
              lines, log_x=True),
        "A line ends where the model's context does, or the held-out text is too short.")])


def show_samples(plan: ComparisonPlan, done: Sequence[Record]) -> Iterator[str]:
    yield f'<p class="soft">{NOTE}</p>'
    shown = []
    for entry in plan.entries:
        own = [r for r in done if r["family"] == entry.family and "samples" in r]
        if own:
            best = min(own, key=lambda r: r["loss"])
            shown.append(sample(entry.family, [
                (f"<b>{visible(s['prompt'])}</b>" if s["prompt"] else "") + visible(s["text"][:SHOWN])
                for s in best["samples"]]))
    yield grid(shown)


def list_orders(done: Sequence[Record]) -> Iterator[str]:
    own = [r for r in done if r["order"] is not None]
    yield html_table(
        ("order", *SUBJECT.measures, "size", "seconds to read, count and score"),
        [[str(r["order"]), *(show(r) for show in SUBJECT.measures.values()), show_bytes(r["bytes"]),
          f"{r['trained'].get('seconds', 0):.2f}"] for r in own],
        label="The n-gram, order by order")
