"""Scoring a tagger: accuracy of words beside the most frequent tag, on ambiguous and unseen words, and of each tag."""

from __future__ import annotations

import time
from typing import Any

from regard.config import fill
from regard.data.labels.labelled_texts import LabelSettings
from regard.data.labels.tagged_sentences import OF_WORDS
from regard.data.reading.remote import refuse_addresses
from regard.errors import DataError, RegardError
from regard.metrics.intervals import SENTENCES
from regard.metrics.tagging import TagCounts, Tagging, measure_tags
from regard.tasks.classify.score import read_pairs
from regard.tasks.score import Options, Outcome, Row, Say, Scoring
from regard.tasks.tag.trained import TrainedTagger


def measure(model: TrainedTagger, files: tuple[str, ...], options: Options, say: Say) -> Outcome:
    pairs = list(read_pairs(model, OF_WORDS, files, options, say))[:options["first"]]
    sentences = [(text.split(), tags.split()) for tags, text in pairs]
    for number, (_, tags) in enumerate(sentences, 1):
        for tag in tags:
            model.tokenizer.target(tag, f"sentence {number}")
    began = time.perf_counter()
    given = [[each.tag for each in words] for words in model.tag_sentences([words for words, _ in sentences])]
    seconds = time.perf_counter() - began
    found = measure_tags(sentences, given, count_training(model, say))
    values = {**found.as_dict(), "seconds": seconds, "words_per_second": found.words.total / max(seconds, 1e-9)}
    return Outcome(values, rows_of(found, values))


def count_training(model: TrainedTagger, say: Say) -> TagCounts | None:
    """Return the counts of the part that the model learned from; None, with a notice, where it cannot be read again."""
    data = fill(LabelSettings, model.tables["data"], "data")
    try:
        refuse_addresses((*data.files, *data.valid, *data.test))
        corpus = model.task.prepare(data, model.tokenizer, say=lambda text: None)
        if corpus.content != data.content:
            raise DataError("its files have changed")
    except RegardError as error:
        say(f"what the model learned from cannot be read again ({error}): there is no baseline to compare with")
        return None
    return TagCounts((text.split(), tags.split()) for tags, text in corpus.train.lines())


def rows_of(quality: Tagging, values: dict[str, Any]) -> list[Row]:
    (low, high), words = quality.interval, quality.words.total
    rows = [("accuracy", f"{quality.accuracy:.2%} of {words:,} words ({low:.2%} to {high:.2%}, {SENTENCES})")]
    if quality.baseline is not None:
        gone = "" if quality.errors_gone is None else f"; {quality.errors_gone:.1%} of its errors are gone"
        rows += [("most frequent", f"{quality.baseline.share:.2%} by the most frequent tag of each word{gone}"),
                 ("ambiguous words", f"{quality.ambiguous.share:.2%} of {quality.ambiguous.total:,}"),
                 ("unseen words", f"{quality.unseen.share:.2%} of {quality.unseen.total:,}")]
    rows.append(("macro F1", f"{quality.macro_f1:.2%}, the mean over the tags"))
    for tag, each in sorted(quality.tags.items(), key=lambda item: -item[1].wanted):
        rows.append((f"  {tag}", f"precision {each.precision:.2%}, recall {each.recall:.2%}, F1 {each.f1:.2%}, "
                                 f"{each.wanted:,} words"))
    return [*rows, ("speed", f"{values['words_per_second']:,.0f} words a second")]


SCORE = Scoring(measure, ("first",))
