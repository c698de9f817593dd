"""The prediction head: from a position's vector to log-probabilities of the next token.

Scoring needs one number a target, not the whole vocabulary, so it never holds (B, T, V) when that is large:
it goes through the positions in chunks. Under a gradient each chunk is worked out again on the way back; the loss of
a training step, which is one number, has its gradients worked out on the way forward instead.
N positions (B * T) · D width · V vocabulary
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.kernels.cross_entropy import linear_cross_entropy
from regard.layers.packed import product

LARGEST_LOGITS = 2**25         # entries held at once: 128 MB of float32
MOST_LOGITS = 2**28            # the same on a GPU with the memory: each chunk costs it launches, and work twice over
FEW_LOGITS = 2**20             # of a training step on a CPU: more of them no longer stay in its cache


class Head(nn.Module):
    """softmax(W h). In training, `smoothing` gives that share of each target's weight to the whole vocabulary.

    With a `softcap` c the logits are c tanh(W h / c): none is ever beyond c.
    """

    sparing = False                # in training: hold fewer logits at once

    def __init__(self, d_in: int, vocab: int, *, embedding: nn.Embedding | None = None, smoothing: float = 0.0,
                 softcap: float = 0.0):
        super().__init__()
        self.smoothing, self.softcap = smoothing, softcap
        if embedding is None:
            self.project: nn.Module = nn.Identity()
            self.weight: Tensor = nn.Parameter(torch.empty(vocab, d_in))
            nn.init.zeros_(self.weight)             # every token is equally likely before the first step
        else:                                   # tied: predicting a word means resembling its embedding
            width = embedding.embedding_dim
            self.project = nn.Identity() if d_in == width else nn.Linear(d_in, width, bias=False)
            self.weight = embedding.weight

    def forward(self, h: Tensor) -> Tensor:
        """(..., D) to (..., V) log-probabilities, in float32 or better."""
        logits = _logits(self.project(h), self.weight, self.softcap)
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or logits.is_cuda or not logits.is_contiguous():
            return logits.log_softmax(-1)
        return torch.log_softmax(logits, -1, out=logits)      # in place: memory never used before is what costs here

    def score(self, h: Tensor, targets: Tensor) -> Tensor:
        """(B, T) log-probabilities of the targets (B, T); smoothed while training."""
        flat, wanted = self.project(h).flatten(0, 1), targets.flatten()
        smoothing = self.smoothing if self.training else 0.0
        rows = max(1, largest_logits(h.is_cuda) // self.weight.shape[0])
        if len(flat) <= rows:
            return _score(flat, self.weight, wanted, smoothing, self.softcap).view(targets.shape)
        chunks = [
            checkpoint(_score, part, self.weight, own, smoothing, self.softcap, use_reentrant=False,
                       preserve_rng_state=False)                  # nothing is drawn in there
            for part, own in zip(flat.split(rows), wanted.split(rows), strict=True)
        ]
        return torch.cat(chunks).view(targets.shape)

    def keeps_logits(self, positions: int, gpu: bool) -> bool:
        """Whether the loss of so many positions is worked out from all their logits, as they are few enough."""
        return positions * self.weight.shape[0] <= (largest_logits(True) if gpu else FEW_LOGITS)

    def loss(self, h: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
        """- sum(shares * score(h, targets)), one number: how a training step asks."""
        if self.keeps_logits(targets.numel(), h.is_cuda):
            return -(self.score(h, targets) * shares).sum()
        flat, smoothing = self.project(h).flatten(0, 1), self.smoothing if self.training else 0.0
        return linear_cross_entropy(flat, self.weight, targets.flatten(), shares.flatten(), smoothing, self.softcap,
                                    self.sparing)


@torch.compiler.assume_constant_result
def largest_logits(gpu: bool) -> int:
    """On a GPU, a hundredth or so of its memory in float32."""
    if not gpu:
        return LARGEST_LOGITS
    memory = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    return min(MOST_LOGITS, max(LARGEST_LOGITS, memory // 256))


def _logits(h: Tensor, weight: Tensor, softcap: float) -> Tensor:
    logits = product(h, weight)
    logits = logits if logits.dtype == torch.float64 else logits.float()
    return softcap * torch.tanh(logits / softcap) if softcap else logits


def _score(h: Tensor, weight: Tensor, targets: Tensor, smoothing: float, softcap: float) -> Tensor:
    return -F.cross_entropy(_logits(h, weight, softcap), targets, reduction="none", label_smoothing=smoothing)
