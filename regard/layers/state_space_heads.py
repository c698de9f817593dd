"""Mamba-2: a selective state space in heads, with a norm behind its gate (Dao & Gu 2024).

    z, x b c, s = W_in u,      x, b, c = silu(conv(x b c)),      delta = softplus(s + bias)
    h[t] = exp(delta[t] a) h[t-1] + delta[t] x[t] b[t]^T
    y[t] = h[t] c[t] + skip x[t],                                the output is W_out norm(y silu(z))

Each head has a decay `a` and a step `delta`, one number each; the heads of a group share b and c. All that is read of
a word comes from one matrix, so that the convolution mixes b and c, too, with those of the words before. The norm is
the RMS norm of each group's channels.
B batch · T time · D inner channels · H heads · P channels of a head · G groups of heads · N states
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.contract import Memory, Role, SequenceLayer, State
from regard.kernels import Backend
from regard.kernels.grouped_dual import grouped_dual, grouped_dual_loop, training_backend
from regard.layers.convolution import CausalConvolution, Tail
from regard.layers.norms import EPS, GroupedRMSNorm
from regard.layers.roles import RESIDUAL
from regard.layers.state_space import (
    FASTEST,
    HEAD_WIDTH,
    MOST_GROUPS,
    SLOWEST,
    between,
    inverse_softplus,
    mean_kernels,
    passed,
    round_up,
)
from regard.watching import watching


@dataclass
class Mamba2State(State):
    """The state of the recurrence, and the last inputs of the convolution before it."""

    h: Tensor                # (B, H, P, N)
    tail: Tail               # of x, b and c side by side


class Mamba2(SequenceLayer):
    """One matrix in, a convolution, a state for each head, a gate, a norm, and one matrix out."""

    kernel_form = "states"

    def __init__(
        self, width: int, *, expand: float = 2.0, state: int = 128, conv: int = 4, head_width: int = HEAD_WIDTH,
        groups: int = 1, least_step: float = 0.0, most_step: float = 0.0, eps: float = EPS,
    ):
        super().__init__()
        self.d_in = self.d_out = width
        self.states, self.groups = state, groups
        self.heads = groups * max(1, round(expand * width / head_width / groups))
        self.inner = round_up(max(1, round(expand * width)), self.heads)              # heads are of one width
        self.maps = groups * min(self.heads // groups, max(1, MOST_GROUPS // groups))
        self.limits = least_step, most_step or math.inf
        self.into = nn.Linear(width, 2 * self.inner + 2 * groups * state + self.heads, bias=False)
        self.conv = CausalConvolution(self.inner + 2 * groups * state, taps=conv)
        self.step_bias = nn.Parameter(inverse_softplus(between(SLOWEST, FASTEST, self.heads)))
        self.log_rate = nn.Parameter(between(1.0, 16.0, self.heads).log())            # log(-a)
        self.skip = nn.Parameter(torch.ones(self.heads))
        self.norm = GroupedRMSNorm(self.inner, groups, eps=eps)
        self.out = nn.Linear(self.inner, width, bias=False)

    def parameter_roles(self) -> dict[str, Role]:
        codes = self.groups * self.states                                      # `into` gives z, x, b, c and the steps
        return {"into.weight": Role("matrix", (self.inner, self.inner, codes, codes, self.heads)),
                "out.weight": RESIDUAL}

    @property
    def a(self) -> Tensor:
        """(H,): never positive, so that nothing grows by itself."""
        return -self.log_rate.exp()

    @property
    def backend(self) -> Backend:
        """The code that computes the recurrence where the weights are, triton or torch, and why or when."""
        return training_backend(self.log_rate.device, self.inner // self.heads, self.states)

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> Mamba2State | None:
        tail = self.conv.start(batch, capacity)
        return None if tail is None else Mamba2State(self.nothing(batch), tail)

    def nothing(self, batch: int) -> Tensor:
        weight = self.log_rate
        return weight.new_zeros(batch, self.heads, self.inner // self.heads, self.states,
                                dtype=torch.promote_types(weight.dtype, torch.float32))

    def forward(
        self, u: Tensor, state: Mamba2State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Mamba2State | None]:
        codes = self.groups * self.states
        z, xbc, steps = self.into(u).split((self.inner, self.inner + 2 * codes, self.heads), -1)
        xbc, tail = self.conv(xbc, None if state is None else state.tail, lengths)
        x, b, c = F.silu(xbc).split((self.inner, codes, codes), -1)
        b, c = (each.unflatten(-1, (self.groups, -1)) for each in (b, c))             # each (B, T, G, N)
        delta = F.softplus(steps + self.step_bias).clamp(*self.limits)                # (B, T, H)
        if lengths is not None:                                                       # a pad takes no step: h stays
            real = torch.arange(u.shape[1], device=u.device) < lengths[:, None]
            delta = torch.where(real[..., None], delta, 0.0)
        recorder = watching()
        if recorder is not None:
            values, about = self.grouped_kernel(delta, b, c)
            recorder.add(self, "kernel", values, **about, past="none" if state is None else "left out")
        y, h = self.recur(x, delta, b, c, None if state is None else state.h)
        if recorder is not None and recorder.closely:
            recorder.readings[-1].about |= dict(
                delta=delta.detach(), a=self.a.detach(), b=b.detach(), c=c.detach(), u=x.detach(),
                skip=self.skip.detach(), output=y.detach())
        y = self.out(self.norm(y * F.silu(z)))
        return y, None if state is None or tail is None else Mamba2State(h, tail)

    def recur(self, x: Tensor, delta: Tensor, b: Tensor, c: Tensor, h: Tensor | None) -> tuple[Tensor, Tensor]:
        """y (B, T, D) and the last state. A single step is the equation itself, which compiles well."""
        x_ = x.unflatten(-1, (self.heads, -1))                                        # (B, T, H, P)
        dual = grouped_dual_loop if x.shape[1] == 1 else grouped_dual
        y, h = dual((delta[..., None] * x_).to(x.dtype), delta * self.a, b, c, h)
        return (y + self.skip[:, None] * x_).flatten(2), h

    # ------------------------------------------------------------------------------------------------ what it read

    def kernel(self, delta: Tensor, b: Tensor, c: Tensor, heads: slice = slice(None)) -> Tensor:
        """(B, H, T, T): what y[t] takes of x[s], signs and all; `heads` may be chosen.

            kernel[t, s] = c[t] . b[s] exp(a (delta[s+1] + ... + delta[t])) delta[s]            for s <= t
        """
        group = torch.arange(self.heads, device=delta.device)[heads] * self.groups // self.heads
        b, c = (each[:, :, group].transpose(1, 2) for each in (b, c))                 # (B, H, T, N)
        delta, a = delta[..., heads].transpose(1, 2), self.a[heads, None, None]
        return (c @ b.mT) * (a * passed(delta)).exp().tril() * delta[:, :, None]

    @torch.no_grad()
    def grouped_kernel(self, delta: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, dict[str, Any]]:
        """(B, maps, T, T): the mean kernel of neighbouring heads, which share b and c; and which heads."""
        of_group, maps = self.heads // self.groups, self.maps // self.groups          # heads and maps of a group
        bounds = [g * of_group + round(m * of_group / maps) for g in range(self.groups) for m in range(maps)]
        found = list(zip(bounds, [*bounds[1:], self.heads], strict=True))
        values = mean_kernels(lambda heads: self.kernel(delta, b, c, heads), delta, found)
        return values, dict(of="the mean over each group of heads", unit="head", groups=found)
