"""Language modelling: text in, batches of (tokens, targets) out, perplexity as the measure."""

from __future__ import annotations

from regard.data.reading.corpus import DataSettings
from regard.families.table import FAMILIES, family
from regard.tasks.lm import CARD
from regard.tasks.lm.answer import ANSWER
from regard.tasks.lm.batches import held_out, training_batches
from regard.tasks.lm.look import build
from regard.tasks.lm.mixing import MIXING
from regard.tasks.lm.sample import continue_text
from regard.tasks.lm.score import SCORE, TEST
from regard.tasks.lm.trained import Trained
from regard.tasks.task import Task

TASK = Task(
    CARD, Trained, families=FAMILIES, find_family=family, batches=training_batches, held_out=held_out, look=build,
    sample=continue_text, score=SCORE, answer=ANSWER, test=TEST, baseline="ngram", mixing=MIXING,
    columns=DataSettings.columns)
