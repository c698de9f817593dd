"""Linear recurrent networks: the past in one vector, like an RNN's, but read in parallel, as a Transformer does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from regard.config import at_least, one_of
from regard.contract import SequenceLayer
from regard.families.blocks import feed_forward, norm_options
from regard.families.family import Family, LayerKind, initialise, tiny
from regard.families.setting_groups import FeedForwardSettings
from regard.families.sizes import sizes_of
from regard.layers.linear_recurrence import DiagonalRecurrence, GatedRecurrence, MatrixRecurrence
from regard.layers.stack import Block, Stack, make_norm
from regard.models.neural import NeuralLM

# (width, hidden) -> the layer that mixes positions.
FORMS: dict[str, Callable[[int, int], SequenceLayer]] = {
    "gated": GatedRecurrence,
    "diagonal": DiagonalRecurrence,
    "matrix": lambda width, hidden: MatrixRecurrence(width, hidden, width),
}


@dataclass(frozen=True)
class LinearRNNSettings(FeedForwardSettings):
    form: str = "gated"                    # gated · diagonal · matrix: what is done to the past at each step
    state: float = 1.0                     # numbers that a layer remembers / width

    def __post_init__(self) -> None:
        one_of("model.form", self.form, FORMS)
        super().__post_init__()
        at_least("model", self, 0.1, "state", most=100)

    @property
    def hidden(self) -> int:
        return max(1, round(self.state * self.width))


def build_linear_rnn(s: LinearRNNSettings, vocab: int) -> NeuralLM:
    blocks = []
    for _ in range(s.layers):
        mixer = FORMS[s.form](s.width, s.hidden)
        blocks.append(Block(mixer, feed_forward(s), norm=s.norm, **norm_options(s), dropout=s.dropout))
    model = NeuralLM(Stack(blocks), vocab=vocab, norm=make_norm(s.norm, s.width, **norm_options(s)), tied=s.tied,
                     logit_bias=s.logit_bias, dropout=s.dropout)
    initialise(model)
    return model


def weights_of_layer(s: LinearRNNSettings) -> float:
    """Those of one layer, as a multiple of the width squared."""
    return {"gated": 4, "diagonal": 3, "matrix": 2 + s.state}[s.form] * s.state + 2 * s.expand


def resize_linear_rnn(s: LinearRNNSettings, size: int) -> LinearRNNSettings:
    """Widths in steps of 8; between two of them the feed-forward layer grows."""
    steps, rest = divmod(size + 7, 8)
    return replace(s, width=8 * steps, expand=s.expand + weights_of_layer(s) * rest / (8 * steps))


FAMILY = Family(
    "linear-rnn", "linear recurrence with gates: h[t] = a[t] * h[t-1] + b[t], computed in parallel over time",
    LinearRNNSettings, sizes=sizes_of("linear-rnn"), build=build_linear_rnn, resize=resize_linear_rnn,
    example=tiny(build_linear_rnn, LinearRNNSettings(layers=2, width=8, state=1.5)))

LAYERS = (
    LayerKind("linear-matrix", "linear recurrence: h[t] = W_h h[t-1] + W_c c[t]", lambda d: MatrixRecurrence(d, d + 3)),
    LayerKind("linear-matrix-out", "the same, brought back to its width", lambda d: MatrixRecurrence(d, d + 3, d)),
    LayerKind("linear-diagonal", "linear recurrence with one decay a channel", lambda d: DiagonalRecurrence(d, d + 3)),
    LayerKind("linear-gated", "linear recurrence with decays that depend on the input",
              lambda d: GatedRecurrence(d, d + 3)),
)
