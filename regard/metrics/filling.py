"""The quality of filling: the loss of a masked model on hidden tokens, and how often its first guess is right."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from regard.data.batching.text_batches import Batch
from regard.models.masked import MaskedModel


@dataclass(frozen=True)
class FillQuality:
    """Hidden tokens, the surprise at them, and how many were told at the first guess."""

    nats: float
    blanks: int
    right: int

    @property
    def loss(self) -> float:
        return self.nats / max(1, self.blanks)

    @property
    def perplexity(self) -> float:
        return math.exp(self.loss)

    @property
    def accuracy(self) -> float:
        return self.right / max(1, self.blanks)

    def as_dict(self) -> dict[str, float | int]:
        return {"loss": self.loss, "perplexity": self.perplexity, "accuracy": self.accuracy, "blanks": self.blanks}


@torch.no_grad()
def guess_batches(model: MaskedModel, batches: Iterable[Batch]) -> FillQuality:
    """Over all hidden tokens of the batches; the model is put into eval mode."""
    model.eval()
    nats, blanks, right = 0.0, 0, 0
    for batch in batches:
        here = batch.to(model.device)
        asked = here.is_real()
        log_probs = model.head(model.encode(here.tokens, here.lengths).vectors[asked])       # (N, V)
        targets = here.targets[asked]
        nats -= float(log_probs.double().gather(-1, targets[:, None]).sum())
        right += int((log_probs.argmax(-1) == targets).sum())
        blanks += len(targets)
    return FillQuality(nats, blanks, right)
