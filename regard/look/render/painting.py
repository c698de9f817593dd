"""Attention over patches, painted on the picture: for each word of a caption the picture, brightest where it was read.

As PNG or SVG a sheet of small pictures, a word each; as HTML a page in which word, layer and head are chosen.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from regard.look.look import LookSide
from regard.look.picture import Image, as_png
from regard.look.render.figure import quiet
from regard.look.render.files import write_form
from regard.look.render.labels import visible
from regard.look.render.saved_page import plain_side, saved_page, saved_track
from regard.look.side_tokens import patch_tokens
from regard.look.track import Floats, Track
from regard.look.views import Pick, check_pick, pool_layers

COLUMNS = 6


def paint(
    image: Image, caption: Any, grid: tuple[int, int], path: str | Path, *, layer: int | None = None,
    head: int | None = None,
) -> Path:
    """Write the picture (S, S, 3) of a Caption with its weights, painted, in the form that the file's ending names."""
    weights = caption.weights
    picks = [check_pick(name, pick, count, ()) if pick is not None else "mean"
             for name, pick, count in (("layer", layer, weights.shape[0]), ("head", head, weights.shape[1]))]
    read = pool_layers(weights, *picks).reshape(-1, *grid)                              # (words, R, Q)
    forms: dict[str, Callable[[Any], bytes | str]] = {
        ".png": lambda caption: sheet(image, read, caption.pieces, caption.text, "png"),
        ".svg": lambda caption: sheet(image, read, caption.pieces, caption.text, "svg"),
        ".html": lambda caption: painted_page(image, caption, grid, *picks)}
    return write_form(path, forms, caption, "a picture is painted as")


def painted_page(
    image: Image, caption: Any, grid: tuple[int, int], layer: Pick = "mean", head: Pick = "mean"
) -> str:
    """The picture in a page of its own, painted anew for each word, layer and head."""
    weights = np.asarray(caption.weights, np.float32)                                   # (N, H, words, patches)
    track = Track(
        name="patches", kind="weights", badge="weights, rows sum to 1", rows="rows", columns="image",
        about="How much of each patch of the picture is read at the step that says each word.",
        shape=weights.shape, held=weights)                                              # type: ignore[arg-type]
    sides = (plain_side("rows", "caption", caption.pieces),
             LookSide("image", "picture", "", patch_tokens(grid), grid, image.shape[1], image.shape[0], as_png(image)))
    first = {"layer": str(layer), "head": str(head)}
    return saved_page([saved_track(caption.text, "caption", "caption", track, sides, first)])


def sheet(
    image: Image, seen: Floats, words: tuple[str, ...], title: str, kind: str
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


def lit(image: Image, weights: Floats) -> Image:
    """The picture under a light: patches as bright as the square root of what was read of them, beside the most."""
    light = np.sqrt(np.clip(weights, 0, None))
    light = 0.12 + 0.88 * light / max(float(light.max()), 1e-12)
    tall, wide = (side // count for side, count in zip(image.shape[:2], weights.shape, strict=True))
    return (image * np.kron(light, np.ones((tall, wide)))[..., None]).astype(np.uint8)
