"""The Transformer: every position reads all earlier ones, and a small network works on what was read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from regard.config import at_least, one_of, shares
from regard.contract import SequenceLayer
from regard.errors import SettingError
from regard.families.blocks import (
    block_options,
    embedding_scale,
    feed_forward,
    final_norm,
    older_decoder,
    position_layers,
    self_attention_of,
)
from regard.families.family import Family, LayerKind, initialise, tiny
from regard.families.setting_groups import LARGEST, FeedForwardSettings, HeadSettings
from regard.families.sizes import sizes_of
from regard.layers.feedforward import FeedForward
from regard.layers.positions import RELATIVE, ROTARY_BASE, LearnedPositions, SinusoidalPositions, turned_channels
from regard.layers.projections import check_kv_heads, head_widths
from regard.layers.self_attention import SelfAttention
from regard.layers.stack import PLACEMENTS, Block, Stack
from regard.models.neural import NeuralLM

POSITIONS = ("learned", "sinusoidal", *RELATIVE)
EMBEDDING_SCALES = ("auto", "width", "none")


@dataclass(frozen=True)
class StackSettings(FeedForwardSettings, HeadSettings):
    """The settings of every stack of residual blocks, whatever stands in the blocks."""

    positions: str = "rotary"              # learned · sinusoidal, added below; rotary · alibi · none, in attention
    rotary_base: float = ROTARY_BASE       # the slowest pair of channels turns once in 2 pi times as many positions
    rotary_share: float = 1.0              # of a head's channels that turn; the others see no position
    embedding_scale: str = "auto"          # width: embeddings times its root · none · auto: width with sinusoids
    placement: str = "pre"                 # pre · post: normalise before each part, or after it was added

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("model.positions", self.positions, POSITIONS)
        one_of("model.embedding_scale", self.embedding_scale, EMBEDDING_SCALES)
        one_of("model.placement", self.placement, PLACEMENTS)
        at_least("model", self, 1, "rotary_base", most=1e12)
        at_least("model", self, 0, "rotary_share", most=1)
        head_width, _ = head_widths(self.width, self.heads, self.head_width, self.value_width)
        if self.positions == "rotary" and self.rotary_share != 1:
            turned_channels(head_width, self.rotary_share)


@dataclass(frozen=True)
class BlockSettings(StackSettings):
    """A stack of residual blocks around any layers that read from the left."""

    window: int = 0                        # how far back attention reads, the position itself included; 0: all the way
    parallel: bool = False                 # both parts of a block read its input: x + mix(norm(x)) + feed(norm(x))

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("model", self, 0, "window", most=LARGEST)
        if self.parallel and self.placement == "post":
            raise SettingError("model.parallel = true adds both parts of a block at once, so that there is no sum "
                               "between them to normalise: choose model.placement = pre, or model.parallel = false")


@dataclass(frozen=True)
class AttentionDropoutSettings(StackSettings):
    """A stack whose attention drops some of its weights in training."""

    attention_dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        shares("model", self, "attention_dropout")


@dataclass(frozen=True)
class TransformerSettings(BlockSettings, AttentionDropoutSettings):
    kv_heads: int = 0                      # heads of keys and values, each read by several of queries; 0: one each
    qk_norm: bool = False                  # queries and keys of one length
    qk_eps: float = 0.0                    # below the root of these norms; 0: eps, as of all others
    attention_softcap: float = 0.0         # attention scores stay within this; 0: as they are
    softcap: float = 0.0                   # logits stay within this; 0: as they are

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("model", self, 0, "kv_heads", "softcap", "attention_softcap", most=LARGEST)
        at_least("model", self, 0, "qk_eps", most=1)
        check_kv_heads(self.heads, self.kv_heads or self.heads)


def build_transformer(s: TransformerSettings, vocab: int) -> NeuralLM:
    return build_blocks(s, vocab, (attention(s) for _ in range(s.layers)), softcap=s.softcap,
                        context=None if reads_on(s.window, s.positions) else s.context)


def build_blocks(s: StackSettings, vocab: int, mixers: Iterable[SequenceLayer], **options: Any) -> NeuralLM:
    """Residual blocks around these layers, from the bottom up, each with a feed-forward layer."""
    layers = position_layers(s.positions, s.width, s.context)
    layers += [Block(mixer, feed_forward(s), **block_options(s)) for mixer in mixers]
    model = NeuralLM(Stack(layers), vocab=vocab, norm=final_norm(s), tied=s.tied, logit_bias=s.logit_bias,
                     dropout=s.dropout, embedding_scale=embedding_scale(s), **options)
    initialise(model)
    return model


def attention(s: TransformerSettings) -> SelfAttention:
    return SelfAttention(
        s.width, **self_attention_of(s), kv_heads=s.kv_heads, window=s.window, qk_norm=s.qk_norm,
        eps=s.qk_eps or s.eps, softcap=s.attention_softcap, dropout=s.attention_dropout)


def reads_on(window: int, positions: str) -> bool:
    """With a window and distances only, no position is farther away than in training, however long the text."""
    return bool(window) and positions in RELATIVE


def resize_transformer(s: Any, size: int) -> Any:
    """Widths in steps of 8, for heads to share; between two of them the feed-forward layer grows."""
    steps, rest = divmod(size + 7, 8)
    width = 8 * steps
    heads = next(n for n in range(max(1, width // 32), 0, -1) if width % (2 * n) == 0)
    return replace(s, width=width, heads=heads, expand=4 + 12 * rest / width)


FAMILY = Family(
    "transformer", "decoder-only Transformer: every position reads all earlier ones",
    TransformerSettings, sizes=sizes_of("transformer"), build=build_transformer, resize=resize_transformer,
    older=older_decoder,
    example=tiny(build_transformer, TransformerSettings(layers=2, width=8, heads=2, context=32)))

LAYERS = (
    LayerKind("attention", "causal self-attention without positions",
              lambda d: SelfAttention(d, heads=2, positions="none")),
    LayerKind("rotary-attention", "causal self-attention that turns queries and keys by their position",
              lambda d: SelfAttention(d, heads=2)),
    LayerKind("alibi-attention", "causal self-attention whose scores fall with distance",
              lambda d: SelfAttention(d, heads=2, positions="alibi")),
    LayerKind("window-attention", "causal self-attention to the last three positions",
              lambda d: SelfAttention(d, heads=2, window=3)),
    LayerKind("window-alibi-attention", "the same, with scores that fall with distance",
              lambda d: SelfAttention(d, heads=2, window=3, positions="alibi")),
    LayerKind("grouped-attention", "four heads of queries share two of keys and values",
              lambda d: SelfAttention(d, heads=4, kv_heads=2)),
    LayerKind("nonlinear-attention", "q, k, v = tanh(W c), queries and keys of one length, scores within 5",
              lambda d: SelfAttention(d, heads=2, f="tanh", qk_norm=True, softcap=5.0)),
    LayerKind("grouped-window-attention", "everything at once",
              lambda d: SelfAttention(d, heads=4, kv_heads=1, window=4, f="relu", positions="alibi", softcap=3.0)),
    LayerKind("wide-value-attention", "heads of a width of their own, and values of another",
              lambda d: SelfAttention(d, heads=3, head_width=2, value_width=5, f="gelu")),
    LayerKind("narrow-value-window-attention", "the same behind a window, in shared heads of one length",
              lambda d: SelfAttention(d, heads=4, kv_heads=2, head_width=6, value_width=1, window=3, qk_norm=True)),
    LayerKind("location-attention", "says from its query alone where to look: it has no keys",
              lambda d: SelfAttention(d, heads=2, score="location", places=32)),
    LayerKind("part-rotary-attention", "half of each head turns, slowly; biases on queries, keys and values",
              lambda d: SelfAttention(d, heads=2, rotary_base=500.0, rotary_share=0.5, bias="qkv")),
    LayerKind("three-head-alibi-attention", "slopes of a number of heads that is no power of 2; biases everywhere",
              lambda d: SelfAttention(d, heads=3, head_width=2, positions="alibi", bias="all")),
    LayerKind("learned-positions", "a learned vector added at each position", lambda d: LearnedPositions(d, 32)),
    LayerKind("sinusoidal-positions", "sines and cosines added at each position", SinusoidalPositions),
    LayerKind("block", "a residual block: attention, then feed-forward",
              lambda d: Block(SelfAttention(d, heads=2), FeedForward(d))),
    LayerKind("post-norm-block", "the same, normalised after each sum",
              lambda d: Block(SelfAttention(d, heads=2), FeedForward(d, activation="swiglu"), placement="post")),
    LayerKind("parallel-block", "both parts of the block read its input; biases everywhere",
              lambda d: Block(SelfAttention(d, heads=2, bias="all"), FeedForward(d, activation="silu", bias=True),
                              bias=True, parallel=True)),
)
