"""The laws of a model that reads a row whole and answers at its positions, or once: a masked model, or a label model.

Its encoder has laws of its own.   B batch · T time · N answers a row: one, or one a position · C choices of an answer
"""

from __future__ import annotations

import copy
from typing import Any, Self

import torch
from torch import Tensor

from regard.laws.check import Report, try_laws
from regard.laws.law import Law, LawBroken, bit_equal
from regard.laws.prepared import prepared
from regard.laws.whole_laws import WHOLE_LAWS, WholeReader

PAD = 0                        # the target where nothing is asked


class LabelReader(WholeReader):
    """A label model, rows of tokens, and targets for as many answers as it gives a row."""

    first = 1                  # the target of the first choice

    def __init__(self, model: Any, *, batch: int = 3, time: int = 6, seed: int = 0):
        super().__init__(model, batch=batch, time=min(time, model.context or time), seed=seed)
        with self.mode(training=False):
            self.answers = self.predict(self.tokens()).shape[1]                        # N: 1 or T

    @property
    def choices(self) -> int:
        return self.thing.labels

    @property
    def most(self) -> int:
        """The largest target; the least is 1."""
        return self.choices + self.first - 1

    def predict(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, N, C)."""
        return self.thing.predict(tokens, lengths)

    def draw(self, batch: int, time: int) -> Tensor:
        return torch.randint(1, self.thing.vocab, (batch, time), generator=self.random).to(self.device)

    def tokens(self) -> Tensor:
        return self.draw(self.batch, self.time)

    def targets(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, N) targets that follow from the tokens; where each position has one, nothing is asked of every third."""
        asked = self.asked(tokens, lengths)
        asked = asked & (torch.arange(asked.shape[1], device=self.device) % 3 != 2)
        return torch.where(asked, 1 + tokens[:, :asked.shape[1]] % self.most, PAD)

    def asked(self, tokens: Tensor, lengths: Tensor | None) -> Tensor:
        """(B, N), True where an answer of rows of these lengths is meant."""
        if lengths is not None and self.answers == self.time:
            return self.inside(lengths)
        answers = tokens.shape[1] if self.answers == self.time else self.answers
        return torch.ones(len(tokens), answers, dtype=torch.bool, device=self.device)

    def outputs(self, items: Tensor, lengths: Tensor | None = None) -> dict[str, Tensor]:
        answers, meant = self.predict(items, lengths), self.asked(items, lengths)
        return {"the answers": torch.where(meant[..., None], answers, 0.0), "the scores": self.learned(items, lengths)}

    def learned(self, items: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.score(items, self.targets(items, lengths), lengths)

    def score(self, tokens: Tensor, targets: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.thing.score(tokens, targets, None, lengths)[0]

    def in_float64(self) -> Self:
        return type(self)(copy.deepcopy(self.thing).double(), batch=self.batch, time=self.time)


class MaskedReader(LabelReader):
    """A masked model, asked for the token at each position; a target is the token itself."""

    first = 0

    @property
    def choices(self) -> int:
        return self.thing.vocab

    def predict(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        places = torch.arange(tokens.shape[1], device=self.device).expand(len(tokens), -1)
        return self.thing.predict(tokens, places, lengths)


def shapes(reader: LabelReader) -> None:
    """predict gives (B, N, C), score (B, N), zero where nothing is asked."""
    tokens = reader.tokens()
    wanted = reader.targets(tokens)
    with reader.mode(training=False):
        scores, answers = reader.score(tokens, wanted), reader.predict(tokens)
        silent = reader.score(tokens, torch.full_like(wanted, PAD))
    if reader.answers not in (1, reader.time):
        raise LawBroken("shapes", f"predict gives {reader.answers} answers to a row of {reader.time} tokens, not one "
                                  "a row or one a position")
    for name, values, shape in (("score gives (B, N)", scores, (reader.batch, reader.answers)),
                                ("predict gives (B, N, C)", answers, (reader.batch, reader.answers, reader.choices))):
        if tuple(values.shape) != shape:
            raise LawBroken("shapes", f"{name}: expected {shape}, got {tuple(values.shape)}")
    bit_equal("shapes", silent, torch.zeros_like(scores), "the score where nothing is asked")


def probabilities(reader: LabelReader) -> None:
    """predict gives logarithms of probabilities that sum to one."""
    with reader.mode(training=False):
        total = reader.predict(reader.tokens()).logsumexp(-1)
    reader.same("probabilities", total, torch.zeros_like(total), "the logarithm of their sum")


def targets(reader: LabelReader) -> None:
    """score is what predict says of the targets, each for itself: changing one changes no other score."""
    tokens = reader.tokens()
    wanted = reader.targets(tokens)
    with reader.mode(training=False):
        scores, answers = reader.score(tokens, wanted), reader.predict(tokens)
        for place in range(reader.answers):
            others = wanted.clone()
            others[:, place] = torch.where(wanted[:, place] == PAD, PAD, 1 + wanted[:, place] % reader.most)
            after = reader.score(tokens, others)
            after[:, place] = scores[:, place]
            bit_equal("targets", after, scores, f"after the target at place {place} changed")
    share = answers.gather(-1, (wanted - reader.first).clamp(min=0)[..., None])[..., 0]
    reader.same("targets", scores, torch.where(wanted == PAD, 0.0, share), "the score of the targets")


def saved_tensors(reader: LabelReader) -> None:
    """Everything learned is saved: a model that takes it up gives the same answers."""
    tokens, other = reader.tokens(), copy.deepcopy(reader.thing)
    with torch.no_grad():
        for tensor in other.state_dict().values():                   # not what follows from the settings, as slopes do
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=reader.random))
    other.load_tensors(reader.thing.saved_tensors())
    twin = type(reader)(other, batch=reader.batch, time=reader.time)
    with reader.mode(training=False), twin.mode(training=False):
        bit_equal("saved tensors", twin.predict(tokens), reader.predict(tokens),
                  "the answers of a model that took up what was saved")


ANSWER_LAWS: dict[str, Law] = {law.name: law for law in (
    Law("shapes", shapes, "scores of places that nobody asked for are left in"),
    Law("probabilities", probabilities, "logits instead of log-probabilities: end with log_softmax over the choices"),
    Law("targets", targets, "another head, the vectors of other places, targets read as tokens; of a label model, a "
        "target is a label's id and one: 0 is <pad>"),
    *WHOLE_LAWS,
    Law("saved tensors", saved_tensors, "a tensor that is no parameter and no buffer, or one that is not saved"),
)}


def check_answers(reader: type[LabelReader], model: Any) -> Report:
    """Try every law on a copy of this model, read by a reader of its kind, with dropout off."""
    return try_laws(type(model).__name__, ANSWER_LAWS, reader(prepared(model)))
