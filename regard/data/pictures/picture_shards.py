"""Decoded pictures on disk, memory-mapped, so that training reads a batch without decoding anything.

A shard is a folder: `pictures.bin` holds N pictures of S x S x 3 bytes, `shard.json` the counts and which of the
pictures asked for were lost, and why, `SHA256SUMS` the hash of each. It is written in one pass, one picture in memory,
appears whole or not at all, and opens only if every bit is as it was written. `prepare_pictures` goes from a folder of
captioned pictures to a shard and the captions that go with its rows.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from regard import storage
from regard.data.pictures.picture_files import BadPicture, check_file, load_picture
from regard.data.pictures.pictures import Captioned, PictureDataSettings, read_captioned
from regard.data.reading.seals import CURE, check_folder, write_folder
from regard.data.reading.shards import ArrayFiles, map_array
from regard.data.reading.tally import Tally
from regard.data.reading.text_cache import Cache, key_of
from regard.errors import DataError, SettingError

VERSION = 2                               # raise it when a file comes to give another picture
PICTURES, ABOUT = "pictures.bin", "shard.json"
LARGEST = 1024                            # pixels along a side of a prepared picture

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Lost:
    """In the place of a picture: why there is none."""

    reason: str


@dataclass(frozen=True)
class PictureShard:
    """Pictures of one size; `images[rows]` is a batch of them."""

    path: Path
    images: Pixels                        # (N, S, S, 3), a map of the file
    lost: dict[int, str]                  # which of the pictures asked for have no row, and why
    content: str                          # a hash of the pixels

    def __len__(self) -> int:
        return len(self.images)

    @staticmethod
    def open(path: str | Path) -> PictureShard:
        """Map a shard; one that is not as it was written is a DataError."""
        path = Path(path)
        check_folder(path)
        try:
            about = json.loads((path / ABOUT).read_text("utf-8"))
            if about["version"] != VERSION:
                raise ValueError(f"it is of version {about['version']}")
            shape = (int(about["count"]), int(about["size"]), int(about["size"]), 3)
            lost = {int(at): str(reason) for at, reason in about["lost"].items()}
            if any(not 0 <= at < shape[0] + len(lost) for at in lost):
                raise ValueError("its parts do not fit together")
            return PictureShard(path, map_array(path / PICTURES, np.dtype("u1"), shape), lost, str(about["content"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"the picture shard {path} is damaged ({error}): {CURE}") from None

    @staticmethod
    def write(path: str | Path, size: int, pictures: Iterable[Pixels | Lost]) -> PictureShard:
        """A new shard at `path` of these pictures, in order."""

        def fill(folder: Path) -> None:
            count, lost = 0, {}
            with ArrayFiles(folder, PICTURES) as files:
                for at, picture in enumerate(pictures):
                    if isinstance(picture, Lost):
                        lost[at] = picture.reason
                        continue
                    assert picture.shape == (size, size, 3) and picture.dtype == np.uint8, picture.shape
                    files.append(PICTURES, picture)
                    count += 1
                content = files.sync()
            about = {"version": VERSION, "count": count, "size": size, "lost": lost, "content": content}
            storage.write_part(folder / ABOUT, json.dumps(about) + "\n")

        return write_folder(Path(path), fill, PictureShard.open)


@dataclass(frozen=True)
class CaptionedPictures:
    """Captions, each with the row of its picture in the shard."""

    shard: PictureShard
    captions: list[str]
    rows: NDArray[np.int64]               # (captions,)
    tally: Tally

    def __len__(self) -> int:
        return len(self.captions)


def prepare_pictures(path: str | os.PathLike[str], data: PictureDataSettings, cache: Cache) -> CaptionedPictures:
    """Everything that is fit in a folder of captioned pictures; each file is decoded once for each content."""
    size, tally = data.size, Tally()
    if not 1 <= size <= LARGEST:
        raise SettingError(f"pictures of {size} x {size} pixels are impossible: give a size from 1 to {LARGEST}")
    captioned = list(read_captioned(path, data, tally))
    first: dict[Path, Captioned] = {}
    for each in captioned:
        first.setdefault(each.path, each)
    files = list(first)
    key = key_of(VERSION, size, data.on_bad_image, _pillow(), [file_hash(file) for file in files])
    shard, _ = cache.entry("pictures", key, PictureShard.open, lambda path: PictureShard.write(
        path, size, _load_all(first.values(), data)))
    return _joined(captioned, files, shard, tally)


def _joined(captioned: list[Captioned], files: list[Path], shard: PictureShard, tally: Tally) -> CaptionedPictures:
    """The captions whose pictures came through; the others go over to the dropped ones."""
    lost = {files[index]: reason for index, reason in shard.lost.items()}
    row_of = {path: row for row, path in enumerate(path for path in files if path not in lost)}
    captions, rows = [], []
    for each in captioned:
        if each.path in lost:
            tally.kept -= 1
            tally.dropped[lost[each.path]] += 1
        else:
            captions.append(each.caption)
            rows.append(row_of[each.path])
    if not captions:
        raise DataError(f"there are no pictures left ({tally.line()}): give some that can be read")
    return CaptionedPictures(shard, captions, np.array(rows, dtype=np.int64), tally)


def _load_all(named: Iterable[Captioned], data: PictureDataSettings) -> Iterator[Pixels | Lost]:
    for each in named:
        try:
            yield load_picture(each.path, data.size)
        except BadPicture as bad:
            if data.on_bad_image == "fail":
                raise BadPicture(bad.reason, f"{each.where}: {bad}, or pass --on-bad-image drop") from None
            yield Lost(bad.reason)


def file_hash(path: Path) -> str:
    """A hash of what the file holds; of one that cannot be read, of why."""
    try:
        check_file(path)
        with open(path, "rb") as file:
            return hashlib.file_digest(cast(BufferedReader, file), "sha256").hexdigest()
    except BadPicture as bad:
        return bad.reason
    except OSError as error:
        return f"error {error.errno}"


def _pillow() -> str:
    """Decoders and resizing may change with the version."""
    import PIL

    return PIL.__version__
