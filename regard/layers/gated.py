"""Gated recurrences: what is kept, what is forgotten and what is added are learned, so that the past can last.

LSTM: Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000. GRU: Cho et al. 2014.
B batch · T time · D input width (d_c) · N hidden width (d_h) · L layers
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.contract import State
from regard.layers.recurrent import Hidden, Recurrence, Vectors, Weights


class GRU(Recurrence):
    """The gated recurrent unit: a share z of the old state is kept, and the rest made new.

        r = sigmoid(W_hr h[t-1] + W_cr c[t])          how much of the past the new part may see
        z = sigmoid(W_hz h[t-1] + W_cz c[t])
        n = tanh(r * (W_hn h[t-1]) + W_cn c[t])
        h[t] = z * h[t-1] + (1 - z) * n               each with its biases
    """

    fused, gates, remembers = nn.GRU, 3, Hidden

    def equation(self, c: Tensor, before: Vectors, w: Weights) -> Vectors:
        (h,) = before
        past_r, past_z, past_n = (h @ w.w_h.T + w.b_h).chunk(3, -1)                   # each (B, N)
        now_r, now_z, now_n = (c @ w.w_c.T + w.b_c).chunk(3, -1)
        r, z = torch.sigmoid(past_r + now_r), torch.sigmoid(past_z + now_z)
        n = torch.tanh(r * past_n + now_n)
        return (z * h + (1 - z) * n,)


@dataclass
class HiddenAndCell(State):
    """The state of an LSTM: the output h and the cell c of each layer."""

    h: Tensor                # (B, L, N)
    c: Tensor                # (B, L, N)


class LSTM(Recurrence):
    """Long short-term memory: a cell to which is only ever added, behind gates that let in, forget and let out.

        i, f, o = sigmoid(W_h h[t-1] + W_c c[t])      each with its own matrices and biases
        g = tanh(W_hg h[t-1] + W_cg c[t])
        cell[t] = f * cell[t-1] + i * g
        h[t] = o * tanh(cell[t])
    """

    fused, gates, remembers = nn.LSTM, 4, HiddenAndCell

    def _initialise(self, weights: Weights) -> None:
        super()._initialise(weights)
        nn.init.ones_(weights.b_c.chunk(4)[1])         # the forget gate starts open: what is not yet needed is kept

    def equation(self, c: Tensor, before: Vectors, w: Weights) -> Vectors:
        h, cell = before
        i, f, g, o = (h @ w.w_h.T + c @ w.w_c.T + w.b_h + w.b_c).chunk(4, -1)         # each (B, N)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(cell), cell
