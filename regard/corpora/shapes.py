"""Shapes: pictures of coloured shapes, what is to be seen in them, and where each word of it is.

    for picture in pictures(3):
        print(dict(zip(picture.words, picture.regions)))

One thing alone ("a small red square"), two ("a red square left of a blue circle") or three ("... and above a green
star"), on plain and noisy grounds. The picture decides its caption: of several things the large one comes first. The
parts share no picture, and no caption but those of one thing, whatever their seeds: `train`, `valid` and `test` (a hash
of the caption decides; these two have other pictures of the same captions) and `unseen`, each of whose pictures has a
colour, a shape and a relation that never meet in the others. No red square is left of anything there, though one is
right of things, and a red circle left of them.
N pictures · H, W pixels · things: 0 the first, 1 the one beside it, 2 the one above or below
"""

from __future__ import annotations

import io
import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import storage
from regard.corpora import shapes_drawing as drawing
from regard.corpora import shapes_scenes as scenes
from regard.corpora.shapes_drawing import SIDE
from regard.corpora.shapes_scenes import PARTS, SHAPES
from regard.errors import SettingError, did_you_mean

AT_ONCE = 256                     # pictures drawn together; their number changes none of them
CAPTIONS, REGIONS = "captions.tsv", "regions.jsonl"
GAP, ENLARGED = 2, 3              # of a sheet: white pixels around a picture, and how much larger it is shown

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Picture:
    """A picture and its caption, with the region of each of its `words`, or None for `a` and `of`."""

    image: NDArray[np.uint8]                 # (H, W, 3)
    caption: str
    regions: tuple[Mask | None, ...]         # a (H, W) each

    @property
    def words(self) -> list[str]:
        return self.caption.split(" ")


@dataclass(frozen=True)
class DrawnPictures:
    """Many pictures as arrays. The region of a word is where the things are whose bits its `meant` has."""

    images: NDArray[np.uint8]                # (N, H, W, 3)
    captions: list[str]
    masks: Mask                              # (N, 3, H, W) the pixels of each thing
    meant: list[NDArray[np.uint8]]           # for each caption its words' bits: 1, 2 and 4 for the three things

    def __len__(self) -> int:
        return len(self.captions)

    def regions(self, at: int) -> Mask:
        """The region of each word of one caption, empty for a word that names nothing: (words, H, W)."""
        chosen = (self.meant[at][:, None] >> np.arange(3)) & 1                      # (words, 3)
        return (chosen.astype(bool)[:, :, None, None] & self.masks[at]).any(1)

    def picture(self, at: int) -> Picture:
        masks = self.regions(at)
        regions = tuple(mask if meant else None for mask, meant in zip(masks, self.meant[at], strict=True))
        return Picture(self.images[at], self.captions[at], regions)


def pictures(number: int, seed: int = 0, part: str = "train") -> Iterator[Picture]:
    """So many pictures of a part, the same for the same seed."""
    _check(part)
    return (some.picture(at) for some in _draw_all(number, seed, part) for at in range(len(some)))


def _draw_all(number: int, seed: int, part: str) -> Iterator[DrawnPictures]:
    for start in range(0, number, AT_ONCE):
        yield draw_pictures(np.arange(start, min(start + AT_ONCE, number)), seed, part)


def draw_pictures(numbers: NDArray[np.int64], seed: int = 0, part: str = "train") -> DrawnPictures:
    """The pictures of these numbers: number k is what `pictures` gives in place k, whatever else is asked for."""
    _check(part)
    key = scenes.keys(seed, part, np.asarray(numbers))
    found = scenes.scenes(key, part)
    images, masks = drawing.drawn(found, key)
    said = list(scenes.words(found))
    return DrawnPictures(images, [" ".join(word for word, _ in words) for words in said], masks,
                 [np.array([bits for _, bits in words], dtype=np.uint8) for words in said])


def _check(part: str) -> None:
    if part not in PARTS:
        raise SettingError(f"shapes has no part {part}{did_you_mean(part, PARTS)}")


