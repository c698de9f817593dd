"""Hybrids: any pattern of layers, one above another, each in a residual block with a feed-forward layer.

`rnn,attention` is an RNN that attends to its own past; `mamba,mamba,attention` keeps most of the past in a small state
and looks some things up exactly. A layer of the user's own, `module:Layer`, may stand in a pattern like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, islice

from regard.config import convert
from regard.contract import SequenceLayer
from regard.errors import SettingError, did_you_mean
from regard.families.blocks import older, self_attention_of
from regard.families.family import Family, tiny
from regard.families.sizes import Scale, Sizes, Tables, default_sizes, sizes_of
from regard.families.transformer import BlockSettings, build_blocks, reads_on, resize_transformer
from regard.families.user import is_user_layer, user_layer
from regard.layers.gated import GRU, LSTM
from regard.layers.linear_recurrence import GatedRecurrence
from regard.layers.recurrent import Elman
from regard.layers.self_attention import SelfAttention
from regard.layers.state_space import SelectiveSSM
from regard.models.neural import NeuralLM

# The layers of a pattern: each reads vectors of the width and gives vectors of the width.
MIXERS: dict[str, Callable[[BlockSettings], SequenceLayer]] = {
    "attention": lambda s: SelfAttention(
        s.width, **self_attention_of(s), window=s.window),
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
    return build_pattern(s, vocab, s.pattern)


def build_pattern(s: BlockSettings, vocab: int, pattern: tuple[str, ...]) -> NeuralLM:
    """The pattern from the bottom up, again and again until there are `s.layers` blocks."""
    return build_blocks(s, vocab, (mixer(name, s) for name in islice(cycle(pattern), s.layers)),
                        context=s.context if is_bounded(s, pattern) else None)


def mixer(name: str, s: BlockSettings) -> SequenceLayer:
    if is_user_layer(name):
        return user_layer(name, {"width": s.width, "heads": s.heads, "context": s.context})
    return MIXERS[name](s)


def is_bounded(s: BlockSettings, pattern: tuple[str, ...]) -> bool:
    """True if a text may not be longer than the context: something was learned, or is kept, for each position."""
    attends = "attention" in pattern and not reads_on(s.window, s.positions)
    return attends or s.positions in ("learned", "sinusoidal") or any(map(is_user_layer, pattern))


def hybrid_sizes(scale: Scale, wanted: Tables) -> Sizes:
    """A Transformer's sizes, with a whole number of patterns."""
    sizes = default_sizes("hybrid", scale, wanted)
    pattern = wanted.get("model", {}).get("pattern", HybridSettings.pattern)
    period = len(convert(pattern, tuple[str, ...], "model.pattern"))
    return Sizes({**sizes.model, "layers": -(-sizes.model["layers"] // period) * period}, sizes.training)


FAMILY = Family(
    "hybrid", "any pattern of layers, such as rnn,attention or mamba,mamba,attention",
    HybridSettings, sizes=hybrid_sizes, build=build_hybrid, resize=resize_transformer, older=older,
    example=tiny(build_hybrid, HybridSettings(layers=2, width=8, heads=2, context=32)))


def user_family(name: str) -> Family:
    """`module:Layer` as a family: a stack of residual blocks around that layer."""
    layer = user_layer(name, {"width": 16, "heads": 2, "context": 32})

    def build(s: BlockSettings, vocab: int) -> NeuralLM:
        return build_pattern(s, vocab, (name,))

    about = (type(layer).__doc__ or "a layer of your own").strip().splitlines()[0]
    return Family(name, about, BlockSettings, sizes=sizes_of("hybrid"), build=build, resize=resize_transformer,
                  older=older, example=tiny(build, BlockSettings(
                      layers=2, width=16, heads=2, context=32, positions="none")))
