"""Neural language models: embed the tokens, run a stack of sequence layers, predict the next token.

What stands in the stack makes the family; nothing here knows which it is.
B batch · T time · D width · V vocabulary
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.contract import LanguageModel, Learner, SequenceLayer, Source, State, last_real
from regard.kernels.dropout import Dropout
from regard.kernels.precision import in_precision
from regard.layers.embedding import Embedding
from regard.models.head import Head


class NeuralLM(Learner, LanguageModel):
    """P(w[t+1] | w[1..t]) = softmax(W h[t]), where h = stack(embedding(w))."""

    in_one_pass = True
    vectors_from = "norm"            # the module whose vectors the head reads

    def __init__(
        self,
        stack: SequenceLayer,
        *,
        vocab: int,
        norm: nn.Module | None = None,
        tied: bool = True,
        dropout: float = 0.0,
        smoothing: float = 0.0,
        softcap: float = 0.0,
        context: int | None = None,
        embedding_scale: float = 1.0,
        logit_bias: bool = False,
    ):
        super().__init__()
        self.vocab, self.context = vocab, context
        self.embedding = Embedding(vocab, stack.d_in, scale=embedding_scale, std=0.02 if tied else 0.1)
        self.dropout = Dropout(dropout)
        self.stack = stack
        self.norm = norm if norm is not None else nn.Identity()
        self.head = Head(stack.d_out, vocab, embedding=self.embedding if tied else None, smoothing=smoothing,
                         softcap=softcap, bias=logit_bias)

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    def start(self, batch: int, capacity: int | None = None, source: Source | None = None) -> State | None:
        return self.stack.start(batch, capacity)

    def encode(
        self, tokens: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State | None]:
        """(B, T, D): the vector of each position in its context, before prediction."""
        h, state = self.stack(self.dropout(in_precision(self.embedding(tokens))), state, lengths)
        return self.norm(h), state

    def score(
        self, tokens: Tensor, targets: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State | None]:
        h, state = self.encode(tokens, state, lengths)
        return self.head.score(h, targets), state

    def loss(
        self, tokens: Tensor, targets: Tensor, shares: Tensor, state: State | None = None,
        lengths: Tensor | None = None, source: Tensor | None = None, source_lengths: Tensor | None = None,
    ) -> tuple[Tensor, State | None]:
        if source is not None:
            state = self.start(len(tokens), None, Source(source, source_lengths))
        h, after = self.encode(tokens, state, lengths)
        return self.head.loss(h, targets, shares), None if source is not None else after

    def step(self, tokens: Tensor, state: State, lengths: Tensor | None = None) -> tuple[Tensor, State]:
        h, after = self.encode(tokens, state, lengths)
        assert after is not None, "a step needs a state: start(batch, capacity)"
        return self.head(last_real(h, lengths)), after

    forward = score           # so that data-parallel wrappers and hooks see the training path
