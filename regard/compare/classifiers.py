"""Classifiers compared by accuracy of held-out texts, with macro-F1, beside the majority class and a bag of n-grams."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from regard.compare.columns import FAMILY, MEMORY, SIZE, TRAINED_FOR, TRAINING_RATE, TRIED, Column
from regard.compare.plan import ComparisonPlan, Record, Row
from regard.compare.subject import Section, Subject, show_f1
from regard.data.labels.label_corpus import LabelCorpus
from regard.metrics.classification import measure_labels
from regard.report.numbers import show_count
from regard.tasks.classify.score import measure_baselines
from regard.tasks.classify.trained import TrainedClassifier


class Classifiers(Subject):
    title, metric, metric_name = "Classifiers", "accuracy", "of the texts right"
    higher, digits, data, loss_name = True, 4, "texts", "nats a text"
    measures: ClassVar = {
        "accuracy": lambda record: f"{record['accuracy']:.4f}", "macro-F1": lambda record: f"{record['macro_f1']:.4f}",
        "nats/text": lambda record: f"{record['loss']:.4f}"}
    means = ("macro_f1", "majority_accuracy", "ngrams_accuracy", "ngrams_macro_f1", "classification_rate")
    facts = ("texts",)

    # ------------------------------------------------------------------------------------------ measuring

    def held_out(self, trained: TrainedClassifier, corpus: LabelCorpus) -> Record:
        wanted, texts = zip(*corpus.judged.lines(), strict=True)
        began = time.perf_counter()
        log_probs = trained.log_probabilities([trained.read(text) for text in texts]).double().numpy()
        seconds = time.perf_counter() - began
        given = [trained.labels[id] for id in log_probs.argmax(-1)]
        ids = np.array([trained.labels.index(label) for label in wanted])
        loss = float(-log_probs[np.arange(len(ids)), ids].mean())
        right = np.array([[label == other, 1] for label, other in zip(given, wanted, strict=True)], np.float64)
        return {**measure_labels(given, list(wanted)).as_dict(), "units": {"of": "texts", "counts": right},
                **measure_baselines(trained, list(texts), list(wanted)), "loss": loss,
                "perplexity": float(np.exp(loss)), "classification_rate": len(texts) / max(seconds, 1e-9)}

    # -------------------------------------------------------------------------------------------- showing

    def columns(self, plan: ComparisonPlan) -> Sequence[Column]:
        return (
            FAMILY,
            Column(("accuracy",), self.show_metric,
                   "The share of all held-out texts that get their label. The weights are those of the best "
                   "validation."),
            Column(("macro-F1",), lambda row: f"{row['macro_f1']:.4f}",
                   "The mean over the labels of F1 = 2 right / (given + wanted)."),
            Column(("bag of", "n-grams"), lambda row: f"{row['ngrams_accuracy']:.4f}",
                   "The baseline: the accuracy of logistic regression over the n-grams of tokens that a text has. It "
                   "learned from the same texts."),
            Column(("majority", "class"), lambda row: f"{row['majority_accuracy']:.4f}",
                   "The accuracy of giving every text the label that most texts have in the part to learn from."),
            Column(("held-out", "nats/text"), lambda row: f"{row['loss']:.4f}", "The loss on the right labels."),
            SIZE, TRIED, TRAINED_FOR, TRAINING_RATE,
            Column(("texts/s",), lambda row: show_count(row["classification_rate"]), "All held-out texts."), MEMORY)

    def notes(self, rows: Sequence[Row], plan: ComparisonPlan) -> list[str]:
        there = self.measured_rows(rows)
        if not there:
            return []
        below = [row["family"] for row in there if row["accuracy"] < row["ngrams_accuracy"]]
        said = [f"Accuracy is of {there[0]['texts']:,} held-out texts; {self.tell_weights(plan)}"]
        return said + ([f"Below the bag of n-grams: {', '.join(below)}."] if below else [])

    def praise(self, plan: ComparisonPlan) -> str:
        return f"labels the held-out texts best after {plan.show_budget()}"

    def sections(self, plan: ComparisonPlan, rows: Sequence[Row], done: Sequence[Record]) -> Iterator[Section]:
        yield from super().sections(plan, rows, done)
        yield "Each label", show_f1(rows, done, "labels", "F1 of each label")


SUBJECT = Classifiers()
