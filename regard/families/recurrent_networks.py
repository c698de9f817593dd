"""Recurrent networks: the past in one vector, one step after another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from regard.config import one_of
from regard.families.family import Family, LayerKind, tiny
from regard.families.setting_groups import HiddenSettings, TiedSettings, resize_hidden
from regard.families.sizes import sizes_of
from regard.layers.gated import GRU, LSTM
from regard.layers.recurrent import ACTIVATIONS as NONLINEARITIES
from regard.layers.recurrent import INITIAL, Elman
from regard.layers.stack import Stack
from regard.models.neural import NeuralLM


@dataclass(frozen=True)
class GatedSettings(HiddenSettings, TiedSettings):
    context: int = 64                      # steps of back-propagation through time
    initial: str = "zero"                  # the state before the first token: zero · learned
    tied: bool = True

    def __post_init__(self) -> None:
        one_of("model.initial", self.initial, INITIAL)
        super().__post_init__()


@dataclass(frozen=True)
class RecurrentSettings(GatedSettings):
    f: str = "tanh"                        # tanh · relu

    def __post_init__(self) -> None:
        one_of("model.f", self.f, NONLINEARITIES)
        super().__post_init__()


def build_rnn(s: RecurrentSettings, vocab: int) -> NeuralLM:
    layer = Elman(s.width, s.hidden, f=s.f, layers=s.layers, initial=s.initial, dropout=s.dropout)
    return NeuralLM(Stack([layer]), vocab=vocab, tied=s.tied, logit_bias=s.logit_bias, dropout=s.dropout)


def build_gated(kind: type[GRU] | type[LSTM], s: GatedSettings, vocab: int) -> NeuralLM:
    layer = kind(s.width, s.hidden, layers=s.layers, initial=s.initial, dropout=s.dropout)
    return NeuralLM(Stack([layer]), vocab=vocab, tied=s.tied, logit_bias=s.logit_bias, dropout=s.dropout)


build_gru, build_lstm = partial(build_gated, GRU), partial(build_gated, LSTM)


SMALL = GatedSettings(layers=2, width=6, hidden=8, initial="learned")
FAMILIES = (
    Family(
        "rnn", "simple recurrent network: h[t] = f(W_h h[t-1] + W_c c[t])",
        RecurrentSettings, sizes=sizes_of("rnn"), build=build_rnn, resize=resize_hidden,
        example=tiny(build_rnn, RecurrentSettings(layers=2, width=6, hidden=8))),
    Family(
        "gru", "gated recurrent unit: a learned share of the state is kept at each step",
        GatedSettings, sizes=sizes_of("gated"), build=build_gru, resize=resize_hidden, example=tiny(build_gru, SMALL)),
    Family(
        "lstm", "long short-term memory: a cell behind gates that let in, forget and let out",
        GatedSettings, sizes=sizes_of("gated"), build=build_lstm, resize=resize_hidden,
        example=tiny(build_lstm, SMALL)),
)

LAYERS = (
    LayerKind("elman-tanh", "simple recurrence with tanh", lambda d: Elman(d, d + 3, f="tanh")),
    LayerKind("elman-relu", "simple recurrence with ReLU", lambda d: Elman(d, d + 3, f="relu")),
    LayerKind("elman-learned", "two simple recurrences with a learned initial state",
              lambda d: Elman(d, d + 3, layers=2, initial="learned")),
    LayerKind("gru", "gated recurrent unit", lambda d: GRU(d, d + 3)),
    LayerKind("gru-learned", "two gated recurrent units with a learned initial state",
              lambda d: GRU(d, d + 3, layers=2, initial="learned")),
    LayerKind("lstm", "long short-term memory", lambda d: LSTM(d, d + 3)),
    LayerKind("lstm-learned", "two layers of long short-term memory with a learned initial state",
              lambda d: LSTM(d, d + 3, layers=2, initial="learned")),
)
