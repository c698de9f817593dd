"""Pictures that are looked at: as a model reads them, and as they were given, upright and small enough to show."""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.corpora import shapes
from regard.data.pictures.picture_files import load_picture
from regard.errors import DataError

Image = NDArray[np.uint8]                    # (height, width, 3)
MOST_PIXELS = 1024                           # along the longer side of the picture that is kept for showing
ORIENTATION, SIDEWAYS = 0x0112, (5, 6, 7, 8)    # how a camera says that a picture lies on its side
EXAMPLE = re.compile(r"shapes-([1-9][0-9]{0,3})")    # pictures that are always there, drawn when they are asked for


def example_picture(name: str) -> bytes | None:
    """The picture of this name as a PNG file; None for any other name."""
    match = EXAMPLE.fullmatch(name)
    if match is None:
        return None
    drawn = shapes.draw_pictures(np.array([int(match[1]) - 1]), part="valid")
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


def hide_patches(pixels: Tensor, places: Sequence[int], patch: int, columns: int) -> Tensor:
    """(n, 3, S, S): a copy of the pixels (3, S, S) for each of the places, with that patch in the mean colour."""
    copies = pixels.repeat(len(places), 1, 1, 1)
    mean = pixels.float().mean((1, 2)).round().to(pixels.dtype)
    for copy, place in zip(copies, places, strict=True):
        top, left = patch * (place // columns), patch * (place % columns)
        copy[:, top:top + patch, left:left + patch] = mean[:, None, None]
    return copies


def as_png(image: Image) -> bytes:
    from PIL import Image as Pillow

    written = io.BytesIO()
    Pillow.fromarray(np.ascontiguousarray(image)).save(written, "PNG")
    return written.getvalue()
