"""Looking at a model from Python: what it read, displayed in a notebook, on the terminal or in a file.

    regard.show("runs/stories", "the cat sat")                   # the reading map, where a notebook displays it
    regard.show(model, "Le chat noir.", track="cross", head=2)
    regard.show(captioner, image="photo.png").save("seen.html")

The notebook's view is the page of `regard serve` in a frame of its own, which may run its script and reach nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.look.look import Look, Request, look
from regard.look.render.drawing import Drawing, influence_track
from regard.look.views import Pick
from regard.trained import load

FRAME = ('<iframe title="{title}" sandbox="allow-scripts allow-downloads" style="width: 100%; height: {height}px; '
         'border: 0" srcdoc="{page}"></iframe>')


@dataclass(frozen=True)
class Shown:
    """A look that displays itself."""

    drawing: Drawing
    height: int = 720

    @property
    def look(self) -> Look:
        return self.drawing.look

    def _repr_html_(self) -> str:
        title = escape(self.drawing.title(), quote=True)
        return FRAME.format(title=title, height=self.height, page=escape(self.drawing.html(), quote=True))

    def __repr__(self) -> str:
        from regard.look.render.terminal import plain

        return plain(self.drawing.map()).rstrip("\n")

    def save(self, path: str | Path) -> Path:
        """Write it as .html, .svg, .png, .csv, .npz, .txt or .json, by the file's ending."""
        return self.drawing.save(path)


def show(
    model: Any, text: str | None = None, *, target: str | None = None, image: str | Path | bytes | None = None,
    new_tokens: int = 0, track: str = "", influence: str | None = None, layer: Pick = "mean",
    head: Pick = "mean", row: int | None = None, words: bool = False, height: int = 720, trust: bool = False,
) -> Shown:
    """Show what a model, or the one in a run folder, reads of a text, a source or an image.

    `track` says what is shown first (self, cross, kernel, ...), `influence` (gradient, sensitivity, occlusion) that how
    much each token matters is, `layer` and `head` are numbers from 1, mean, max or rollout.
    """
    trained = load(model, trust=trust) if isinstance(model, str | Path) else model
    name = Path(model).resolve().name if isinstance(model, str | Path) else ""
    seen = look(trained, request_for(trained, text, target, image, new_tokens))
    chosen = influence_track(seen, influence) if influence else track
    return Shown(Drawing(seen, chosen, layer, head, row, words, name), height)


def request_for(
    trained: Any, text: str | None, target: str | None = None, image: str | Path | bytes | None = None,
    new_tokens: int = 0,
) -> Request:
    """The request of a look: a language model reads a text, a translator a source, a captioner an image."""
    reads = trained.task.card.reads
    if reads == "image":
        given = image if image is not None else text
        if given is None:
            raise DataError("a captioner reads a picture: give image=, the name of a PNG or JPEG file")
        return Request(image=given if isinstance(given, bytes) else picture_file(given), target=target)
    if image is not None:
        raise DataError(f"image = {str(image)[:40]!r}: only a captioner reads pictures")
    if text is None:
        raise DataError("there is nothing to read: give a text")
    if reads == "text":
        if target is not None:
            raise DataError(f"target = {target[:40]!r}: this model reads one text; only a translator has a target")
        return Request(text=text, new_tokens=new_tokens)
    return Request(source=text, target=target)


def picture_file(name: str | Path) -> bytes:
    from regard.data.pictures.picture_files import check_file

    check_file(Path(name))
    return Path(name).read_bytes()
