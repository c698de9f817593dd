"""The quality of guesses: the loss of a masked model on hidden tokens, or of a label model on labels, and how often the
first guess is right."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.contract import Learner
from regard.data.batching.text_batches import Batch
from regard.models.label_models import LabelModel
from regard.models.masked import MaskedModel
from regard.ranks import ALONE, Ranks


@dataclass(frozen=True)
class FillQuality:
    """Hidden tokens, or labels; the surprise at them, and how many were told at the first guess."""

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


def guess_batches(model: MaskedModel, batches: Iterable[Batch]) -> FillQuality:
    """Over all hidden tokens of the batches; the model is put into eval mode."""
    return judge_guesses(model, batches, lambda here, asked: model.head(
        model.encode(here.tokens, here.lengths).vectors[asked]), first=0)


def guess_labels(model: LabelModel, batches: Iterable[Batch], ranks: Ranks = ALONE) -> FillQuality:
    """Over all labels that the batches ask for, of texts or of words; the model is put into eval mode."""
    found = judge_guesses(
        model, ranks.deal(batches), lambda here, asked: model.predict(here.tokens, here.lengths)[asked], first=1)
    nats, blanks, right = ranks.total([found.nats, found.blanks, found.right])
    return FillQuality(nats, int(blanks), int(right))


@torch.no_grad()
def judge_guesses(
    model: Learner, batches: Iterable[Batch], guess: Callable[[Batch, Tensor], Tensor], first: int
) -> FillQuality:
    """The sums over the batches. `guess` gives (N, V) log-probabilities at what is asked; of targets the least is
    `first`."""
    model.eval()
    nats, blanks, right = 0.0, 0, 0
    for batch in batches:
        here = batch.to(model.device)
        asked = here.is_real()
        log_probs, targets = guess(here, asked), here.targets[asked] - first
        nats -= float(log_probs.double().gather(-1, targets[:, None]).sum())
        right += int((log_probs.argmax(-1) == targets).sum())
        blanks += len(targets)
    return FillQuality(nats, blanks, right)
