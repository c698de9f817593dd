"""Feed-forward language models: no recurrence and no attention, only a mean or a window of the words so far."""

from __future__ import annotations

from dataclasses import dataclass

from regard.config import at_least, shares
from regard.contract import SequenceLayer
from regard.families.family import Family, LayerKind, tiny
from regard.families.setting_groups import LARGEST, PerceptronSettings, TiedSettings, resize_hidden
from regard.families.sizes import sizes_of
from regard.layers.average import RunningMean, WordDropout
from regard.layers.perceptron import Perceptron
from regard.layers.stack import Stack
from regard.layers.window import Window
from regard.models.neural import NeuralLM


@dataclass(frozen=True)
class AverageSettings(PerceptronSettings, TiedSettings):
    layers: int = 2                        # of the network that reads the mean
    hidden: int = 512
    word_dropout: float = 0.0              # share of the words left out of the mean in training

    def __post_init__(self) -> None:
        super().__post_init__()
        shares("model", self, "word_dropout")


def build_average(s: AverageSettings, vocab: int) -> NeuralLM:
    network = Perceptron(s.width, s.hidden, layers=s.layers, activation=s.activation, dropout=s.dropout)
    stack = Stack([RunningMean(s.width, word_dropout=s.word_dropout), network])
    return NeuralLM(stack, vocab=vocab, tied=s.tied, logit_bias=s.logit_bias, dropout=s.dropout)


@dataclass(frozen=True)
class WindowSettings(PerceptronSettings, TiedSettings):
    order: int = 8                         # n: the last n - 1 words predict the next
    layers: int = 2                        # hidden layers; the first reads the window
    width: int = 64                        # of the embedding
    hidden: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("model", self, 2, "order", most=LARGEST)


def build_window(s: WindowSettings, vocab: int) -> NeuralLM:
    layers: list[SequenceLayer] = [
        Window(s.width, s.hidden, words=s.order - 1, activation=s.activation, dropout=s.dropout)]
    if s.layers > 1:
        layers.append(Perceptron(
            s.hidden, s.hidden, layers=s.layers - 1, activation=s.activation, dropout=s.dropout))
    return NeuralLM(Stack(layers), vocab=vocab, tied=s.tied, logit_bias=s.logit_bias, dropout=s.dropout)


FAMILIES = (
    Family(
        "average", "the mean of the words so far through a feed-forward network: no order (DAN)",
        AverageSettings, sizes=sizes_of("average"), build=build_average, resize=resize_hidden,
        example=tiny(build_average, AverageSettings(layers=2, width=6, hidden=8))),
    Family(
        "window", "a feed-forward network over the last n-1 words, each place with its own weights",
        WindowSettings, sizes=sizes_of("window"), build=build_window, resize=resize_hidden,
        example=tiny(build_window, WindowSettings(order=4, layers=2, width=6, hidden=8))),
)

LAYERS = (
    LayerKind("running-mean", "the mean of everything so far", RunningMean),
    LayerKind("word-dropout", "what it reads, without some words in training", WordDropout),
    LayerKind("window", "the last three inputs through one matrix", lambda d: Window(d, d + 3, words=3)),
    LayerKind("window-of-one", "the last input alone through a matrix", lambda d: Window(d, d + 3, words=1)),
    LayerKind("perceptron", "a feed-forward network at each position", lambda d: Perceptron(d, d + 3, layers=2)),
)
