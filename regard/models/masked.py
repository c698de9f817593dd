"""Masked models: some tokens are hidden behind <mask>, and the model tells them from everything around them.

Devlin et al. 2018 (BERT).   B batch · T time · D width · V vocabulary, <mask> its last entry

A masked model gives the probability of a token in its place, not of the next one: it is no LanguageModel, and it
cannot generate. `targets` hold the hidden tokens where they stand, and <pad> wherever nothing is asked.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.contract import Learner, Memory, Source
from regard.data.tokens.vocabulary import PAD
from regard.kernels.host import map_where
from regard.models.encoders import TokenEncoder
from regard.models.head import Head


class EncoderModel(Learner):
    """An encoder of tokens below `vocab`, and a head that reads its vectors."""

    least_target = 0                 # targets count from here; <pad> stands where nothing is asked

    def __init__(self, encoder: TokenEncoder, head: Head, *, vocab: int, context: int | None = None):
        super().__init__()
        self.vocab, self.context = vocab, context
        self.encoder, self.head = encoder, head

    def encode(self, tokens: Tensor, lengths: Tensor | None = None) -> Memory:
        """The vector of each token in its context, (B, T, D), and a summary of each row, (B, D)."""
        return self.encoder(Source(tokens, lengths))

    def vectors(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The vectors that the head reads, (B, N, D): one a position."""
        return self.encode(tokens, lengths).vectors

    def score(
        self, tokens: Tensor, targets: Tensor, state: None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """(B, N): the log-probability of each target in its place; zero where the target is <pad>."""
        wanted = (targets - self.least_target).clamp(min=0)
        return map_where(targets != PAD, self.head.score, self.vectors(tokens, lengths), wanted), None

    forward = score           # so that data-parallel wrappers and hooks see the training path


class MaskedModel(EncoderModel):
    """P(w[t] | the rest) = softmax(W h[t]), where h = encoder(w with some tokens hidden)."""

    vectors_from = "encoder"         # the module whose vectors the head reads

    def __init__(self, encoder: TokenEncoder, *, vocab: int, tied: bool = True, logit_bias: bool = False,
                 context: int | None = None):
        head = Head(encoder.d_out, vocab, embedding=encoder.embedding if tied else None, bias=logit_bias)
        super().__init__(encoder, head, vocab=vocab, context=context)

    @property
    def mask(self) -> int:
        """The id of <mask>: behind every token of the tokenizer, so that none of those has another id for it."""
        return self.vocab - 1

    @property
    def embedding(self) -> nn.Embedding:
        return self.encoder.embedding

    def predict(self, tokens: Tensor, places: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, N, V): log-probabilities of what stands at these places (B, N) of each row."""
        vectors = self.encode(tokens, lengths).vectors
        rows = torch.arange(len(tokens), device=tokens.device)[:, None]
        return self.head(vectors[rows, places])
