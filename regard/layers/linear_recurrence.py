"""Linear recurrences: what is kept of the past is a sum, so nothing forces the positions to wait for one another.

The recurrence of recurrent.py with f(x) = x, in three forms:

    matrix      h[t] = W_h h[t-1] + W_c c[t]                          to read; mixes all channels at every step
    diagonal    h[t] = a * h[t-1] + sqrt(1 - a^2) * v[t]              one learned decay for each channel
    gated       h[t] = a[t] * h[t-1] + (1 - a[t]) * v[t]              decays that depend on what is read

The last two are a scan (`kernels/scan.py`) and an output gate, y[t] = W (o[t] * h[t]); what they read is each input
mixed with a little of the one before it, which is worth more than anything else of that price.
Martin & Cundy 2018; Peng et al. 2023; Orvieto et al. 2023.   B batch · T time · D width · N hidden width · G groups
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.contract import Memory, Role, SequenceLayer, State
from regard.kernels import Backend
from regard.kernels.matrix_scan import matrix_scan
from regard.kernels.scan import choose_backend, scan, state_after
from regard.layers.roles import RESIDUAL
from regard.watching import watching

GROUPS = 8                   # of channels, at most, whose mean kernels a watcher is shown
LONGEST = 64                # the longest memory at the start, in positions; the shortest is little more than one


@dataclass
class HiddenVector(State):
    """The hidden state: all that is known of the past."""

    h: Tensor                # (B, N)


def exact(x: Tensor) -> Tensor:
    """In float32 at least: half precision knows few decays near one, and what adds up wants more digits."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def nothing(weight: Tensor, batch: int, hidden: int) -> Tensor:
    return exact(weight.new_zeros(batch, hidden))


# ------------------------------------------------------------------------------------------------ matrix


class MatrixRecurrence(SequenceLayer):
    """h[t] = W_h h[t-1] + W_c c[t], and y = h; or y = W h, if another width is to come out."""

    def __init__(self, d_in: int, d_hidden: int, d_out: int | None = None):
        super().__init__()
        self.d_in, self.d_hidden, self.d_out = d_in, d_hidden, d_hidden if d_out is None else d_out
        self.w_h = nn.Parameter(nn.init.orthogonal_(torch.empty(d_hidden, d_hidden), gain=0.9))
        self.w_c = nn.Parameter(nn.init.xavier_uniform_(torch.empty(d_hidden, d_in)))
        self.out = None if d_out is None else nn.Linear(d_hidden, d_out, bias=False)

    maps = 1
    kernel_form = "matrix"             # which arithmetic its kernel has: look/arithmetic_kernel.py

    def parameter_roles(self) -> dict[str, Role]:
        return {} if self.out is None else {"out.weight": RESIDUAL}

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> HiddenVector | None:
        return None if capacity is None else HiddenVector(nothing(self.w_h, batch, self.d_hidden))

    def forward(
        self, x: Tensor, state: HiddenVector | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, HiddenVector | None]:
        recorder = watching()
        if recorder is not None:
            matrices = dict(w_h=self.w_h.detach(), w_c=self.w_c.detach()) if recorder.closely else {}
            recorder.add(self, "kernel", self.kernel(x), of="the norm of W_h^(t-s) W_c, for all channels together",
                         past="none" if state is None else "left out", **matrices)
        b = F.linear(x, self.w_c)                                                     # (B, T, N)
        h = matrix_scan(self.w_h.to(b.dtype), b, None if state is None else state.h.to(b.dtype))
        y = h if self.out is None else self.out(h)
        return y, None if state is None else HiddenVector(state_after(state.h, h, lengths).to(state.h.dtype))

    @torch.no_grad()
    def kernel(self, x: Tensor) -> Tensor:
        """(B, 1, T, T): how much position t reads of s, as the Frobenius norm of W_h^(t-s) W_c; no sign is left."""
        time, power, norms = x.shape[1], self.w_c.detach(), []
        for _ in range(time):
            norms.append(power.norm())
            power = self.w_h @ power
        lag = torch.arange(time, device=x.device)[:, None] - torch.arange(time, device=x.device)
        return torch.stack(norms)[lag.clamp(min=0)].tril().expand(x.shape[0], 1, time, time)


# -------------------------------------------------------------------------------------- diagonal and gated


@dataclass
class Recurrent(HiddenVector):
    """The hidden state, and the last input."""

    last: Tensor             # (B, D)


@dataclass
class Terms:
    """The terms of h[t] = a * h[t-1] + c * v, of which o * h[t] is the output. All broadcast to (B, T, N)."""

    a: Tensor                # how much of the past is kept
    c: Tensor                # how much of the value is written
    v: Tensor                # the value
    o: Tensor                # how much of the state is shown, of either sign


