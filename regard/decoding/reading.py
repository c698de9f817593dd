"""What a translator reads of its source, taken from what a watched run recorded.

Attention over an encoder's memory gives the weights as they are. A decoder-only model reads source and target as one
text: there it is the part of its self-attention that falls on the source, which sums to less than one.
B rows, k beams for each of S sources · H heads · T target tokens · L source tokens
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.contract import LanguageModel, Reading, Source
from regard.errors import RunError
from regard.layers.attentive import Attention, AttentiveRecurrence
from regard.layers.cross_attention import CrossAttention
from regard.layers.self_attention import SelfAttention

NO_ATTENTION = "this model has no attention to its source, so that nobody can see what it reads: {cure}"


def reads_source(model: LanguageModel) -> bool:
    """Whether there is attention to the source that can be watched."""
    if not isinstance(model, nn.Module):
        return False
    if model.one_text:
        return any(isinstance(layer, SelfAttention) for layer in model.modules())
    return any(isinstance(layer, CrossAttention) or (isinstance(layer, AttentiveRecurrence)
                                                     and isinstance(layer.reader, Attention))
               for layer in model.modules())


def of_source(
    model: LanguageModel, source: Source, readings: Sequence[Reading], *, rows: int, whole: bool, cure: str = ""
) -> list[Tensor]:
    """(B, H, T, L) for each layer that reads the source, of one read of `rows` rows of target tokens.

    `whole` says that source and target were read in one go, and not the target alone after `start(batch, capacity)`.
    """
    kinds = SelfAttention if model.one_text else (CrossAttention, AttentiveRecurrence)
    found = [reading.values for reading in readings if reading.kind == "weights" and isinstance(reading.layer, kinds)]
    if not found:
        raise RunError(NO_ATTENTION.format(cure=cure or "train one of a family with attention, e.g. rnn-attention"))
    if not model.one_text:
        return found
    length = source.items.shape[1]
    lengths = source.lengths
    if lengths is None:
        lengths = torch.full(source.items.shape[:1], length, device=source.items.device)
    began = lengths.repeat_interleave(rows // len(lengths), 0)                        # where each row's target begins
    return [_on_the_source(weights, began, length, whole) for weights in found]


def _on_the_source(weights: Tensor, began: Tensor, length: int, whole: bool) -> Tensor:
    """The queries of the target and the keys of the source, of weights (B, H, queries, keys) over both."""
    if whole:
        time = weights.shape[2] - length
        at = began[:, None] + torch.arange(time, device=began.device)                 # (B, T)
        weights = weights.gather(2, at[:, None, :, None].expand(-1, weights.shape[1], -1, weights.shape[3]))
    weights = torch.nn.functional.pad(weights[..., :length], (0, max(0, length - weights.shape[3])))
    of_source = torch.arange(length, device=began.device) < began[:, None]
    return torch.where(of_source[:, None, None], weights, 0.0)
