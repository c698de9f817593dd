"""Layers with one bug each, filed under the law that must catch it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from regard.contract import SequenceLayer, State
from regard.watching import watching

from .honest import Decay, DecayState


class LiesAboutItsWidth(Decay):
    def __init__(self):
        super().__init__()
        self.d_out += 1
        self.decay = nn.Parameter(torch.rand(1))
        self.mix = nn.Linear(self.d_in, self.d_out - 1)

    def fresh(self, batch):
        state = super().fresh(batch)
        return DecayState(state.h[:, 1:], state.count)


class InventsAState(Decay):
    def forward(self, x, state=None, lengths=None):
        return super().forward(x, state or self.fresh(x.shape[0]), lengths)


class ScribblesOnItsInput(Decay):
    def forward(self, x, state=None, lengths=None):
        y = super().forward(x, state, lengths)
        x.mul_(2)
        return y


class ForgetsTheState(Decay):
    def forward(self, x, state=None, lengths=None):
        return super().forward(x, state and self.fresh(x.shape[0]), lengths)


class ReturnsTheOldState(Decay):
    def forward(self, x, state=None, lengths=None):
        return super().forward(x, state, lengths)[0], state


class StartsCountingAfresh(Decay):
    """The hidden state is carried, the position is not."""

    def volume(self, before, time):
        return super().volume(self.fresh(before.count.shape[0]), time)


class PeeksAtTheNext(Decay):
    def forward(self, x, state=None, lengths=None):
        return super().forward(x + 0.1 * x.roll(-1, 1), state, lengths)


class PeeksOnlyWhenCached(Decay):
    def forward(self, x, state=None, lengths=None):
        return super().forward(x if state is None else x + 0.1 * x.roll(-1, 1), state, lengths)


class PeeksOnlyInTraining(Decay):
    def forward(self, x, state=None, lengths=None):
        return super().forward(x + x.mean(1, keepdim=True) if self.training else x, state, lengths)


class MasksWithAFiniteNumber(SequenceLayer):
    """Attention whose mask is not minus infinity: a loud enough future gets through (karpathy/minGPT#75)."""

    def __init__(self):
        super().__init__()
        self.d_in = self.d_out = 3
        self.scale = nn.Parameter(torch.ones(3))

    def start(self, batch, capacity=None, memory=None):
        return None

    def forward(self, x, state=None, lengths=None):
        scores = (x * self.scale) @ x.transpose(1, 2)
        future = torch.ones_like(scores).triu(1)
        return (scores - 1000.0 * future).softmax(-1) @ x, None


class IgnoresLengths(Decay):
    def forward(self, x, state=None, lengths=None):
        return super().forward(x, state, None)


class LooksAtNeighbours(Decay):
    def forward(self, x, state=None, lengths=None):
        return super().forward(x - x.mean(0, keepdim=True), state, lengths)


class OnePositionForAll(Decay):
    """All rows are taken to stand where the first one stands."""

    def volume(self, before, time):
        return super().volume(dataclasses.replace(before, count=before.count[:1].expand_as(before.count)), time)


class CountsPads(Decay):
    def forward(self, x, state=None, lengths=None):
        y, after = super().forward(x, state, lengths)
        if after is not None:
            after.count = state.count + x.shape[1]
        return y, after


class ReadsPadsFirst(Decay):
    """Pads are taken to stand at the left."""

    def run(self, x, h, lengths):
        real = torch.arange(x.shape[1]) >= x.shape[1] - lengths[:, None]
        return super().run(x * real[..., None], h, torch.full_like(lengths, x.shape[1]))


class NansAtPads(Decay):
    def forward(self, x, state=None, lengths=None):
        y, after = super().forward(x, state, lengths)
        if lengths is not None:
            real = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
            y = torch.where(real[..., None], y, torch.nan)
        return y, after


@dataclass
class ListState(State):
    h: Tensor
    count: list[int]                       # differs between rows, and is not a tensor


class CountsInAList(Decay):
    def start(self, batch, capacity=None, memory=None):
        return None if capacity is None else ListState(self.fresh(batch).h, [0] * batch)

    def forward(self, x, state=None, lengths=None):
        if state is None:
            return super().forward(x, None, lengths)
        before = DecayState(state.h, torch.tensor(state.count * 2)[:len(state.h)])
        y, after = super().forward(x, before, lengths)
        return y, ListState(after.h, after.count.tolist())


@dataclass
class BoxState(State):
    things: Any = None


class HidesTensorsInAnObject(Decay):
    def start(self, batch, capacity=None, memory=None):
        return None if capacity is None else BoxState(SimpleNamespace(**self.fresh(batch).tensors()))

    def forward(self, x, state=None, lengths=None):
        before = None if state is None else DecayState(**vars(state.things))
        y, after = super().forward(x, before, lengths)
        return y, None if after is None else BoxState(SimpleNamespace(**after.tensors()))


@dataclass
class GrowingState(State):
    past: Tensor                           # (B, everything so far, D)


class GrowsItsCache(SequenceLayer):
    """A running sum over all it has read, kept whole."""

    def __init__(self):
        super().__init__()
        self.d_in = self.d_out = 3
        self.scale = nn.Parameter(torch.rand(3))

    def start(self, batch, capacity=None, memory=None):
        return GrowingState(self.scale.new_zeros(batch, 0, 3))

    def forward(self, x, state=None, lengths=None):
        past = self.start(x.shape[0]).past if state is None else state.past
        everything = torch.cat((past, x * self.scale), 1)
        return everything.cumsum(1)[:, past.shape[1]:], None if state is None else GrowingState(everything)


@dataclass
class NumberState(State):
    h: Tensor
    count: int


class CountsInAPlainNumber(Decay):
    def start(self, batch, capacity=None, memory=None):
        return None if capacity is None else NumberState(self.fresh(batch).h, 0)

    def forward(self, x, state=None, lengths=None):
        if state is None:
            return super().forward(x, None, lengths)
        y, after = super().forward(x, DecayState(state.h, torch.full(x.shape[:1], state.count)), lengths)
        return y, NumberState(after.h, state.count + x.shape[1])


class TurnsTheBatchAround(Decay):
    """Its state leads with the width."""

    def start(self, batch, capacity=None, memory=None):
        state = super().start(batch, capacity)
        return None if state is None else DecayState(state.h.T, state.count)

    def forward(self, x, state=None, lengths=None):
        y, after = super().forward(x, state and DecayState(state.h.T, state.count), lengths)
        return y, after and DecayState(after.h.T, after.count)


class RemembersOnItself(Decay):
    """Half of what it remembers is kept on the layer: a clone of the state does not protect it."""

    def start(self, batch, capacity=None, memory=None):
        self.cache = self.fresh(batch)
        return super().start(batch, capacity)

    def forward(self, x, state=None, lengths=None):
        if state is None:
            return super().forward(x, None, lengths)
        y, self.cache = super().forward(x, self.cache, lengths)
        return y, state.clone()


class ShowsOff(Decay):
    def forward(self, x, state=None, lengths=None):
        y, state = super().forward(x, state, lengths)
        return y if watching() is None else (y * 3) / 3 + 1e-9, state


class DropsInTraining(Decay):
    def forward(self, x, state=None, lengths=None):
        return super().forward(nn.functional.dropout(x, 0.5, self.training), state, lengths)


class NormalisesTheBatch(Decay):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(self.d_in)

    def forward(self, x, state=None, lengths=None):
        return super().forward(self.norm(x.transpose(1, 2)).transpose(1, 2), state, lengths)


class WrongSquare(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]         # the 2 is missing


class WrongBackward(Decay):
    def forward(self, x, state=None, lengths=None):
        return super().forward(WrongSquare.apply(x), state, lengths)


class WrongBackwardOfOneParameter(Decay):
    def run(self, x, h, lengths):
        return super().run(x + WrongSquare.apply(self.decay), h, lengths)


class CutsTheGradient(Decay):
    def forward(self, x, state=None, lengths=None):
        y, after = super().forward(x, state, lengths)
        return y, after and after.detach()


class NanGradientsAtPads(Decay):
    """A mean over what is real, divided by zero where nothing is; the where() hides it from the outputs only."""

    def run(self, x, h, lengths):
        y, h = super().run(x, h, lengths)
        share = (x[:, 0] * 0) / (lengths[:, None] * x[:, 0] * 0 + lengths[:, None])
        return y + torch.where((lengths > 0)[:, None], share, 0.0)[:, None], h


class KeepsAMatrixNobodyReads(Decay):
    def __init__(self, *widths):
        super().__init__(*widths)
        self.spare = nn.Linear(3, 3)


PLANTED: dict[str, list[type[SequenceLayer]]] = {
    "shapes": [LiesAboutItsWidth, InventsAState, ScribblesOnItsInput],
    "cuts": [ForgetsTheState, ReturnsTheOldState, StartsCountingAfresh, IgnoresLengths, OnePositionForAll],
    "causality": [PeeksAtTheNext, PeeksOnlyWhenCached, PeeksOnlyInTraining, MasksWithAFiniteNumber],
    "padding": [IgnoresLengths, LooksAtNeighbours, OnePositionForAll, CountsPads, ReadsPadsFirst, NansAtPads],
    "reorder": [CountsInAList, HidesTensorsInAnObject],
    "static shapes": [GrowsItsCache, CountsInAPlainNumber, TurnsTheBatchAround, RemembersOnItself,
                      HidesTensorsInAnObject],
    "watching": [ShowsOff],
    "train is eval": [DropsInTraining, NormalisesTheBatch],
    "gradients": [WrongBackward, WrongBackwardOfOneParameter, CutsTheGradient, NanGradientsAtPads],
    "parameters": [KeepsAMatrixNobodyReads],
}
