"""Shapes: pictures of coloured shapes, what is to be seen in them, and where each word of it is.

    for picture in pictures(3):
        print(picture.caption, picture.region("red").sum())

One thing alone ("a small red square"), two ("a red square left of a blue circle") or three ("... and above a green
star"), on plain and noisy grounds. The picture decides its caption: of several things the large one comes first. Three
parts share no picture, and no caption but those of one thing, whatever their seeds: `train`, `valid` (a hash of the
caption decides) and `unseen`, each of whose pictures has a colour, a shape and a relation that never meet in the other
two. No red square is left of anything there, though one is right of things, and a red circle left of them.
N pictures · H, W pixels · things: 0 the first, 1 the one beside it, 2 the one above or below
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard import storage
from regard.errors import SettingError, did_you_mean
from regard.text import shapes_drawing as drawing
from regard.text import shapes_scenes as scenes
from regard.text.shapes_drawing import SIDE
from regard.text.shapes_scenes import PARTS

AT_ONCE = 256                     # pictures drawn together; their number changes none of them
CAPTIONS = "captions.tsv"

Box = tuple[float, float, float, float]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Picture:
    """A picture and its caption, with the place of each word: where it stands in `words`, or None for `a` and `of`."""

    image: NDArray[np.uint8]                 # (H, W, 3)
    caption: str
    regions: tuple[Mask | None, ...]         # a (H, W) each
    boxes: tuple[Box | None, ...]            # left, top, right, bottom, from 0 to 1

    @property
    def words(self) -> list[str]:
        return self.caption.split(" ")

    def region(self, word: str) -> Mask:
        """The pixels of everything this word says in the caption: (H, W), none for a word that names nothing."""
        found = [region for said, region in zip(self.words, self.regions, strict=True)
                 if said == word and region is not None]
        return np.any(found, axis=0) if found else np.zeros((SIDE, SIDE), dtype=bool)


@dataclass(frozen=True)
class Batch:
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
        return Picture(self.images[at], self.captions[at], regions, tuple(r if r is None else box(r) for r in regions))


def pictures(number: int, seed: int = 0, part: str = "train") -> Iterator[Picture]:
    """So many pictures of a part, the same for the same seed."""
    _check(part)
    return _pictures(number, seed, part)


def _pictures(number: int, seed: int, part: str) -> Iterator[Picture]:
    for start in range(0, number, AT_ONCE):
        some = batch(np.arange(start, min(start + AT_ONCE, number)), seed, part)
        yield from map(some.picture, range(len(some)))


def batch(numbers: NDArray[np.int64], seed: int = 0, part: str = "train") -> Batch:
    """The pictures of these numbers: number k is what `pictures` gives in place k, whatever else is asked for."""
    _check(part)
    key = scenes.keys(seed, part, np.asarray(numbers))
    found = scenes.scenes(key, part)
    images, masks = drawing.drawn(found, key)
    said = list(scenes.words(found))
    return Batch(images, [" ".join(word for word, _ in words) for words in said], masks,
                 [np.array([bits for _, bits in words], dtype=np.uint8) for words in said])


def _check(part: str) -> None:
    if part not in PARTS:
        raise SettingError(f"shapes has no part {part}{did_you_mean(part, PARTS)}")


def box(mask: Mask) -> Box:
    """The smallest box around a region, in shares of the picture: left, top, right, bottom."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    height, width = mask.shape
    return (float(columns[0] / width), float(rows[0] / height),
            float((columns[-1] + 1) / width), float((rows[-1] + 1) / height))


def covered(masks: Mask, patch: int) -> NDArray[np.float64]:
    """The share of each patch that lies in a region: (..., H, W) to (..., patches), row by row."""
    *many, height, width = masks.shape
    if height % patch or width % patch:
        raise SettingError(f"a picture of {height} x {width} cannot be cut into patches of {patch}: give a divisor")
    cut = masks.reshape(*many, height // patch, patch, width // patch, patch)
    return cut.mean((-3, -1)).reshape(*many, -1)


def write(folder: str | Path, number: int, seed: int = 0, part: str = "train") -> Path:
    """A part as a user would have it: a folder of PNG files and captions.tsv, which appears whole or not at all."""
    from PIL import Image

    _check(part)
    folder = Path(folder)
    if folder.exists():
        raise SettingError(f"{folder} exists already: name a new folder, or remove it first")
    unfinished = folder.with_name(f"{storage.TEMPORARY}{folder.name}")
    if unfinished.exists():
        storage.remove(unfinished)
    try:
        storage.make_folder(unfinished)
        lines = []
        for at, picture in enumerate(pictures(number, seed, part)):
            name = f"{at:06d}.png"
            coded = io.BytesIO()
            Image.fromarray(picture.image).save(coded, "PNG")
            storage.write_part(unfinished / name, coded.getvalue())
            lines.append(f"{name}\t{picture.caption}\n")
        storage.write_part(unfinished / CAPTIONS, "".join(lines))
        storage.move_folder(unfinished, folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return folder
