"""Encoders of tokens: a whole source is read in both directions, and each of its positions becomes a vector.

What stands in the stack makes the kind. They serve fill-in-the-blank here, and whatever reads a source elsewhere.
S sources · L source length · D width
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from regard.contract import Encoder, Memory, SequenceLayer, Source, last_real
from regard.kernels.dropout import Dropout
from regard.layers.bidirectional import Bidirectional
from regard.layers.embedding import Embedding
from regard.layers.feedforward import FeedForward
from regard.layers.full_attention import FullAttention
from regard.layers.norms import EPS
from regard.layers.positions import LearnedPositions, SinusoidalPositions
from regard.layers.stack import Block, Stack, make_norm
from regard.layers.whole import mean_of_real

POSITIONS = ("learned", "sinusoidal", "rotary", "alibi", "none")


class TokenEncoder(Encoder):
    """stack(embedding(w)): the vector of each token in its whole context, and a summary of them all."""

    def __init__(self, layers: Sequence[SequenceLayer], *, vocab: int, norm: nn.Module | None = None,
                 dropout: float = 0.0, embedding_std: float = 0.02, embedding_scale: float = 1.0):
        super().__init__()
        self.stack = Stack(layers)
        self.d_out = self.stack.d_out
        self.embedding = Embedding(vocab, self.stack.d_in, scale=embedding_scale, std=embedding_std)
        self.dropout = Dropout(dropout)
        self.norm = norm if norm is not None else nn.Identity()

    def forward(self, source: Source) -> Memory:
        """Token ids (S, L), their first `lengths` of each row real, to vectors (S, L, D)."""
        vectors, _ = self.stack(self.dropout(self.embedding(source.items)), None, source.lengths)
        vectors = self.norm(vectors)
        lengths = source.lengths
        if lengths is None:
            lengths = torch.full(vectors.shape[:1], vectors.shape[1], device=vectors.device)
        return Memory(vectors, lengths, self.summary(vectors, source.lengths))

    @abstractmethod
    def summary(self, vectors: Tensor, lengths: Tensor | None) -> Tensor:
        """One vector a source (S, D), for whoever cannot look at each position; zeros for an empty one."""

    __call__: Callable[..., Memory]                  # nn.Module leaves this untyped


class MeanEncoder(TokenEncoder):
    """Any layers. Its summary is the mean of the vectors."""

    def summary(self, vectors: Tensor, lengths: Tensor | None) -> Tensor:
        return mean_of_real(vectors, lengths)


class TransformerEncoder(MeanEncoder):
    """Blocks of attention in both directions."""

    def __init__(
        self, *, vocab: int, width: int, heads: int, layers: int, context: int, positions: str = "rotary",
        rotary_base: float = 10000.0, rotary_share: float = 1.0, bias: str = "none", activation: str = "gelu",
        expand: float = 4.0, norm: str = "layer", eps: float = EPS, placement: str = "pre",
        score: str = "scaled-dot", f: str = "none", head_width: int = 0, value_width: int = 0,
        unread_keys: bool = False, dropout: float = 0.0, attention_dropout: float = 0.0, embedding_std: float = 0.02,
        embedding_scale: float = 1.0,
    ):
        where: list[SequenceLayer] = []
        if positions in ("learned", "sinusoidal"):
            where = [LearnedPositions(width, context) if positions == "learned" else SinusoidalPositions(width)]
        norms: dict[str, Any] = dict(eps=eps, bias=bias == "all")
        blocks = [
            Block(FullAttention(width, heads=heads, positions=positions, rotary_base=rotary_base,
                                rotary_share=rotary_share, score=score, places=context, f=f, head_width=head_width,
                                value_width=value_width, unread_keys=unread_keys, bias=bias,
                                dropout=attention_dropout),
                  FeedForward(width, expand=expand, activation=activation, bias=bias == "all"),
                  norm=norm, **norms, placement=placement, dropout=dropout) for _ in range(layers)]
        last = make_norm(norm, width, **norms) if placement == "pre" else None        # post-norm has had its own
        super().__init__([*where, *blocks], vocab=vocab, norm=last, dropout=dropout, embedding_std=embedding_std,
                         embedding_scale=embedding_scale)


class RecurrentEncoder(TokenEncoder):
    """Recurrences in both directions, one pair above another, or from the left alone. Its summary is where they end."""

    def __init__(
        self, cell: Callable[[int, int], SequenceLayer], *, vocab: int, width: int, hidden: int, layers: int = 1,
        both: bool = True, dropout: float = 0.0, embedding_std: float = 0.02,
    ):
        widths = [width] + [(1 + both) * hidden] * layers
        stack = [Bidirectional(cell(below, hidden), cell(below, hidden)) if both else cell(below, hidden)
                 for below, _ in pairwise(widths)]
        super().__init__(stack, vocab=vocab, dropout=dropout, embedding_std=embedding_std)
        self.pairs = [layer for layer in stack[-1:] if both]       # in a list: it is registered as part of the stack

    def summary(self, vectors: Tensor, lengths: Tensor | None) -> Tensor:
        if self.pairs:
            return self.pairs[0].ends(vectors, lengths)            # type: ignore[operator]
        end = last_real(vectors, lengths)
        return end if lengths is None else torch.where((lengths > 0)[:, None], end, 0.0)
