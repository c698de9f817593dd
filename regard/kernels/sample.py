"""Sampling the next token on a GPU by one kernel, rather than by the dozens of small ones that sampling.py writes out.

A step of writing is short: of half a millisecond, choosing by a top-k took a third, most of it launches.
`decoding/sampling.py` is the definition, noise and all; sums are added in another order.   B batch · V vocabulary
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard import kernels

SLOTS = 4096                   # tokens looked at together
MOST = 8192                    # that a program holds: of those among which the k likeliest are


def can(log_probs: Tensor, top_k: int, top_p: float) -> bool:
    """True if the kernels take this; they do not cut by top-p."""
    return (log_probs.is_cuda and top_p == 1 and log_probs.dtype == torch.float32 and log_probs.is_contiguous()
            and room(log_probs.shape[-1], top_k) <= MOST and kernels.path(log_probs) == "triton")


def room(vocab: int, top_k: int) -> int:
    """The most tokens that can be among the candidates for the k likeliest; 0: all are."""
    if not 0 < top_k < vocab:
        return 0
    return top_k * -(-vocab // SLOTS) if top_k <= SLOTS else MOST + 1


def sample_tokens(log_probs: Tensor, noise: Tensor, positions: Tensor, temperature: float, top_k: int) -> Tensor:
    """(B,) token ids from (B, V) log-probabilities; a row's noise and its position say what is drawn."""
    from regard.kernels.cuda.sample import sample_tokens as in_triton

    return in_triton(log_probs, noise, positions, temperature, room(log_probs.shape[-1], top_k), top_k)
