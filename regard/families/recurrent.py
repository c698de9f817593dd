"""Recurrent networks: the past in one vector, one step after another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from regard.config import at_least, one_of, shares
from regard.families.family import LARGEST, Family, LayerKind, tiny
from regard.layers.recurrent import ACTIVATIONS as NONLINEARITIES
from regard.layers.recurrent import Elman
from regard.layers.stack import Stack
from regard.models.neural import NeuralLM
from regard.sizes import rnn_sizes


@dataclass(frozen=True)
class RecurrentSettings:
    layers: int = 1
    width: int = 128                       # of the embedding, d_c
    hidden: int = 256                      # of the state, d_h
    context: int = 64                      # steps of back-propagation through time
    f: str = "tanh"                        # tanh · relu
    tied: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        one_of("model.f", self.f, NONLINEARITIES)
        at_least("model", self, 1, "layers", "width", "hidden", "context", most=LARGEST)
        shares("model", self, "dropout")


def build_rnn(s: RecurrentSettings, vocab: int) -> NeuralLM:
    widths = [s.width] + [s.hidden] * s.layers
    stack = Stack([Elman(d_in, d_out, f=s.f) for d_in, d_out in pairwise(widths)])
    return NeuralLM(stack, vocab=vocab, tied=s.tied, dropout=s.dropout)


FAMILIES = (
    Family(
        "rnn", "simple recurrent network: h[t] = f(W_h h[t-1] + W_c c[t])",
        RecurrentSettings, sizes=rnn_sizes, build=build_rnn, resize=lambda s, size: replace(s, hidden=size),
        example=tiny(build_rnn, RecurrentSettings(layers=2, width=6, hidden=8))),
)

LAYERS = (
    LayerKind("elman-tanh", "simple recurrence with tanh", lambda d: Elman(d, d + 3, f="tanh")),
    LayerKind("elman-relu", "simple recurrence with ReLU", lambda d: Elman(d, d + 3, f="relu")),
)
