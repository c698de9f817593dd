"""Attention over patches, painted on the picture: for each word of a caption the picture, brightest where it was read.

As PNG or SVG a sheet of small pictures, a word each; as HTML a page in which word, layer and head are chosen.
"""

from __future__ import annotations

import io
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import storage
from regard.errors import SettingError
from regard.probe.labels import visible
from regard.probe.render_figure import quiet
from regard.probe.render_html import Saved, plain_side, saved_page, track_of

COLUMNS = 6
FORMS = (".png", ".svg", ".html")

def paint(
    image: NDArray[np.uint8], caption: Any, grid: tuple[int, int], path: str | Path, *, layer: int | None = None,
    head: int | None = None,
) -> Path:
    """Write the picture (S, S, 3) of a Caption with its weights, painted, in the form that the file's ending names."""
    path = Path(path)
    if path.suffix.lower() not in FORMS:
        raise SettingError(f"{path} ends in {path.suffix or 'nothing'!r}: a picture is painted as {', '.join(FORMS)}")
    seen = chosen(caption.weights, layer, head).reshape(-1, *grid)                      # (words, R, Q)
    if path.suffix.lower() == ".html":
        drawn: bytes | str = painted_page(image, caption, grid, layer, head)
    else:
        drawn = sheet(image, seen, caption.pieces, caption.text, path.suffix.lower()[1:])
    storage.make_folder(path.parent)
    storage.write_file(path, drawn)
    return path


def painted_page(
    image: NDArray[np.uint8], caption: Any, grid: tuple[int, int], layer: int | None = None, head: int | None = None
) -> str:
    """The picture in a page of its own, painted anew for each word, layer and head."""
    pieces, weights = caption.pieces, np.asarray(caption.weights, np.float32)             # (N, H, words, patches)
    patches = [[place, f"row {place // grid[1] + 1}, column {place % grid[1] + 1}", -1, -1, False, -1]
               for place in range(grid[0] * grid[1])]
    sides = {"rows": plain_side("rows", "caption", pieces),
             "image": {"name": "image", "title": "picture", "text": "", "tokens": patches, "patches": list(grid),
                       "width": image.shape[1], "height": image.shape[0]}}
    track = track_of("patches", weights.shape, columns="image", badge="weights, rows sum to 1",
                     about="How much of each patch of the picture is read at the step that says each word.")
    look = {"model": "", "task": "caption", "family": "patches", "sides": sides, "written": None, "said": [],
            "tracks": [track], "notes": []}
    first = {"layer": str(layer or "mean"), "head": str(head or "mean")}
    return saved_page([Saved(caption.text, "caption", look, {"patches": weights}, as_png(image), first)])


def as_png(image: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    held = io.BytesIO()
    Image.fromarray(image).save(held, "PNG")
    return held.getvalue()


def chosen(weights: NDArray[np.float32], layer: int | None, head: int | None) -> NDArray[np.float32]:
    """(words, patches) of a layer and head, counted from 1, or of the mean of all."""
    for name, value, most in (("layer", layer, weights.shape[0]), ("head", head, weights.shape[1])):
        if value is not None and not 1 <= value <= most:
            raise SettingError(f"--{name} {value}: there are {most}, counted from 1")
    of_layers = weights.mean(0) if layer is None else weights[layer - 1]
    return of_layers.mean(0) if head is None else of_layers[head - 1]


def sheet(
    image: NDArray[np.uint8], seen: NDArray[np.float32], words: tuple[str, ...], title: str, kind: str
) -> bytes:
    """The picture once for each word; what was not read is dark."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = min(COLUMNS, 1 + len(words))
    rows = -(-(1 + len(words)) // columns)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "regard"}), quiet():
        figure = Figure(figsize=(1.7 * columns, 2.0 * rows + 0.5), layout="constrained")
        figure.suptitle(fill(visible(title), 20 * columns), parse_math=False)      # its own wrapping takes $ for maths
        figure.subplots(rows, columns)
        panels = figure.axes
        for panel in panels:
            panel.set_axis_off()
        panels[0].imshow(image)
        for panel, word, weights in zip(panels[1:], words, seen, strict=False):
            panel.imshow(lit(image, weights))
            panel.set_title(visible(word), fontsize=10, parse_math=False)
        held = io.BytesIO()
        figure.savefig(held, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else {"Software": None})
    return held.getvalue()


def lit(image: NDArray[np.uint8], weights: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The picture under a light: patches as bright as the square root of what was read of them, beside the most."""
    light = np.sqrt(np.clip(weights, 0, None))
    light = 0.12 + 0.88 * light / max(float(light.max()), 1e-12)
    tall, wide = (side // count for side, count in zip(image.shape[:2], weights.shape, strict=True))
    return (image * np.kron(light, np.ones((tall, wide)))[..., None]).astype(np.uint8)
