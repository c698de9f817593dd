"""Log-probabilities of a vocabulary, log softmax(W h + b), and those of targets alone.

Scoring needs one number a target, not the whole vocabulary, so it never holds (N, V) logits when that is large: it goes
through the positions in chunks, and computes each chunk again in the backward pass.
N positions · D width · V vocabulary
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.kernels.linear import linear

LARGEST_LOGITS = 2**25         # entries held at once: 128 MB of float32
MOST_LOGITS = 2**28            # the same on a GPU with the memory: each chunk costs it launches, and work twice over


def logits_of(h: Tensor, weight: Tensor, softcap: float = 0.0, bias: Tensor | None = None) -> Tensor:
    """W h + b (..., V) of h (..., D), in float32 or better; with a softcap c it is c tanh(W h / c) + b."""
    logits = linear(h, weight)
    logits = logits if logits.dtype == torch.float64 else logits.float()
    logits = softcap * torch.tanh(logits / softcap) if softcap else logits
    return logits if bias is None else logits + bias


def log_probabilities(h: Tensor, weight: Tensor, softcap: float = 0.0, bias: Tensor | None = None) -> Tensor:
    """log softmax(W h + b): (..., V) of h (..., D)."""
    logits = logits_of(h, weight, softcap, bias)
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or logits.is_cuda or not logits.is_contiguous():
        return logits.log_softmax(-1)
    return torch.log_softmax(logits, -1, out=logits)          # in place: memory never used before is what costs here


def score_targets(
    h: Tensor, weight: Tensor, targets: Tensor, smoothing: float = 0.0, softcap: float = 0.0, bias: Tensor | None = None
) -> Tensor:
    """(N,): the log-probability of each target at its position h (N, D); `smoothing` gives a share to all tokens."""
    rows = max(1, largest_logits(h.is_cuda) // len(weight))
    if len(h) <= rows:
        return _score(h, weight, targets, smoothing, softcap, bias)
    return torch.cat([
        checkpoint(_score, part, weight, own, smoothing, softcap, bias, use_reentrant=False,
                   preserve_rng_state=False)                      # nothing is drawn in there
        for part, own in zip(h.split(rows), targets.split(rows), strict=True)])


def _score(
    h: Tensor, weight: Tensor, targets: Tensor, smoothing: float, softcap: float, bias: Tensor | None
) -> Tensor:
    logits = logits_of(h, weight, softcap, bias)
    return -F.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing)


def largest_logits(gpu: bool) -> int:
    """Entries held at once; on a GPU, a hundredth or so of its memory in float32."""
    if not gpu:
        return LARGEST_LOGITS
    memory = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    return min(MOST_LOGITS, max(LARGEST_LOGITS, memory // 256))


# torch.compiler.assume_constant_result sets this mark and no more, but calling it imports the compiler: two seconds at
# the start of every command.
largest_logits._dynamo_marked_constant = True                 # type: ignore[attr-defined]
