"""The Transformer: every position reads all earlier ones, and a small network works on what was read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from regard.config import at_least, one_of, shares
from regard.contract import SequenceLayer
from regard.families.family import Family, LayerKind, initialise, tiny
from regard.families.setting_groups import LARGEST, FeedForwardSettings, HeadSettings
from regard.families.sizes import sizes_of
from regard.layers.feedforward import FeedForward
from regard.layers.positions import LearnedPositions, SinusoidalPositions
from regard.layers.projections import check_kv_heads, head_widths
from regard.layers.self_attention import RELATIVE, SelfAttention
from regard.layers.stack import PLACEMENTS, Block, Stack, make_norm
from regard.models.neural import NeuralLM

POSITIONS = ("learned", "sinusoidal", *RELATIVE)
EMBEDDING_SCALES = ("auto", "width", "none")


@dataclass(frozen=True)
class StackSettings(FeedForwardSettings, HeadSettings):
    """The settings of every stack of residual blocks, whatever stands in the blocks."""

    positions: str = "rotary"              # learned · sinusoidal, added below; rotary · alibi · none, in attention
    embedding_scale: str = "auto"          # width: embeddings times its root · none · auto: width with sinusoids
    placement: str = "pre"                 # pre · post: normalise before each part, or after it was added

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("model.positions", self.positions, POSITIONS)
        one_of("model.embedding_scale", self.embedding_scale, EMBEDDING_SCALES)
        one_of("model.placement", self.placement, PLACEMENTS)
        head_widths(self.width, self.heads, self.head_width, self.value_width)


@dataclass(frozen=True)
class BlockSettings(StackSettings):
    """A stack of residual blocks around any layers that read from the left."""

    window: int = 0                        # how far back attention reads, the position itself included; 0: all the way

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("model", self, 0, "window", most=LARGEST)


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
    attention_softcap: float = 0.0         # attention scores stay within this; 0: as they are
    softcap: float = 0.0                   # logits stay within this; 0: as they are

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("model", self, 0, "kv_heads", "softcap", "attention_softcap", most=LARGEST)
        check_kv_heads(self.heads, self.kv_heads or self.heads)


def build_transformer(s: TransformerSettings, vocab: int) -> NeuralLM:
    return build_blocks(s, vocab, (attention(s) for _ in range(s.layers)), softcap=s.softcap,
                        context=None if reads_on(s.window, s.positions) else s.context)


def build_blocks(s: StackSettings, vocab: int, mixers: Iterable[SequenceLayer], **options: Any) -> NeuralLM:
    """Residual blocks around these layers, from the bottom up, each with a feed-forward layer."""
    layers = position_layers(s.positions, s.width, s.context)
    layers += [Block(mixer, FeedForward(s.width, expand=s.expand, activation=s.activation), norm=s.norm,
                     placement=s.placement, dropout=s.dropout) for mixer in mixers]
    model = NeuralLM(Stack(layers), vocab=vocab, norm=final_norm(s.norm, s.placement, s.width), tied=s.tied,
                     dropout=s.dropout, embedding_scale=embedding_scale(s), **options)
    initialise(model)
    return model


def position_layers(positions: str, width: int, context: int) -> list[SequenceLayer]:
    """The layer that adds a vector for each position, for the kinds that are added."""
    if positions == "learned":
        return [LearnedPositions(width, context)]
    return [SinusoidalPositions(width)] if positions == "sinusoidal" else []


def embedding_scale(s: Any) -> float:
    """The factor of embeddings: with sinusoids, by default, the square root of the width.

    A sinusoid has the length sqrt(width / 2) and never changes. An embedding starts seven times shorter or more, and is
    hardly seen beside it. Learned positions start no longer than embeddings and are learned with them.
    """
    scaled = s.embedding_scale == "width" or (s.embedding_scale == "auto" and s.positions == "sinusoidal")
    return float(s.width**0.5) if scaled else 1.0


def older(table: Mapping[str, Any]) -> dict[str, Any]:
    """A [model] table, with what runs meant by saying nothing before there was a scale."""
    return {"embedding_scale": "none", **table}


def attention(s: TransformerSettings) -> SelfAttention:
    return SelfAttention(
        s.width, **heads_of(s), kv_heads=s.kv_heads, positions=s.positions if s.positions in RELATIVE else "none",
        window=s.window, qk_norm=s.qk_norm, softcap=s.attention_softcap, dropout=s.attention_dropout)


def heads_of(s: Any) -> dict[str, Any]:
    """The settings that every attention takes."""
    return dict(heads=s.heads, f=s.f, head_width=s.head_width, value_width=s.value_width)


def final_norm(norm: str, placement: str, width: int) -> nn.Module | None:
    """Pre-norm leaves the sum of all blocks as it is, so that it wants a norm at the end; post-norm has had its own."""
    return make_norm(norm, width) if placement == "pre" else None


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
    TransformerSettings, sizes=sizes_of("transformer"), build=build_transformer, resize=resize_transformer, older=older,
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
    LayerKind("learned-positions", "a learned vector added at each position", lambda d: LearnedPositions(d, 32)),
    LayerKind("sinusoidal-positions", "sines and cosines added at each position", SinusoidalPositions),
    LayerKind("block", "a residual block: attention, then feed-forward",
              lambda d: Block(SelfAttention(d, heads=2), FeedForward(d))),
    LayerKind("post-norm-block", "the same, normalised after each sum",
              lambda d: Block(SelfAttention(d, heads=2), FeedForward(d, activation="swiglu"), placement="post")),
)
