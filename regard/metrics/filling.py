"""The quality of guesses: the loss of a masked model on hidden tokens, or of a label model on labels, and how often the
first guess is right."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from regard.contract import Learner
from regard.data.batching.text_batches import Batch
from regard.metrics.resampling import Counts, Interval
from regard.metrics.text_units import interval_over, share_of
from regard.models.label_models import LabelModel
from regard.models.masked import MaskedModel
from regard.ranks import ALONE, Ranks


@dataclass(frozen=True)
class FillQuality:
    """Hidden tokens, or labels; the surprise at them, and how many were told at the first guess."""

    nats: float
    blanks: int
    right: int
    units: Counts = field(default_factory=lambda: np.zeros((0, 2)))            # (U, 2): of each row right, and blanks

    @property
    def loss(self) -> float:
        return self.nats / max(1, self.blanks)

    @property
    def perplexity(self) -> float:
        return math.exp(self.loss)

    @property
    def accuracy(self) -> float:
        return self.right / max(1, self.blanks)

    @property
    def interval(self) -> Interval | None:
        """The 95% interval of the accuracy, rows that ask for something drawn again; None of too few."""
        return interval_over(self.units[self.units[:, 1] > 0], share_of)

    def as_dict(self) -> dict[str, float | int]:
        return {"loss": self.loss, "perplexity": self.perplexity, "accuracy": self.accuracy, "blanks": self.blanks}


def guess_batches(model: MaskedModel, batches: Iterable[Batch]) -> FillQuality:
    """Over all hidden tokens of the batches; the model is put into eval mode."""
    return judge_guesses(model, batches, lambda here, asked: model.head(
        model.encode(here.tokens, here.lengths).vectors[asked]), first=0)


def guess_labels(model: LabelModel, batches: Iterable[Batch], ranks: Ranks = ALONE) -> FillQuality:
    """Over all labels that the batches ask for, of texts or of words; the model is put into eval mode."""
    return judge_guesses(
        model, batches, lambda here, asked: model.predict(here.tokens, here.lengths)[asked], first=1, ranks=ranks)


@torch.no_grad()
def judge_guesses(
    model: Learner, batches: Iterable[Batch], guess: Callable[[Batch, Tensor], Tensor], first: int,
    ranks: Ranks = ALONE,
) -> FillQuality:
    """The sums over the batches, each judged by one of the ranks. `guess` gives (N, V) log-probabilities at what is
    asked; of targets the least is `first`."""
    model.eval()
    nats, rows = 0.0, []
    for batch in ranks.deal(batches):
        here = batch.to(model.device)
        asked = here.is_real()
        log_probs, targets = guess(here, asked), here.targets[asked] - first
        nats -= float(log_probs.double().gather(-1, targets[:, None]).sum())
        right = torch.zeros_like(asked)
        right[asked] = log_probs.argmax(-1) == targets
        rows.append(torch.stack([each.reshape(len(each), -1).sum(1) for each in (right, asked)], 1).tolist())
    units = np.concatenate([np.zeros((0, 2)), *map(np.array, ranks.collect(rows))])
    return FillQuality(ranks.total([nats])[0], int(units[:, 1].sum()), int(units[:, 0].sum()), units)
