"""Recurrent layers by torch's fused kernels, which run several layers at a time.

The equations are in `layers/recurrent.py` and `layers/gated.py`.   B batch · T time · N hidden width · L layers
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.kernels.cpu.onednn import widened
from regard.kernels.exported import exporting, loop

KERNELS: dict[str, Any] = {"RNN_TANH": torch.rnn_tanh, "RNN_RELU": torch.rnn_relu, "GRU": torch.gru, "LSTM": torch.lstm}
CELLS: dict[str, Any] = {
    "RNN_TANH": torch.rnn_tanh_cell, "RNN_RELU": torch.rnn_relu_cell, "GRU": torch.gru_cell, "LSTM": torch.lstm_cell}


def run_recurrent(
    rnn: nn.RNNBase, x: Tensor, before: Any, dropout: Callable[[Tensor], Tensor], lengths: Tensor | None = None
) -> tuple[Tensor, Any]:
    """Outputs (B, T, N), and what is carried after each row's last real token: h (L, B, N), or h and c. `before` is the
    same, or None.

    In training on a CPU a layer at a time, as our `dropout` between them is drawn much sooner than torch's."""
    if exporting():
        return _run_cells(rnn, x, before, lengths)
    with widened(x):
        if lengths is not None:
            return _run_packed(rnn, x, before, lengths)
        if rnn.training and rnn.dropout and x.device.type == "cpu":
            return _run_layers(rnn, x, before, dropout)
        y, after = rnn(x, before)
    return y, after


def _run_packed(rnn: nn.RNNBase, x: Tensor, before: Any, lengths: Tensor) -> tuple[Tensor, Any]:
    """The kernel tells a row's state only at its end, so each row must end where its tokens do."""
    real = lengths.clamp(min=1).cpu()                                 # it refuses rows without tokens
    packed, after = rnn(pack_padded_sequence(x, real, batch_first=True, enforce_sorted=False), before)
    return pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])[0], after


def _run_layers(
    rnn: nn.RNNBase, x: Tensor, before: Any, dropout: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Any]:
    carried, run, ends = _carried(rnn, x, before), KERNELS[rnn.mode], []
    for layer, weights in enumerate(rnn.all_weights):
        own = [each[layer:layer + 1] for each in carried]
        x, *after = run(x if layer == 0 else dropout(x), own if len(own) > 1 else own[0], weights, True, 1, 0.0, True,
                        False, True)
        ends.append(after)
    after = tuple(torch.cat(each) for each in zip(*ends, strict=True))
    return x, after if len(after) > 1 else after[0]


def _carried(rnn: nn.RNNBase, x: Tensor, before: Any) -> tuple[Tensor, ...]:
    """h alone, or h and c, each (L, B, N); zeros where nothing was read before."""
    if before is None:
        return (x.new_zeros(rnn.num_layers, x.shape[0], rnn.hidden_size),) * (2 if rnn.mode == "LSTM" else 1)
    return before if isinstance(before, tuple) else (before,)


def _run_cells(rnn: nn.RNNBase, x: Tensor, before: Any, lengths: Tensor | None) -> tuple[Tensor, Any]:
    """As `run_recurrent`, one layer after another and a position at a time; a row that has ended stays as it is."""
    cell, ends = CELLS[rnn.mode], []
    real = None if lengths is None else (torch.arange(x.shape[1], device=x.device) < lengths[:, None])[..., None]
    for layer, weights in enumerate(rnn.all_weights):

        def step(
            was: tuple[Tensor, ...], now: tuple[Tensor, ...], weights: Sequence[Tensor] = weights
        ) -> tuple[tuple[Tensor, ...], Tensor]:
            is_now = cell(now[0], was if len(was) > 1 else was[0], *weights)
            is_now = is_now if isinstance(is_now, tuple) else (is_now,)
            if real is not None:
                is_now = tuple(torch.where(now[1], new, old) for new, old in zip(is_now, was, strict=True))
            return is_now, is_now[0]

        first = tuple(each[layer] for each in _carried(rnn, x, before))
        after, x = loop(step, first, (x,) if real is None else (x, real))
        ends.append(after)
    after = tuple(torch.stack(each) for each in zip(*ends, strict=True))
    return x, after if len(after) > 1 else after[0]
