"""The Transformer: every position reads all earlier ones, and a small network works on what was read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from regard.config import at_least, one_of, shares
from regard.contract import SequenceLayer
from regard.families.family import LARGEST, Family, LayerKind, initialise, tiny
from regard.layers.feedforward import ACTIVATIONS, FeedForward
from regard.layers.positions import LearnedPositions, SinusoidalPositions
from regard.layers.self_attention import SelfAttention, check_heads
from regard.layers.stack import NORMS, Block, Stack, make_norm
from regard.models.neural import NeuralLM
from regard.sizes import transformer_sizes


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


def resize_transformer(s: TransformerSettings, size: int) -> TransformerSettings:
    """Widths in steps of 8, for heads to share; between two of them the feed-forward layer grows."""
    steps, rest = divmod(size + 7, 8)
    width = 8 * steps
    heads = next(n for n in range(max(1, width // 32), 0, -1) if width % (2 * n) == 0)
    return replace(s, width=width, heads=heads, expand=4 + 12 * rest / width)


FAMILY = Family(
    "transformer", "decoder-only Transformer: every position reads all earlier ones",
    TransformerSettings, sizes=transformer_sizes, build=build_transformer, resize=resize_transformer,
    example=tiny(build_transformer, TransformerSettings(layers=2, width=8, heads=2, context=32)))

LAYERS = (
    LayerKind("attention", "causal self-attention without positions",
              lambda d: SelfAttention(d, heads=2, rotary=False)),
    LayerKind("rotary-attention", "causal self-attention that turns queries and keys by their position",
              lambda d: SelfAttention(d, heads=2, rotary=True)),
    LayerKind("learned-positions", "a learned vector added at each position", lambda d: LearnedPositions(d, 32)),
    LayerKind("sinusoidal-positions", "sines and cosines added at each position", SinusoidalPositions),
    LayerKind("block", "a residual block: attention, then feed-forward",
              lambda d: Block(SelfAttention(d, heads=2), FeedForward(d))),
)
