"""Selective state spaces: a linear recurrence that chooses, word by word, what to keep (Gu & Dao 2023; Dao & Gu 2024).

    u, z = W_in x,   u = silu(conv(u))                 delta, b, c = functions of u
    h[t] = exp(delta[t] a) h[t-1] + delta[t] b[t] u[t]
    y[t] = c[t] . h[t] + skip u[t],                    the output is W_out (y silu(z))

`decay = "channel"`: every channel has its own delta, and its own decay for each of its N states (Mamba); computed by
a scan. `decay = "head"`: all states of a head of P channels fade alike, as in Mamba-2, which is another block
(layers/state_space_heads.py); computed by products of matrices.
B batch · T time · D inner channels · N states · H heads · P channels of a head · G groups of channels
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.contract import Memory, Role, SequenceLayer, State
from regard.errors import SettingError
from regard.kernels import Backend
from regard.kernels.selective_scan import choose_backend, selective_scan, selective_scan_loop
from regard.kernels.state_space_dual import state_space_dual, state_space_dual_loop
from regard.layers.convolution import CausalConvolution, Tail
from regard.layers.roles import RESIDUAL
from regard.watching import watching

DECAYS = ("channel", "head")
HEAD_WIDTH = 64              # channels of a head, about
SLOWEST, FASTEST = 1e-3, 1e-1            # steps delta at the start, before anything is learned
MOST_GROUPS = 8              # kernels shown to a watcher


@dataclass
class SelectiveState(State):
    """The state of the recurrence, and the last inputs of the convolution before it."""

    h: Tensor                # (B, D, N), or (B, H, P, N) for heads
    tail: Tail


class SelectiveSSM(SequenceLayer):
    """A convolution, a selective recurrence and a gate, between two matrices."""

    kernel_form = "states"

    def __init__(self, width: int, *, expand: float = 2.0, state: int = 16, conv: int = 4, decay: str = "channel"):
        super().__init__()
        if decay not in DECAYS:
            raise SettingError(f"model.decay = {decay!r}: choose one of {', '.join(DECAYS)}")
        self.d_in = self.d_out = width
        self.decay, self.states = decay, state
        self.heads = max(1, round(expand * width / HEAD_WIDTH)) if decay == "head" else 0
        self.inner = round_up(max(1, round(expand * width)), self.heads or 1)         # heads are of one width
        self.maps = min(MOST_GROUPS, self.heads or self.inner)
        self.into = nn.Linear(width, 2 * self.inner, bias=False)
        self.conv = CausalConvolution(self.inner, taps=conv)
        self.codes = nn.Linear(self.inner, 2 * state, bias=False)                     # b and c
        self.steps = self._make_steps()
        size = self.heads or self.inner
        self.step_bias = nn.Parameter(inverse_softplus(between(SLOWEST, FASTEST, size)))
        # log(-a), (D, N) as a vector: saved runs have it so.
        rates = between(1.0, 16.0, size) if self.heads else torch.arange(1.0, state + 1).repeat(size)
        self.log_rate = nn.Parameter(rates.log())
        self.skip = nn.Parameter(torch.ones(size))
        self.out = nn.Linear(self.inner, width, bias=False)

    def _make_steps(self) -> nn.Module:
        """The map from u to delta, before its bias: a number a head, or one a channel through a narrow middle."""
        if self.heads:
            return nn.Linear(self.inner, self.heads, bias=False)
        rank = max(1, math.ceil(self.d_in / 16))
        return nn.Sequential(nn.Linear(self.inner, rank, bias=False), nn.Linear(rank, self.inner, bias=False))

    @property
    def a(self) -> Tensor:
        """(D, N), or (H,) for heads; never positive, so that nothing grows by itself."""
        rates = -self.log_rate.exp()
        return rates if self.heads else rates.view(self.inner, self.states)

    def parameter_roles(self) -> dict[str, Role]:
        two = Role("matrix", parts=2)                          # u and z; b and c
        return {"into.weight": two, "codes.weight": two, "out.weight": RESIDUAL}

    @property
    def backend(self) -> Backend:
        """The code that computes the recurrence where the weights are, triton or torch, and why."""
        if self.heads:
            return Backend("torch", "products of matrices")
        return choose_backend(self.log_rate.device, self.log_rate.dtype)

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> SelectiveState | None:
        tail = self.conv.start(batch, capacity)
        return None if tail is None else SelectiveState(self.nothing(batch), tail)

    def nothing(self, batch: int) -> Tensor:
        shape = (self.heads, self.inner // self.heads) if self.heads else (self.inner,)
        weight = self.log_rate
        return weight.new_zeros(batch, *shape, self.states, dtype=torch.promote_types(weight.dtype, torch.float32))

    def forward(
        self, x: Tensor, state: SelectiveState | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, SelectiveState | None]:
        u, z = self.into(x).chunk(2, -1)                                              # each (B, T, D)
        u, tail = self.conv(u, None if state is None else state.tail, lengths)
        u = F.silu(u)
        delta = F.softplus(self.steps(u) + self.step_bias)                            # (B, T, D), or (B, T, H)
        if lengths is not None:                                                       # a pad takes no step: h stays
            real = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
            delta = torch.where(real[..., None], delta, 0.0)
        b, c = self.codes(u).chunk(2, -1)                                             # each (B, T, N)
        recorder = watching()
        if recorder is not None:
            values, groups = self.grouped_kernel(delta, b, c)
            recorder.add(self, "kernel", values, **groups, past="none" if state is None else "left out")
        y, h = self.recur(u, delta, b, c, None if state is None else state.h)
        if recorder is not None and recorder.closely:
            recorder.readings[-1].about |= dict(
                delta=delta.detach(), a=self.a.detach(), b=b.detach(), c=c.detach(), u=u.detach(),
                skip=self.skip.detach(), output=y.detach())
        y = self.out(y * F.silu(z))
        return y, None if state is None or tail is None else SelectiveState(h, tail)

    def recur(self, u: Tensor, delta: Tensor, b: Tensor, c: Tensor, h: Tensor | None) -> tuple[Tensor, Tensor]:
        """y (B, T, D) and the last state. A single step is the equation itself, which compiles well."""
        single = u.shape[1] == 1
        if not self.heads:
            scan = selective_scan_loop if single else selective_scan
            y, h = scan(u, delta, self.a, b, c, h)
            return y + self.skip * u, h
        u_ = u.unflatten(-1, (self.heads, -1))                                        # (B, T, H, P)
        dual = state_space_dual_loop if single else state_space_dual
        y, h = dual((delta[..., None] * u_).to(u.dtype), delta * self.a, b, c, h)
        return (y + self.skip[:, None] * u_).flatten(2), h

    # ------------------------------------------------------------------------------------------------ what it read

    def kernel(self, delta: Tensor, b: Tensor, c: Tensor, channels: slice = slice(None)) -> Tensor:
        """(B, D, T, T), or (B, H, T, T): what y[t] takes of u[s], signs and all; `channels` (or heads) may be chosen.

            kernel[t, s] = c[t] . exp(a (delta[s+1] + ... + delta[t])) delta[s] b[s]            for s <= t
        """
        delta, a = delta[..., channels].transpose(1, 2), self.a[channels]             # (B, D, T) and (D, N) or (H,)
        fade = passed(delta)                                                          # (B, D, T, T)
        if self.heads:
            return (c @ b.mT)[:, None] * (a[:, None, None] * fade).exp().tril() * delta[:, :, None]
        summed = torch.zeros_like(fade)
        for n in range(self.states):                                                  # never (B, D, T, T, N)
            codes = c[:, :, n, None] * b[:, None, :, n]                               # (B, T, T)
            summed += codes[:, None] * (a[:, n, None, None] * fade).exp()
        return summed.tril() * delta[:, :, None]

    @torch.no_grad()
    def grouped_kernel(self, delta: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, dict[str, Any]]:
        """(B, G, T, T): the mean kernel of each of at most 8 groups of neighbouring channels or heads; and which."""
        size = delta.shape[-1]
        bounds = [round(g * size / min(size, MOST_GROUPS)) for g in range(min(size, MOST_GROUPS) + 1)]
        groups = list(pairwise(bounds))
        values = mean_kernels(lambda channels: self.kernel(delta, b, c, channels), delta, groups)
        unit = "head" if self.heads else "channel"
        return values, dict(of=f"the mean over each group of {unit}s", unit=unit, groups=groups)


def mean_kernels(
    kernel: Callable[[slice], Tensor], delta: Tensor, groups: Sequence[tuple[int, int]]
) -> Tensor:
    """(B, G, T, T): the mean of the kernels of each group, from its first channel up to its last."""
    values = delta.new_zeros(len(delta), len(groups), delta.shape[1], delta.shape[1])
    for g, (start, stop) in enumerate(groups):
        for at in range(start, stop, 16):                                             # a few channels at a time
            values[:, g] += kernel(slice(at, min(at + 16, stop))).sum(1)
        values[:, g] /= stop - start
    return values


def passed(delta: Tensor) -> Tensor:
    """(..., T, T): the time that passes between s and t, delta[s+1] + ... + delta[t]; zero where s comes after t."""
    so_far = delta.cumsum(-1)
    return (so_far[..., :, None] - so_far[..., None, :]).tril()


def between(low: float, high: float, count: int) -> Tensor:
    """Drawn evenly in logarithm."""
    return torch.empty(count).uniform_(math.log(low), math.log(high)).exp()


def inverse_softplus(x: Tensor) -> Tensor:
    return x + torch.log(-torch.expm1(-x))


def round_up(x: int, step: int) -> int:
    return -(-x // step) * step
