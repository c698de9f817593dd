"""The laws of a masked model, which tells hidden tokens from both sides; its encoder has laws of its own.

B batch · T time · N places · V vocabulary
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.laws.check import Report, try_laws
from regard.laws.law import Law, LawBroken, bit_equal, same
from regard.laws.prepared import prepared
from regard.laws.reader import Examined

PAD = 0                        # the target where nothing is asked


class MaskedReader(Examined):
    """A masked model, and rows of tokens in which some are hidden."""

    def __init__(self, model: Any, *, batch: int = 3, time: int = 6, seed: int = 0):
        super().__init__(model, batch=batch, time=min(time, model.context or time), seed=seed)

    def draw(self) -> tuple[Tensor, Tensor]:
        """(B, T) tokens, every second hidden behind <mask>, and the targets: what is hidden, else <pad>."""
        whole = self.tokens()
        hidden = torch.arange(self.time, device=self.device) % 2 == 1
        return torch.where(hidden, self.thing.mask, whole), torch.where(hidden, whole, PAD)

    def tokens(self) -> Tensor:
        return torch.randint(1, self.thing.vocab - 1, (self.batch, self.time), generator=self.random).to(self.device)

    def score(self, tokens: Tensor, targets: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.thing.score(tokens, targets, None, lengths)[0]

    def places(self) -> Tensor:
        """(B, T): every place of every row."""
        return torch.arange(self.time, device=self.device).expand(self.batch, -1)


def shapes(reader: MaskedReader) -> None:
    """score gives (B, T), with zero where nothing is asked; predict gives (B, N, V)."""
    tokens, targets = reader.draw()
    with reader.mode(training=False):
        scores = reader.score(tokens, targets)
        said = reader.thing.predict(tokens, reader.places()[:, :2])
    for name, found, wanted in (("score gives (B, T)", scores, (reader.batch, reader.time)),
                                ("predict gives (B, N, V)", said, (reader.batch, 2, reader.thing.vocab))):
        if tuple(found.shape) != wanted:
            raise LawBroken("shapes", f"{name}: expected {wanted}, got {tuple(found.shape)}")
    silent = scores[targets == PAD]
    bit_equal("shapes", silent, torch.zeros_like(silent), "the score where nothing is asked")


def probabilities(reader: MaskedReader) -> None:
    """`predict` gives logarithms of probabilities that sum to one."""
    tokens, _ = reader.draw()
    with reader.mode(training=False):
        total = reader.thing.predict(tokens, reader.places()).logsumexp(-1)
    same("probabilities", total, torch.zeros_like(total), "the logarithm of their sum", dtype=reader.dtype)


def places(reader: MaskedReader) -> None:
    """score is what predict says of the targets in their places."""
    tokens, targets = reader.draw()
    with reader.mode(training=False):
        scores = reader.score(tokens, targets)
        said = reader.thing.predict(tokens, reader.places())
    share = said.gather(-1, targets[..., None])[..., 0]
    same("places", torch.where(targets == PAD, 0.0, share), scores, "the targets' share of each place",
         dtype=reader.dtype)


def targets(reader: MaskedReader) -> None:
    """Targets do not leak: changing one changes its own score and no other."""
    tokens, wanted = reader.draw()
    with reader.mode(training=False):
        before = reader.score(tokens, wanted)
        for place in range(1, reader.time, 2):
            other = wanted.clone()
            other[:, place] = 1 + other[:, place] % (reader.thing.vocab - 2)
            after = reader.score(tokens, other)
            after[:, place] = before[:, place]
            bit_equal("targets", after, before, f"after the target at position {place} changed")


def padding(reader: MaskedReader) -> None:
    """A row is scored alike alone and in any batch: its pads and neighbours, whatever they hold, change nothing."""
    tokens, wanted = reader.draw()
    counts = [1 + (row + reader.time // 2) % reader.time for row in range(reader.batch)]
    inside = torch.arange(reader.time, device=reader.device) < reader.lengths(counts)[:, None]
    wanted = torch.where(inside, wanted, PAD)
    with reader.mode(training=False):
        noisy = torch.where(inside, tokens, reader.tokens())
        together = reader.score(noisy, wanted, reader.lengths(counts))
        for row, n in enumerate(counts):
            alone = reader.score(tokens[row:row + 1, :n], wanted[row:row + 1, :n])
            same("padding", together[row:row + 1, :n], alone, f"row {row} in a batch of lengths {counts}",
                 dtype=reader.dtype)


MASKED_LAWS: dict[str, Law] = {law.name: law for law in (
    Law("shapes", "score gives (B, T), zero where nothing is asked; predict gives (B, N, V)",
        "scores of places that nobody asked for are left in", shapes),
    Law("probabilities", "what predict gives sums to one",
        "logits instead of log-probabilities: end with log_softmax over the vocabulary", probabilities),
    Law("places", "score is what predict says of the targets in their places",
        "another head, or the vectors of other places", places),
    Law("targets", "changing a target changes its own score and no other",
        "targets are read as if they were tokens, or the loss is averaged over them", targets),
    Law("padding", "a row is scored alike alone and in any batch", "`lengths` does not reach the encoder", padding),
)}


def check_masked(model: Any, *, dtype: torch.dtype | None = None, seed: int = 0) -> Report:
    """Try every law on a copy of this masked model, in its own type unless told otherwise, with dropout off."""
    return try_laws(type(model).__name__, MASKED_LAWS, MaskedReader(prepared(model, dtype), seed=seed))