class LinearRecurrence(SequenceLayer):
    """y[t] = W (o[t] * h[t]) with h[t] = a[t] * h[t-1] + c[t] * v[t]; a form says what a, c, v and o are.

    All of them are read from x[t] + m * (x[t-1] - x[t]), with a learned share m for each channel.
    """

    kernel_form = "channels"

    def __init__(self, width: int, hidden: int, *, parts: int):
        super().__init__()
        self.d_in = self.d_out = width
        self.hidden, self.parts, self.maps = hidden, parts, min(GROUPS, hidden)
        self.into = nn.Linear(width, parts * hidden, bias=False)
        self.out = nn.Linear(hidden, width, bias=False)
        self.decay = nn.Parameter(spread_of_memories(hidden))
        self.mix = nn.Parameter(torch.full((width,), 0.2))

    def parameter_roles(self) -> dict[str, Role]:
        return {"into.weight": Role("matrix", self.parts), "out.weight": RESIDUAL}

    @property
    def backend(self) -> Backend:
        """The code that computes the recurrence where the weights are, triton or torch, and why."""
        return choose_backend(self.decay)

    @abstractmethod
    def terms(self, x: Tensor) -> Terms:
        """The terms of each position, from the mixed inputs."""

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> Recurrent | None:
        weight = self.out.weight
        return None if capacity is None else Recurrent(
            nothing(weight, batch, self.hidden), nothing(weight, batch, self.d_in))

    def mixed(self, x: Tensor, last: Tensor | None = None) -> Tensor:
        """Each input with a share of the one before it; zeros before the first."""
        first = torch.zeros_like(x[:, :1]) if last is None else last[:, None].to(x.dtype)
        return torch.lerp(x, torch.cat((first, x[:, :-1]), 1), self.mix.to(x.dtype))

    def forward(
        self, x: Tensor, state: Recurrent | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Recurrent | None]:
        terms = self.terms(self.mixed(x, None if state is None else state.last))
        h = scan(terms.a, terms.c * terms.v, None if state is None else state.h)
        recorder = watching()
        if recorder is not None:
            values, about = grouped_kernel(terms, state is not None)
            if recorder.closely:
                about |= {name: each.detach().expand(terms.v.shape) for name, each in vars(terms).items()}
                about["output"] = (terms.o * h).detach()
            recorder.add(self, "kernel", values, **about)
        y = self.out((terms.o * h).to(x.dtype))
        if state is None:
            return y, None
        return y, Recurrent(state_after(state.h, h, lengths), state_after(state.last, x.to(state.last.dtype), lengths))


class DiagonalRecurrence(LinearRecurrence):
    """h[t] = a * h[t-1] + sqrt(1 - a^2) * v[t]: one decay a in (0, 1) for each channel, the same at every position.

    The root keeps the state as large as the values, however long the memory.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__(width, hidden, parts=2)

    def terms(self, x: Tensor) -> Terms:
        v, o = self.into(x).chunk(2, -1)
        a = torch.sigmoid(exact(self.decay))
        return Terms(a, (1 - a * a).sqrt(), v, o)


class GatedRecurrence(LinearRecurrence):
    """h[t] = a[t] * h[t-1] + (1 - a[t]) * v[t], a[t] = sigmoid(W_a x[t] + decay): keep the past, or write over it."""

    def __init__(self, width: int, hidden: int):
        super().__init__(width, hidden, parts=3)

    def terms(self, x: Tensor) -> Terms:
        v, f, o = self.into(x).chunk(3, -1)
        f = exact(f) + self.decay
        return Terms(torch.sigmoid(f), torch.sigmoid(-f), v, o)


def spread_of_memories(hidden: int) -> Tensor:
    """Decays, before the sigmoid, whose memories 1 / (1 - a) go from 1.5 positions to LONGEST, evenly in logarithm."""
    lengths = torch.logspace(math.log10(1.5), math.log10(LONGEST), hidden)
    return torch.log(lengths - 1)                                                     # sigmoid of it is 1 - 1 / length


# ------------------------------------------------------------------------------------------------ watching


def kernel_by_definition(terms: Terms, time: int) -> Tensor:
    """(B, N, T, T): how much position t shows of the value at s, channel by channel and with its sign.

        o[t] h[t] = sum over s of kernel[t, s] v[s],        kernel[t, s] = o[t] * a[t] * ... * a[s+1] * c[s]
    """
    return torch.stack([row for row, _ in kernel_rows(terms, time)], 2)


def kernel_rows(terms: Terms, time: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Row by row: (B, N, T), what t shows of each s, and (B, N), what it shows of the state before the first."""
    batch, hidden = terms.v.shape[0], terms.v.shape[-1]
    a, c, o = (x.expand(batch, time, hidden) for x in (terms.a, terms.c, terms.o))
    row, past = a.new_zeros(batch, hidden, time), a.new_ones(batch, hidden)
    for t in range(time):
        row, past = a[:, t, :, None] * row, a[:, t] * past
        row[:, :, t] = c[:, t]
        yield o[:, t, :, None] * row, o[:, t] * past


@torch.no_grad()
def grouped_kernel(terms: Terms, has_past: bool) -> tuple[Tensor, dict[str, Any]]:
    """(B, G, T, T): the mean kernel of each group of neighbouring channels; and what it is a kernel of."""
    hidden, time = terms.v.shape[-1], terms.v.shape[1]
    groups = torch.arange(hidden, device=terms.v.device).tensor_split(min(GROUPS, hidden))
    rows, pasts = zip(*(
        [torch.stack([each[:, group].mean(1) for group in groups], 1) for each in pair]
        for pair in kernel_rows(terms, time)), strict=True)
    about: dict[str, Any] = dict(
        of="the mean over each group of channels", unit="channel",
        groups=[(int(group[0]), int(group[-1]) + 1) for group in groups], past="apart" if has_past else "none")
    if has_past:
        about["of_past"] = torch.stack(pasts, -1)                # (B, G, T): what is shown of the carried state
    return torch.stack(rows, 2), about
