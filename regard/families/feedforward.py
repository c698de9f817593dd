"""Feed-forward language models: no recurrence and no attention, only a mean or a window of the words so far."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from regard.config import at_least, one_of, shares
from regard.contract import SequenceLayer
from regard.families.family import LARGEST, Family, LayerKind, tiny
from regard.layers.average import RunningMean
from regard.layers.perceptron import NONLINEARITIES, Perceptron
from regard.layers.stack import Stack
from regard.layers.window import Window
from regard.models.neural import NeuralLM
from regard.sizes import Scale, Sizes, Tables, dropout_for, given, risk_of_rote

BATCH = 32


@dataclass(frozen=True)
class AverageSettings:
    layers: int = 2                        # of the network that reads the mean
    width: int = 128                       # of the embedding
    hidden: int = 512
    context: int = 128                     # tokens read at once
    activation: str = "relu"               # relu · gelu · tanh
    tied: bool = False
    dropout: float = 0.0
    word_dropout: float = 0.0              # share of the words left out of the mean in training

    def __post_init__(self) -> None:
        one_of("model.activation", self.activation, NONLINEARITIES)
        at_least("model", self, 1, "layers", "width", "hidden", "context", most=LARGEST)
        shares("model", self, "dropout", "word_dropout")


def build_average(s: AverageSettings, vocab: int) -> NeuralLM:
    network = Perceptron(s.width, s.hidden, layers=s.layers, activation=s.activation, dropout=s.dropout)
    stack = Stack([RunningMean(s.width, word_dropout=s.word_dropout), network])
    return NeuralLM(stack, vocab=vocab, tied=s.tied, dropout=s.dropout)


@dataclass(frozen=True)
class WindowSettings:
    order: int = 8                         # n: the last n - 1 words predict the next
    layers: int = 2                        # hidden layers; the first reads the window
    width: int = 64                        # of the embedding
    hidden: int = 512
    context: int = 128                     # tokens read at once
    activation: str = "relu"               # relu · gelu · tanh
    tied: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        one_of("model.activation", self.activation, NONLINEARITIES)
        at_least("model", self, 2, "order", most=LARGEST)
        at_least("model", self, 1, "layers", "width", "hidden", "context", most=LARGEST)
        shares("model", self, "dropout")


def build_window(s: WindowSettings, vocab: int) -> NeuralLM:
    layers: list[SequenceLayer] = [
        Window(s.width, s.hidden, words=s.order - 1, activation=s.activation, dropout=s.dropout)]
    if s.layers > 1:
        layers.append(Perceptron(
            s.hidden, s.hidden, layers=s.layers - 1, activation=s.activation, dropout=s.dropout))
    return NeuralLM(Stack(layers), vocab=vocab, tied=s.tied, dropout=s.dropout)


def resize(s: Any, size: int) -> Any:
    """The hidden layers grow; the embedding is as wide as it was, but no wider than they are."""
    return replace(s, hidden=size, width=min(s.width, size))


def average_sizes(scale: Scale, wanted: Tables) -> Sizes:
    """A mean says little, whatever reads it: a small network is enough."""
    hidden = given(wanted, "model", "hidden", 512)
    model = dict(hidden=hidden, tied=scale.vocab > 2048)
    return trained(scale, wanted, model, weights=hidden * (hidden + AverageSettings.width))


def window_sizes(scale: Scale, wanted: Tables) -> Sizes:
    """Many characters or few words: a window costs weights for each of its places."""
    order = given(wanted, "model", "order", 8 if scale.vocab <= 2048 else 5)
    hidden = given(wanted, "model", "hidden", 1024 if scale.gpu or scale.minutes > 8 else 384)
    model = dict(order=order, hidden=hidden, tied=scale.vocab > 2048)
    return trained(scale, wanted, model, weights=hidden * (hidden + (order - 1) * WindowSettings.width))


def trained(scale: Scale, wanted: Tables, model: dict[str, Any], weights: int) -> Sizes:
    """These sizes, with dropout where the text is read often, and the rates that suit both families."""
    rows = given(wanted, "training", "batch", BATCH) * given(wanted, "model", "context", 128)
    weights += 2 * scale.vocab * model["hidden"]
    dropout = dropout_for(risk_of_rote(scale, weights, tokens_a_step=rows))
    return Sizes({**model, "dropout": dropout},
                 dict(batch=BATCH, optimizer="muon", learning_rate=6e-3, muon_rate=0.1, weight_decay=0.1))


FAMILIES = (
    Family(
        "average", "the mean of the words so far through a feed-forward network: no order (DAN)",
        AverageSettings, sizes=average_sizes, build=build_average, resize=resize,
        example=tiny(build_average, AverageSettings(layers=2, width=6, hidden=8))),
    Family(
        "window", "a feed-forward network over the last n-1 words, each place with its own weights",
        WindowSettings, sizes=window_sizes, build=build_window, resize=resize,
        example=tiny(build_window, WindowSettings(order=4, layers=2, width=6, hidden=8))),
)

LAYERS = (
    LayerKind("running-mean", "the mean of everything so far", RunningMean),
    LayerKind("window", "the last three inputs through one matrix", lambda d: Window(d, d + 3, words=3)),
    LayerKind("window-of-one", "the last input alone through a matrix", lambda d: Window(d, d + 3, words=1)),
    LayerKind("perceptron", "a feed-forward network at each position", lambda d: Perceptron(d, d + 3, layers=2)),
)
