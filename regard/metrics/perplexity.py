"""Perplexity and its relatives: how surprised a model is by text it has not seen.

Loss is the average negative log-likelihood in nats a token; perplexity is its exponential. Neither can be compared
between tokenizers, so bits per byte stands beside them: all the surprise, divided by all the bytes. With unknown words
that fails too: <unk> is likely, and the word it stands for costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard import kernels
from regard.contract import LanguageModel, Learner, Source
from regard.data.batching.pair_batches import HeldOutPairs
from regard.data.batching.text_batches import Batch
from regard.data.tokens.vocabulary import UNK
from regard.errors import RunError
from regard.ranks import ALONE, Ranks


@dataclass(frozen=True)
class Surprise:
    """The surprise over a text: total nats, and what they are to be divided by."""

    nats: float
    tokens: int
    words: int = 0
    bytes: int = 0
    unknown: int = 0

    def __post_init__(self) -> None:
        if math.isnan(self.nats):
            raise RunError("the model's probabilities are no numbers (nan): its weights are damaged or too large; take "
                           "the run from a copy, or train again")

    @property
    def loss(self) -> float:
        return self.nats / max(1, self.tokens)

    @property
    def perplexity(self) -> float:
        return _exp(self.loss)

    @property
    def word_perplexity(self) -> float:
        return _exp(self.nats / max(1, self.words))

    @property
    def bits_per_byte(self) -> float:
        return self.nats / math.log(2) / max(1, self.bytes)

    @property
    def comparable(self) -> bool:
        """True if bits per byte and perplexity a word compare with those of another vocabulary."""
        return not self.unknown

    @property
    def warning(self) -> str:
        """Why they do not, in a line; empty where they do."""
        return "" if self.comparable else warn_of_unknown(self.unknown, self.tokens)

    def as_dict(self) -> dict[str, float | int | str]:
        return {"loss": self.loss, "perplexity": self.perplexity, "word_perplexity": self.word_perplexity,
                "bits_per_byte": self.bits_per_byte, "tokens": self.tokens, "words": self.words,
                "bytes": self.bytes, "oov": self.unknown, "comparable": self.comparable,
                **({} if self.comparable else {"warning": self.warning})}


def warn_of_unknown(unknown: int, tokens: int, of: str = "tokens") -> str:
    return (f"{unknown:,} of the {tokens:,} {of} are <unk>, and the words behind them cost nothing: bits per byte and "
            "perplexity a word cannot be compared with those of another vocabulary")


def _exp(nats: float) -> float:
    return math.exp(nats) if nats < 700 else math.inf


@torch.no_grad()
def score_batches(
    model: LanguageModel | Learner, batches: Iterable[Batch], *, bfloat16: bool = False
) -> Iterator[tuple[Batch, Tensor]]:
    """Each batch with the log-probabilities (B, T) of its targets, zero at pads; the model is put into eval mode."""
    if isinstance(model, nn.Module):
        model.eval()
    for batch in batches:
        here = batch.to(model.device)
        with (torch.autocast(model.device.type, torch.bfloat16, enabled=bfloat16),
              kernels.arithmetic(model.device, bfloat16)):
            source, lengths = here.source_items()
            state = None if source is None else model.start(len(source), None, Source(source, lengths))
            scores, _ = model.score(here.tokens, here.targets, state, here.lengths)
        yield batch, here.mask(scores)


def held_out_loss(
    model: LanguageModel | Learner, batches: Iterable[Batch], *, bfloat16: bool = False, ranks: Ranks = ALONE
) -> float:
    """Average nats a token over all the batches, every real token counted once, by one of the ranks."""
    nats, tokens = torch.zeros((), dtype=torch.float64, device=model.device), 0
    for batch, scores in score_batches(model, ranks.deal(batches), bfloat16=bfloat16):
        nats -= scores.double().sum()
        tokens += batch.real
    total, count = ranks.total([nats.item(), tokens])
    return total / max(1, count)


def score_targets(model: LanguageModel | Learner, held_out: HeldOutPairs, targets: Sequence[str]) -> Surprise:
    """The surprise over the targets of pairs. Only pairs that are read count: words and bytes of the others do not."""
    nats, tokens, unknown = 0.0, 0, 0
    for batch, scores in score_batches(model, held_out):
        nats -= float(scores.double().sum())
        tokens += batch.real
        unknown += int((batch.targets == UNK).sum())
    read = [text for text, fits in zip(targets, held_out.fits.tolist(), strict=True) if fits]
    return Surprise(nats, tokens, words=sum(len(text.split()) for text in read),
                    bytes=sum(len(text.encode()) for text in read), unknown=unknown)


@dataclass(frozen=True)
class Impossible:
    """Tokens to which a model gave no chance at all: how many, and the n-gram that says so of the first."""

    count: int
    ngram: tuple[str, ...]

    def __str__(self) -> str:
        more = f", the first of {self.count:,} such tokens" if self.count > 1 else ""
        return f"`{' '.join(self.ngram)}` was never seen: its probability is zero{more}"

    def as_dict(self) -> dict[str, Any]:
        return {"impossible": self.count, "first_impossible": list(self.ngram)}


def impossible(model: LanguageModel, batches: Iterable[Batch], spell: Callable[[int], str]) -> Impossible | None:
    """The tokens that make a loss infinite, or None. A model that knows which n-gram decided has `impossible`."""
    count = 0
    first: tuple[str, ...] = ()
    for batch, scores in score_batches(model, batches):
        rows, times = torch.where(torch.isneginf(scores))
        if len(rows) and not count:
            row, time = int(rows[0]), int(times[0])
            target = int(batch.targets[row, time])
            tell = getattr(model, "impossible", lambda read, target: (target,))
            first = tuple(spell(id) for id in tell(batch.tokens[row, :time + 1], target))
        count += len(rows)
    return Impossible(count, first) if count else None
