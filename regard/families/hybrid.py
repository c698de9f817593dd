"""Hybrids: any pattern of layers, one above another, each in a residual block with a feed-forward layer.

`rnn,attention` is an RNN that attends to its own past; `mamba,mamba,attention` keeps most of the past in a small state
and looks some things up exactly. A layer of the user's own, `module:Layer`, may stand in a pattern like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, islice

from regard.config import at_least, convert
from regard.contract import SequenceLayer
from regard.errors import SettingError, did_you_mean
from regard.families.family import LARGEST, Family, initialise, tiny
from regard.families.transformer import (
    check_blocks,
    embedding_scale,
    final_norm,
    heads_of,
    older,
    position_layers,
    reads_on,
    resize_transformer,
)
from regard.families.user import is_user_layer, user_layer
from regard.layers.feedforward import FeedForward
from regard.layers.gated import GRU, LSTM
from regard.layers.linear_recurrence import GatedRecurrence
from regard.layers.recurrent import Elman
from regard.layers.self_attention import RELATIVE, SelfAttention
from regard.layers.stack import Block, Stack
from regard.layers.state_space import SelectiveSSM
from regard.models.neural import NeuralLM
from regard.sizes import Scale, Sizes, Tables, transformer_sizes


@dataclass(frozen=True)
class BlockSettings:
    """A stack of residual blocks around any layers."""

    layers: int = 4
    width: int = 128
    heads: int = 4                         # of attention
    head_width: int = 0                    # of a head's queries and keys; 0: width / heads
    value_width: int = 0                   # of a head's values; 0: as its keys
    context: int = 128                     # tokens read at once
    window: int = 0                        # how far back attention reads; 0: all the way
    positions: str = "rotary"              # learned · sinusoidal, added below; rotary · alibi · none, in attention
    embedding_scale: str = "auto"          # width: embeddings times its root · none · auto: width with sinusoids
    f: str = "none"                        # none · tanh · relu · gelu: q, k, v = f(W c)
    activation: str = "gelu"               # gelu · gelu-tanh · relu · relu2 · swiglu
    expand: float = 4.0                    # feed-forward width / width
    norm: str = "layer"                    # layer · rms
    placement: str = "pre"                 # pre · post
    tied: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_blocks(self)
        at_least("model", self, 0, "window", most=LARGEST)


# What may stand in a pattern: each reads vectors of the width and gives vectors of the width.
MIXERS: dict[str, Callable[[BlockSettings], SequenceLayer]] = {
    "attention": lambda s: SelfAttention(
        s.width, **heads_of(s), window=s.window, positions=s.positions if s.positions in RELATIVE else "none"),
    "rnn": lambda s: Elman(s.width, s.width),
    "gru": lambda s: GRU(s.width, s.width),
    "lstm": lambda s: LSTM(s.width, s.width),
    "linear-rnn": lambda s: GatedRecurrence(s.width, s.width),
    "mamba": lambda s: SelectiveSSM(s.width, decay="head"),
}


@dataclass(frozen=True)
class HybridSettings(BlockSettings):
    pattern: tuple[str, ...] = ("rnn", "attention")      # repeated until there are as many layers as asked for

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.pattern:
            raise SettingError(f"model.pattern is empty: name layers, from {', '.join(MIXERS)}")
        for name in self.pattern:
            if name not in MIXERS and not is_user_layer(name):
                raise SettingError(f"model.pattern: there is no layer {name!r}{did_you_mean(name, MIXERS)}")


def build_hybrid(s: HybridSettings, vocab: int) -> NeuralLM:
    return build_blocks(s, vocab, s.pattern)


def build_blocks(s: BlockSettings, vocab: int, pattern: tuple[str, ...]) -> NeuralLM:
    """The pattern from the bottom up, again and again until there are `s.layers` blocks."""
    layers = position_layers(s.positions, s.width, s.context)
    layers += [Block(mixer(name, s), FeedForward(s.width, expand=s.expand, activation=s.activation), norm=s.norm,
                     placement=s.placement, dropout=s.dropout) for name in islice(cycle(pattern), s.layers)]
    model = NeuralLM(
        Stack(layers), vocab=vocab, norm=final_norm(s.norm, s.placement, s.width), tied=s.tied, dropout=s.dropout,
        context=s.context if is_bounded(s, pattern) else None, embedding_scale=embedding_scale(s))
    initialise(model)
    return model


def mixer(name: str, s: BlockSettings) -> SequenceLayer:
    if is_user_layer(name):
        return user_layer(name, {"width": s.width, "heads": s.heads, "context": s.context})
    return MIXERS[name](s)


def is_bounded(s: BlockSettings, pattern: tuple[str, ...]) -> bool:
    """Whether a text may be longer than the context: not if something was learned, or is kept, for each position."""
    attends = "attention" in pattern and not reads_on(s.window, s.positions)
    return attends or s.positions in ("learned", "sinusoidal") or any(map(is_user_layer, pattern))


def hybrid_sizes(scale: Scale, wanted: Tables) -> Sizes:
    """A Transformer's sizes, with a whole number of patterns."""
    sizes = transformer_sizes(scale, wanted)
    pattern = wanted.get("model", {}).get("pattern", HybridSettings.pattern)
    period = len(convert(pattern, tuple[str, ...], "model.pattern"))
    layers = -(-sizes.model["layers"] // period) * period
    # The pace of the slowest: at the rate of attention a recurrence diverges.
    return Sizes({**sizes.model, "layers": layers}, {**sizes.training, "muon_rate": 0.02})


FAMILY = Family(
    "hybrid", "any pattern of layers, such as rnn,attention or mamba,mamba,attention",
    HybridSettings, sizes=hybrid_sizes, build=build_hybrid, resize=resize_transformer, older=older,
    example=tiny(build_hybrid, HybridSettings(layers=2, width=8, heads=2, context=32)))


def user_sizes(scale: Scale, wanted: Tables) -> Sizes:
    sizes = transformer_sizes(scale, wanted)
    return Sizes(sizes.model, {**sizes.training, "muon_rate": 0.02})


def user_family(name: str) -> Family:
    """`module:Layer` as a family: a stack of residual blocks around that layer."""
    layer = user_layer(name, {"width": 16, "heads": 2, "context": 32})

    def build(s: BlockSettings, vocab: int) -> NeuralLM:
        return build_blocks(s, vocab, (name,))

    about = (type(layer).__doc__ or "a layer of your own").strip().splitlines()[0]
    return Family(name, about, BlockSettings, sizes=user_sizes, build=build, resize=resize_transformer, older=older,
                  example=tiny(build, BlockSettings(layers=2, width=16, heads=2, context=32, positions="none")))
