"""A look at a captioner: which patches of the picture each word read.

L patches, row by row from the top left · R rows: <bos> and the caption's tokens · N layers · H heads
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from regard.decoding.beam import BeamOptions, search_batches
from regard.decoding.source_batches import picture_batches
from regard.decoding.spelling import pieces_of
from regard.errors import DataError
from regard.look.influence import WAYS, influence_rows
from regard.look.influence_tracks import influence_tracks, source_by_occlusion
from regard.look.look import Look, LookSide, Prediction, Request
from regard.look.picture import Image, as_given, as_png, decoded, hide_patches
from regard.look.side_tokens import patch_tokens, special_token, text_side
from regard.look.track import Track
from regard.tasks.caption.trained import TrainedCaptioner
from regard.tasks.translate.look import Target, WatchedPair, decoder_tracks, given_target, own_target


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
    pair = WatchedPair(model, opening.source,
                torch.tensor([t.bos, *(token.id for token in target.tokens)], device=model.device))
    seen, told = pair.run_and_say(target.following, t, trained.special_tokens.banned)
    sides = {"image": image_side(trained, request.image, image),
             "target": text_side("target", "caption", target.text, [special_token(t, t.bos), *target.tokens])}
    tracks = [*decoder_tracks(seen, "image", "patches"), *influences(pair, told, trained)]
    return Look(request, trained.family, trained.task.name, sides, "target", told, tuple(tracks), tuple(notes),
                watched=pair.watched)


def caption_of(trained: TrainedCaptioner, request: Request, image: Image, notes: list[str]) -> Target:
    room = trained.context - 1
    if request.target is not None:
        return given_target(trained.tokenizer, request.target, room, notes)
    options = BeamOptions(request.beam, request.length_penalty)
    batches = picture_batches(trained.model, image[None], trained.context, options.width)
    ((best,),) = search_batches(trained.model, batches, trained.special_tokens, options)
    pieces = pieces_of(trained.tokenizer, best.tokens) if best.tokens else []
    return own_target(trained.tokenizer, best.tokens, pieces, best.finished, room, notes)


def image_side(trained: TrainedCaptioner, raw: bytes, image: Image) -> LookSide:
    original, width, height = as_given(raw)
    return LookSide("image", "picture", "", patch_tokens(trained.grid), trained.grid, width, height, as_png(image),
                    original)


# ---------------------------------------------------------------------------------------------- influence


def influences(pair: WatchedPair, told: Sequence[Prediction], trained: TrainedCaptioner) -> list[Track]:
    """The influence of each patch, by hiding it, and of the words before."""
    (rows, columns), patch = trained.grid, trained.patch
    targets = torch.tensor([each.id for each in told], device=pair.model.device)

    def of_patches(how: str, asked: list[int]) -> Tensor:
        return source_by_occlusion(
            pair.model, pair.source, lambda places: hide_patches(pair.source.items[0], places, patch, columns),
            rows * columns, pair.tokens, targets, asked)

    of_words = partial(influence_rows, pair.model, pair.tokens, targets, source=pair.source)
    size = len(pair.tokens)
    return [*influence_tracks(pair.model, ("occlusion",), of_patches, of="target", on="image",
                              shape=(size, rows * columns), causal=False, what="patch",
                              instead="the mean colour of the picture", prefix="patches"),
            *influence_tracks(pair.model, WAYS, of_words, of="target", on="target", shape=(size, size), causal=True)]
