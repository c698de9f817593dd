"""Recurrent layers by torch's fused kernels, which run several layers at a time.

The equations are in `layers/recurrent.py` and `layers/gated.py`.   B batch · T time · N hidden width · L layers
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from regard.kernels.cpu.onednn import widened

KERNELS: dict[str, Any] = {"RNN_TANH": torch.rnn_tanh, "RNN_RELU": torch.rnn_relu, "GRU": torch.gru, "LSTM": torch.lstm}


def run_recurrent(
    rnn: nn.RNNBase, x: Tensor | PackedSequence, before: Any, dropout: Callable[[Tensor], Tensor]
) -> tuple[Any, Any]:
    """Outputs (B, T, N), and what is carried after the end: h (L, B, N), or h and c. `before` is the same, or None.

    In training on a CPU a layer at a time, as our `dropout` between them is drawn much sooner than torch's."""
    values = x.data if isinstance(x, PackedSequence) else x
    with widened(values):
        if rnn.training and rnn.dropout and values.device.type == "cpu" and isinstance(x, Tensor):
            return _run_layers(rnn, x, before, dropout)
        y, after = rnn(x, before)
    return y, after


def _run_layers(
    rnn: nn.RNNBase, x: Tensor, before: Any, dropout: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Any]:
    if before is None:
        before = (x.new_zeros(rnn.num_layers, len(x), rnn.hidden_size),) * (2 if rnn.mode == "LSTM" else 1)
    carried, run, ends = before if isinstance(before, tuple) else (before,), KERNELS[rnn.mode], []
    for layer, weights in enumerate(rnn.all_weights):
        own = [each[layer:layer + 1] for each in carried]
        x, *after = run(x if layer == 0 else dropout(x), own if len(own) > 1 else own[0], weights, True, 1, 0.0, True,
                        False, True)
        ends.append(after)
    after = tuple(torch.cat(each) for each in zip(*ends, strict=True))
    return x, after if len(after) > 1 else after[0]
