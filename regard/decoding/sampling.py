"""Choosing the next token from its distribution: greedy, temperature, top-k, top-p.

The noise is a function of (seed, row, position), not of a generator's past: a row draws the same text whatever
else is in the batch, and a text can be taken up again in the middle.   B batch · V vocabulary
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import SettingError


@dataclass(frozen=True)
class Sampling:
    """How to choose. Temperature 0 is greedy; top_k = 0 and top_p = 1 keep the whole vocabulary."""

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


def choose(log_probs: Tensor, how: Sampling, rows: Tensor, positions: Tensor) -> Tensor:
    """(B,) token ids from (B, V) log-probabilities; `rows` and `positions` (B,) say which noise is whose."""
    if how.temperature == 0:
        return log_probs.argmax(-1)
    weights, tokens = kept(log_probs, how)
    chances = weights.cumsum(-1)
    draw = uniform(how.seed, rows, positions).to(chances.device)[:, None] * chances[:, -1:]
    place = torch.searchsorted(chances, draw, right=True).clamp(max=_last_kept(weights))
    return tokens.gather(-1, place)[:, 0]


def kept(log_probs: Tensor, how: Sampling) -> tuple[Tensor, Tensor]:
    """Probabilities after temperature and cuts, largest first, and the tokens they belong to: both (B, V)."""
    ordered, tokens = log_probs.double().sort(dim=-1, descending=True, stable=True)
    weights = ((ordered - ordered[:, :1]) / how.temperature).softmax(-1)      # the largest is 0: nothing overflows
    if how.top_k:
        weights = torch.where(torch.arange(weights.shape[-1], device=weights.device) < how.top_k, weights, 0)
        weights = weights / weights.sum(-1, keepdim=True)
    if how.top_p < 1:
        held = weights.cumsum(-1).roll(1, -1)                # what the likelier tokens hold together
        held[:, 0] = 0
        weights = torch.where(held < how.top_p, weights, 0)
        weights = weights / weights.sum(-1, keepdim=True)
    return weights, tokens


def _last_kept(weights: Tensor) -> Tensor:
    """The last place that still has a chance, so that rounding can never choose a token that was cut."""
    return ((weights > 0).sum(-1, keepdim=True) - 1).clamp(min=0)


def uniform(seed: int, rows: Tensor, positions: Tensor) -> Tensor:
    """A number in [0, 1) for each (seed, row, position), by mixing their bits (the finaliser of splitmix64)."""
    drawn = [_mix(_mix(_mix(seed) ^ row) ^ position) / 2**64
             for row, position in zip(rows.tolist(), positions.tolist(), strict=True)]
    return torch.tensor(drawn, dtype=torch.float64)


def _mix(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)
