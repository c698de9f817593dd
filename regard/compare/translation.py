"""Translators compared by BLEU of the held-out pairs, with chrF, loss, speed, what is kept of a source, and length.

L source length, and as many tokens of target
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.compare import translation_report, translation_table
from regard.compare.measure import LONGEST, points
from regard.compare.plan import Entry
from regard.compare.subject import Record, Row, Subject
from regard.compare.summary import mean
from regard.compare.table import TRIED, amount, rate
from regard.compare.translation_table import STATE_LENGTHS
from regard.contract import Source
from regard.data.pairs.pair_corpus import PairCorpus
from regard.metrics.lengths import by_length
from regard.metrics.resampling import BLEU_COUNTS, bleu_of
from regard.metrics.translation import measure, sentence_counts
from regard.tasks.translate.trained import TrainedTranslator

PAIRS = 1000                                         # held-out pairs that are translated
BEAM = 5
LENGTHS = (8, 16, 32, 64, 128, 256, 512)             # of the plots
TIMED = 200                                          # pairs for the speed without a search
SHOWN = 6                                            # translations to look at


def held_out(trained: TrainedTranslator, corpus: PairCorpus) -> Record:
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
        "by_length": [own.as_dict() for own in by_length(sources, texts, references, lang=lang)],
        "translations": [{"source": one, "reference": other, "text": text} for one, other, text in
                         zip(sources[:SHOWN], references[:SHOWN], texts[:SHOWN], strict=True)]}


def halves(sources: Sequence[str], texts: Sequence[str], references: Sequence[str], lang: str) -> list[float | None]:
    """BLEU of the half with the shorter sources, and of the half with the longer ones."""
    order = sorted(range(len(sources)), key=lambda at: len(sources[at].split()))
    both = order[:len(order) // 2], order[len(order) // 2:]
    return [measure([texts[at] for at in half], [references[at] for at in half], lang=lang, intervals=False).bleu
            if half else None for half in both]


def measured(trained: TrainedTranslator, corpus: PairCorpus, full: bool) -> Record:
    pairs = corpus.held_out(TIMED)
    began = time.perf_counter()
    trained.translate([pair.source for pair in pairs], beam=1)
    found: Record = {"greedy_rate": len(pairs) / max(time.perf_counter() - began, 1e-9)}
    if full:
        lengths = [n for n in sorted({*LENGTHS, *STATE_LENGTHS}) if fits(trained.model, n)]
        text = torch.from_numpy(corpus.source_valid.tokens[:max(LENGTHS)].astype("int64")).to(trained.model.device)
        text = text.repeat(-(-max(LENGTHS) // max(1, len(text))))[None]
        found["state"] = {str(n): started(trained.model, text[:, :n]).nbytes() for n in lengths}
        found["cost"] = points(lengths, lambda n: writing_seconds(trained.model, text[:, :n]))
    return found


def fits(model: Any, length: int) -> bool:
    return model.context is None or length * (1 + model.one_text) <= model.context


@torch.no_grad()
def started(model: Any, source: Tensor) -> Any:
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
        state = started(model, source)
        for _ in range(source.shape[1]):
            log_probs, state = model.step(token, state)
        float(log_probs[0, 0])                       # the device has done all that was asked of it
        times.append(time.perf_counter() - began)
    return min(times), sum(times)


def row(entry: Entry, done: Sequence[Record], level: float | None) -> Row:
    first = next((r for r in done if "state" in r), None) or {}
    bins: dict[str, list[float]] = {}
    for record in done:
        for own in record["by_length"]:
            bins.setdefault(own["words"], []).append(own["bleu"])
    return {
        "chrf": mean(r["chrf"] for r in done), "exact_match": mean(r["exact_match"] for r in done),
        "translation_rate": mean(r["translation_rate"][str(BEAM)] for r in done),
        "greedy_rate": mean(r["greedy_rate"] for r in done),
        "shorter": mean(r["shorter"] for r in done), "longer": mean(r["longer"] for r in done),
        "state": {str(n): first.get("state", {}).get(str(n)) for n in STATE_LENGTHS},
        "by_length": {words: mean(values) for words, values in bins.items()}, "sentences": done[0]["sentences"],
        "signature": done[0]["signature"]}


SUBJECT = Subject(
    "Translators", "bleu", higher=True, headings=translation_table.HEADINGS, held_out=held_out, score=bleu_of,
    measured=measured, data="pairs", row=row, cells=translation_table.cells, notes=translation_table.notes,
    outcome=lambda record: f"BLEU {record['bleu']:.2f}, chrF {record['chrf']:.2f}",
    lead=translation_report.lead, sections=translation_report.sections,
    trial={
        "BLEU": lambda r: f"{r['bleu']:.2f}", "chrF": lambda r: f"{r['chrf']:.2f}",
        "exact": lambda r: f"{r['exact_match']:.1%}", "nats/token": lambda r: f"{r['loss']:.4f}",
        "steps": lambda r: rate(r["trained"].get("step")), "tokens": lambda r: rate(r["trained"].get("tokens")),
        "seconds": lambda r: f"{r['trained'].get('seconds', 0):.1f}",
        "peak memory": lambda r: amount((r["memory"] or {}).get("bytes"))},
    how={
        "BLEU, chrF": f"By sacreBLEU, of the first {PAIRS:,} held-out pairs at most, translated by beam {BEAM}, as "
        "they were written; the signature stands under the table. The weights are those of the best validation.",
        "nats/token": "The loss on the references of the same pairs, given what came before.",
        "BLEU of the shorter, the longer half": "The same by the number of words of the source.",
        "parameters": "Everything that is learned, embeddings included, a tied one once.",
        "settings tried": TRIED,
        "training tokens/s": "Target tokens over the steps of training, validations and checkpoints left out.",
        "sentences/s": f"All of these pairs by beam {BEAM}, reading and spelling included. results.json also has the "
        "speed without a search.",
        "peak memory": "What the trial's own process grew by while training, beyond Python and its libraries; on a "
        "GPU, the most that torch held there. –: training had ended before the trial was taken up again.",
        "state": "Bytes that must be kept to write a target as long as its source of so many tokens. –: longer than "
        "the model reads."})
