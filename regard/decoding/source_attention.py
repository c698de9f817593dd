"""Attention of a model to its source, selected from the readings of a watched run.

Attention over an encoder's memory gives the weights directly. A decoder-only model reads source and target as one text:
there it is the part of self-attention that falls on the source, which sums to less than one.
B rows, k beams for each of S sources · H heads · T target tokens · L source tokens
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.contract import LanguageModel, Source
from regard.errors import RunError
from regard.watching import Reading

NO_ATTENTION = "this model has no attention to its source, so that nobody can see what it reads: {cure}"


def reads_source(model: LanguageModel) -> bool:
    """Return whether the model has attention to its source, which can be watched."""
    if not isinstance(model, nn.Module):
        return False
    wanted = "self" if model.one_text else "source"
    return any(getattr(module, "reads", "") == wanted for module in model.modules())


def source_weights(
    model: LanguageModel, source: Source, readings: Sequence[Reading], *, rows: int, whole: bool, cure: str = ""
) -> list[Tensor]:
    """Return weights (B, H, T, L) of each layer that reads the source, from a read of `rows` rows of target tokens.

    With `whole`, source and target were read in one call; else the target alone, after `start(batch, capacity)`.
    """
    wanted = "self" if model.one_text else "source"
    layers = [reading.values for reading in readings if reading.kind == "weights" and reading.reads == wanted]
    if not layers:
        raise RunError(NO_ATTENTION.format(cure=cure or "train one of a family with attention, e.g. rnn-attention"))
    if not model.one_text:
        return layers
    length = source.items.shape[1]
    lengths = source.lengths
    if lengths is None:
        lengths = torch.full(source.items.shape[:1], length, device=source.items.device)
    begins = lengths.repeat_interleave(rows // len(lengths), 0)                       # of each row's target
    return [_on_the_source(weights, begins, length, whole) for weights in layers]


def _on_the_source(weights: Tensor, begins: Tensor, length: int, whole: bool) -> Tensor:
    """Return the queries of the target and the keys of the source, of weights (B, H, queries, keys) over both."""
    if whole:
        time = weights.shape[2] - length
        queries = begins[:, None] + torch.arange(time, device=begins.device)          # (B, T)
        weights = weights.gather(2, queries[:, None, :, None].expand(-1, weights.shape[1], -1, weights.shape[3]))
    weights = torch.nn.functional.pad(weights[..., :length], (0, max(0, length - weights.shape[3])))
    real = torch.arange(length, device=begins.device) < begins[:, None]
    return torch.where(real[:, None, None], weights, 0.0)
