"""Taggers compared by accuracy of words, beside the most frequent tag of each; on ambiguous and unseen words too."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from regard.compare.columns import FAMILY, MEMORY, SIZE, TRAINED_FOR, TRAINING_RATE, TRIED, Column
from regard.compare.plan import ComparisonPlan, Record, Row
from regard.compare.subject import Section, Subject, show_best, show_f1
from regard.data.labels.label_batches import HeldOutLabels
from regard.data.labels.label_corpus import LabelCorpus
from regard.metrics.filling import guess_labels
from regard.metrics.tagging import TagCounts, measure_tags
from regard.report.numbers import show_count, show_share
from regard.tasks.tag.trained import TrainedTagger

SHOWN = 6                                            # sentences to look at


class Taggers(Subject):
    title, metric, metric_name = "Taggers", "accuracy", "of the words right"
    higher, digits, data, loss_name = True, 4, "sentences", "nats a word"
    measures: ClassVar = {
        "accuracy": lambda record: f"{record['accuracy']:.4f}",
        "errors gone": lambda record: show_share(record["errors_gone"]),
        "ambiguous": lambda record: show_share(record["ambiguous_accuracy"]),
        "unseen": lambda record: show_share(record["unseen_accuracy"]),
        "macro F1": lambda record: show_share(record["macro_f1"]), "nats/word": lambda record: f"{record['loss']:.4f}"}
    means = ("errors_gone", "ambiguous_accuracy", "unseen_accuracy", "baseline_accuracy", "macro_f1", "tagging_rate")
    facts = ("words", "sentences", "ambiguous_words", "unseen_words")

    # ------------------------------------------------------------------------------------------ measuring

    def held_out(self, trained: TrainedTagger, corpus: LabelCorpus) -> Record:
        part = corpus.judged
        sentences = [(text.split(), tags.split()) for tags, text in part.lines()]
        began = time.perf_counter()
        given = [[each.tag for each in words] for words in trained.tag_sentences([words for words, _ in sentences])]
        seconds = time.perf_counter() - began
        counts = TagCounts((text.split(), tags.split()) for tags, text in corpus.train.lines())
        measured = measure_tags(sentences, given, counts)
        guesses = guess_labels(trained.model, HeldOutLabels(part, trained.context, 64))
        units = [(sum(tag == other for tag, other in zip(tags, row, strict=True)), len(tags))
                 for (_, tags), row in zip(sentences, given, strict=True)]
        return {
            **measured.as_dict(), "units": {"of": "sentences", "counts": np.array(units, np.float64)},
            "loss": guesses.loss, "perplexity": guesses.perplexity,
            "tagging_rate": measured.words.total / max(seconds, 1e-9),
            "shown": [{"words": words, "tags": tags, "given": row}
                      for (words, tags), row in zip(sentences[:SHOWN], given[:SHOWN], strict=True)]}

    # -------------------------------------------------------------------------------------------- showing

    def columns(self, plan: ComparisonPlan) -> Sequence[Column]:
        return (
            FAMILY,
            Column(("accuracy",), self.show_metric,
                   "The share of all held-out words that get their tag. The weights are those of the best validation."),
            Column(("most frequent", "tag"), lambda row: f"{row['baseline_accuracy']:.4f}",
                   "The baseline: each word gets its most frequent tag in the part to learn from, and a word that is "
                   "not there the most frequent tag of all."),
            Column(("its errors", "gone"), lambda row: show_share(row["errors_gone"]),
                   "1 - (errors of the model) / (errors of the baseline)."),
            Column(("ambiguous", "words"), lambda row: show_share(row["ambiguous_accuracy"]),
                   "The accuracy on words that have several tags in the part to learn from."),
            Column(("unseen", "words"), lambda row: show_share(row["unseen_accuracy"]),
                   "The accuracy on words that are not in the part to learn from."),
            Column(("held-out", "nats/word"), lambda row: f"{row['loss']:.4f}", "The loss on the right tags."),
            SIZE, TRIED, TRAINED_FOR, TRAINING_RATE,
            Column(("words/s",), lambda row: show_count(row["tagging_rate"]),
                   "All held-out words, splitting them into tokens included."),
            MEMORY)

    def notes(self, rows: Sequence[Row], plan: ComparisonPlan) -> list[str]:
        there = self.measured_rows(rows)
        if not there:
            return []
        first = there[0]
        return [f"Accuracy is of {first['words']:,} words in {first['sentences']:,} held-out sentences; "
                f"{first['ambiguous_words']:,} of them have several tags in the part to learn from, and "
                f"{first['unseen_words']:,} are not in it; {self.tell_weights(plan)}"]

    def praise(self, plan: ComparisonPlan) -> str:
        return f"tags the held-out sentences best after {plan.show_budget()}"

    def sections(self, plan: ComparisonPlan, rows: Sequence[Row], done: Sequence[Record]) -> Iterator[Section]:
        yield from super().sections(plan, rows, done)
        yield "Each tag", show_f1(rows, done, "tags", "F1 of each tag")
        yield "What they make of the same sentences", show_best(
            plan, done, "accuracy", "shown", {"words": "words", "right": "tags"}, "given")


SUBJECT = Taggers()
