"""The laws of a label model, which gives a label to a text or to each of its tokens; its encoder has laws of its own.

B batch · T time · N answers a row: one, or one a position · L labels
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from regard.laws.check import Report, try_laws
from regard.laws.law import Law, LawBroken, bit_equal, same
from regard.laws.prepared import prepared
from regard.laws.whole_laws import WholeReader, gradients, order, parameters, train_is_eval, watching

PAD = 0                        # the target where nothing is asked


class LabelReader(WholeReader):
    """A label model, rows of tokens, and targets for as many answers as it gives a row."""

    def __init__(self, model: Any, *, batch: int = 3, time: int = 6, seed: int = 0):
        super().__init__(model, batch=batch, time=min(time, model.context or time), seed=seed)
        with self.mode(training=False):
            self.answers = model.predict(self.tokens()).shape[1]                       # N: 1 or T

    def draw(self, batch: int, time: int) -> Tensor:
        return torch.randint(1, self.thing.vocab, (batch, time), generator=self.random).to(self.device)

    def tokens(self) -> Tensor:
        return self.draw(self.batch, self.time)

    def targets(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, N) targets that follow from the tokens; where each position has one, nothing is asked of every third."""
        found = 1 + tokens[:, :self.answers] % self.thing.labels
        found = torch.where(torch.arange(self.answers, device=self.device) % 3 == 2, PAD, found)
        return torch.where(self.asked(tokens, lengths), found, PAD)

    def asked(self, tokens: Tensor, lengths: Tensor | None) -> Tensor:
        """(B, N), True where an answer of rows of these lengths is meant."""
        if lengths is None or self.answers != self.time:
            return torch.ones(len(tokens), self.answers, dtype=torch.bool, device=self.device)
        return self.inside(lengths)

    def outputs(self, items: Tensor, lengths: Tensor | None = None) -> dict[str, Tensor]:
        said, meant = self.thing.predict(items, lengths), self.asked(items, lengths)
        return {"the labels": torch.where(meant[..., None], said, 0.0), "the scores": self.learned(items, lengths)}

    def learned(self, items: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.score(items, self.targets(items, lengths), lengths)

    def score(self, tokens: Tensor, targets: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.thing.score(tokens, targets, None, lengths)[0]

    def in_float64(self) -> LabelReader:
        return LabelReader(copy.deepcopy(self.thing).double(), batch=self.batch, time=self.time)


def shapes(reader: LabelReader) -> None:
    """predict gives (B, N, L), score (B, N), with zero where nothing is asked."""
    tokens = reader.tokens()
    targets = reader.targets(tokens)
    with reader.mode(training=False):
        scores, said = reader.score(tokens, targets), reader.thing.predict(tokens)
    if reader.answers not in (1, reader.time):
        raise LawBroken("shapes", f"predict gives {reader.answers} answers to a row of {reader.time} tokens, not one "
                                  "a row or one a position")
    for name, found, wanted in (("score gives (B, N)", scores, (reader.batch, reader.answers)),
                                ("predict gives (B, N, L)", said, (reader.batch, reader.answers, reader.thing.labels))):
        if tuple(found.shape) != wanted:
            raise LawBroken("shapes", f"{name}: expected {wanted}, got {tuple(found.shape)}")
    nothing = torch.full_like(targets, PAD)
    with reader.mode(training=False):
        bit_equal("shapes", reader.score(tokens, nothing), torch.zeros_like(scores), "the score where nothing is asked")


def probabilities(reader: LabelReader) -> None:
    """`predict` gives logarithms of probabilities that sum to one."""
    with reader.mode(training=False):
        total = reader.thing.predict(reader.tokens()).logsumexp(-1)
    same("probabilities", total, torch.zeros_like(total), "the logarithm of their sum", dtype=reader.dtype)


def targets(reader: LabelReader) -> None:
    """score is what predict says of the targets, each for itself."""
    tokens = reader.tokens()
    wanted = reader.targets(tokens)
    with reader.mode(training=False):
        scores, said = reader.score(tokens, wanted), reader.thing.predict(tokens)
    share = said.gather(-1, (wanted - 1).clamp(min=0)[..., None])[..., 0]
    same("targets", scores, torch.where(wanted == PAD, 0.0, share), "the score of the targets", dtype=reader.dtype)


def padding(reader: LabelReader) -> None:
    """A row gets the same labels alone and in any batch, whatever its pads and neighbours hold."""
    tokens, counts = reader.tokens(), [reader.time - row % reader.time for row in range(reader.batch)]
    with reader.mode(training=False):
        noisy = torch.where(reader.inside(counts), tokens, reader.tokens())
        together = reader.thing.predict(noisy, reader.lengths(counts))
        for row, n in enumerate(counts):
            alone = reader.thing.predict(tokens[row:row + 1, :n])
            same("padding", together[row:row + 1, :alone.shape[1]], alone, f"row {row} in a batch of lengths {counts}",
                 dtype=reader.dtype)


def saved_tensors(reader: LabelReader) -> None:
    """Everything learned is saved: a model with other weights that takes it up gives the same labels."""
    tokens, other = reader.tokens(), copy.deepcopy(reader.thing)
    with torch.no_grad():
        for tensor in (*other.parameters(), *other.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=reader.random))
    other.load_tensors(reader.thing.saved_tensors())
    with reader.mode(training=False):
        expected = reader.thing.predict(tokens)
        found = other.eval().predict(tokens)
    bit_equal("saved tensors", found, expected, "the labels of a model that took up what was saved")


LABEL_LAWS: dict[str, Law] = {law.name: law for law in (
    Law("shapes", "predict gives (B, N, L), score (B, N), zero where nothing is asked",
        "scores of places that nobody asked for are left in", shapes),
    Law("probabilities", "what predict gives sums to one",
        "logits instead of log-probabilities: end with log_softmax over the labels", probabilities),
    Law("targets", "score is what predict says of the targets",
        "a target is a label's id and one: 0 is <pad>", targets),
    Law("padding", "a row gets the same labels alone and in any batch",
        "`lengths` does not reach the encoder, or the mean counts the pads", padding),
    Law("order", "rows in another order get their labels in that order",
        "something is kept from row to row, or depends on the place in the batch", order),
    Law("watching", "watching changes no number", "the watched path computes the output itself", watching),
    Law("train is eval", "without dropout, train mode and eval mode give the same",
        "a statistic of the batch is used in training", train_is_eval),
    Law("gradients", "the gradients are those of the scores, and no pad has a part in them",
        "a detach, an in-place change, or pads in a mean", gradients),
    Law("parameters", "every parameter has a part in the scores",
        "a matrix that is made and never read: leave it out, or use it", parameters),
    Law("saved tensors", "what is saved is all that was learned",
        "a tensor that is no parameter and no buffer, or one that is not saved", saved_tensors),
)}


def check_labels(model: Any, *, dtype: torch.dtype | None = None, seed: int = 0) -> Report:
    """Try every law on a copy of this label model, in its own type unless told otherwise, with dropout off."""
    return try_laws(type(model).__name__, LABEL_LAWS, LabelReader(prepared(model, dtype), seed=seed))
