"""Coverage: the attention of each beam to its source so far, and a penalty for parts left unread (Wu et al. 2016).

S sources · k beams · L tokens of a source, or patches of a picture
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.contract import LanguageModel, Source, State
from regard.decoding.source_attention import source_weights
from regard.errors import SettingError
from regard.watching import watch

LEAST = 1e-10              # attention to a source token: less counts as this much


class Covered:
    """The attention of every beam to each source token so far: the mean over layers and heads, summed over time."""

    def __init__(self, model: LanguageModel, source: Source | None, rows: int):
        if source is None:
            raise SettingError("--coverage is about what is read of a source, and this model reads none: leave it out")
        self.model, self.source = model, source
        self.amounts = torch.zeros(rows, 1, dtype=torch.float64, device=model.device)     # L comes with the first step

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Return what the model's step returns, and add its attention."""
        with watch() as seen:
            log_probs, state = self.model.step(tokens, state)
        layers = source_weights(self.model, self.source, seen.readings, rows=len(tokens), whole=False,
                           cure="leave --coverage out")
        self.amounts = self.amounts + sum(weights.double().mean(1)[:, -1] for weights in layers) / len(layers)
        return log_probs, state

    def reorder(self, rows: Tensor, sources: Tensor | None) -> None:
        self.amounts = self.amounts[rows]
        if sources is not None:
            self.source = self.source.select(sources)

    def penalties(self) -> list[float]:
        """Return sum_l log min(1, amount of source token l) for each beam."""
        logs = self.amounts.clamp(LEAST, 1.0).log()
        lengths = self.source.lengths
        if lengths is not None:
            real = torch.arange(logs.shape[1], device=logs.device) < lengths[:, None]
            logs = torch.where(real.repeat_interleave(len(logs) // len(real), 0), logs, 0.0)
        return logs.sum(1).tolist()
