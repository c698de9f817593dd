"""Scores e(q, k): how well a query matches a key, one number before the softmax. Attention is the same for all of them.

    dot                q · k
    scaled-dot         q · k / sqrt K                 Vaswani et al. 2017
    bilinear           q · W k                        multiplicative attention, Luong et al. 2015
    low-rank           (U q) · (V k)                  the same with W = U^T V of a small rank R
    scaled-low-rank    (U q) · (V k) / sqrt R         what `low-rank` was in earlier runs
    additive           v · tanh(W q + U k)            a small network, Bahdanau et al. 2014
    location           the l-th entry of W q + b      says where to look without looking at any key

q and k may be states as they are, of two widths, or projected first: see projections.py. The products serve the fast
kernels too: each is a changed query times a changed key.
B batch · H heads · T queries · L keys · K width of queries · J width of keys · R rank · A width of the network
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from regard.errors import SettingError, did_you_mean
from regard.kernels.exported import pieces

LARGEST = 2**24                # entries of tanh(W q + U k) held at once


class Score(nn.Module, ABC):
    """e(q, k) of queries (B, H, T, K) and keys (B, H, L, J): (B, H, T, L)."""

    name: str                          # as `model.score` has it
    scale: float = 1.0                 # what a product is multiplied by
    most_positions: int | None = None  # keys that it can tell apart, a pad beside them; None: no limit

    @abstractmethod
    def forward(self, q: Tensor, k: Tensor) -> Tensor: ...


class ProductScore(Score):
    """A score that is scale * q' · k'."""

    @abstractmethod
    def factors(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, float]:
        """q', k' and the scale."""

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        q, k, scale = self.factors(q, k)
        return q @ k.transpose(-1, -2) * scale


class Dot(ProductScore):
    def __init__(self, heads: int, width: int, *, scaled: bool = True):
        super().__init__()
        self.scale, self.name = (width**-0.5, "scaled-dot") if scaled else (1.0, "dot")

    def factors(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, float]:
        return q, k, self.scale


class Bilinear(ProductScore):
    def __init__(self, heads: int, width: int, d_key: int = 0):
        super().__init__()
        d_key = d_key or width
        self.name = "bilinear"
        self.weight = nn.Parameter(torch.empty(heads, width, d_key))
        nn.init.normal_(self.weight, std=1 / math.sqrt(width * d_key))

    def factors(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, float]:
        return per_head(q, self.weight), k, 1.0


class LowRank(ProductScore):
    """However many channels the rank has, scores start as far apart: the matrices are small, or what they give is."""

    def __init__(self, heads: int, width: int, rank: int = 16, d_key: int = 0, *, scaled: bool = False):
        super().__init__()
        self.scale, self.name = (rank**-0.5, "scaled-low-rank") if scaled else (1.0, "low-rank")
        self.u = nn.Parameter(torch.empty(heads, width, rank))
        self.v = nn.Parameter(torch.empty(heads, d_key or width, rank))
        for weight in (self.u, self.v):
            nn.init.normal_(weight, std=weight.shape[1] ** -0.5 * (1.0 if scaled else rank**-0.25))

    def factors(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, float]:
        return per_head(q, self.u), per_head(k, self.v), self.scale


class Additive(Score):
    def __init__(self, heads: int, width: int, inner: int | None = None, d_key: int = 0):
        super().__init__()
        inner = inner or width
        self.name = "additive"
        self.w = nn.Parameter(torch.empty(heads, width, inner))
        self.u = nn.Parameter(torch.empty(heads, d_key or width, inner))
        self.v = nn.Parameter(torch.empty(heads, inner, 1))
        for weight in (self.w, self.u):
            nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
        nn.init.normal_(self.v, std=inner**-0.5)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        q, k = per_head(q, self.w), per_head(k, self.u)                       # (B, H, T, A), (B, H, L, A)
        entries = q.shape[0] * q.shape[1] * k.shape[2] * k.shape[3]
        rows = max(1, LARGEST // max(1, entries))
        parts = [self.of_some(part, k) for part in pieces(q, rows, 2)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 2)

    def of_some(self, q: Tensor, k: Tensor) -> Tensor:
        inner = torch.tanh(q[:, :, :, None] + k[:, :, None])                          # (B, H, T, L, A)
        # Head by head: a product with one vector each is many times quicker than a batch of thin matrices.
        return torch.stack([own @ v for own, v in zip(inner.unbind(1), self.v[..., 0].unbind(0), strict=True)], 1)


class Location(Score):
    """A number for each place of the source, from the query alone; there are only so many places."""

    def __init__(self, heads: int, width: int, places: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, width, places))
        self.bias = nn.Parameter(torch.zeros(heads, 1, places))
        self.name, self.most_positions = "location", places - 1
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        places, length = self.weight.shape[-1], k.shape[2]
        if length > places:
            raise SettingError(f"a source of {length} tokens is longer than the {places} places that a location score "
                               f"knows: train with --context {length}, or choose another model.score")
        return (per_head(q, self.weight) + self.bias)[..., :length]


def per_head(x: Tensor, weight: Tensor) -> Tensor:
    """(B, H, T, K) times (H, K, A): each head by its own matrix. A single head is one large product, not B small."""
    return x @ (weight[0] if len(weight) == 1 else weight)


SCORES = ("dot", "scaled-dot", "bilinear", "low-rank", "additive", "location")
ALL_SCORES = (*SCORES, "scaled-low-rank")


def make_score(name: str, heads: int, width: int, *, d_key: int = 0, rank: int = 16, places: int = 128) -> Score:
    """A score of queries of this width; keys have the same, or `d_key`."""
    if name not in ALL_SCORES:
        raise SettingError(f"model.score = {name!r}{did_you_mean(name, ALL_SCORES)}")
    if name in ("dot", "scaled-dot"):
        return Dot(heads, width, scaled=name == "scaled-dot")
    if name in ("low-rank", "scaled-low-rank"):
        return LowRank(heads, width, min(rank, width, d_key or width), d_key, scaled=name != "low-rank")
    if name == "location":
        return Location(heads, width, places)
    return Bilinear(heads, width, d_key) if name == "bilinear" else Additive(heads, width, d_key=d_key)


def plain(q: Tensor, k: Tensor) -> Tensor:
    """q · k / sqrt K, what attention uses unless told otherwise."""
    return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
