"""A look at a captioner: which patches of the picture each word read.

L patches, row by row from the top left · R rows: <bos> and the caption's tokens · N layers · H heads
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.contract import Source
from regard.corpora import shapes
from regard.data.pictures.picture_files import load_picture
from regard.decoding.beam import Beam
from regard.decoding.caption import caption_tokens, pixels_of
from regard.decoding.spelling import pieces_of
from regard.errors import DataError
from regard.look.influences import influence_tracks, source_by_occlusion, unwatched
from regard.look.pairs import Pair, Target, decoder_tracks, given_target, own_target, target_rows
from regard.look.parts import Look, Request, Said, Side, Token, Track
from regard.look.sides import mark, side
from regard.probe.influence import WAYS
from regard.trained_caption import TrainedCaptioner

Image = NDArray[np.uint8]                    # (height, width, 3)
MOST_PIXELS = 1024                           # along the longer side of the picture that is kept for showing
ORIENTATION, SIDEWAYS = 0x0112, (5, 6, 7, 8)    # how a camera says that a picture lies on its side
EXAMPLE = re.compile(r"shapes-([1-9][0-9]{0,3})")


def build(trained: TrainedCaptioner, request: Request) -> Look:
    """The look at a picture and what is said of it."""
    if not request.image:
        raise DataError("a captioner reads a picture: give one, as a PNG or JPEG file")
    model = trained.model
    notes: list[str] = []
    image = decoded(request.image, trained.size)
    target = caption_of(trained, request, image, notes)
    t = trained.tokenizer
    pair = Pair(model, Source(pixels_of(image[None], model.device)),
                torch.tensor([t.bos, *(token.id for token in target.tokens)], device=model.device))
    seen, told = pair.run_and_say(target.following, t, trained.marks.banned)
    sides = {"image": image_side(trained, request.image, image),
             "target": side("target", "caption", target.text, [mark(t, t.bos), *target.tokens])}
    tracks = [*decoder_tracks(seen, "image", "patches"), *influences(pair, told, trained)]
    return Look(request, trained.family, "caption", sides, "target", told, tuple(tracks), tuple(notes),
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


# -------------------------------------------------------------------------------------------- the picture


def example_names(count: int = 6) -> list[str]:
    """Pictures that are always there, drawn when they are asked for."""
    return [f"shapes-{number}" for number in range(1, count + 1)]


def example_picture(name: str) -> bytes | None:
    """The picture of this name as a PNG file; None for any other name."""
    match = EXAMPLE.fullmatch(name)
    if match is None:
        return None
    drawn = shapes.batch(np.array([int(match[1]) - 1]), part="valid")
    return shapes.png(drawn.picture(0).image)


def decoded(raw: bytes, size: int) -> Image:
    """The picture as the model reads it; what is wrong with it is one line that names no file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "picture")
        path.write_bytes(raw)
        try:
            return load_picture(path, size)
        except DataError as mistake:
            raise DataError(str(mistake).replace(f"the picture {path}", "the picture").replace(
                str(path), "the picture")) from None


def image_side(trained: TrainedCaptioner, raw: bytes, image: Image) -> Side:
    rows, columns = trained.grid
    tokens = tuple(Token(number, f"row {number // columns + 1}, column {number % columns + 1}")
                   for number in range(rows * columns))
    original, width, height = as_given(raw)
    return Side("image", "picture", "", tokens, (rows, columns), width, height, as_png(image), original)


def as_given(raw: bytes) -> tuple[bytes, int, int]:
    """The picture upright, as a PNG file, no larger than a screen shows; and its own width and height."""
    from PIL import Image

    with Image.open(io.BytesIO(raw)) as opened:                  # its header alone
        turned = opened.getexif().get(ORIENTATION, 1) in SIDEWAYS
        width, height = opened.size[::-1] if turned else opened.size
    size = min(MOST_PIXELS, max(width, height))
    square, whole = decoded(raw, size), size / max(width, height)
    across, down = (max(1, round(side * whole)) for side in (width, height))
    left, top = (size - across) // 2, (size - down) // 2
    return as_png(square[top:top + down, left:left + across]), width, height


def as_png(image: Image) -> bytes:
    from PIL import Image as Pillow

    written = io.BytesIO()
    Pillow.fromarray(np.ascontiguousarray(image)).save(written, "PNG")
    return written.getvalue()


# ---------------------------------------------------------------------------------------------- influence


def influences(pair: Pair, told: Sequence[Said], trained: TrainedCaptioner) -> list[Track]:
    """Of each patch, by hiding it, and of the words before."""
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
