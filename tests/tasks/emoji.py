"""Emoji from a font of the system, with their names in Unicode: pictures and captions that nobody here made."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

FONT = "NotoColorEmoji.ttf"                # Debian's fonts-noto-color-emoji, Fedora's google-noto-emoji-color-fonts
FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts")
SIZE, SIDES = 109, (136, 128)              # the only size that its bitmaps have, and their pixels
NO_LETTER = chr(0x10FFFF)                  # never one: what is drawn for it is drawn for whatever is missing
# Faces, animals, food, transport, more animals and faces, things.
BLOCKS = ((0x1F600, 0x1F64F), (0x1F400, 0x1F43F), (0x1F330, 0x1F37F), (0x1F680, 0x1F6FF), (0x1F980, 0x1F9FF),
          (0x1F380, 0x1F3F0))


def find_font() -> Path | None:
    """The font, where the system or the user has it."""
    for folder in FOLDERS:
        for parent, _, names in os.walk(os.path.expanduser(folder)):
            if FONT in names:
                return Path(parent) / FONT
    return None


def emoji(font: Path) -> Iterator[tuple[str, Image.Image]]:
    """Name and picture, on nothing, of every emoji that the font has."""
    drawn = ImageFont.truetype(str(font), SIZE)
    missing = draw(drawn, NO_LETTER).tobytes()
    for first, last in BLOCKS:
        for letter in map(chr, range(first, last + 1)):
            name, image = unicodedata.name(letter, ""), draw(drawn, letter)
            if name and image.getbbox() and image.tobytes() != missing:
                yield name.lower(), image


def draw(font: ImageFont.FreeTypeFont, letter: str) -> Image.Image:
    image = Image.new("RGBA", SIDES)
    ImageDraw.Draw(image).text((0, 0), letter, font=font, embedded_color=True)
    return image


def write(folder: Path, font: Path, number: int) -> list[tuple[Path, str]]:
    """So many emoji, spread over all there are, as a user would have them: PNG files and captions.tsv."""
    every = list(emoji(font))
    assert len(every) >= number, f"{font} has {len(every)} of these emoji"
    folder.mkdir()
    rows = []
    for at in range(number):
        name, image = every[at * len(every) // number]
        path = folder / f"{at:03d}.png"
        image.save(path)
        rows.append((path, name))
    (folder / "captions.tsv").write_text("".join(f"{path.name}\t{name}\n" for path, name in rows), "utf-8")
    return rows


def write_copies(folder: Path, rows: list[tuple[Path, str]]) -> None:
    """The same pictures in other files: smaller, JPEG, on white, and captions.jsonl."""
    folder.mkdir()
    lines = []
    for path, name in rows:
        with Image.open(path) as image:
            ground = Image.new("RGBA", image.size, "white")
            copy = Image.alpha_composite(ground, image).convert("RGB").resize((85, 80))
        copy.save(folder / f"{path.stem}.jpg", quality=85)
        lines.append(json.dumps({"image": f"{path.stem}.jpg", "caption": name}) + "\n")
    (folder / "captions.jsonl").write_text("".join(lines), "utf-8")
