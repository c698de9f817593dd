"""Classification: labelled texts in, batches of texts with their labels out, accuracy as the measure.

The baseline, logistic regression over n-grams, learns from the same texts when they are prepared; it is kept in the run
with how many texts have each label, so that whoever scores the run later has something to compare it with.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from regard.config import one_of
from regard.data.labels.label_batches import HeldOutLabels, LabelBatches
from regard.data.labels.label_corpus import LabelCorpus, LabelledShard, prepare_labelled
from regard.data.labels.labelled_texts import OF_TEXTS, LabelSettings
from regard.data.labels.labelled_tokenizer import LabelledTokenizer
from regard.families.label_families import CLASSIFY, LabelVocabularies
from regard.metrics.bag_of_ngrams import fit_bag
from regard.metrics.filling import guess_labels
from regard.ranks import ALONE, Ranks
from regard.tasks.classify import CARD
from regard.tasks.classify.answer import ANSWER
from regard.tasks.classify.look import build
from regard.tasks.classify.sample import classify_text
from regard.tasks.classify.score import SCORE
from regard.tasks.classify.trained import TrainedClassifier
from regard.tasks.last_measure import MOST_TOKENS, LastFigures, LastMeasure, accuracy_interval, say_number
from regard.tasks.task import Task

BATCH = 256                    # held-out texts read at once


def prepare(data: LabelSettings, tokenizer: Any, **options: Any) -> LabelCorpus:
    """Return the labelled texts, with the baseline that learned from them."""
    corpus = prepare_labelled(data, tokenizer, OF_TEXTS, **options)
    known = corpus.tokenizer
    bag = fit_bag(token_rows(corpus.train), (corpus.train.targets - 1).tolist(), count=len(known.labels),
                  kind=known.kind)
    texts = np.bincount(corpus.train.targets - 1, minlength=len(known.labels))
    corpus.tokenizer = replace(known, baseline={**bag.arrays(), "texts": texts})
    return corpus


def token_rows(part: LabelledShard) -> list[list[int]]:
    """Return the token ids of each text, with its <eos>."""
    tokens = part.tokens.tolist()
    return [tokens[first:last] for first, last in pairwise([0, *part.ends.tolist()])]


def batches(corpus: LabelCorpus, s: Any, context: int) -> LabelBatches:
    one_of("training.reading", s.reading, ("documents",))
    return LabelBatches(corpus.train, context, s.batch, s.seed)


def held_out(corpus: LabelCorpus, s: Any, context: int) -> HeldOutLabels:
    return HeldOutLabels(corpus.valid, context, BATCH)


def judge(
    batch: int, model: Any, corpus: LabelCorpus, context: int, ranks: Ranks = ALONE
) -> dict[str, float]:
    """Return the percentage of the held-out texts or words that get their label, so many texts at once."""
    return {"valid_accuracy": 100 * guess_labels(model, HeldOutLabels(corpus.valid, context, batch), ranks).accuracy}


def measure_test(noun: str, trained: Any, corpus: LabelCorpus) -> LastFigures:
    """Return the percentage of the texts or words of the test part that get their label, and the loss on these."""
    assert corpus.test is not None, "there is a test part"
    whole = corpus.test()
    part = whole.first(MOST_TOKENS)
    found = guess_labels(trained.model, HeldOutLabels(part, trained.context, BATCH))
    values = {"test_accuracy": 100 * found.accuracy, **accuracy_interval(found, "texts"), "test_loss": found.loss,
              f"test_{noun}": found.blanks}
    number = say_number(len(part), len(whole), "texts")
    return LastFigures(values, f"accuracy {100 * found.accuracy:.2f} · loss {found.loss:.4f}, on "
                               + (number if found.blanks == len(part) else f"{found.blanks:,} {noun} of {number}"))


TASK = Task(
    CARD, TrainedClassifier, families=CLASSIFY, batches=batches, held_out=held_out,
    look=build, sample=classify_text, data=LabelSettings, prepare=prepare, load_tokenizer=LabelledTokenizer.load,
    vocab=lambda tokenizer: LabelVocabularies(tokenizer.vocab_size, len(tokenizer.labels)), judge=partial(judge, BATCH),
    score=SCORE, answer=ANSWER, test=LastMeasure(partial(measure_test, "texts")), columns=LabelSettings.columns)
