"""The best continuations of a search: those with the largest sums, of k beams times V tokens a source.

S sources · k beams · V vocabulary
"""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 64                 # tokens, of which only the best is compared first


def best_of(totals: Tensor, log_probs: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Return the best sums totals[s, i] + log_probs[s k + i, v] of each source, best first, and their indices
    i * V + v: both (S, number).

    In two steps, exactly: a sum among the best n lies in one of the n blocks of tokens with the best maxima. So the
    sums, in double precision, are computed for few tokens only.
    """
    (sources, k), vocab = totals.shape, log_probs.shape[-1]
    blocks, device = -(-vocab // BLOCK), log_probs.device
    full = vocab // BLOCK * BLOCK
    maxima = log_probs[:, :full].unflatten(1, (-1, BLOCK)).amax(-1) if full else log_probs[:, :0]
    if full < vocab:
        maxima = torch.cat((maxima, log_probs[:, full:].amax(-1, keepdim=True)), 1)
    sums = totals[..., None] + maxima.view(sources, k, blocks).double()
    block = sums.flatten(1).topk(min(number, k * blocks), dim=1).indices               # (S, n) of k * blocks
    beam, first = block // blocks, block % blocks * BLOCK
    token = first[..., None] + torch.arange(BLOCK, device=device)                     # (S, n, BLOCK)
    index = (beam[..., None] * vocab + token.clamp(max=vocab - 1)).flatten(1)
    chosen = log_probs.view(sources, -1).gather(1, index).double().view(token.shape) + totals.gather(1, beam)[..., None]
    chosen = torch.where(token < vocab, chosen, -torch.inf).flatten(1)
    best, place = chosen.topk(min(number, k * vocab), dim=1)
    return best, index.gather(1, place)


def best_by_definition(totals: Tensor, log_probs: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Return what `best_of` must equal."""
    sums = totals[..., None] + log_probs.double().view(*totals.shape, -1)              # (S, k, V)
    best, index = sums.flatten(1).topk(min(number, sums[0].numel()), dim=1)
    return best, index
