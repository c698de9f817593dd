"""Captioning: translation from pixels. Pictures in, one line on each out; how many are exactly right as the measure."""

from __future__ import annotations

from typing import Any

from regard.data.pictures.picture_corpus import PictureCorpus, prepare_captioned
from regard.data.pictures.pictures import PictureDataSettings
from regard.decoding.beam import BeamOptions, search_batches
from regard.decoding.source_batches import picture_batches
from regard.decoding.special_tokens import text_special_tokens
from regard.families.caption import CAPTION
from regard.ranks import ALONE, Ranks
from regard.tasks.caption import CARD
from regard.tasks.caption.answer import ANSWER
from regard.tasks.caption.look import build
from regard.tasks.caption.sample import caption_picture
from regard.tasks.caption.score import SCORE
from regard.tasks.caption.trained import TrainedCaptioner
from regard.tasks.task import Task
from regard.tasks.translate.task import batches, held_out

JUDGED = 500                   # held-out pictures captioned at each validation


def judge(model: Any, corpus: PictureCorpus, context: int, ranks: Ranks = ALONE) -> dict[str, float]:
    """Return the percentage of the first held-out pictures whose caption is exactly one of theirs."""
    rows, t = corpus.source_valid.rows, corpus.tokenizer
    right: dict[int, set[str]] = {}
    for row, caption in zip(rows.tolist(), corpus.captions, strict=True):
        if len(right) < JUDGED or row in right:
            right.setdefault(row, set()).add(caption)
    mine = list(ranks.deal(right))
    pictures = picture_batches(model, corpus.source_valid.images[mine], context, beams=1)
    found = search_batches(model, pictures, text_special_tokens(t), BeamOptions(width=1)) if mine else []
    texts = ranks.collect([t.decode(best[0].tokens) for best in found])
    return {"valid_exact": 100 * sum(text in right[row] for text, row in zip(texts, right, strict=True)) / len(right)}


TASK = Task(
    CARD, TrainedCaptioner, families=CAPTION, batches=batches, held_out=held_out,
    look=build, sample=caption_picture, data=PictureDataSettings, prepare=prepare_captioned, judge=judge, score=SCORE,
    answer=ANSWER)
