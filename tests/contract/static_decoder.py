"""A customer of the contract: attention whose step has static shapes, so that it compiles once and for all.

Keys and values live in a cache of fixed capacity; slot j of a row holds its position j, and one slot more
takes the pads. Positions are per row and live in the state.   B batch · T time · D width · C capacity
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.contract import LanguageModel, Memory, SequenceLayer, Source, State, last_real
from regard.watching import watching


@dataclass
class Cache(State):
    keys: Tensor                           # (B, C + 1, D)
    values: Tensor                         # (B, C + 1, D)
    count: Tensor                          # (B,)


class StaticAttention(SequenceLayer):
    """x + attention over what was read so far, one head, learned positions."""

    def __init__(self, width: int, limit: int = 24):
        super().__init__()
        self.d_in = self.d_out = width
        self.limit = limit
        self.place = nn.Parameter(torch.randn(limit, width))
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> Cache | None:
        if capacity is None:
            return None
        room = self.place.new_zeros(batch, capacity + 1, self.d_in)
        return Cache(room, room.clone(), torch.zeros(batch, dtype=torch.long, device=room.device))

    def forward(self, x: Tensor, state: Cache | None = None, lengths: Tensor | None = None):
        batch, time = x.shape[:2]
        steps = torch.arange(time, device=x.device)
        at = steps.expand(batch, time) if state is None else state.count[:, None] + steps      # (B, T)
        x = x + self.place[at.clamp(max=self.limit - 1)]
        q, k, v = self.qkv(x).chunk(3, -1)                                                     # each (B, T, D)
        if state is not None:
            state = write(state, k, v, at, lengths)
            k, v = state.keys, state.values
        readable = torch.arange(k.shape[1], device=x.device) <= at[..., None]                  # (B, T, C + 1)
        scores = q @ k.transpose(1, 2) / math.sqrt(self.d_in)
        weights = scores.masked_fill(~readable, -torch.inf).softmax(-1)
        recorder = watching()
        if recorder is not None:
            recorder.add(self, "weights", weights[:, None])
        return x + self.out(weights @ v), state


def write(cache: Cache, keys: Tensor, values: Tensor, at: Tensor, lengths: Tensor | None) -> Cache:
    """Put a chunk behind each row's own past: in place, but for gradients, which need the past unchanged."""
    batch, time = at.shape
    bin_for_pads = cache.keys.shape[1] - 1
    if lengths is not None:
        at = torch.where(torch.arange(time, device=at.device) < lengths[:, None], at, bin_for_pads)
    where = (torch.arange(batch, device=at.device)[:, None], at)
    put = torch.Tensor.index_put if torch.is_grad_enabled() else torch.Tensor.index_put_
    return Cache(put(cache.keys, where, keys), put(cache.values, where, values),
                 cache.count + (time if lengths is None else lengths))


class StaticDecoder(nn.Module, LanguageModel):
    """Embedding, attention, head."""

    def __init__(self, vocab: int = 7, width: int = 6):
        super().__init__()
        self.vocab = vocab
        self.embed = nn.Embedding(vocab, width)
        self.layer = StaticAttention(width)
        self.head = nn.Linear(width, vocab)

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    def start(self, batch: int, capacity: int | None = None, source: Source | None = None) -> Cache | None:
        return self.layer.start(batch, capacity)

    def score(self, tokens, targets, state=None, lengths=None):
        y, state = self.layer(self.embed(tokens), state, lengths)
        return self.head(y).log_softmax(-1).gather(-1, targets[..., None])[..., 0], state

    def step(self, tokens, state, lengths=None):
        y, state = self.layer(self.embed(tokens), state, lengths)
        return self.head(last_real(y, lengths)).log_softmax(-1), state
