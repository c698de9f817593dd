"""Settings that several families have, each declared once.

A family's settings class derives from the groups it needs, changes defaults, and adds what is its own. Each group
refuses values that no family could be built from. Of two groups with one setting, the first named gives the default.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from regard.config import at_least, one_of, shares
from regard.layers.feedforward import ACTIVATIONS
from regard.layers.norms import EPS, NORMS
from regard.layers.perceptron import NONLINEARITIES as PERCEPTRON
from regard.layers.projections import BIASES, NONLINEARITIES, PROJECTIONS
from regard.layers.scores import ALL_SCORES

LEAST_EPS = 1e-12            # of a norm: less is lost in float32
LARGEST = 2**20              # of a width, a depth or a context: beyond it is a slip of the finger


@dataclass(frozen=True)
class NetworkSettings:
    """Every network."""

    layers: int = 4
    width: int = 128                       # of the embedding, and of what blocks pass on
    context: int = 128                     # the most tokens read at once, or of a source or a target
    dropout: float = 0.0

    def __post_init__(self) -> None:
        at_least("model", self, 1, "layers", "width", "context", most=LARGEST)
        shares("model", self, "dropout")


@dataclass(frozen=True)
class TiedSettings(NetworkSettings):
    """A network that predicts tokens."""

    tied: bool = False                     # the output matrix is the embedding
    logit_bias: bool = False               # a number of its own added to each token's logit


@dataclass(frozen=True)
class HiddenSettings(NetworkSettings):
    """A network whose hidden layers, or states, have a width of their own."""

    layers: int = 1
    hidden: int = 256
    least_hidden: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("model", self, self.least_hidden, "hidden", most=LARGEST)


def resize_hidden(s: Any, size: int) -> Any:
    """The settings with the network or the state `size` wide; the embedding is as wide as it was, but no wider."""
    size = max(s.least_hidden, size)
    return replace(s, hidden=size, width=min(s.width, size))


@dataclass(frozen=True)
class PerceptronSettings(HiddenSettings):
    """A feed-forward network over a mean or a window."""

    activation: str = "relu"               # relu · gelu · tanh

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("model.activation", self.activation, PERCEPTRON)


@dataclass(frozen=True)
class NormSettings(TiedSettings):
    """Residual blocks."""

    norm: str = "layer"                    # layer · rms
    eps: float = EPS                       # below the root of every norm

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("model.norm", self.norm, NORMS)
        at_least("model", self, LEAST_EPS, "eps", most=1)


@dataclass(frozen=True)
class StateSpaceSettings(NormSettings):
    """Residual blocks with a state space each."""

    state: int = 16                        # numbers each channel remembers
    expand: float = 2.0                    # channels inside a layer / width
    conv: int = 4                          # positions the short convolution reads

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("model", self, 1, "state", "conv", most=1024)
        at_least("model", self, 0.1, "expand", most=100)


@dataclass(frozen=True)
class FeedForwardSettings(NormSettings):
    """Residual blocks with a feed-forward layer each."""

    activation: str = "gelu"               # gelu · gelu-tanh · relu · relu2 · silu · swiglu
    expand: float = 4.0                    # feed-forward width / width
    bias: str = "none"                     # none · qkv: of queries, keys, values · all: of norms and every linear layer

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("model.activation", self.activation, ACTIVATIONS)
        one_of("model.bias", self.bias, BIASES)
        at_least("model", self, 0.1, "expand", most=100)


@dataclass(frozen=True)
class HeadSettings(NetworkSettings):
    """Attention in heads."""

    heads: int = 4                         # of attention
    head_width: int = 0                    # of a head's queries and keys; 0: its share of the width, or of the state
    value_width: int = 0                   # of a head's values; 0: as its keys, or of a decoder the source's vectors
    f: str = "none"                        # none · tanh · relu · gelu: q, k, v = f(W c)

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("model", self, 1, "heads", most=LARGEST)
        one_of("model.f", self.f, ("none", *NONLINEARITIES))
        at_least("model", self, 0, "head_width", "value_width", most=LARGEST)


@dataclass(frozen=True)
class SourceSettings(HeadSettings):
    """Attention to a source."""

    score: str = "scaled-dot"              # dot · scaled-dot · bilinear · low-rank · additive · location
    projections: str = "auto"              # q and k of the source: auto · both · none, the states as they are

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("model.score", self.score, ALL_SCORES)
        one_of("model.projections", self.projections, PROJECTIONS)
