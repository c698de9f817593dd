"""The families: one visible table from a name to what it is, how it is built and how large it is by default.

Everything that differs between families is said here, so that no other file has to ask which one it has.
A family has a small settings class (the [model] table of run.toml), a builder, and a choice of sizes for the
data and the minutes at hand.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.config import at_least, one_of, shares
from regard.contract import LanguageModel, SequenceLayer
from regard.errors import SettingError, did_you_mean
from regard.layers.feedforward import ACTIVATIONS, FeedForward
from regard.layers.positions import LearnedPositions, SinusoidalPositions
from regard.layers.recurrent import ACTIVATIONS as NONLINEARITIES
from regard.layers.recurrent import Elman
from regard.layers.self_attention import SelfAttention, check_heads
from regard.layers.stack import NORMS, Block, Stack, make_norm
from regard.models.neural import NeuralLM
from regard.models.ngram import NGram
from regard.models.ngram.model import check_settings
from regard.sizes import Scale, Sizes, Tables, rnn_sizes, transformer_sizes

LARGEST = 2**20              # of a width, a depth or a context: beyond it is a slip of the finger


@dataclass(frozen=True)
class Family:
    name: str
    about: str
    settings: type                                               # a frozen dataclass
    example: Callable[[torch.dtype], LanguageModel]              # tiny, without dropout: every law is tested on it
    sizes: Callable[[Scale, Tables], Sizes] = lambda scale, wanted: Sizes()      # wanted: the settings a user gave
    build: Callable[[Any, int], NeuralLM] | None = None          # (settings, vocabulary) -> trained by gradients, or
    count: Callable[..., LanguageModel] | None = None            # (settings, vocabulary, tokens, ends) -> at once
    restore: Callable[[Any, int, dict[str, Tensor]], LanguageModel] | None = None      # from saved tensors


# ----------------------------------------------------------------------------------------- transformer


@dataclass(frozen=True)
class TransformerSettings:
    layers: int = 4
    width: int = 128
    heads: int = 4
    context: int = 128                     # the most tokens read at once
    positions: str = "rotary"              # learned · sinusoidal · rotary · none
    activation: str = "gelu"               # gelu · relu · relu2 · swiglu
    expand: float = 4.0                    # feed-forward width / width
    norm: str = "layer"                    # layer · rms
    tied: bool = False                     # the output matrix is the embedding
    dropout: float = 0.0
    attention_dropout: float = 0.0

    def __post_init__(self) -> None:
        one_of("model.positions", self.positions, ("learned", "sinusoidal", "rotary", "none"))
        one_of("model.activation", self.activation, ACTIVATIONS)
        one_of("model.norm", self.norm, NORMS)
        at_least("model", self, 1, "layers", "width", "heads", "context", most=LARGEST)
        at_least("model", self, 0.1, "expand", most=100)
        shares("model", self, "dropout", "attention_dropout")
        check_heads(self.width, self.heads)


def build_transformer(s: TransformerSettings, vocab: int) -> NeuralLM:
    layers: list[SequenceLayer] = []
    if s.positions == "learned":
        layers.append(LearnedPositions(s.width, s.context))
    elif s.positions == "sinusoidal":
        layers.append(SinusoidalPositions(s.width))
    for _ in range(s.layers):
        attention = SelfAttention(
            s.width, heads=s.heads, rotary=s.positions == "rotary", dropout=s.attention_dropout)
        feed = FeedForward(s.width, expand=s.expand, activation=s.activation)
        layers.append(Block(attention, feed, norm=s.norm, dropout=s.dropout))
    model = NeuralLM(
        Stack(layers), vocab=vocab, norm=make_norm(s.norm, s.width), tied=s.tied,
        dropout=s.dropout, context=s.context)
    initialise(model)
    return model


def initialise(model: NeuralLM) -> None:
    """Normal weights by fan-in; what each block adds starts at zero, so that a deep stack starts as the identity."""
    for module in model.stack.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.5 * module.in_features**-0.5)
    for module in model.stack.modules():
        if isinstance(module, SelfAttention):
            nn.init.zeros_(module.out.weight)
        elif isinstance(module, FeedForward):
            nn.init.zeros_(module.down.weight)


# ----------------------------------------------------------------------------------------------- rnn


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


# --------------------------------------------------------------------------------------------- n-gram


@dataclass(frozen=True)
class NGramSettings:
    order: int = 5
    smoothing: str = "kneser-ney"          # kneser-ney · add-k · none
    k: float = 0.1                         # what add-k adds to each count

    def __post_init__(self) -> None:
        check_settings(order=self.order, smoothing=self.smoothing, k=self.k, vocab=5)


def count_ngram(s: NGramSettings, vocab: int, tokens: np.ndarray, ends: np.ndarray | None) -> NGram:
    return NGram.fit(tokens, ends, vocab=vocab, order=s.order, smoothing=s.smoothing, k=s.k)


def restore_ngram(s: NGramSettings, vocab: int, tensors: dict[str, Tensor]) -> NGram:
    return NGram.from_tensors(tensors, {"vocab": vocab, "dtype": "float32", **dataclasses.asdict(s)})


def tiny_ngram(dtype: torch.dtype) -> NGram:
    text = np.random.default_rng(0).integers(2, 11, 200)
    return NGram.fit(text, None, vocab=11, order=3, dtype=dtype)


# --------------------------------------------------------------------------------------------- tables



def tiny(build: Callable[[Any, int], NeuralLM], settings: Any) -> Callable[[torch.dtype], LanguageModel]:
    """A maker of small models for the laws, with weights that hide nothing."""

    def example(dtype: torch.dtype = torch.float64) -> LanguageModel:
        torch.manual_seed(0)
        return randomised(build(settings, 11)).to(dtype).eval()

    return example


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family(
            "transformer", "decoder-only Transformer: every position reads all earlier ones",
            TransformerSettings, sizes=transformer_sizes, build=build_transformer,
            example=tiny(build_transformer, TransformerSettings(layers=2, width=8, heads=2, context=32))),
        Family(
            "rnn", "simple recurrent network: h[t] = f(W_h h[t-1] + W_c c[t])",
            RecurrentSettings, sizes=rnn_sizes, build=build_rnn,
            example=tiny(build_rnn, RecurrentSettings(layers=2, width=6, hidden=8))),
        Family(
            "ngram", "counts of the last n-1 tokens, with interpolated Kneser-Ney smoothing",
            NGramSettings, count=count_ngram, restore=restore_ngram, example=tiny_ngram),
    )
}


@dataclass(frozen=True)
class LayerKind:
    """A registered SequenceLayer: it earns every law by standing in this table."""

    name: str
    about: str
    build: Callable[[int], SequenceLayer]              # width in; the layer may give another width out

    def example(self, dtype: torch.dtype = torch.float64) -> SequenceLayer:
        torch.manual_seed(0)
        return randomised(self.build(8)).to(dtype).eval()


LAYERS: dict[str, LayerKind] = {
    kind.name: kind
    for kind in (
        LayerKind("attention", "causal self-attention without positions",
                  lambda d: SelfAttention(d, heads=2, rotary=False)),
        LayerKind("rotary-attention", "causal self-attention that turns queries and keys by their position",
                  lambda d: SelfAttention(d, heads=2, rotary=True)),
        LayerKind("learned-positions", "a learned vector added at each position", lambda d: LearnedPositions(d, 32)),
        LayerKind("sinusoidal-positions", "sines and cosines added at each position", SinusoidalPositions),
        LayerKind("elman-tanh", "simple recurrence with tanh", lambda d: Elman(d, d + 3, f="tanh")),
        LayerKind("elman-relu", "simple recurrence with ReLU", lambda d: Elman(d, d + 3, f="relu")),
        LayerKind("block", "a residual block: attention, then feed-forward",
                  lambda d: Block(SelfAttention(d, heads=2), FeedForward(d))),
        LayerKind("stack", "positions, a block and a recurrence, one after another",
                  lambda d: Stack([LearnedPositions(d, 32), Block(SelfAttention(d, heads=2), None), Elman(d, d)])),
    )
}


def randomised(module: nn.Module) -> Any:
    """The module with every weight drawn anew: at their first values some layers do nothing, and would hide a bug."""
    with torch.no_grad():
        for weight in module.parameters():
            weight.normal_(std=0.4)
    return module


def family(name: str) -> Family:
    if name not in FAMILIES:
        raise SettingError(f"unknown family {name}{did_you_mean(name, FAMILIES)}")
    return FAMILIES[name]

