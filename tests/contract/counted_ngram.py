"""A customer of the contract: an n-gram, counted and not learned, whose state is its last n - 1 tokens.

B batch · T time · V vocabulary
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.contract import LanguageModel, Source, State, last_real


@dataclass
class LastTokens(State):
    tokens: Tensor                         # (B, n - 1); the number V stands before the beginning


class CountedNgram(LanguageModel):
    """log p(w | the n - 1 before it) = log of (count + 1) / (count of the context + V)."""

    def __init__(self, texts: Tensor, vocab: int, order: int):
        self.vocab, self.order = vocab, order
        counts = torch.ones(*[vocab + 1] * (order - 1), vocab, dtype=torch.float64)
        contexts = self.windows(texts[:, :-1], self.start(len(texts), 1).tokens)          # (B, T - 1, n - 1)
        for *context, word in torch.cat((contexts, texts[:, 1:, None]), -1).flatten(0, 1).tolist():
            counts[(*context, word)] += 1
        self.table = (counts / counts.sum(-1, keepdim=True)).log()                        # ((V + 1) ^ (n - 1), V)

    @classmethod
    def example(cls, order: int = 3) -> CountedNgram:
        texts = torch.randint(5, (4, 20), generator=torch.Generator().manual_seed(1))
        return cls(texts, vocab=5, order=order)

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def start(self, batch: int, capacity: int | None = None, source: Source | None = None) -> LastTokens:
        return LastTokens(torch.full((batch, self.order - 1), self.vocab))

    def windows(self, tokens: Tensor, before: Tensor) -> Tensor:
        """(B, T, n - 1): at each position, the last n - 1 tokens read."""
        return torch.cat((before, tokens), 1).unfold(1, self.order - 1, 1)[:, 1:]

    def score(self, tokens, targets, state=None, lengths=None):
        following, after = self.read(tokens, state or self.start(len(tokens)), lengths)
        return following.gather(-1, targets[..., None])[..., 0], None if state is None else after

    def step(self, tokens, state, lengths=None):
        following, state = self.read(tokens, state, lengths)
        return last_real(following, lengths), state

    def read(self, tokens: Tensor, state: LastTokens, lengths: Tensor | None) -> tuple[Tensor, LastTokens]:
        """(B, T, V) log-probabilities after each token, and the last n - 1 real tokens of each row."""
        following = self.table[self.windows(tokens, state.tokens).unbind(-1)]
        read = torch.full((len(tokens),), tokens.shape[1]) if lengths is None else lengths
        everything = torch.cat((state.tokens, tokens), 1)
        last = read[:, None] + torch.arange(self.order - 1)
        return following, LastTokens(everything.gather(1, last))
