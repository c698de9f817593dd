"""Choosing the next token from its distribution: greedy, temperature, top-k, top-p.

The noise is a function of (seed, row, position), not of a generator's past: a row draws the same text in any batch, and
a text can be continued from the middle.   B batch · V vocabulary
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import SettingError
from regard.kernels import sample

BLOCK = 32                     # tokens, of which only the likeliest is compared first
LAST = 2**32 - 1


@dataclass(frozen=True)
class Sampling:
    """Options of sampling. Temperature 0 is greedy; top_k = 0 and top_p = 1 keep the whole vocabulary."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (self.temperature >= 0 and math.isfinite(self.temperature)):
            raise SettingError(f"--temperature {self.temperature}: must be 0 (greedy) or more")
        if self.top_k < 0:
            raise SettingError(f"--top-k {self.top_k}: must be 0 (all) or more")
        if not 0 < self.top_p <= 1:
            raise SettingError(f"--top-p {self.top_p}: must be above 0 and at most 1")


def choose(log_probs: Tensor, sampling: Sampling, rows: Tensor, positions: Tensor) -> Tensor:
    """Return token ids (B,) from log-probabilities (B, V), with the noise of `rows` and `positions` (B,)."""
    rows, positions = rows.to(log_probs.device), positions.to(log_probs.device)
    return choose_next(log_probs, sampling, row_noise(sampling.seed, rows), positions)


def choose_next(log_probs: Tensor, sampling: Sampling, noise: Tensor, positions: Tensor) -> Tensor:
    """Return what `choose` returns, from the noise of each row (see `row_noise`); everything on one device."""
    if sampling.temperature == 0:
        return choose_by(log_probs, sampling, None)
    if sample.can(log_probs, sampling.top_k, sampling.top_p):
        return sample.sample_tokens(log_probs, noise, positions, sampling.temperature, sampling.top_k)
    return choose_by(log_probs, sampling, uniform(noise, positions))


def choose_by(log_probs: Tensor, sampling: Sampling, drawn: Tensor | None) -> Tensor:
    """Return token ids (B,) by a number in [0, 1) for each row, on the same device; greedy needs none."""
    if sampling.temperature == 0 or drawn is None:
        return log_probs.argmax(-1)
    weights, tokens = cut_distribution(log_probs, sampling)
    chances = weights.cumsum(-1)
    draw = drawn[:, None] * chances[:, -1:]
    place = torch.searchsorted(chances, draw, right=True).clamp(max=_last_kept(weights))
    return tokens.gather(-1, place)[:, 0]


def cut_distribution(log_probs: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Return probabilities after temperature and cuts, and their tokens: both (B, V), or (B, k) with a top-k.

    Only top-p sorts them, the largest first: that takes long with a large vocabulary."""
    if 0 < sampling.top_k < log_probs.shape[-1]:
        tokens = likeliest(log_probs, sampling.top_k)
        values = log_probs.gather(-1, tokens).double()
    else:
        tokens = torch.arange(log_probs.shape[-1], device=log_probs.device).expand_as(log_probs)
        values = log_probs.double()
    if sampling.top_p < 1:
        values, order = values.sort(dim=-1, descending=True, stable=True)
        tokens = tokens.gather(-1, order)
    largest = values.amax(-1, keepdim=True)
    weights = ((values - largest) / sampling.temperature).softmax(-1)              # the largest is 0: nothing overflows
    if sampling.top_p < 1:
        held = weights.cumsum(-1).roll(1, -1)                # the probability of all likelier tokens
        held[:, 0] = 0
        weights = torch.where(held < sampling.top_p, weights, 0)
        weights = weights / weights.sum(-1, keepdim=True)
    return weights, tokens


def likeliest(values: Tensor, k: int) -> Tensor:
    """Return the indices (B, k) of the k largest of each row, in increasing order; of equals the first ones.

    In two steps, exactly: they lie in the k blocks with the largest maxima; of equals, again, the first ones.
    """
    vocab = values.shape[-1]
    if values.dtype != torch.float32:
        return likeliest_by_definition(values, k)
    places = torch.arange(vocab, device=values.device)
    if k * BLOCK >= vocab:
        return largest(values, places, k).sort(-1).values
    full = vocab // BLOCK * BLOCK
    maxima = values[:, :full].unflatten(1, (-1, BLOCK)).amax(-1)
    if full < vocab:
        maxima = torch.cat((maxima, values[:, full:].amax(-1, keepdim=True)), 1)
    block = largest(maxima, places[:maxima.shape[1]], k)
    index = (block[..., None] * BLOCK + places[:BLOCK]).flatten(1)                     # (B, k * BLOCK)
    chosen = values.gather(1, index.clamp(max=vocab - 1))
    return largest(torch.where(index < vocab, chosen, -torch.inf), index, k).sort(-1).values


def largest(values: Tensor, places: Tensor, k: int) -> Tensor:
    """Return the places of the k largest of each row, of equals the first ones; in no order.

    The bits of floats, as whole numbers, are in order but for the sign; with the place in the low bits, none are equal.
    """
    bits = (values + 0.0).view(torch.int32)                    # there is a -0.0, which is equal to 0.0
    ordered = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long()
    keys = (ordered << 32) | (LAST - places)
    return LAST - (keys.topk(k, dim=-1, sorted=False).values & LAST)


def likeliest_by_definition(values: Tensor, k: int) -> Tensor:
    return values.sort(dim=-1, descending=True, stable=True).indices[:, :k].sort(-1).values


def _last_kept(weights: Tensor) -> Tensor:
    """Return the last index with a probability, so that rounding never chooses a token that was cut."""
    places = torch.arange(weights.shape[-1], device=weights.device)
    return torch.where(weights > 0, places, 0).amax(-1, keepdim=True)


def uniform(noise: Tensor, positions: Tensor) -> Tensor:
    """Return a number in [0, 1) for each (seed, row, position), from the noise of the row.

    Bits are mixed by the finaliser of splitmix64, on any device: int64 wraps around as its 64 bits do."""
    return _shifted(_mix(noise ^ positions), 11).double() * 2.0**-53


def row_noise(seed: int, rows: Tensor) -> Tensor:
    """Return 64 random bits for each (seed, row)."""
    return _mix(_mix(torch.full_like(rows, _as_signed(seed % 2**64))) ^ rows)


def _mix(x: Tensor) -> Tensor:
    x = x + _as_signed(0x9E3779B97F4A7C15)
    x = (x ^ _shifted(x, 30)) * _as_signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shifted(x, 27)) * _as_signed(0x94D049BB133111EB)
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Shift to the right, with zeros coming in at the left."""
    return (x >> bits) & (2 ** (64 - bits) - 1)


def _as_signed(x: int) -> int:
    return x - 2**64 if x >= 2**63 else x
