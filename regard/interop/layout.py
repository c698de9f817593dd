"""Layouts: a network's weights by the names of the field, whatever its modules are called.

Targets write from here, so that none of them knows our modules; layout_reading.py does.
V vocabulary · D width · F width inside a feed-forward layer · H heads of K channels · P positions · N states
E channels inside a state space · G groups of its heads
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.layers.positions import SinusoidalPositions


@dataclass(frozen=True)
class Affine:
    """W x + b."""

    weight: Tensor                         # (E, D)
    bias: Tensor | None = None             # (E,)

    @property
    def bias_or_zeros(self) -> Tensor:
        return self.weight.new_zeros(len(self.weight)) if self.bias is None else self.bias


@dataclass(frozen=True)
class NormLayout:
    kind: str                              # layer · rms
    eps: float
    weight: Tensor                         # (D,)
    bias: Tensor | None = None

    @property
    def bias_or_zeros(self) -> Tensor:
        return torch.zeros_like(self.weight) if self.bias is None else self.bias


@dataclass(frozen=True)
class RotaryLayout:
    base: float = 10000.0
    width: int = 0                         # channels of a head that turn, the first ones: neighbours make a pair


@dataclass(frozen=True)
class AttentionLayout:
    """Attention to the text itself, or of a decoder to the source."""

    q: Affine                              # (H K, D)
    k: Affine                              # (H' K, D)
    v: Affine                              # (H' U, D)
    o: Affine                              # (D, H U)
    heads: int
    kv_heads: int
    head_width: int
    value_width: int
    q_norm: NormLayout | None = None       # over the K channels of a head
    k_norm: NormLayout | None = None
    rotary: RotaryLayout | None = None
    slopes: Tensor | None = None           # (H,): ALiBi
    window: int = 0                        # 0: everything before
    softcap: float = 0.0
    score: str = "scaled-dot"
    f: str = "none"

    def halved(self, part: Affine, heads: int) -> Affine:
        """Queries or keys for a program that turns channel i with channel i + K/2, where ours turns neighbours."""
        if self.rotary is None:
            return part
        order = halves(heads, self.head_width, self.rotary.width).to(part.weight.device)
        return Affine(part.weight[order], None if part.bias is None else part.bias[order])

    def halved_norm(self, norm: NormLayout) -> NormLayout:
        """The gains of a head's channels, in the order of `halved`."""
        if self.rotary is None:
            return norm
        return NormLayout(norm.kind, norm.eps, norm.weight[halves(1, self.head_width, self.rotary.width)], norm.bias)


@dataclass(frozen=True)
class FeedForwardLayout:
    up: Affine                             # (F, D)
    down: Affine                           # (D, F)
    gate: Affine | None                    # (F, D): silu(gate x) * up x
    activation: str                        # gelu · gelu-tanh · relu · relu2 · silu · swiglu


@dataclass(frozen=True)
class BlockLayout:
    """x + attention(norm x), then of a decoder the source, then the feed-forward layer; post-norm: norm(x + part)."""

    attention: AttentionLayout
    attention_norm: NormLayout
    feed: FeedForwardLayout
    feed_norm: NormLayout | None           # None: parallel, with the norm of attention for both
    cross: AttentionLayout | None = None
    cross_norm: NormLayout | None = None
    parallel: bool = False                 # attention and feed-forward read the same x, and both are added


@dataclass(frozen=True)
class StackLayout:
    """Embedding, positions, blocks, and a last norm."""

    embedding: Tensor                      # (V, D)
    scale: float                           # of embeddings
    positions: str                         # learned · sinusoidal, added below · rotary · alibi · alibi-even · none
    table: Tensor | None                   # (P, D) learned
    placement: str                         # pre · post
    blocks: tuple[BlockLayout, ...]
    norm: NormLayout | None

    @property
    def width(self) -> int:
        return self.embedding.shape[1]

    def added(self, count: int) -> Tensor:
        """The vectors (count, D) that are added at each position; zeros where nothing is added."""
        if self.table is not None:
            return self.table[:count]
        if self.positions != "sinusoidal":
            return self.embedding.new_zeros(count, self.width)
        return SinusoidalPositions(self.width).vectors(torch.arange(count)).to(self.embedding)


@dataclass(frozen=True)
class HeadLayout:
    """From a position's vector to logits."""

    weight: Tensor                         # (V, D)
    tied: bool                             # the embedding's
    bias: Tensor | None = None
    softcap: float = 0.0


@dataclass(frozen=True)
class DecoderLayout:
    """A decoder-only Transformer."""

    stack: StackLayout
    head: HeadLayout
    context: int | None


@dataclass(frozen=True)
class EncoderDecoderLayout:
    """A Transformer that reads a source: its decoder's blocks have a cross-attention each."""

    encoder: StackLayout
    decoder: StackLayout
    head: HeadLayout
    context: int | None
    shared: bool                           # one embedding for both


@dataclass(frozen=True)
class MaskedLayout:
    """An encoder that tells what is hidden; <mask> is the last entry of the vocabulary."""

    encoder: StackLayout
    head: HeadLayout
    context: int | None


@dataclass(frozen=True)
class MambaBlockLayout:
    """x + mixer(norm x), with a selective state space of which every channel has its own decay."""

    norm: NormLayout
    into: Affine                           # (2 E, D): u, then the gate z
    conv: Tensor                           # (E, taps)
    conv_bias: Tensor                      # (E,)
    codes: Affine                          # (2 N, E): b, then c
    step_in: Affine                        # (R, E)
    step_out: Affine                       # (E, R), with its bias
    log_rate: Tensor                       # (E, N): log(-a)
    skip: Tensor                           # (E,)
    out: Affine                            # (D, E)


@dataclass(frozen=True)
class MambaLayout:
    embedding: Tensor
    blocks: tuple[MambaBlockLayout, ...]
    norm: NormLayout
    head: HeadLayout
    context: int | None
    decay: str = "channel"


@dataclass(frozen=True)
class Mamba2BlockLayout:
    """x + mixer(norm x), with a state for each head of P channels; the heads of a group share b and c."""

    norm: NormLayout
    into: Affine                           # (2 E + 2 G N + H, D): the gate z, then x, b, c, then a step for each head
    conv: Tensor                           # (E + 2 G N, taps), of x, b and c
    conv_bias: Tensor                      # (E + 2 G N,)
    step_bias: Tensor                      # (H,)
    log_rate: Tensor                       # (H,): log(-a)
    skip: Tensor                           # (H,)
    gated: NormLayout                      # of each group's channels, after the gate
    out: Affine                            # (D, E)
    states: int
    groups: int
    limits: tuple[float, float]            # of a step

    @property
    def inner(self) -> int:
        return self.out.weight.shape[1]


@dataclass(frozen=True)
class Mamba2Layout:
    embedding: Tensor
    blocks: tuple[Mamba2BlockLayout, ...]
    norm: NormLayout
    head: HeadLayout
    context: int | None


Layout = DecoderLayout | EncoderDecoderLayout | MaskedLayout | MambaLayout | Mamba2Layout


def halves(heads: int, width: int, turned: int) -> Tensor:
    """The order of the rows of queries or keys in which pairs (0, 1), (2, 3) ... of each head's first `turned` channels
    become (0, turned / 2), (1, turned / 2 + 1) ..."""
    one = torch.cat((torch.arange(0, turned, 2), torch.arange(1, turned, 2), torch.arange(turned, width)))
    return (torch.arange(heads)[:, None] * width + one).flatten()
