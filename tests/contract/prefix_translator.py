"""A customer of the contract: a decoder-only translator, which reads the source as the beginning of the text.

Read whole, each row is its source followed by its target, without a gap, then pads: rows stand at different
positions. Started with a capacity, the source is read at once (prefill) and the steps go on behind it.
B rows = k for each of S sources · T time · L source length
"""


from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.contract import LanguageModel, Source, State, last_real, of_source
from regard.errors import SettingError

from .static_decoder import Cache, StaticAttention


@dataclass
class Unread(State):
    """A source that waits to be read together with its target, in one whole read."""

    items: Tensor = of_source()            # (S, L)
    lengths: Tensor = of_source()          # (S,)


class PrefixTranslator(nn.Module, LanguageModel):
    """One attention layer over source and target alike."""

    needs_source = True

    def __init__(self, vocab: int = 7, width: int = 6):
        super().__init__()
        self.vocab = vocab
        self.embed = nn.Embedding(vocab, width)
        self.layer = StaticAttention(width)
        self.head = nn.Linear(width, vocab)

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    def start(self, batch: int, capacity: int | None = None, source: Source | None = None) -> Unread | Cache:
        if source is None:
            raise SettingError("this model translates: give start() a source")
        items, lengths = source.items, source.lengths
        if lengths is None:
            lengths = torch.full(items.shape[:1], items.shape[1], device=items.device)
        if capacity is None:
            return Unread(items, lengths)
        sources, longest = items.shape
        cache = self.layer.start(sources, capacity + longest)
        _, cache = self.layer(self.embed(items), cache, lengths)       # once a source; then a copy for each row
        return cache.map(lambda t: t.repeat_interleave(batch // sources, 0))

    def score(self, tokens, targets, state=None, lengths=None):
        y, state = self.read(tokens, state, lengths)
        return self.head(y).log_softmax(-1).gather(-1, targets[..., None])[..., 0], state

    def step(self, tokens, state, lengths=None):
        y, state = self.read(tokens, state, lengths)
        return self.head(last_real(y, lengths)).log_softmax(-1), state

    def read(self, tokens: Tensor, state: Unread | Cache | None, lengths: Tensor | None):
        """(B, T, D) at the tokens, whether the source still has to be read or not."""
        if state is None:
            raise SettingError("this model translates: start it with a source")
        if isinstance(state, Cache):
            return self.layer(self.embed(tokens), state, lengths)
        joined, began = join(state, tokens)
        real = None if lengths is None else began + lengths
        y, _ = self.layer(self.embed(joined), None, real)              # (B, L + T, D)
        at = began[:, None] + torch.arange(tokens.shape[1], device=tokens.device)
        return y.gather(1, at[..., None].expand(-1, -1, y.shape[-1])), None


def join(source: Unread, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Each row's source followed by its tokens (B, L + T), and where its tokens begin (B,)."""
    beams = tokens.shape[0] // source.items.shape[0]
    items = source.items.repeat_interleave(beams, 0)
    began = source.lengths.repeat_interleave(beams, 0)
    joined = torch.cat((items, torch.zeros_like(tokens)), 1)
    at = began[:, None] + torch.arange(tokens.shape[1], device=tokens.device)
    return joined.scatter(1, at, tokens), began
