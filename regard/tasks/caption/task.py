"""Captioning: translation from pixels. Pictures in, one line on each out; how many are exactly right as the measure."""

from __future__ import annotations

from typing import Any

from regard.config import one_of
from regard.data.batching.pair_batches import HeldOutPairs, Pairs
from regard.data.pictures.picture_corpus import PictureCorpus, PictureDataSettings, prepare_captioned
from regard.decoding.beam import BeamOptions, search_batches
from regard.decoding.source_batches import picture_batches
from regard.decoding.special_tokens import text_special_tokens
from regard.families.caption import CAPTION
from regard.tasks.caption import CARD
from regard.tasks.caption.look import build
from regard.tasks.caption.sample import caption_picture
from regard.tasks.caption.score import SCORE
from regard.tasks.caption.trained import TrainedCaptioner
from regard.tasks.task import Task, from_table

JUDGED = 500                   # held-out pictures captioned at each validation


def batches(corpus: PictureCorpus, s: Any, context: int) -> Pairs:
    one_of("training.reading", s.reading, ("pairs",))
    return Pairs(corpus.source_train, corpus.train, budget=s.batch, seed=s.seed, longest=context, widths=s.widths)


def held_out(corpus: PictureCorpus, s: Any, context: int) -> HeldOutPairs:
    return HeldOutPairs(corpus.source_valid, corpus.valid, budget=2 * s.batch, context=context)


def judge(model: Any, corpus: PictureCorpus, context: int) -> dict[str, float]:
    """Return the percentage of the first held-out pictures whose caption is exactly one of theirs."""
    rows, t = corpus.source_valid.rows, corpus.tokenizer
    right: dict[int, set[str]] = {}
    for row, caption in zip(rows.tolist(), corpus.captions, strict=True):
        if len(right) < JUDGED or row in right:
            right.setdefault(row, set()).add(caption)
    batches = picture_batches(model, corpus.source_valid.images[list(right)], context, beams=1)
    found = search_batches(model, batches, text_special_tokens(t), BeamOptions(width=1))
    texts = [t.decode(best[0].tokens) for best in found]
    return {"valid_exact": 100 * sum(text in right[row] for text, row in zip(texts, right, strict=True)) / len(right)}


TASK = Task(
    CARD, TrainedCaptioner, families=CAPTION, family=from_table(CAPTION), batches=batches, held_out=held_out,
    look=build, sample=caption_picture, data=PictureDataSettings, prepare=prepare_captioned, judge=judge, score=SCORE)
