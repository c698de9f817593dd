"""Translators compared by BLEU of the held-out pairs, with chrF, loss, speed, what is kept of a source, and length.

L source length, and as many tokens of target
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.compare.columns import FAMILY, MEMORY, SIZE, TRAINED_FOR, TRAINING_RATE, TRIED, Column
from regard.compare.family_curves import draw_figure, family_line, plot_cost
from regard.compare.measure import LONGEST, points
from regard.compare.plan import ComparisonPlan, Entry, Record, Row
from regard.compare.subject import Section, Subject, mean, show_best
from regard.contract import Source
from regard.data.pairs.pair_corpus import PairCorpus
from regard.metrics.resampling import BLEU_COUNTS, Counts, Scores, bleu_of
from regard.metrics.translation_quality import by_length, measure, sentence_counts
from regard.report.charts import Chart
from regard.report.numbers import NOTHING, shorten, show_count
from regard.report.page import grid
from regard.report.tables import html_table
from regard.tasks.translate.trained import TrainedTranslator

PAIRS = 1000                                         # held-out pairs that are translated
BEAM = 5
LENGTHS = (8, 16, 32, 64, 128, 256, 512)             # of the plots
STATE_LENGTHS = (16, 64, 256)                        # of the table
TIMED = 200                                          # pairs for the speed without a search
SHOWN = 6                                            # translations to look at


class Translators(Subject):
    title, metric, metric_name = "Translators", "bleu", "BLEU"
    higher, digits, data = True, 2, "pairs"
    measures: ClassVar = {
        "BLEU": lambda record: f"{record['bleu']:.2f}", "chrF": lambda record: f"{record['chrf']:.2f}",
        "exact": lambda record: f"{record['exact_match']:.1%}", "nats/token": lambda record: f"{record['loss']:.4f}"}
    means, facts = ("chrf", "exact_match", "greedy_rate", "shorter", "longer"), ("sentences", "signature")

    # ------------------------------------------------------------------------------------------ measuring

    def held_out(self, trained: TrainedTranslator, corpus: PairCorpus) -> Record:
        pairs = corpus.judged(PAIRS)
        sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
        began = time.perf_counter()
        texts = [each.text for each in trained.translate(sources, beam=BEAM)]
        seconds = time.perf_counter() - began
        lang = trained.languages[1]
        quality, surprise = measure(texts, references, lang=lang), trained.score_pairs(sources, references)
        shorter, longer = halves(sources, texts, references, lang)
        counts = sentence_counts(texts, references, lang=lang)[:, :BLEU_COUNTS]
        return {
            **quality.as_dict(), "units": {"of": "sentences", "counts": counts},
            "loss": surprise.loss, "perplexity": surprise.perplexity,
            "translation_rate": {str(BEAM): len(sources) / max(seconds, 1e-9)}, "shorter": shorter, "longer": longer,
            "by_length": by_length(sources, texts, references, lang=lang),
            "translations": [{"source": one, "reference": other, "text": text} for one, other, text in
                             zip(sources[:SHOWN], references[:SHOWN], texts[:SHOWN], strict=True)]}

    def score(self, totals: Counts) -> Scores:
        return bleu_of(totals)

    def measure(self, trained: TrainedTranslator, corpus: PairCorpus, full: bool) -> Record:
        pairs = corpus.held_out(TIMED)
        began = time.perf_counter()
        trained.translate([pair.source for pair in pairs], beam=1)
        record: Record = {"greedy_rate": len(pairs) / max(time.perf_counter() - began, 1e-9)}
        if full:
            lengths = [n for n in sorted({*LENGTHS, *STATE_LENGTHS}) if fits(trained.model, n)]
            text = torch.from_numpy(corpus.source_valid.tokens[:max(LENGTHS)].astype("int64")).to(trained.model.device)
            text = text.repeat(-(-max(LENGTHS) // max(1, len(text))))[None]
            record["state"] = {str(n): start_state(trained.model, text[:, :n]).nbytes() for n in lengths}
            record["cost"] = points(lengths, lambda n: writing_seconds(trained.model, text[:, :n]))
        return record

    def row(self, entry: Entry, done: Sequence[Record], level: float | None) -> Row:
        first = next((r for r in done if "state" in r), None) or {}
        bins: dict[str, list[float]] = {}
        for record in done:
            for own in record["by_length"]:
                bins.setdefault(own["words"], []).append(own["bleu"])
        return super().row(entry, done, level) | {
            "translation_rate": mean(r["translation_rate"][str(BEAM)] for r in done),
            "state": {str(n): first.get("state", {}).get(str(n)) for n in STATE_LENGTHS},
            "by_length": {words: mean(values) for words, values in bins.items()}}

    # -------------------------------------------------------------------------------------------- showing

    def columns(self, plan: ComparisonPlan) -> Sequence[Column]:
        return (
            FAMILY,
            Column(("BLEU",), self.show_metric, f"By sacreBLEU, as chrF is, of the first {PAIRS:,} held-out pairs at "
                   f"most, translated by beam {BEAM}, as they were written; the signature stands under the table. The "
                   "weights are those of the best validation."),
            Column(("chrF",), lambda row: f"{row['chrf']:.2f}"),
            Column(("held-out", "nats/token"), lambda row: f"{row['loss']:.3f}",
                   "The loss on the references of the same pairs, given what came before."),
            Column(("BLEU of the shorter", "/ longer half"),
                   lambda row: f"{show_bleu(row['shorter'])} / {show_bleu(row['longer'])}",
                   "The same by the number of words of the source."),
            SIZE, TRIED, TRAINED_FOR, TRAINING_RATE,
            Column(("sentences/s", f"by beam {BEAM}"), lambda row: show_count(row["translation_rate"]),
                   f"All of these pairs by beam {BEAM}, reading and spelling included. results.json also has the speed "
                   "without a search."),
            MEMORY,
            Column(("state bytes at", " / ".join(map(str, STATE_LENGTHS))),
                   lambda row: " / ".join(shorten(row["state"][str(n)]) for n in STATE_LENGTHS),
                   "Bytes that must be kept to write a target as long as its source of so many tokens. –: longer than "
                   "the model reads."))

    def show_record(self, record: Record) -> str:
        return f"BLEU {record['bleu']:.2f}, chrF {record['chrf']:.2f}"

    def notes(self, rows: Sequence[Row], plan: ComparisonPlan) -> list[str]:
        lines, there = [], self.measured_rows(rows)
        if there:
            lines.append(f"BLEU and chrF are of {there[0]['sentences']:,} held-out pairs ({there[0]['signature']}); "
                         f"{self.tell_weights(plan)}")
        if len({row["signature"] for row in there}) > 1:
            lines.append("Signatures differ: these scores cannot be compared.")
        unknown = plan.text["valid"]["unknown"]
        if unknown:
            lines.append(f"{unknown:,} of the {plan.text['valid']['tokens']:,} held-out target tokens are <unk>: the "
                         "loss cannot be compared with that of another vocabulary.")
        return lines

    def praise(self, plan: ComparisonPlan) -> str:
        langs = f" of {plan.text['langs']}" if plan.text.get("langs") else ""
        return f"translates the held-out pairs{langs} best after {plan.show_budget()}"

    def sections(self, plan: ComparisonPlan, rows: Sequence[Row], done: Sequence[Record]) -> Iterator[Section]:
        yield from super().sections(plan, rows, done)
        yield "Short and long sources", plot_lengths(plan, rows)
        yield "Cost against length", plot_costs(plan, done)
        yield "What they make of the same sentences", show_best(
            plan, done, "bleu", "translations", {"source": "source", "reference": "reference"}, "text")


SUBJECT = Translators()


# ------------------------------------------------------------------------------------------------------ measuring


def halves(sources: Sequence[str], texts: Sequence[str], references: Sequence[str], lang: str) -> list[float | None]:
    """BLEU of the half with the shorter sources, and of the half with the longer ones."""
    order = sorted(range(len(sources)), key=lambda row: len(sources[row].split()))
    both = order[:len(order) // 2], order[len(order) // 2:]
    return [measure([texts[row] for row in half], [references[row] for row in half], lang=lang, intervals=False).bleu
            if half else None for half in both]


def fits(model: Any, length: int) -> bool:
    """True where the model reads a source and a target of this length."""
    return model.context is None or length * (1 + model.one_text) <= model.context


@torch.no_grad()
def start_state(model: Any, source: Tensor) -> Any:
    """The state after reading a source (1, L), with room for as long a target."""
    model.eval()
    return model.start(1, source.shape[1], Source(source, None))


@torch.no_grad()
def writing_seconds(model: Any, source: Tensor) -> tuple[float, float]:
    """The least time of a few, and all the time taken, to read a source (1, L) and write as many tokens."""
    times: list[float] = []
    token = torch.full_like(source[:, :1], 4) % model.vocab
    while len(times) < 3 and sum(times) < LONGEST / 2:
        began = time.perf_counter()
        state = start_state(model, source)
        for _ in range(source.shape[1]):
            log_probs, state = model.step(token, state)
        float(log_probs[0, 0])                       # the device has done all that was asked of it
        times.append(time.perf_counter() - began)
    return min(times), sum(times)


# ------------------------------------------------------------------------------------------- sections of the report


def show_bleu(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f}"


def first_words(words: str) -> int:
    """The first number of 6-10, or of 21+."""
    return int(words.split("-")[0].rstrip("+"))


def plot_lengths(plan: ComparisonPlan, rows: Sequence[Row]) -> Iterator[str]:
    lines = []
    for row in rows:
        found = [(first_words(words), value) for words, value in row.get("by_length", {}).items()]
        lines.append(family_line(plan, row["family"], sorted(found)))
    heading = "BLEU by the length of the source"
    yield grid([draw_figure(
        Chart(heading, "words of the source, from", "BLEU", lines),
        "The mean over seeds. Each point is all sources from so many words up to the next point.")])
    known = sorted({words for row in rows for words in row.get("by_length", {})}, key=first_words)
    if known:
        yield html_table(("words", *known), [
            [row["family"], *(f"{row['by_length'][words]:.1f}" if words in row["by_length"] else "" for words in known)]
            for row in rows if row.get("by_length")], label=heading)


def plot_costs(plan: ComparisonPlan, done: Sequence[Record]) -> Iterator[str]:
    yield grid((
        plot_cost(plan, done, "Reading a source and writing as much", "Milliseconds for one source of this length and "
                  "a target as long, token by token. A line ends where the model's context does.", "tokens",
                  "milliseconds", lambda r: [(n, 1e3 * s) for n, s in r["cost"]]),
        plot_cost(plan, done, "What is kept", "Bytes of state, what was read of the source included.", "tokens",
                  "bytes", lambda r: [(int(n), max(1, size)) for n, size in r["state"].items()])))
