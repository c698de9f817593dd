"""Default sizes: how large a model, and how trained, for the text, the machine and the time at hand.

Measured, not derived: a small model that reads the text a few times beats a large one that does not get through it,
and what is read many times by a model large enough to learn it by heart wants dropout and weight decay.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Tables = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Scale:
    """What the default sizes are chosen from."""

    tokens: int                  # tokens to learn from
    vocab: int
    gpu: bool
    minutes: float               # of training, if that is the budget; else a guess
    steps: int = 0               # the budget, if it is one of steps
    budget: int = 0              # the budget, if it is one of tokens


@dataclass(frozen=True)
class Sizes:
    """Default sizes: changes to the family's settings, and to how it is trained."""

    model: dict[str, Any] = dataclasses.field(default_factory=dict)
    training: dict[str, Any] = dataclasses.field(default_factory=dict)


MOST_EPOCHS = 20.0           # a text is read no more often than this, unless the user says for how long to train
# Minutes at most -> layers, width, heads, context, rows in a step. Measured on two cores, where a small model that
# sees the text twice beats a large one that sees half of it.
ON_CPU = ((1.5, (3, 96, 3, 128, 16)), (8.0, (4, 128, 4, 128, 16)), (30.0, (6, 192, 6, 192, 16)),
          (math.inf, (6, 256, 8, 256, 16)))
# Tokens of text at most -> the same, on a GPU, where time is rarely what is short.
ON_GPU = ((5e6, (6, 384, 6, 256, 64)), (1e8, (8, 512, 8, 512, 64)), (math.inf, (12, 768, 12, 1024, 32)))
SPEED = {False: 9e10, True: 6e13}           # floating-point operations a second that training reaches, CPU and GPU
OVERHEAD = {False: 2.5e-5, True: 0.0}       # seconds a token that do not depend on the size of the model


def transformer_sizes(scale: Scale, wanted: Tables) -> Sizes:
    """Larger with more time on a CPU, and with more text on a GPU; dropout where the text is read many times."""
    table, size = (ON_GPU, scale.tokens) if scale.gpu else (ON_CPU, scale.minutes)
    layers, width, heads, context, batch = next(sizes for limit, sizes in table if size <= limit)
    if "width" in wanted.get("model", {}):
        width = given(wanted, "model", "width", width)
        heads = next(n for n in range(max(1, width // 32), 0, -1) if width % n == 0)
    tied = scale.vocab > 2048                                     # a large vocabulary is too much to learn twice
    layers = given(wanted, "model", "layers", layers)
    weights = 12 * layers * width**2 + scale.vocab * width * (1 if tied else 2)
    rows = given(wanted, "training", "batch", batch) * given(wanted, "model", "context", context)
    risk = risk_of_rote(scale, weights, tokens_a_step=rows)
    model = dict(layers=layers, width=width, heads=heads, context=context, tied=tied, dropout=dropout_for(risk))
    return Sizes(model, dict(batch=batch, optimizer="muon", **(ONCE if risk <= 4 else OFTEN)))


# What serves a text that is read a few times, and one that is read so often that it could be learned by heart.
ONCE = dict(learning_rate=6e-3, muon_rate=0.03, weight_decay=0.1, schedule="cosine")
OFTEN = dict(learning_rate=3e-3, muon_rate=0.03, weight_decay=0.1, schedule="wsd")


def risk_of_rote(scale: Scale, weights: int, tokens_a_step: int) -> float:
    """How often the text will be read by a model that has a weight for each of its tokens; fewer weights, less risk."""
    text = max(1, scale.tokens)
    read: float = scale.budget or scale.steps * tokens_a_step
    if not read:                                                   # as well as can be said before anything was timed
        seconds_a_token = 6 * weights / SPEED[scale.gpu] + OVERHEAD[scale.gpu]
        read = min(MOST_EPOCHS * text, scale.minutes * 60 / seconds_a_token)
    return read / text * min(1.0, weights / text)


def given(wanted: Tables, table: str, name: str, otherwise: int) -> int:
    """What the user said of a size, if it is one; whether it will do is checked elsewhere."""
    said = str(wanted.get(table, {}).get(name, ""))
    return max(1, int(said)) if said.isdigit() else otherwise


def dropout_for(risk: float) -> float:
    """How much to drop: what is seen once cannot be learned by heart."""
    return next(dropout for limit, dropout in ((4, 0.0), (8, 0.1), (16, 0.2), (math.inf, 0.3)) if risk <= limit)


def rnn_sizes(scale: Scale, wanted: Tables) -> Sizes:
    """A recurrence is trained with care: a rate at which attention learns well makes it diverge."""
    hidden = 512 if scale.gpu or scale.minutes > 4 else 256
    weights = hidden * (hidden + 128) + scale.vocab * 128
    rows = given(wanted, "training", "batch", 32) * given(wanted, "model", "context", 64)
    dropout = dropout_for(risk_of_rote(scale, weights, tokens_a_step=rows))
    model = dict(hidden=hidden, tied=scale.vocab > 2048, dropout=dropout)
    # The fused kernel is opaque to the compiler, which costs more here than it gains.
    return Sizes(model, dict(batch=32, optimizer="muon", learning_rate=6e-3, muon_rate=0.02, weight_decay=0.1,
                             compile="no"))
