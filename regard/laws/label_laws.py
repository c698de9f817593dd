"""The laws of a label model, which gives a label to a text or to each of its tokens; its encoder has laws of its own.

B batch · T time · N answers a row: one, or one a position · L labels
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError

from regard.laws.check import Report, try_laws
from regard.laws.gradient_laws import reach_all
from regard.laws.law import Law, LawBroken, all_finite, bit_equal, same
from regard.laws.prepared import prepared
from regard.watching import watch

PAD = 0                        # the target where nothing is asked


class LabelReader:
    """A label model, rows of tokens, and targets for as many answers as it gives a row."""

    def __init__(self, model: Any, *, batch: int = 3, time: int = 6, seed: int = 0):
        self.model, self.batch = model, batch
        self.time = min(time, model.context or time)
        weight = next(model.parameters())
        self.dtype, self.device = weight.dtype, weight.device
        self.random = torch.Generator().manual_seed(seed)
        with self.mode(training=False):
            self.answers = model.predict(self.tokens()).shape[1]                       # N: 1 or T
        self.each = self.answers == self.time

    def tokens(self) -> Tensor:
        return self.draw(1, self.model.vocab, self.time)

    def targets(self) -> Tensor:
        """(B, N) targets; where each position has one, nothing is asked of every third."""
        found = self.draw(1, self.model.labels + 1, self.answers)
        return torch.where(torch.arange(self.answers, device=self.device) % 3 == 2, PAD, found)

    def draw(self, low: int, high: int, size: int) -> Tensor:
        return torch.randint(low, high, (self.batch, size), generator=self.random).to(self.device)

    def counts(self) -> list[int]:
        """Lengths of rows, one of them whole."""
        return [self.time, *(1 + (row + self.time // 2) % self.time for row in range(1, self.batch))]

    def lengths(self, counts: Sequence[int]) -> Tensor:
        return torch.tensor(list(counts), device=self.device)

    def inside(self, counts: Sequence[int]) -> Tensor:
        return torch.arange(self.time, device=self.device) < self.lengths(counts)[:, None]

    def asked(self, counts: Sequence[int]) -> Tensor:
        """(B, N), True where an answer of rows of these lengths is meant."""
        return self.inside(counts) if self.each else torch.ones(self.batch, 1, dtype=torch.bool, device=self.device)

    def score(self, tokens: Tensor, targets: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.model.score(tokens, targets, None, lengths)[0]

    def in_float64(self) -> LabelReader:
        return LabelReader(copy.deepcopy(self.model).double(), batch=self.batch, time=self.time)

    @contextmanager
    def mode(self, training: bool, gradients: bool = False) -> Iterator[None]:
        before = self.model.training
        self.model.train(training)
        try:
            with torch.set_grad_enabled(gradients):
                yield
        finally:
            self.model.train(before)


def shapes(reader: LabelReader) -> None:
    """predict gives (B, N, L), score (B, N), with zero where nothing is asked."""
    tokens, targets = reader.tokens(), reader.targets()
    with reader.mode(training=False):
        scores, said = reader.score(tokens, targets), reader.model.predict(tokens)
    if reader.answers not in (1, reader.time):
        raise LawBroken("shapes", f"predict gives {reader.answers} answers to a row of {reader.time} tokens, not one "
                                  "a row or one a position")
    for name, found, wanted in (("score gives (B, N)", scores, (reader.batch, reader.answers)),
                                ("predict gives (B, N, L)", said, (reader.batch, reader.answers, reader.model.labels))):
        if tuple(found.shape) != wanted:
            raise LawBroken("shapes", f"{name}: expected {wanted}, got {tuple(found.shape)}")
    nothing = torch.full_like(targets, PAD)
    with reader.mode(training=False):
        bit_equal("shapes", reader.score(tokens, nothing), torch.zeros_like(scores), "the score where nothing is asked")


def probabilities(reader: LabelReader) -> None:
    """`predict` gives logarithms of probabilities that sum to one."""
    with reader.mode(training=False):
        total = reader.model.predict(reader.tokens()).logsumexp(-1)
    same("probabilities", total, torch.zeros_like(total), "the logarithm of their sum", dtype=reader.dtype)


def targets(reader: LabelReader) -> None:
    """score is what predict says of the targets, each for itself."""
    tokens, wanted = reader.tokens(), reader.targets()
    with reader.mode(training=False):
        scores, said = reader.score(tokens, wanted), reader.model.predict(tokens)
    share = said.gather(-1, (wanted - 1).clamp(min=0)[..., None])[..., 0]
    same("targets", scores, torch.where(wanted == PAD, 0.0, share), "the score of the targets", dtype=reader.dtype)


def padding(reader: LabelReader) -> None:
    """A row gets the same labels alone and in any batch, whatever its pads and neighbours hold."""
    tokens, counts = reader.tokens(), reader.counts()
    with reader.mode(training=False):
        noisy = torch.where(reader.inside(counts), tokens, reader.tokens())
        together = reader.model.predict(noisy, reader.lengths(counts))
        for row, n in enumerate(counts):
            alone = reader.model.predict(tokens[row:row + 1, :n])
            same("padding", together[row:row + 1, :alone.shape[1]], alone, f"row {row} in a batch of lengths {counts}",
                 dtype=reader.dtype)


def order(reader: LabelReader) -> None:
    """Rows in another order, or several times over, get the same labels in that order."""
    tokens, counts = reader.tokens(), reader.counts()
    rows = reader.lengths([*reversed(range(reader.batch)), 0, 0])
    with reader.mode(training=False):
        expected = reader.model.predict(tokens, reader.lengths(counts))
        found = reader.model.predict(tokens[rows], reader.lengths(counts)[rows])
    meant = reader.asked(counts)[rows]
    same("order", found[meant], expected[rows][meant], "rows in another order", dtype=reader.dtype)


def watching(reader: LabelReader) -> None:
    """Watching changes no number."""
    tokens, counts = reader.tokens(), reader.counts()
    meant, lengths = reader.asked(counts), reader.lengths(counts)
    for training in (False, True):
        with reader.mode(training=training):
            unseen = reader.model.predict(tokens, lengths)
            with watch():
                seen = reader.model.predict(tokens, lengths)
        bit_equal("watching", seen[meant], unseen[meant], "the labels while watched")


def train_is_eval(reader: LabelReader) -> None:
    """Without dropout, train mode and eval mode give the same."""
    tokens, wanted = reader.tokens(), reader.targets()
    with reader.mode(training=False):
        expected = reader.score(tokens, wanted)
    with reader.mode(training=True):
        found = reader.score(tokens, wanted)
    same("train is eval", found, expected, "the scores in train mode", dtype=reader.dtype)


def gradients(reader: LabelReader) -> None:
    """The gradients are those of the scores, and no pad has a part in them; in float64."""
    reader = reader.in_float64()
    tokens, wanted, counts = reader.tokens(), reader.targets(), reader.counts()
    noisy = torch.where(reader.inside(counts), tokens, reader.tokens())
    wanted = torch.where(reader.asked(counts), wanted, PAD)
    named = {name: weight for name, weight in reader.model.named_parameters() if weight.requires_grad}

    def scores(given: Tensor) -> Tensor:
        return reader.score(given, wanted, reader.lengths(counts))

    with reader.mode(training=True, gradients=True):
        for name, weight in named.items():
            try:
                torch.autograd.gradcheck(lambda _: scores(tokens), (weight,), fast_mode=True, nondet_tol=1e-10)
            except GradcheckError as error:
                said = " ".join(str(error).split())
                raise LawBroken("gradients", f"the gradient of {name} is not the scores': {said[:160]}") from None
        quiet, noise = (torch.autograd.grad(scores(given).sum(), list(named.values()), allow_unused=True,
                                            materialize_grads=True) for given in (tokens, noisy))
    for name, expected, found in zip(named, quiet, noise, strict=True):
        all_finite("gradients", expected, f"the gradient of {name} in a padded batch")
        same("gradients", found, expected, f"the gradient of {name} with other tokens at the pads")


def parameters(reader: LabelReader) -> None:
    """Every parameter that is learned has a part in the scores."""
    named = {name: weight for name, weight in reader.model.named_parameters() if weight.requires_grad}
    with reader.mode(training=True, gradients=True):
        scores = reader.score(reader.tokens(), reader.targets())
        found = torch.autograd.grad(scores.sum(), list(named.values()), allow_unused=True, materialize_grads=True)
    reach_all(dict(zip(named, found, strict=True)))


def saved_tensors(reader: LabelReader) -> None:
    """Everything learned is saved: a model with other weights that takes it up gives the same labels."""
    tokens, other = reader.tokens(), copy.deepcopy(reader.model)
    with torch.no_grad():
        for tensor in (*other.parameters(), *other.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=reader.random))
    other.load_tensors(reader.model.saved_tensors())
    with reader.mode(training=False):
        expected = reader.model.predict(tokens)
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
