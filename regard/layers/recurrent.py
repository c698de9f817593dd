"""Recurrent layers: h[t] = f(W_h h[t-1] + W_c c[t]), one step after another.

Elman 1990.   B batch · T time · D input width (d_c) · N hidden width (d_h); the two need not be equal
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.contract import Memory, SequenceLayer, State
from regard.errors import SettingError

ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu}


@dataclass
class Hidden(State):
    """The hidden state: all that is known of the past."""

    h: Tensor                # (B, N)


class Elman(SequenceLayer):
    """The simple recurrent layer, with f = tanh or ReLU. The fused kernel runs it; `by_definition` says what it is."""

    w_h: Tensor              # (N, N)
    w_c: Tensor              # (N, D)
    b_h: Tensor              # (N,)
    b_c: Tensor              # (N,)

    def __init__(self, d_in: int, d_hidden: int, *, f: str = "tanh"):
        super().__init__()
        if f not in ACTIVATIONS:
            raise SettingError(f"model.f = {f!r}: the recurrent nonlinearity is one of {', '.join(ACTIVATIONS)}")
        self.d_in, self.d_out = d_in, d_hidden
        self.f = f
        self.cell = nn.RNN(d_in, d_hidden, nonlinearity=f, batch_first=True)
        # The fused kernel's own parameters, under the names of the equation (it keeps two biases, which it adds).
        for name, fused in (("w_h", "weight_hh"), ("w_c", "weight_ih"), ("b_h", "bias_hh"), ("b_c", "bias_ih")):
            self.register_parameter(name, getattr(self.cell, f"{fused}_l0"))
        nn.init.orthogonal_(self.w_h)                        # keeps the past alive at the start
        nn.init.xavier_uniform_(self.w_c)
        for bias in (self.b_h, self.b_c):
            nn.init.zeros_(bias)

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> Hidden | None:
        return None if capacity is None else Hidden(self.w_h.new_zeros(batch, self.d_out))

    def forward(
        self, x: Tensor, state: Hidden | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Hidden | None]:
        if state is None:
            return self.cell(x)[0], None                                              # (B, T, N)
        if x.shape[1] == 1:                                # a single step is the equation; it compiles, too
            y = self.by_definition(x, state.h.to(x.dtype))
        else:
            y, _ = self.cell(x, state.h[None].to(x.dtype))
        return y, Hidden(y[:, -1] if lengths is None else hidden_after(state.h, y, lengths))

    def by_definition(self, x: Tensor, h: Tensor) -> Tensor:
        """The equation, a step at a time: (B, T, N) from x (B, T, D) and the state h (B, N) before it."""
        states, bias = [], self.b_h + self.b_c
        for c in x.unbind(1):
            h = ACTIVATIONS[self.f](h @ self.w_h.T + c @ self.w_c.T + bias)
            states.append(h)
        return torch.stack(states, 1)


def hidden_after(before: Tensor, y: Tensor, lengths: Tensor) -> Tensor:
    """The hidden state after each row's last real token; a row that read nothing keeps the one before."""
    rows = torch.arange(y.shape[0], device=y.device)
    last = y[rows, (lengths - 1).clamp(min=0)]
    return torch.where((lengths > 0)[:, None], last, before.to(last.dtype))
