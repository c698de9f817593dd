"""The arithmetic of one cell of influence: what a token is to a prediction, of any model.

    occlusion     log p(target) - log p(target, the token replaced)
    gradient      sum of g x, the gradient of log p towards the token's embedding times the embedding
    sensitivity   |g|

The text is read again here: once as it is, once with the token replaced, or once with a gradient.   D width
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.contract import Source
from regard.data.tokens.vocabulary import UNK
from regard.decoding.source_batches import pixels_of
from regard.look.arithmetic_sheet import Sheet
from regard.look.influence import embedding_gradient, evaluating, with_blanks
from regard.look.look import Look
from regard.look.picture import decoded, hide_patches
from regard.look.track import Track


@dataclass
class Scene:
    """The input of a look, ready to be read again with something changed."""

    model: Any
    tokens: Tensor                       # (1, T)
    targets: Tensor                      # (1, T)
    source: Source | None = None
    patch: int = 0                       # of a picture, pixels along a side of a patch
    columns: int = 0                     # of a picture, patches in a row
    mask: int | None = None              # of a masked model, the id of <mask>: it is asked for one row at a time

    def score(self, row: int, tokens: Tensor | None = None, source: Source | None = None) -> Tensor:
        """The log-probability of the target of one row."""
        tokens, source = self.tokens if tokens is None else tokens, source or self.source
        if self.mask is not None:
            wanted = torch.zeros_like(self.targets)
            wanted[0, row] = self.targets[0, row]
            return self.model.score(tokens, wanted)[0][0, row]
        state = None if source is None else self.model.start(1, None, source)
        return self.model.score(tokens, self.targets, state)[0][0, row]


def scene_of(trained: Any, look: Look) -> Scene:
    model = trained.model
    tokens = torch.tensor([[token.id for token in look.sides[look.written].tokens]], device=model.device)
    targets = torch.tensor([[each.id for each in look.predictions]], device=model.device)
    if "source" in look.sides:
        items = torch.tensor([[token.id for token in look.sides["source"].tokens]], device=model.device)
        return Scene(model, tokens, targets, Source(items))
    if "image" in look.sides:
        assert look.request.image is not None
        pixels = pixels_of(decoded(look.request.image, trained.size)[None], model.device)
        return Scene(model, tokens, targets, Source(pixels), trained.patch, trained.grid[1])
    return Scene(model, tokens, targets, mask=model.mask if look.in_place else None)


def influence_sheet(trained: Any, look: Look, track: Track, row: int, column: int) -> Sheet:
    scene, method = scene_of(trained, look), track.name.rsplit("-", 1)[-1]
    if scene.mask is not None:
        scene.tokens = scene.tokens.clone()
        scene.tokens[0, row] = scene.mask                   # a row is asked for what stands behind <mask>
    on_source = track.columns != look.written
    with evaluating(scene.model):
        if method == "occlusion":
            return by_occlusion(scene, look, on_source, row, column)
        return by_gradient(scene, look, on_source, row, column, method == "sensitivity")


# ---------------------------------------------------------------------------------------------- occlusion


@torch.no_grad()
def by_occlusion(scene: Scene, look: Look, on_source: bool, row: int, column: int) -> Sheet:
    whole = scene.score(row)
    lost = scene.score(row, *without(scene, on_source, column))
    instead = "the mean colour" if scene.patch else "<unk>" if scene.mask is None else "<mask>"
    never = bool(whole == lost) and not math.isfinite(float(whole))
    sheet = Sheet(texts=(*(["impossible"] * never), "influence"),
                  said={"said": look.predictions[row].piece, "instead": instead})
    sheet.put("with", whole)
    sheet.work("p with", "exp", "with")
    sheet.put("without", lost)
    sheet.work("p without", "exp", "without")
    sheet.step("twice")
    if never:
        sheet.put("difference", 0.0)
    else:
        sheet.work("difference", "minus", "with", "without", values=whole - lost)
    sheet.step("lost")
    return sheet


def without(scene: Scene, on_source: bool, column: int) -> tuple[Tensor | None, Source | None]:
    """The tokens or the source with one place saying nothing."""
    if not on_source:
        return with_blanks(scene.tokens[0], [column], UNK if scene.mask is None else scene.mask), None
    assert scene.source is not None
    (given,) = scene.source.items
    return None, Source(hide_patches(given, [column], scene.patch, scene.columns) if scene.patch else
                        with_blanks(given, [column], UNK))


# ----------------------------------------------------------------------------------------------- gradient


def embeddings(scene: Scene, on_source: bool) -> tuple[nn.Embedding, int]:
    """The module that gives the embeddings of the columns, and the position at which they begin."""
    model = scene.model
    if scene.source is None:
        return model.embedding, 0
    if model.one_text:
        return model.embedding, 0 if on_source else scene.source.items.shape[1]
    return (model.encoder.embedding if on_source else model.embedding), 0


def gradient(scene: Scene, on_source: bool, row: int, column: int) -> tuple[Tensor, Tensor]:
    """(D,) each: the gradient of the row's log-probability towards the column's embedding, and the embedding."""
    embedding, first = embeddings(scene, on_source)
    g, x = embedding_gradient(embedding, lambda: scene.score(row))
    return g[0, first + column], x[0, first + column]


def by_gradient(scene: Scene, look: Look, on_source: bool, row: int, column: int, norm: bool) -> Sheet:
    """The sheet of g . x; with `norm`, of |g|."""
    g, x = gradient(scene, on_source, row, column)
    sheet = Sheet(texts=("influence",), said={"said": look.predictions[row].piece})
    sheet.put("g", g)
    sheet.step("gradient")
    if norm:
        sheet.work("squares", "times", "g", "g")
        sheet.work("size", "norm", "g", values=g.norm())
        sheet.step("length")
        return sheet
    sheet.put("x", x)
    sheet.work("products", "times", "g", "x", values=g * x)
    sheet.work("sum", "sum", "products", values=(g * x).sum())
    sheet.step("times")
    return sheet
