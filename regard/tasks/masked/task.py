"""Masked tokens: text in, batches with some tokens hidden out, the loss on these as the measure."""

from __future__ import annotations

from regard.data.reading.corpus import Corpus, DataSettings
from regard.families.masked_encoders import MASKED
from regard.tasks.last_measure import MOST_TOKENS, LastFigures, LastMeasure, accuracy_interval, say_number
from regard.tasks.masked import CARD
from regard.tasks.masked.answer import ANSWER
from regard.tasks.masked.hiding import batches, held_out, mask_id
from regard.tasks.masked.look import build
from regard.tasks.masked.sample import fill_hidden
from regard.tasks.masked.trained import TrainedMasked
from regard.tasks.task import Task


def measure_test(model: TrainedMasked, corpus: Corpus) -> LastFigures:
    """Return the loss on hidden tokens of the test part, and the percentage that is told at the first guess."""
    assert corpus.test is not None, "there is a test part"
    whole = corpus.test()
    shard = whole.first(MOST_TOKENS)
    found = model.guess_shard(shard)
    right = 100 * found.accuracy
    values = {"test_loss": found.loss, "test_accuracy": right, **accuracy_interval(found, "stretches of the text"),
              "test_blanks": found.blanks, "test_tokens": len(shard)}
    return LastFigures(values, f"loss {found.loss:.4f} · accuracy {right:.2f} of {found.blanks:,} hidden tokens, in "
                               + say_number(len(shard), len(whole), "tokens"))


TASK = Task(
    CARD, TrainedMasked, families=MASKED, batches=batches, held_out=held_out, look=build,
    sample=fill_hidden, answer=ANSWER, vocab=lambda tokenizer: mask_id(tokenizer) + 1, test=LastMeasure(measure_test),
    columns=DataSettings.columns)
