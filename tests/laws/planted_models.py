"""Language models with one bug each, filed under the law that must catch it."""


from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.contract import LanguageModel, State, of_source
from regard.watching import watching

from .honest import DecayState, Speaker, Translator, TranslatorState
from .planted_layers import (
    CountsInAPlainNumber,
    CutsTheGradient,
    ForgetsTheState,
    IgnoresLengths,
    KeepsAMatrixNobodyReads,
    LooksAtNeighbours,
    OnePositionForAll,
    PeeksAtTheNext,
    PeeksOnlyWhenCached,
    RemembersOnItself,
    WrongBackward,
)


def speaking(layer_class: type) -> type[Speaker]:
    """A speaker whose layer has this bug."""

    class Planted(Speaker):
        def __init__(self):
            super().__init__()
            self.layer = layer_class(4, 4)

    Planted.__name__ = layer_class.__name__
    return Planted


class GivesEveryLogProbability(Speaker):
    def score(self, tokens, targets, state=None, lengths=None):
        read, state = self.read(tokens, state, lengths)
        return self.say(read), state


class KeepsAStateNobodyGave(Speaker):
    def score(self, tokens, targets, state=None, lengths=None):
        return super().score(tokens, targets, state or self.layer.fresh(len(tokens)), lengths)


class AnswersAtThePad(Speaker):
    def step(self, tokens, state, lengths=None):
        read, state = self.read(tokens, state, lengths)
        return self.say(read[:, -1]), state


class StepsWithAnotherHead(Speaker):
    def step(self, tokens, state, lengths=None):
        said, state = super().step(tokens, state, lengths)
        return (said * 1.01).log_softmax(-1), state


class GivesLogits(Speaker):
    def say(self, read):
        return self.head(read)


class ReadsTheTargets(Speaker):
    """The score of a target is raised by the targets before it."""

    def score(self, tokens, targets, state=None, lengths=None):
        scores, state = super().score(tokens, targets, state, lengths)
        return scores + 1e-6 * targets.cumsum(1), state


class ReadsTheNextTarget(Speaker):
    def score(self, tokens, targets, state=None, lengths=None):
        scores, state = super().score(tokens, targets, state, lengths)
        return scores + 1e-6 * targets.roll(-1, 1), state


class ReadsSourcePads(Translator):
    def readable(self, state, length):
        return torch.ones_like(super().readable(state, length))


class AveragesSources(Translator):
    def start(self, batch, capacity=None, source=None):
        state = super().start(batch, capacity, source)
        return dataclasses.replace(state, keys=state.keys - state.keys.mean(0, keepdim=True))


@dataclass
class MisfiledState(State):
    h: DecayState = of_source()            # differs between rows, and yet is said to belong to the source


class FilesRowsUnderTheSource(Speaker):
    def start(self, batch, capacity=None, source=None):
        return None if capacity is None else MisfiledState(self.layer.fresh(batch))

    def read(self, tokens, state, lengths):
        if state is None:
            return super().read(tokens, None, lengths)
        rows = torch.arange(len(tokens)) % len(state.h.count)
        y, h = super().read(tokens, state.h.select(rows), lengths)
        return y, MisfiledState(h)


@dataclass
class PerRowSource(State):
    h: DecayState
    keys: Tensor                           # (S, L, D), though it should be of_source
    lengths: Tensor


class ReordersTheSource(Translator):
    def start(self, batch, capacity=None, source=None):
        state = super().start(batch, capacity, source)
        return PerRowSource(state.h, state.keys, state.lengths)

    def read(self, tokens, state, lengths):
        y, after = super().read(tokens, TranslatorState(state.h, state.keys, state.lengths), lengths)
        return y, PerRowSource(after.h, after.keys, after.lengths)


class GrowsWhenStepped(Speaker):
    def step(self, tokens, state, lengths=None):
        said, state = super().step(tokens, state, lengths)
        return said, dataclasses.replace(state, h=state.h.float())


class ShowsOffWhenStepped(Speaker):
    def step(self, tokens, state, lengths=None):
        said, state = super().step(tokens, state, lengths)
        return said if watching() is None else said + 1e-9, state


class DropsWhenScoring(Speaker):
    def read(self, tokens, state, lengths):
        y, state = super().read(tokens, state, lengths)
        return nn.functional.dropout(y, 0.5, self.training), state


class StartsFromNothing(Translator):
    def start(self, batch, capacity=None, source=None):
        return self.layer.start(batch, capacity) if source is None else super().start(batch, capacity, source)


class CrashesWithoutASource(Translator):
    def start(self, batch, capacity=None, source=None):
        return TranslatorState(self.layer.fresh(batch), self.embed(source.items), source.lengths)


PLANTED: dict[str, list[type[LanguageModel]]] = {
    "shapes": [GivesEveryLogProbability, KeepsAStateNobodyGave],
    "cuts": [speaking(ForgetsTheState), speaking(OnePositionForAll)],
    "steps": [AnswersAtThePad, StepsWithAnotherHead],
    "probabilities": [GivesLogits],
    "causality": [speaking(PeeksAtTheNext), speaking(PeeksOnlyWhenCached), ReadsTheNextTarget],
    "targets": [ReadsTheTargets, ReadsTheNextTarget],
    "padding": [speaking(IgnoresLengths), speaking(LooksAtNeighbours), ReadsSourcePads, AveragesSources],
    "reorder": [FilesRowsUnderTheSource],
    "static shapes": [speaking(CountsInAPlainNumber), speaking(RemembersOnItself), GrowsWhenStepped,
                      ReordersTheSource],
    "watching": [ShowsOffWhenStepped],
    "train is eval": [DropsWhenScoring],
    "gradients": [speaking(WrongBackward), speaking(CutsTheGradient)],
    "parameters": [speaking(KeepsAMatrixNobodyReads)],
    "source": [StartsFromNothing, CrashesWithoutASource],
}
