"""A customer of the contract: a decoder that attends before its cell, so time must be looped over.

c[t] = attend(h[t-1] with x[t]; source),  i[t] = ReLU(W_c [x[t]; c[t]]),  h[t] = GRU(i[t], h[t-1]).
Bahdanau et al. 2014.   B rows = k beams for each of S sources, row r reading source r // k · L source length · N width
"""


from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from regard.contract import Encoder, LanguageModel, Memory, Source, State, last_real, of_source
from regard.errors import SettingError
from regard.watching import watching


@dataclass
class DecoderState(State):
    """The hidden state of each row, and the projected source, which beams share."""

    h: Tensor                              # (B, N)
    keys: Tensor = of_source()             # (S, L, N)
    values: Tensor = of_source()           # (S, L, N)
    lengths: Tensor = of_source()          # (S,)


class Bidirectional(Encoder):
    """Two sweeps of a simple cell, the second from each row's last real token backwards."""

    def __init__(self, vocab: int, width: int):
        super().__init__()
        self.d_out = 2 * width
        self.embed = nn.Embedding(vocab, width)
        self.forwards, self.backwards = nn.RNNCell(width, width), nn.RNNCell(width, width)

    def forward(self, source: Source) -> Memory:
        x = self.embed(source.items)                                              # (S, L, N)
        lengths = source.lengths
        if lengths is None:
            lengths = torch.full(x.shape[:1], x.shape[1], device=x.device)
        there, last = sweep(self.forwards, x, lengths, range(x.shape[1]))
        back, first = sweep(self.backwards, x, lengths, reversed(range(x.shape[1])))
        return Memory(torch.cat((there, back), -1), lengths, torch.cat((last, first), -1))


def sweep(cell, x, lengths, order):
    """Every hidden state along `order`, and the last; pads leave it as it was."""
    h = x.new_zeros(x.shape[0], cell.hidden_size)
    states = [h] * x.shape[1]
    for t in order:
        h = torch.where((t < lengths)[:, None], cell(x[:, t], h), h)
        states[t] = h
    return torch.stack(states, 1), h


class AttentionBeforeCell(nn.Module, LanguageModel):
    """A translator whose every step first looks at the source, with what it knows so far as the query."""

    needs_source = True

    def __init__(self, vocab: int = 7, width: int = 6):
        super().__init__()
        self.vocab = vocab
        self.encoder = Bidirectional(vocab, width)
        self.embed = nn.Embedding(vocab, width)
        self.bridge = nn.Linear(2 * width, width)
        self.key, self.value = nn.Linear(2 * width, width), nn.Linear(2 * width, width)
        self.query, self.combine = nn.Linear(2 * width, width), nn.Linear(2 * width, width)
        self.cell = nn.GRUCell(width, width)
        self.head = nn.Linear(width, vocab)

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    def start(self, batch: int, capacity: int | None = None, source: Source | None = None) -> DecoderState:
        if source is None:
            raise SettingError("this model translates: give start() a source")
        memory = self.encoder(source)
        beams = batch // memory.vectors.shape[0]
        h = torch.tanh(self.bridge(memory.summary)).repeat_interleave(beams, 0)
        return DecoderState(h, self.key(memory.vectors), self.value(memory.vectors), memory.lengths)

    def score(self, tokens, targets, state=None, lengths=None):
        read, state = self.read(tokens, state, lengths)
        scores = self.head(read).log_softmax(-1).gather(-1, targets[..., None])[..., 0]
        return scores, state

    def step(self, tokens, state, lengths=None):
        read, state = self.read(tokens, state, lengths)
        return self.head(last_real(read, lengths)).log_softmax(-1), state

    def read(self, tokens: Tensor, state: DecoderState | None, lengths: Tensor | None) -> tuple[Tensor, DecoderState]:
        """(B, T, N) hidden states, one step after another."""
        if state is None:
            raise SettingError("this model translates: start it with a source")
        h, hidden, seen = state.h, [], []
        for t, x in enumerate(self.embed(tokens).unbind(1)):
            context, weights = self.look(torch.cat((x, h), -1), state)
            i = torch.relu(self.combine(torch.cat((x, context), -1)))
            new = self.cell(i, h)
            h = new if lengths is None else torch.where((t < lengths)[:, None], new, h)
            hidden.append(new)
            seen.append(weights)
        recorder = watching()
        if recorder is not None:
            recorder.add(self, "weights", torch.stack(seen, 1)[:, None])           # (B, 1, T, L)
        return torch.stack(hidden, 1), replace(state, h=h)

    def look(self, asking: Tensor, state: DecoderState) -> tuple[Tensor, Tensor]:
        """What each row reads of its source (B, N), and how much of each position (B, L)."""
        sources, length = state.keys.shape[:2]
        query = self.query(asking).view(sources, -1, state.keys.shape[-1])        # (S, k, N)
        scores = query @ state.keys.transpose(1, 2)                               # (S, k, L)
        real = torch.arange(length, device=scores.device) < state.lengths[:, None, None]
        weights = scores.masked_fill(~real, -torch.inf).softmax(-1)
        return (weights @ state.values).flatten(0, 1), weights.flatten(0, 1)
