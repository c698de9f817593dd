"""The laws on a trained model of any task: a source is drawn where it reads one, and an encoder is tried, too.

    print(check_trained(regard.load("runs/fr-en", device="cpu")).text())
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from regard.contract import Source
from regard.data.tokens.vocabulary import EOS, PAD
from regard.laws.check import Report, check_model, try_laws
from regard.laws.encoder_laws import ENCODER_LAWS, PictureReader, check_encoder
from regard.laws.masked_laws import check_masked
from regard.laws.prepared import prepared
from regard.laws.reader import TIME
from regard.trained import Trained
from regard.trained_caption import TrainedCaptioner
from regard.trained_masked import TrainedMasked
from regard.trained_translate import TrainedTranslator

LENGTH = 5                     # tokens of a source that is drawn
SPECIALS = 4


def check_trained(trained: Any) -> Report:
    """Try every law that applies to it: those of models, of masked models, and of its encoder."""
    for kind, check in CHECKS.items():
        if isinstance(trained, kind):
            return check(trained)
    raise AssertionError(f"no laws for a {type(trained).__name__}")


def check_language(trained: Trained) -> Report:
    return check_model(trained.language_model)


def check_fills(trained: TrainedMasked) -> Report:
    model = trained.model
    return with_encoder(check_masked(model), check_encoder(model.encoder, vocab=model.vocab, dtype=None))


def check_pairs(trained: TrainedTranslator) -> Report:
    """A translator or summariser; one that is decoder-only has no encoder."""
    model, vocab = trained.model, trained.tokenizer.source.vocab_size
    source = drawn_source(vocab, min(LENGTH, max(1, trained.context // 2)))
    room = trained.context - (source.items.shape[1] if model.one_text else 0)
    report = check_model(model, source=source, time=max(1, min(TIME, room)))
    encoder = getattr(model, "encoder", None)
    return report if encoder is None else with_encoder(report, check_encoder(encoder, vocab=vocab, dtype=None))


def check_caption(trained: TrainedCaptioner) -> Report:
    picture = (3, trained.size, trained.size)
    random = torch.Generator().manual_seed(0)
    source = Source(torch.randint(0, 256, (2, *picture), generator=random, dtype=torch.uint8))
    encoder, patches = trained.model.encoder, trained.grid[0] * trained.grid[1]
    reader = PictureReader(prepared(encoder), picture=picture, length=patches)
    return with_encoder(check_model(trained.model, source=source),
                        try_laws(type(encoder).__name__, ENCODER_LAWS, reader))


CHECKS: dict[Any, Any] = {Trained: check_language, TrainedMasked: check_fills, TrainedTranslator: check_pairs,
                          TrainedCaptioner: check_caption}


def drawn_source(vocab: int, length: int) -> Source:
    """Two sources, the second shorter; each ends as a source does."""
    random = torch.Generator().manual_seed(0)
    items = torch.randint(min(SPECIALS, vocab - 1), vocab, (2, length), generator=random)
    lengths = torch.tensor([length, max(1, length - 2)])
    for row, n in enumerate(lengths.tolist()):
        items[row, n - 1], items[row, n:] = EOS, PAD
    return Source(items, lengths)


def with_encoder(report: Report, encoder: Report) -> Report:
    """Both in one, the encoder's laws behind, under names of their own."""
    return Report(f"{report.name} with {encoder.name}", [
        *report.verdicts, *(replace(each, law=f"encoder: {each.law}") for each in encoder.verdicts)])
