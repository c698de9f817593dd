"""Parts of `check_laws`: a source that is drawn for a trained model, and one report on a model and its encoder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from regard.contract import Source
from regard.data.tokens.vocabulary import EOS, PAD
from regard.laws.answer_laws import LabelReader, check_answers
from regard.laws.check import Report, try_laws
from regard.laws.encoder_laws import ENCODER_LAWS, PictureReader, check_encoder
from regard.laws.prepared import prepared

LENGTH = 5                     # tokens of a source that is drawn
SPECIALS = 4


def draw_source(vocab: int, context: int) -> Source:
    """Two sources of at most half the context, the second shorter; each ends as a source does."""
    length = min(LENGTH, max(1, context // 2))
    random = torch.Generator().manual_seed(0)
    items = torch.randint(min(SPECIALS, vocab - 1), vocab, (2, length), generator=random)
    lengths = torch.tensor([length, max(1, length - 2)])
    for row, n in enumerate(lengths.tolist()):
        items[row, n - 1], items[row, n:] = EOS, PAD
    return Source(items, lengths)


def check_picture_encoder(encoder: Any, picture: tuple[int, int, int], patches: int) -> Report:
    reader = PictureReader(prepared(encoder), picture=picture, length=patches)
    return try_laws(type(encoder).__name__, ENCODER_LAWS, reader)


def check_with_encoder(reader: type[LabelReader], model: Any) -> Report:
    """One report on a model that answers about rows it reads whole, by its own laws and by those of its encoder."""
    return join_reports(check_answers(reader, model), check_encoder(model.encoder, vocab=model.vocab, dtype=None))


def join_reports(report: Report, encoder: Report) -> Report:
    """Both in one, the encoder's laws behind, under names of their own."""
    return Report(f"{report.name} with {encoder.name}", [
        *report.verdicts, *(replace(each, law=f"encoder: {each.law}") for each in encoder.verdicts)])
