"""Queries, keys and values: q, k, v = f(W c) in heads of any width; or the states themselves, without any W.

Lectures write the score of a decoder's state s and an encoder's state h as s · h, s · W h or v · tanh(W s + U h): the
states as they are, and at most the matrices of the score. Transformers project both first: (W_q s) · (W_k h).

    both     q and k are projected; a location score reads no key, so that it has no key matrix
    none     q and k are the states: a plain product takes them slice by slice, one slice a head; a score with matrices
             of its own takes them whole in every head
    auto     in a recurrent decoder none, as the lectures have it, for `dot` where both widths are equal and for a score
             that has matrices of its own; else both: dot of projected states would be bilinear under another name
    all      both, and keys that nobody reads too: as runs had it before there was a choice

B batch · T time · D width · H heads · K width of a head's queries and keys
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.config import one_of
from regard.errors import SettingError
from regard.kernels.linear import split_linear

NONLINEARITIES: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh, "relu": torch.relu, "gelu": torch.nn.functional.gelu}
PROJECTIONS = ("auto", "both", "none", "all")
BIASES = ("none", "qkv", "all")            # which linear layers add a bias
OWN_MATRICES = ("bilinear", "low-rank", "scaled-low-rank", "additive", "location")


def bend(x: Tensor, f: str) -> Tensor:
    """f(x), element by element."""
    return x if f == "none" else NONLINEARITIES[f](x)


# --------------------------------------------------------------------------------------------------- heads


def head_widths(width: int, heads: int, head_width: int = 0, value_width: int = 0) -> tuple[int, int]:
    """The widths of a head's queries and keys, and of its values. By default a share of the width, and the same."""
    if not head_width:
        check_heads(width, heads)
    own = head_width or width // heads
    return own, value_width or own


def in_heads(x: Tensor, heads: int) -> Tensor:
    """(B, T, H K) to (B, T, H, K), K perhaps 0."""
    return x.unflatten(-1, (heads, x.shape[-1] // heads))


def project_heads(
    x: Tensor, layer: nn.Linear, sizes: list[int], heads: tuple[int, ...], f: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values f(W x): (B, T, H, K) each, of so many columns and heads, by one matrix W for all."""
    parts = split_linear(x, layer, sizes, NONLINEARITIES.get(f))
    q, k, v = (in_heads(part, own) for part, own in zip(parts, heads, strict=True))
    return q, k, v


def parts_of(*sizes: int) -> int:
    """The number of parts of equally many rows in a matrix whose first `sizes[0]` rows are one matrix, and so on."""
    return sum(sizes) // math.gcd(*sizes)


def check_heads(width: int, heads: int) -> None:
    """Heads share the width evenly, or the nearest number that would is named."""
    if width % heads:
        raise SettingError(
            f"model.heads = {heads} does not divide model.width = {width}: try model.heads = {nearest(width, heads)}")


def check_kv_heads(heads: int, kv_heads: int) -> None:
    if heads % kv_heads:
        raise SettingError(f"model.kv_heads = {kv_heads} does not divide model.heads = {heads}: "
                           f"try model.kv_heads = {nearest(heads, kv_heads)}")


def nearest(whole: int, wanted: int) -> int:
    """The divisor of `whole` that is nearest to the one wanted."""
    return min((d for d in range(1, whole + 1) if whole % d == 0), key=lambda d: abs(d - wanted))


# ---------------------------------------------------------------------------------- what is compared with what


@dataclass(frozen=True)
class Compared:
    """The inputs of a score: which of a target's and a source's states are projected first."""

    score: str
    queries: bool                  # q = f(W_q s), else s
    keys: bool                     # k = f(W_k h), else h; a location score reads none

    def states(self, x: Tensor, heads: int) -> Tensor:
        """(B, T, D), not projected, as (B, H, T, ·): whole in every head for a score with matrices, else in slices."""
        if self.score in OWN_MATRICES:
            return x[:, None].expand(-1, heads, -1, -1)
        return in_heads(x, heads).transpose(1, 2)

    def no_keys(self, x: Tensor, heads: int) -> Tensor:
        """(B, H, T, 0): how many places there are, and nothing of them."""
        return x.new_empty(len(x), heads, x.shape[1], 0)


def compared(
    projections: str, score: str, *, f: str = "none", head_width: int = 0, heads: int = 1, d_query: int, d_memory: int,
    states: bool,
) -> Compared:
    """Choose what is projected. `states`: with "auto", whether scores take states as they are (but scaled-dot, which is
    the Transformers'), or only the location score does. A choice that cannot be is one clear line."""
    one_of("model.projections", projections, PROJECTIONS)
    one_of("model.f", f, ("none", *NONLINEARITIES))
    if projections == "auto":
        fits = score in OWN_MATRICES or (score == "dot" and d_query == d_memory and d_query % heads == 0)
        plain = score == "location" or (states and fits)
        projections = "none" if plain and f == "none" and not head_width else "both"
    if projections != "none":
        return Compared(score, True, projections == "all" or score != "location")
    for name, value, nothing in (("f", f, "none"), ("head_width", head_width, 0)):
        if value != nothing:
            raise SettingError(f"model.{name} = {value} is about W c, and model.projections = none has no W: "
                               f"choose model.projections = both, or model.{name} = {nothing}")
    if score not in OWN_MATRICES:
        if d_query != d_memory:
            raise SettingError(
                f"model.score = {score} multiplies states as they are (model.projections = none), and the decoder asks "
                f"with {d_query} channels a source of {d_memory}: choose model.projections = both, or model.score = "
                "bilinear, which has a matrix between them")
        check_heads(d_query, heads)
    return Compared(score, False, False)
