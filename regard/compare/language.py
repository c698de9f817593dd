"""Language models compared by bits per byte of the held-out text, with speed, state, cost against length and recall."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.compare import language_report, language_table, measure
from regard.compare.plan import Entry
from regard.compare.recall import DISTANCES, SEQUENCES, recall
from regard.compare.subject import Record, Row, Subject
from regard.compare.summary import crossing, mean
from regard.compare.table import TRIED, amount, rate
from regard.compare.units import unit_bytes, unit_ends
from regard.data.reading.corpus import Corpus
from regard.data.tokens.vocabulary import EOS
from regard.metrics.resampling import Counts, Scores
from regard.tasks.lm.trained import Trained

PROBED = 2**21             # held-out tokens, at most, from which passages and texts to time are taken


def held_out(trained: Trained, corpus: Corpus) -> Record:
    """What is measured, and the loss on what choices are made by: another text, where there is a test part."""
    shard = corpus.judged
    ends, of = unit_ends(shard)
    nats = trained.unit_nats(shard, ends)
    surprise = trained.surprise(shard, float(nats.sum()))
    valid_loss = trained.score_shard(corpus.valid).loss if corpus.test else surprise.loss
    return {**{name: surprise.as_dict()[name] for name in ("loss", "perplexity", "bits_per_byte")},
            "valid_loss": valid_loss,
            "units": {"of": of, "counts": np.stack([nats, unit_bytes(shard, ends, trained.tokenizer)], 1)}}


def bits_of(totals: Counts) -> Scores:
    """Bits per byte of summed nats and bytes (..., 2)."""
    return totals[..., 0] / math.log(2) / np.maximum(1, totals[..., 1])


def measured(trained: Trained, corpus: Corpus, full: bool) -> Record:
    model, text = trained.model, corpus.valid.tokens[:PROBED]
    stream = text[text != EOS]                               # documents one after another
    found: Record = {
        "generation_rate": {str(rows): measure.generation_rate(trained, rows) for rows in (1, 16)},
        "recall": recall(model, stream, DISTANCES, SEQUENCES),
    }
    if full:
        found["state"] = measure.state_bytes(model, tuple(sorted({*measure.STATE_LENGTHS, *measure.LENGTHS})))
        found["cost"] = measure.costs(model, stream, measure.LENGTHS)
        found["samples"] = measure.samples(trained, measure.opening(corpus.valid, trained.tokenizer))
    return found


def row(entry: Entry, done: Sequence[Record], level: float | None) -> Row:
    first = next((r for r in done if "state" in r), None) or {}
    return {
        "generation_rate": {n: mean(r["generation_rate"][n] for r in done) for n in done[0]["generation_rate"]},
        "state": {str(n): first.get("state", {}).get(str(n)) for n in measure.STATE_LENGTHS},
        "recall": {str(d): recall_over(done, str(d)) for d in DISTANCES},
        "crosses": None if entry.counted or level is None else crossings(done, level),
    }


def crossings(done: Sequence[Record], level: float) -> dict[str, Any]:
    """When the n-gram is crossed: the mean over the seeds that do, and how many of how many do."""
    found = [crossing(r["curve"]["valid"], level) for r in done]
    there = [each for each in found if each is not None]
    return {"of": len(found), "crossed": len(there), "seconds": mean(each["seconds"] for each in there),
            "tokens": mean(each["tokens"] for each in there), "earlier": any(each["earlier"] for each in there)}


def recall_over(done: Sequence[Record], distance: str) -> dict[str, Any]:
    found = [r["recall"][distance] for r in done if distance in r["recall"]]
    gain = mean(each["gain"] for each in found)
    why = next((each["why"] for each in found if "why" in each), None)
    return {"gain": gain, "error": mean(each.get("error") for each in found), "why": why}


SUBJECT = Subject(
    "Language models", "bits_per_byte", higher=False, headings=language_table.HEADINGS, held_out=held_out,
    score=bits_of, measured=measured, row=row, cells=language_table.cells, notes=language_table.notes,
    outcome=lambda record: f"{record['bits_per_byte']:.4f} bits per byte",
    lead=language_report.lead, sections=language_report.sections,
    trial={
        "bits/byte": lambda r: f"{r['bits_per_byte']:.4f}", "nats/token": lambda r: f"{r['loss']:.4f}",
        "perplexity": lambda r: f"{r['perplexity']:,.2f}", "steps": lambda r: rate(r["trained"].get("step")),
        "tokens": lambda r: rate(r["trained"].get("tokens")),
        "seconds": lambda r: f"{r['trained'].get('seconds', 0):.1f}",
        "peak memory": lambda r: amount((r["memory"] or {}).get("bytes"))},
    how={
        "bits/byte": "All the surprise over the whole held-out text, in bits, divided by its bytes: it can be compared "
        "between tokenizers, unless some of the text is <unk>. A trained model is scored in windows of its training "
        "context; its weights are those of its best validation.",
        "parameters": "Everything that is learned, embeddings included, a tied one once. For the n-gram: the bytes of "
        "its tables.",
        "settings tried": TRIED,
        "training tokens/s": "Over the steps of training, validations and checkpoints left out. For the n-gram: "
        "reading, counting, saving and one scoring.",
        "generation tokens/s": "One text at a time, up to 256 tokens from nothing, carrying the state. results.json "
        "also has 16 at once.",
        "peak memory": "What the trial's own process grew by while training, beyond Python and its libraries; on a "
        "GPU, the most that torch held there. –: training had ended before the trial was taken up again.",
        "state": "Bytes that must be kept to go on with one text after so many tokens.",
        "recall": "See above: bits a token.",
        "crosses the n-gram": "Time of training, validations included, at which the validation loss first falls below "
        "that of the best n-gram, on a straight line between two validations; the mean over the seeds that do."})