def box(mask: Mask) -> list[int]:
    """The smallest box around a region, in pixels: left, top, right, bottom."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return [int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1]


def covered(masks: Mask, patch: int) -> NDArray[np.float64]:
    """The share of each patch that lies in a region: (..., H, W) to (..., patches), row by row."""
    *many, height, width = masks.shape
    if height % patch or width % patch:
        raise SettingError(f"a picture of {height} x {width} cannot be cut into patches of {patch}: give a divisor")
    cut = masks.reshape(*many, height // patch, patch, width // patch, patch)
    return cut.mean((-3, -1)).reshape(*many, -1)


# ------------------------------------------------------------------------------------------- for people to see


def show(picture: Picture) -> str:
    """The caption, and where each thing is that it names: 1, 2 and 3, in the order of the words."""
    marks = np.full((SIDE, SIDE), "\u00b7")
    named = [region for word, region in zip(picture.words, picture.regions, strict=True) if word in SHAPES]
    for number, region in enumerate(named, 1):
        marks[region] = str(number)
    rows = marks[2::4, 1::2]                                         # a letter is twice as high as it is wide
    return "\n".join([picture.caption, *("    " + "".join(row) for row in rows)])


def sheet(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """All pictures on one, row by row, about as many rows as columns."""
    columns = math.ceil(math.sqrt(len(images)))
    rows = math.ceil(len(images) / columns)
    around = ((0, rows * columns - len(images)), (GAP, GAP), (GAP, GAP), (0, 0))
    tiles = np.pad(images, around, constant_values=255)              # (rows columns, H + 2 GAP, W + 2 GAP, 3)
    cut = tiles.reshape(rows, columns, *tiles.shape[1:]).transpose(0, 2, 1, 3, 4)
    whole = cut.reshape(rows * tiles.shape[1], columns * tiles.shape[2], 3)
    return whole.repeat(ENLARGED, 0).repeat(ENLARGED, 1)


def png(image: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    coded = io.BytesIO()
    Image.fromarray(image).save(coded, "PNG")
    return coded.getvalue()


# ------------------------------------------------------------------------------------------------------ on disk


def runs(mask: Mask) -> list[int]:
    """A region by its pixels row by row: how many are outside, then how many inside, then outside, and so on."""
    flat = mask.ravel()
    changes = np.flatnonzero(np.diff(flat, prepend=False))
    return [int(length) for length in np.diff([0, *changes, flat.size])]


def gold(some: DrawnPictures, index: int, name: str) -> dict[str, Any]:
    """The object of a picture in regions.jsonl: its things by box and by runs, and which of them each word means."""
    present = [thing for thing in range(3) if some.masks[index, thing].any()]
    things = [{"box": box(mask), "runs": runs(mask)} for mask in some.masks[index, present]]
    words = [[number for number, thing in enumerate(present) if bits >> thing & 1]
             for bits in some.meant[index].tolist()]
    return {"image": name, "caption": some.captions[index], "things": things, "words": words}


def write(folder: str | Path, number: int, seed: int = 0, part: str = "train") -> Path:
    """A part as a user would have it: a folder of PNG files and captions.tsv, which appears whole or not at all.

    Beside the captions lies regions.jsonl, with the gold regions (`gold`).
    """
    _check(part)
    folder = Path(folder)
    if folder.exists():
        raise SettingError(f"{folder} exists already: name a new folder, or remove it first")
    unfinished = storage.own_part(folder)
    try:
        storage.make_folder(unfinished)
        _fill(unfinished, number, seed, part)
        storage.move_folder(unfinished, folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return folder


def _fill(folder: Path, number: int, seed: int, part: str) -> None:
    captions: list[str] = []
    regions: list[str] = []
    for some in _draw_all(number, seed, part):
        for at in range(len(some)):
            name = f"{len(captions):06d}.png"
            storage.write_part(folder / name, png(some.images[at]))
            captions.append(f"{name}\t{some.captions[at]}\n")
            regions.append(json.dumps(gold(some, at, name)) + "\n")
    storage.write_part(folder / REGIONS, "".join(regions))
    storage.write_part(folder / CAPTIONS, "".join(captions))
