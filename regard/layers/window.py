"""A window on the last words: y[t] = f(W [x[t-k+1]; ...; x[t]] + b), k words, each place with weights of its own.

Bengio et al. 2003, without direct connections from words to predictions.
B batch · T time · D width in · N width out · k words in the window (n - 1, for a model of order n)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.contract import Memory, SequenceLayer, State
from regard.kernels.dropout import Dropout
from regard.layers.convolution import tail_after
from regard.layers.perceptron import NONLINEARITIES, nonlinearity


@dataclass
class LastInputs(State):
    """The last inputs of each row, the newest last; zeros stand where nothing was read yet."""

    last: Tensor             # (B, k, D)


class Window(SequenceLayer):
    """The last k inputs, one behind the other, through one matrix and a nonlinearity."""

    def __init__(self, d_in: int, d_out: int, *, words: int, activation: str = "relu", dropout: float = 0.0):
        super().__init__()
        assert words >= 1, "a window holds at least the word just read"
        self.d_in, self.d_out, self.words = d_in, d_out, words
        self.activation = nonlinearity(activation)
        self.mix = nn.Linear(words * d_in, d_out)
        self.dropout = Dropout(dropout)

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> LastInputs | None:
        return None if capacity is None else LastInputs(self.nothing(batch))

    def nothing(self, batch: int) -> Tensor:
        return self.mix.weight.new_zeros(batch, self.words, self.d_in)

    def forward(
        self, x: Tensor, state: LastInputs | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, LastInputs | None]:
        before = self.nothing(x.shape[0]) if state is None else state.last
        seen = torch.cat((before.to(x.dtype), x), 1)                                  # (B, k + T, D)
        y = self.dropout(NONLINEARITIES[self.activation](self.mix(self.windows(seen))))
        return y, None if state is None else LastInputs(tail_after(seen, lengths, self.words).to(state.last.dtype))

    def windows(self, seen: Tensor) -> Tensor:
        """(B, T, k D): each position with the k - 1 before it, the oldest first; `seen` has k from before."""
        time = seen.shape[1] - self.words
        return torch.cat([seen[:, first : first + time] for first in range(1, self.words + 1)], -1)
