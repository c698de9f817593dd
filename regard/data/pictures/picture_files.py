"""One picture from one file: opened with Pillow, distrusted, and made a square of red, green and blue.

PNG, JPEG, WebP, BMP and GIF, told by their bytes and never by their names. The header is judged before a pixel is
decoded. The picture is turned as its EXIF says, laid on white where it is transparent, made 8-bit RGB, and resized with
its proportions kept: the longer side fills the square and white bars fill the rest, so that nothing a caption may
speak of is cut away.
"""

from __future__ import annotations

import stat
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError, SettingError

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
MOVING = ("PNG", "WEBP", "GIF")          # formats whose frames are an animation; several in a JPEG are previews
MOST_PIXELS = 50_000_000                 # width times height, as the header says
MOST_BYTES = 2**26                       # of the file
DENSEST, LARGE = 200, 4_000_000          # pixels in a byte of the file; asked from so many pixels on
DRAFT = 4                                # a JPEG is decoded no finer than so many times the size wanted
WHITE = (255, 255, 255)

MISSING, OUTSIDE, NOT_FILE = "picture missing", "picture outside the folder", "picture not a file"
EMPTY, NO_PICTURE, BROKEN, MOVES, HUGE = (
    "picture empty", "not a picture", "picture broken", "picture animated", "picture too large")


class BadPicture(DataError):
    """A picture that cannot be used; `reason` is what it is counted as where such pictures are dropped."""

    def __init__(self, reason: str, message: str):
        super().__init__(message)
        self.reason = reason


def load_picture(path: str | Path, size: int) -> NDArray[np.uint8]:
    """The picture as (size, size, 3); whatever is wrong with it is one clear line."""
    if size < 1:
        raise SettingError(f"a picture of {size} x {size} pixels is impossible: give a positive size")
    path = Path(path)
    check_file(path)
    try:
        with open(path, "rb") as file, warnings.catch_warnings():
            warnings.simplefilter("error")                        # Pillow warns of bombs and of damaged metadata
            return _decoded(path, file, size)
    except DataError:
        raise
    except Exception as error:                # for hostile bytes a decoder may raise anything: all of it means broken
        raise _explained(path, error) from None


def check_file(path: Path) -> None:
    """Refuse what is no file of a bearable size, without opening it: a pipe would never end."""
    name = shown(path)
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            raise BadPicture(MISSING, f"the picture {name} does not exist: check the name") from None
        reason = getattr(error, "strerror", None) or error
        raise BadPicture(MISSING, f"the picture {name} cannot be reached ({reason}): check the name") from None
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or a device"
        raise BadPicture(NOT_FILE, f"{name} is {kind}, not a picture: name a {_kinds()} file")
    if not status.st_size:
        raise BadPicture(EMPTY, f"the picture {name} is an empty file: fetch it again")
    if status.st_size > MOST_BYTES:
        raise BadPicture(HUGE, f"the picture {name} has {status.st_size:,} bytes, more than {MOST_BYTES:,}: "
                         "save a smaller copy of it")


def _decoded(path: Path, file: Any, size: int) -> NDArray[np.uint8]:
    from PIL import Image, ImageOps

    with Image.open(file, formats=FORMATS) as image:
        _check_header(path, image)
        if image.format == "JPEG":
            image.draft(None, (DRAFT * size, DRAFT * size))
        image.load()
        upright = ImageOps.exif_transpose(image)
        return np.array(_fitted(_rgb(upright), size))


def _check_header(path: Path, image: Image.Image) -> None:
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise _too_many(path, f"is {width:,} x {height:,} pixels")
    if width * height > max(LARGE, DENSEST * path.stat().st_size) and image.mode != "1":      # scans are one bit deep
        raise BadPicture(HUGE, f"the picture {shown(path)} would unpack to {width:,} x {height:,} pixels, more than "
                         f"{DENSEST} for each of its bytes: save a smaller copy of it")
    frames = getattr(image, "n_frames", 1) if image.format in MOVING else 1
    if frames > 1:
        raise BadPicture(MOVES, f"the picture {shown(path)} is an animation of {frames:,} frames: "
                         "save the frame that is meant as a PNG file")


def _rgb(image: Image.Image) -> Image.Image:
    """8-bit red, green and blue, transparent parts on white."""
    from PIL import Image

    if image.mode.startswith("I"):                            # 16 bits of grey, which `convert` would clip
        deep = np.asarray(image).astype(np.int64)
        grey = np.where(deep == image.info.get("transparency", -1), WHITE[0], np.clip(deep >> 8, 0, 255))
        return Image.fromarray(grey.astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, WHITE), image).convert("RGB")
    return image.convert("RGB")


def _fitted(image: Image.Image, size: int) -> Image.Image:
    """A square with the whole picture in its middle."""
    from PIL import Image

    longer = max(image.size)
    width, height = (max(1, round(side * size / longer)) for side in image.size)
    if (width, height) != image.size:
        image = image.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=3.0)
    square = Image.new("RGB", (size, size), WHITE)
    square.paste(image, ((size - width) // 2, (size - height) // 2))
    return square


def _explained(path: Path, error: Exception) -> BadPicture:
    from PIL import Image, UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):
        return BadPicture(NO_PICTURE, f"{shown(path)} is not a picture of a known kind: give a {_kinds()} file")
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return _too_many(path, "would unpack to far more")
    if isinstance(error, PermissionError):
        return BadPicture(BROKEN, f"no permission to read the picture {shown(path)}: change it with chmod, or copy it")
    reason = " ".join(str(error).split())[:120] or type(error).__name__
    return BadPicture(BROKEN, f"the picture {shown(path)} is broken ({reason}): fetch it again, or save it anew")


def _too_many(path: Path, what: str) -> BadPicture:
    return BadPicture(HUGE, f"the picture {shown(path)} {what}, and at most {MOST_PIXELS // 10**6} million pixels are "
                      "read: save a smaller copy of it")


def _kinds() -> str:
    return ", ".join(FORMATS[:-1]) + " or " + FORMATS[-1]


def shown(name: str | Path) -> str:
    """A name from a file, safe to print on one line."""
    text = str(name)
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= 200 else f"{text[:100]}...{text[-90:]}"
