"""Encoders of pictures: a picture is cut into square patches, and each becomes a vector, as each word of a text does.

Dosovitskiy et al. 2020 (patches and a Transformer over them); Xiao et al. 2021 (convolutions in the place of the cut).
S sources · C colours · R rows and Q columns of patches, L = R Q · P side of a patch · D width
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import one_of
from regard.contract import Encoder, Memory, Role, Source
from regard.errors import SettingError
from regard.kernels.dropout import Dropout
from regard.layers.feedforward import FeedForward
from regard.layers.full_attention import FullAttention
from regard.layers.norms import EPS
from regard.layers.positions import SinusoidalPositions
from regard.layers.roles import EMBEDDING, MATRIX
from regard.layers.stack import Block, Stack, make_norm

COLOURS = 3
STEMS = ("linear", "conv")
GRIDS = ("learned", "sinusoidal", "none")


def grid_of(size: tuple[int, int], patch: int) -> tuple[int, int]:
    """Rows and columns of patches in a picture of (height, width) pixels; patches that do not fill it are refused."""
    height, width = size
    if patch < 1 or height < 1 or width < 1 or height % patch or width % patch:
        common = math.gcd(height, width)
        fits = ", ".join(str(n) for n in range(1, common + 1) if common % n == 0)
        raise SettingError(f"model.patch = {patch}: a picture of {height} x {width} pixels is not a whole number of "
                           f"such patches; those that fill it have a side of {fits}")
    return height // patch, width // patch


def check_choices(stem: str, positions: str, *, patch: int, width: int) -> None:
    """A stem and positions that exist, and that these sizes allow."""
    one_of("model.stem", stem, STEMS)
    one_of("model.grid", positions, GRIDS)
    if stem == "conv" and (patch < 2 or patch & (patch - 1)):
        raise SettingError(f"model.patch = {patch}: convolutions halve the picture, so they want patches of 2, 4, 8, "
                           "16, ... pixels; or choose model.stem = linear")
    if positions == "sinusoidal" and width % 4:
        raise SettingError(f"model.width = {width}: sinusoidal positions in two dimensions need a multiple of 4")


# ---------------------------------------------------------------------------------- from pixels to vectors


def cut(pixels: Tensor, patch: int) -> Tensor:
    """(S, C, height, width) to (S, L, C P P): the patches row by row, each colour by colour, as a reader would go."""
    tiles = pixels.unflatten(3, (-1, patch)).unflatten(2, (-1, patch))                # (S, C, R, P, Q, P)
    return tiles.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def normalised(pixels: Tensor, dtype: torch.dtype) -> Tensor:
    """From -1 to 1: bytes count from 0 to 255, numbers from 0 to 1."""
    return pixels.to(dtype) * (2 / 255 if pixels.dtype == torch.uint8 else 2.0) - 1


class LinearStem(nn.Module):
    """W x + b for the pixels x of each patch."""

    def __init__(self, patch: int, width: int):
        super().__init__()
        self.patch = patch
        self.project = nn.Linear(COLOURS * patch**2, width)
        nn.init.normal_(self.project.weight, std=self.project.in_features**-0.5)
        nn.init.zeros_(self.project.bias)

    def forward(self, pixels: Tensor) -> Tensor:
        """(S, C, height, width) to (S, L, D)."""
        patches = cut(pixels, self.patch)                  # before they are numbers of four bytes: less to move
        return self.project(normalised(patches, self.project.weight.dtype))


class Halving(nn.Module):
    """A convolution of 3 x 3 pixels, at every other one. Its weight is kept as a matrix, and trained as one."""

    def __init__(self, below: int, above: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(above, 9 * below))
        self.bias = nn.Parameter(torch.zeros(above))
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")      # as loud above as below, though half is cut off

    def parameter_roles(self) -> dict[str, Role]:
        return {"weight": MATRIX}

    def forward(self, x: Tensor) -> Tensor:
        """(S, below, height, width) to (S, above, height / 2, width / 2)."""
        return nn.functional.conv2d(x, self.weight.unflatten(1, (-1, 3, 3)), self.bias, stride=2, padding=1)


class ConvStem(nn.Module):
    """Convolutions, each halving the picture, until a pixel stands for a patch and its surroundings."""

    def __init__(self, patch: int, width: int):
        super().__init__()
        halvings = patch.bit_length() - 1
        widths = [COLOURS, *(max(8, width >> n) for n in range(halvings - 1, 0, -1)), width]
        self.stack = nn.ModuleList(Halving(below, above) for below, above in pairwise(widths))

    def forward(self, pixels: Tensor) -> Tensor:
        """(S, C, height, width) to (S, L, D)."""
        x = normalised(pixels, next(self.parameters()).dtype)
        x = x.contiguous(memory_format=torch.channels_last)                           # a quarter faster on a CPU
        for number, halving in enumerate(self.stack):
            x = halving(x if number == 0 else nn.functional.relu(x))
        return x.permute(0, 2, 3, 1).flatten(1, 2)


# ------------------------------------------------------------------------------------------- where they stand


class LearnedGrid(nn.Module):
    """p[r, q] = row[r] + column[q]: what was learned of a row holds in all of its columns."""

    def __init__(self, grid: tuple[int, int], width: int):
        super().__init__()
        self.row_embedding, self.column_embedding = (nn.Parameter(torch.empty(number, width)) for number in grid)
        for table in (self.row_embedding, self.column_embedding):
            nn.init.normal_(table, std=0.2)

    def parameter_roles(self) -> dict[str, Role]:
        return {"row_embedding": EMBEDDING, "column_embedding": EMBEDDING}

    def forward(self) -> Tensor:
        """(L, D)."""
        return (self.row_embedding[:, None] + self.column_embedding).flatten(0, 1)


class SinusoidalGrid(nn.Module):
    """Sines and cosines: half of the channels say the row, the others the column."""

    places: Tensor

    def __init__(self, grid: tuple[int, int], width: int):
        super().__init__()
        self.axis = SinusoidalPositions(width // 2)
        rows, columns = grid
        places = torch.cartesian_prod(torch.arange(rows), torch.arange(columns))
        self.register_buffer("places", places, persistent=False)                      # (L, 2)

    def forward(self) -> Tensor:
        """(L, D), in float64: each half is as exact as can be, and small."""
        return self.axis.vectors(self.places, torch.float64).flatten(-2)


# ------------------------------------------------------------------------------------------------ the encoder


class PatchEncoder(Encoder):
    """blocks(stem(pixels) + positions): the vector of each patch, and their mean as the summary.

    Pixels are bytes, or numbers from 0 to 1. Without blocks (`layers` 0) no patch knows of another. `grid` is how many
    rows and columns of patches there are: position l of the memory is row l // columns, column l % columns.
    """

    def __init__(
        self, *, size: tuple[int, int], patch: int, width: int, heads: int = 1, layers: int = 0, stem: str = "linear",
        positions: str = "learned", activation: str = "gelu", expand: float = 4.0, norm: str = "layer",
        eps: float = EPS, bias: str = "none", placement: str = "pre", score: str = "scaled-dot", f: str = "none",
        head_width: int = 0, value_width: int = 0, unread_keys: bool = False, dropout: float = 0.0,
        attention_dropout: float = 0.0,
    ):
        super().__init__()
        norms: dict[str, Any] = dict(eps=eps, bias=bias == "all")
        check_choices(stem, positions, patch=patch, width=width)
        self.size, self.patch, self.d_out, self.grid = size, patch, width, grid_of(size, patch)
        self.stem = LinearStem(patch, width) if stem == "linear" else ConvStem(patch, width)
        self.positions = None if positions == "none" else (
            LearnedGrid if positions == "learned" else SinusoidalGrid)(self.grid, width)
        self.dropout = Dropout(dropout)
        self.stack = None if not layers else Stack([
            Block(FullAttention(width, heads=heads, positions="none", score=score, places=math.prod(self.grid), f=f,
                                head_width=head_width, value_width=value_width, unread_keys=unread_keys, bias=bias,
                                dropout=attention_dropout),
                  FeedForward(width, expand=expand, activation=activation, bias=bias == "all"),
                  norm=norm, **norms, placement=placement, dropout=dropout) for _ in range(layers)])
        # Post-norm has had its own, but for patches that go straight to memory.
        self.norm = make_norm(norm, width, **norms) if placement == "pre" or not layers else nn.Identity()

    def forward(self, source: Source) -> Memory:
        """Pixels (S, C, height, width) to vectors (S, L, D); a picture has no pads."""
        self.check(source.items)
        vectors = self.stem(source.items)
        if self.positions is not None:
            vectors = vectors + self.positions().to(vectors.dtype)
        vectors = self.dropout(vectors)
        if self.stack is not None:
            vectors, _ = self.stack(vectors)
        vectors = self.norm(vectors)
        lengths = torch.full(vectors.shape[:1], vectors.shape[1], device=vectors.device)
        return Memory(vectors, lengths, vectors.mean(1))

    def check(self, pixels: Tensor) -> None:
        if tuple(pixels.shape[1:]) != (COLOURS, *self.size):
            height, width = self.size
            raise SettingError(f"pictures of shape {tuple(pixels.shape[1:])} were given to a model that reads "
                               f"({COLOURS}, {height}, {width}): bring them to {height} x {width} pixels in colour")

    __call__: Callable[..., Memory]                  # nn.Module leaves this untyped
