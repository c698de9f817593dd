"""An honest layer and two honest models, small enough to plant one bug at a time in them."""


from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.contract import LanguageModel, Memory, SequenceLayer, Source, State, last_real, of_source
from regard.errors import SettingError


@dataclass
class DecayState(State):
    h: Tensor                              # (B, D)
    count: Tensor                          # (B,)


class Decay(SequenceLayer):
    """h[t] = a h[t-1] + W x[t] sin(t + 1): what was read fades, and each position has its own volume."""

    def __init__(self, d_in: int = 3, d_out: int = 4):
        super().__init__()
        self.d_in, self.d_out = d_in, d_out
        self.mix = nn.Linear(d_in, d_out)
        self.decay = nn.Parameter(torch.rand(d_out))

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> DecayState | None:
        return None if capacity is None else self.fresh(batch)

    def fresh(self, batch: int) -> DecayState:
        zeros = self.decay.new_zeros(batch, self.d_out)
        return DecayState(zeros, torch.zeros(batch, dtype=torch.long, device=zeros.device))

    def forward(self, x: Tensor, state: DecayState | None = None, lengths: Tensor | None = None):
        before = state or self.fresh(x.shape[0])
        if lengths is None:
            lengths = torch.full(x.shape[:1], x.shape[1], device=x.device)
        y, h = self.run(self.mix(x) * self.volume(before, x.shape[1]), before.h, lengths)
        return y, None if state is None else DecayState(h, before.count + lengths)

    def volume(self, before: DecayState, time: int) -> Tensor:
        """(B, T, 1): from each row's own position."""
        at = before.count[:, None] + torch.arange(time, device=before.count.device)
        return (at + 1).to(before.h.dtype).sin()[..., None]

    def run(self, x: Tensor, h: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        outputs = []
        for t, now in enumerate(x.unbind(1)):
            new = self.decay * h + now
            h = torch.where((t < lengths)[:, None], new, h)
            outputs.append(new)
        return torch.stack(outputs, 1), h


class Speaker(nn.Module, LanguageModel):
    """Embedding, decay, head."""

    def __init__(self, vocab: int = 5, width: int = 4):
        super().__init__()
        self.vocab = vocab
        self.embed = nn.Embedding(vocab, width)
        self.layer = Decay(width, width)
        self.head = nn.Linear(width, vocab)

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    def start(self, batch, capacity=None, source=None):
        return self.layer.start(batch, capacity)

    def score(self, tokens, targets, state=None, lengths=None):
        read, state = self.read(tokens, state, lengths)
        return self.say(read).gather(-1, targets[..., None])[..., 0], state

    def step(self, tokens, state, lengths=None):
        read, state = self.read(tokens, state, lengths)
        return self.say(last_real(read, lengths)), state

    def read(self, tokens, state, lengths):
        return self.layer(self.embed(tokens), state, lengths)

    def say(self, read: Tensor) -> Tensor:
        return self.head(read).log_softmax(-1)


@dataclass
class TranslatorState(State):
    h: DecayState
    keys: Tensor = of_source()             # (S, L, D)
    lengths: Tensor = of_source()          # (S,)


class Translator(Speaker):
    """Each position also reads the source, by attention; rows r of source r // k."""

    needs_source = True

    def start(self, batch, capacity=None, source=None):
        if source is None:
            raise SettingError("give a source")
        return TranslatorState(self.layer.fresh(batch), self.embed(source.items), source.lengths)

    def read(self, tokens, state, lengths):
        y, h = self.layer(self.embed(tokens), state.h, lengths)
        sources, length = state.keys.shape[:2]
        scores = y.view(sources, -1, y.shape[-1]) @ state.keys.transpose(1, 2)        # (S, k T, L)
        scores = scores.masked_fill(~self.readable(state, length), -torch.inf)
        context = scores.softmax(-1) @ state.keys
        return y + context.view_as(y), TranslatorState(h, state.keys, state.lengths)

    def readable(self, state: TranslatorState, length: int) -> Tensor:
        return torch.arange(length, device=state.lengths.device) < state.lengths[:, None, None]


def a_source() -> Source:
    return Source(torch.tensor([[1, 2, 3], [4, 0, 0]]), torch.tensor([3, 1]))
