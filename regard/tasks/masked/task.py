"""Masked tokens: text in, batches with some tokens hidden out, the loss on these as the measure."""

from __future__ import annotations

from regard.families.masked_encoders import MASKED
from regard.tasks.masked import CARD
from regard.tasks.masked.hiding import batches, held_out, mask_id
from regard.tasks.masked.look import build
from regard.tasks.masked.sample import fill_hidden
from regard.tasks.masked.trained import TrainedMasked
from regard.tasks.task import Task, from_table

TASK = Task(
    CARD, TrainedMasked, families=MASKED, family=from_table(MASKED), batches=batches, held_out=held_out, look=build,
    sample=fill_hidden, vocab=lambda tokenizer: mask_id(tokenizer) + 1)
