"""A look at a captioner: which patches of the picture each word read.

L patches, row by row from the top left · R rows: <bos> and the caption's tokens · N layers · H heads
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decoding.beam import Beam
from regard.decoding.caption import caption_tokens
from regard.decoding.spelling import pieces_of
from regard.errors import DataError
from regard.look.influences import influence_tracks, source_by_occlusion, unwatched
from regard.look.parts import Look, Request, Said, Side, Token, Track
from regard.look.picture import Image, as_given, as_png, decoded
from regard.look.sides import mark, side
from regard.probe.influence import WAYS
from regard.tasks.caption.trained import TrainedCaptioner
from regard.tasks.translate.look import Pair, Target, decoder_tracks, given_target, own_target, target_rows


def build(trained: TrainedCaptioner, request: Request) -> Look:
    """The look at a picture and what is said of it."""
    if not request.image:
        raise DataError("a captioner reads a picture: give one, as a PNG or JPEG file")
    model = trained.model
    notes: list[str] = []
    image = decoded(request.image, trained.size)
    target, opening = caption_of(trained, request, image, notes), trained.open(image)
    assert opening.source is not None
    t = trained.tokenizer
    pair = Pair(model, opening.source,
                torch.tensor([t.bos, *(token.id for token in target.tokens)], device=model.device))
    seen, told = pair.run_and_say(target.following, t, trained.marks.banned)
    sides = {"image": image_side(trained, request.image, image),
             "target": side("target", "caption", target.text, [mark(t, t.bos), *target.tokens])}
    tracks = [*decoder_tracks(seen, "image", "patches"), *influences(pair, told, trained)]
    return Look(request, trained.family, trained.task.name, sides, "target", told, tuple(tracks), tuple(notes),
                watched=pair.watched)


def caption_of(trained: TrainedCaptioner, request: Request, image: Image, notes: list[str]) -> Target:
    room = trained.context - 1
    if request.target is not None:
        return given_target(trained.tokenizer, request.target, room, notes)
    trained.model.eval()
    best = caption_tokens(trained.model, image[None], marks=trained.marks, context=trained.context,
                          how=Beam(request.beam, request.length_penalty))[0][0]
    pieces = pieces_of(trained.tokenizer, best.tokens) if best.tokens else []
    return own_target(trained.tokenizer, best.tokens, pieces, best.finished, room, notes)


def image_side(trained: TrainedCaptioner, raw: bytes, image: Image) -> Side:
    rows, columns = trained.grid
    tokens = tuple(Token(number, f"row {number // columns + 1}, column {number % columns + 1}")
                   for number in range(rows * columns))
    original, width, height = as_given(raw)
    return Side("image", "picture", "", tokens, (rows, columns), width, height, as_png(image), original)


# ---------------------------------------------------------------------------------------------- influence


def influences(pair: Pair, told: Sequence[Said], trained: TrainedCaptioner) -> list[Track]:
    """The influence of each patch, by hiding it, and of the words before."""
    (rows, columns), patch = trained.grid, trained.patch
    targets = torch.tensor([each.id for each in told], device=pair.model.device)
    mean = pair.source.items[0].float().mean((1, 2)).round().to(pair.source.items.dtype)        # (3,): the mean colour

    def hidden(places: Sequence[int]) -> Tensor:
        items = pair.source.items.repeat(len(places), 1, 1, 1)
        for copy, place in zip(items, places, strict=True):
            top, left = patch * (place // columns), patch * (place % columns)
            copy[:, top:top + patch, left:left + patch] = mean[:, None, None]
        return items

    def of_patches(how: str, asked: list[int]) -> Tensor:
        return source_by_occlusion(pair.model, pair.source, hidden, rows * columns, pair.tokens, targets, asked)

    def of_words(how: str, asked: list[int]) -> Tensor:
        return target_rows(pair, targets, how, asked)

    size = len(pair.tokens)
    return [*influence_tracks(("occlusion",), unwatched(pair.model, of_patches), of="target", on="image",
                              shape=(size, rows * columns), causal=False, what="patch",
                              instead="the mean colour of the picture", prefix="patches"),
            *influence_tracks(WAYS, unwatched(pair.model, of_words), of="target", on="target", shape=(size, size),
                              causal=True)]
