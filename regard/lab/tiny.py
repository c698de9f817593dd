"""Shared by experiments: small models by family, a short training loop, and counting what is right.

    model = language_model("gru", vocab=12, width=32)
    losses = fit(model, lambda step: letters(64, 32, seed, step), steps=400)
    right = accuracy(model, letters(512, 32, seed, -1))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.config import fill
from regard.contract import Learner, Source
from regard.families import FAMILIES
from regard.families.translate import TRANSLATE, Vocabularies

Layer = TypeVar("Layer", bound=nn.Module)


@dataclass
class Exercise:
    """A batch of an exercise: tokens read, targets scored, and which of the targets count; perhaps a source."""

    tokens: Tensor                         # (B, T)
    targets: Tensor                        # (B, T)
    counts: Tensor                         # (B, T) bool
    source: Tensor | None = None           # (B, L)
    source_lengths: Tensor | None = None
    lengths: Tensor | None = None

    def to(self, device: torch.device | str) -> Exercise:
        moved: dict[str, Any] = {name: each if each is None else each.to(device) for name, each in vars(self).items()}
        return Exercise(**moved)


def language_model(family: str, vocab: int, device: str = "cpu", **settings: Any) -> Any:
    """A small language model of a family; `settings` are those of its [model] table."""
    kind = FAMILIES[family]
    assert kind.build is not None, f"{family} is counted, not trained"
    return kind.build(fill(kind.settings, settings, "model"), vocab).to(device)


def translator(family: str, source_vocab: int, target_vocab: int, device: str = "cpu", **settings: Any) -> Any:
    kind = TRANSLATE[family]
    assert kind.build is not None
    return kind.build(fill(kind.settings, settings, "model"), Vocabularies(source_vocab, target_vocab)).to(device)


def fit(
    model: Learner, batch_at: Callable[[int], Exercise], steps: int, *, rate: float = 3e-3, warm: int = 20,
    clip: float = 1.0, watch_gradient: Callable[[int, nn.Module], None] | None = None,
) -> list[float]:
    """Train by AdamW with a short warm-up and a cosine to a tenth; the loss of each step. A loss that is not finite
    ends it: what was learned until then is kept, and the rest of the losses are infinite."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    model.train()
    losses: list[float] = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / warm) * (0.55 + 0.45 * math.cos(math.pi * step / steps))
        loss = loss_of(model, batch_at(step).to(model.device))
        if not torch.isfinite(loss):
            return losses + [math.inf] * (steps - step)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if watch_gradient is not None:
            watch_gradient(step, model)
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(float(loss.detach()))
    model.eval()
    return losses


def loss_of(model: Learner, batch: Exercise) -> Tensor:
    """Average negative log-likelihood of the targets that count."""
    scores, _ = model.learn(batch.tokens, batch.targets, None, batch.lengths, batch.source, batch.source_lengths)
    return -(scores * batch.counts).sum() / batch.counts.sum()


@torch.no_grad()
def predictions(model: Any, batch: Exercise) -> Tensor:
    """(B, T): the likeliest next token at every position, from vectors and head."""
    model.eval()
    batch = batch.to(model.device)
    if batch.source is None:
        vectors, _ = model.encode(batch.tokens)
    else:
        state = model.start(len(batch.tokens), None, Source(batch.source, batch.source_lengths))
        vectors, _ = model.encode(batch.tokens, state, batch.lengths)
    return model.head(vectors).argmax(-1).cpu()


def accuracy(model: Any, batch: Exercise) -> float:
    """The share of the targets that count for which the likeliest token is the right one."""
    right = predictions(model, batch) == batch.targets
    return float(right[batch.counts].float().mean())


@torch.no_grad()
def loss_on(model: Learner, batch: Exercise) -> float:
    model.eval()
    return float(loss_of(model, batch.to(model.device)))


def find_layers(model: nn.Module, kind: type[Layer]) -> list[Layer]:
    """The layers of one kind, in the order in which the model holds them; the model itself may be one."""
    return [layer for layer in model.modules() if isinstance(layer, kind)]


def parameters(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())


def far_apart(model: Any, std: float = 0.5) -> Any:
    """The model with its word vectors drawn anew, this far apart. By default they start close to zero, which is good
    for long training; in a few hundred steps most of the time would go by until words can be told from one another."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Embedding):
                module.weight.normal_(std=std)
    return model
