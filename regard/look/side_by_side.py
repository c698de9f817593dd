"""Several language models on one text, aligned by its characters, since their tokens may differ.

    seen = side_by_side({"a": regard.load("runs/a"), "b": regard.load("runs/b")}, "Tom had a red ball.")
    seen.models[0].bits, seen.models[0].per_character
    seen.pairs[0].overlap, seen.pairs[0].js

The bits of a token are spread evenly over the characters it stands for, so that any two models compare, character by
character; the bits of all tokens are those of `Trained.score`, to the last digit. What two models expect next is
compared wherever both have read the same characters: by how many of their ten likeliest tokens have the same text, and,
where the vocabularies are the same, by the Jensen-Shannon distance, the square root of the divergence in bits: 0 where
they agree, 1 where nothing is possible to both. Models that write from a source are in side_by_side_written.py.
T tokens · V vocabulary · D width
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.data.tokens.piece_words import piece_spans
from regard.data.tokens.vocabulary import FIRST, Tokenizer
from regard.errors import DataError, RunError, SettingError
from regard.look.side_tokens import character_spans
from regard.models.distributions import HELD, distributions

TOP = 10
MOST = 4                                        # models at once
Expected = tuple[tuple[int, str, float], ...]   # (id, piece, p) of the likeliest next tokens, best first


class Scored(NamedTuple):
    """A token of the text: the characters it stands for, how surprising it was, and what was expected in its place."""

    piece: str
    start: int
    end: int
    bits: float                                 # infinite for what the model holds to be impossible
    expected: Expected


@dataclass(frozen=True)
class ModelColumn:
    """One model on the text."""

    id: str
    tokens: tuple[Scored, ...]
    bits: float
    characters: int
    bits_per_character: float
    per_character: tuple[float, ...]            # bits of each character; they add up to `bits`
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Meeting:
    """Two models, wherever both have read the same characters and say what is next."""

    a: str
    b: str
    at: tuple[tuple[int, int, int], ...]        # (characters read, the token of a that comes next, that of b)
    overlap: tuple[int, ...]                    # how many of the ten likeliest have the same text
    js: tuple[float, ...] | None
    why_not: str | None                         # why there is no distance


@dataclass(frozen=True)
class Written:
    """The text of one model: its tokens, the end included, and the bits that it gives to everybody's text."""

    id: str
    text: str
    tokens: tuple[Scored, ...]
    bits: float                                 # of its own text, with the end if it has one
    characters: int
    bits_per_character: float
    log_prob: float
    score: float                                # log p / tokens^length penalty
    finished: bool
    judged: tuple[float | None, ...]            # bits of each model's text with its end; None: too long for this one
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SideBySide:
    """Models on one text. Those that write from a source have written texts of their own, and no pairs to align."""

    kind: str                                   # text · written
    text: str                                   # what all of them read
    models: tuple[ModelColumn | Written, ...]
    pairs: tuple[Meeting, ...] = ()


def side_by_side(models: Mapping[str, Any], text: str) -> SideBySide:
    """Language models by name, on one text."""
    check_several(models)
    for name, trained in models.items():
        if not trained.task.card.continues:
            raise RunError(f"{name} is no language model: models are compared on a text with others that read one")
    if not text:
        raise DataError("there is no text to compare on: it is empty")
    readings = [TextReading(name, trained, text) for name, trained in models.items()]
    for group in alike(readings):
        read_together(group)
    pairs = [meeting(a, b) for a, b in combinations(readings, 2)]
    return SideBySide("text", text, tuple(reading.column() for reading in readings), tuple(pairs))


def check_several(models: Mapping[str, Any]) -> None:
    if not 1 <= len(models) <= MOST:
        raise SettingError(f"{len(models)} models: from 1 to {MOST} can be seen at once")


# ------------------------------------------------------------------------------------------- one model


@dataclass
class TextReading:
    """A model on its way through the text."""

    name: str
    trained: Any
    text: str
    ids: list[int] = field(init=False)
    expected: list[Expected] = field(default_factory=list)
    js: dict[str, list[float]] = field(default_factory=dict)     # by the name of the other model

    def __post_init__(self) -> None:
        t = self.trained.tokenizer
        self.ids = t.encode(self.text).tolist()
        if not self.ids:
            raise DataError(f"{self.name} reads nothing of this text, which is only white space: give it words")
        self.digest = t.digest()
        self.bytes = piece_spans(t, self.text, self.ids)
        self.speller = Speller(t)
        self.scores, self.nats = self.trained.score_ids(self.ids)

    def expect(self, log_probs: Tensor) -> None:
        """Keep the ten likeliest of each row of (t, V)."""
        for row in log_probs:
            self.expected.append(self.speller.expect(row))
            self.speller.read(self.ids[len(self.expected) - 1])

    def boundaries(self) -> dict[int, int]:
        """Bytes of the text that were read before each token, and the number of that token."""
        return {(self.bytes[at - 1][1] if at else 0): at for at in range(len(self.ids))}

    def column(self) -> ModelColumn:
        t = self.trained.tokenizer
        spans = character_spans(self.text, self.bytes)
        bits = [-score / math.log(2) + 0.0 for score in self.scores]
        tokens = tuple(Scored(t.token(id), *span, own, expected) for id, span, own, expected in
                       zip(self.ids, spans, bits, self.expected, strict=True))
        total, size = self.nats / math.log(2), len(self.text)
        return ModelColumn(self.name, tokens, total, size, total / size, spread(tokens, size), self.notes(spans))

    def notes(self, spans: Sequence[tuple[int, int]]) -> tuple[str, ...]:
        """Reasons why its bits mean less than they seem to, one a line."""
        t, lines = self.trained.tokenizer, []
        if unknown := self.ids.count(t.unk):
            lines.append(f"{unknown:,} of the {len(self.ids):,} tokens are <unk>: their bits say only that a word is "
                        "unknown, not which")
        if free := len(self.text) - len({at for span in spans for at in range(*span)}):
            lines.append(f"{free:,} characters are white space between its tokens, and cost it nothing")
        window = self.trained.window
        if window is not None and len(self.ids) > window:
            lines.append(f"read in windows of {window:,} tokens, as in training: each begins without what was before "
                         "it")
        return tuple(lines)


def spread(tokens: Sequence[Scored], characters: int) -> tuple[float, ...]:
    """The bits of each token, evenly over its characters; a character of several tokens has a part of each."""
    amounts = [0.0] * characters
    for token in tokens:
        for at in range(token.start, token.end):
            amounts[at] += token.bits / (token.end - token.start)
    return tuple(amounts)


class Speller:
    """Spells a token as it would be written after those read so far: words have their space before them."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.stream = tokenizer.stream() if tokenizer.spaces_apart else None

    def name(self, id: int) -> str:
        if self.stream is None or id < FIRST:
            return self.tokenizer.token(id) if id < self.tokenizer.vocab_size else ""
        return copy(self.stream).push(id)

    def expect(self, log_probs: Tensor) -> Expected:
        """Return the ten likeliest tokens of (V,)."""
        best = log_probs.topk(min(TOP, len(log_probs)))
        return tuple((id, self.name(id), p) for id, p in
                     zip(best.indices.tolist(), best.values.double().exp().tolist(), strict=True))

    def read(self, id: int) -> None:
        if self.stream is not None:
            self.stream.push(id)


# -------------------------------------------------------------------------------- whole distributions


def alike(readings: Sequence[TextReading]) -> list[list[TextReading]]:
    """Models with the same tokenizer together: they have the same tokens, and their distributions compare."""
    groups: dict[tuple[str, int], list[TextReading]] = {}
    for reading in readings:
        groups.setdefault((reading.digest, reading.trained.model.vocab), []).append(reading)
    return list(groups.values())


@torch.no_grad()
def read_together(group: Sequence[TextReading]) -> None:
    """Go through the text with all of them, holding only a few rows of each one's (T, V) at a time."""
    rows = max(1, HELD // group[0].trained.model.vocab)
    parts = [in_chunks(text_distributions(reading.trained, reading.ids), rows) for reading in group]
    for chunks in zip(*parts, strict=True):
        for reading, chunk in zip(group, chunks, strict=True):
            reading.expect(chunk)
        for (a, p), (b, q) in combinations(zip(group, chunks, strict=True), 2):
            a.js.setdefault(b.name, []).extend(distance(p, q).tolist())


def text_distributions(trained: Any, ids: Sequence[int]) -> Iterator[Tensor]:
    """(t, V) log-probabilities in the place of each token, some rows at a time, in the windows of `Trained.score`."""
    if isinstance(trained.model, nn.Module):
        trained.model.eval()
    tokens = torch.tensor([trained.tokenizer.bos, *ids[:-1]])
    return distributions(trained.model, tokens, window=trained.window)


def in_chunks(parts: Iterable[Tensor], rows: int) -> Iterator[Tensor]:
    """Yield the rows again, `rows` at a time."""
    held: list[Tensor] = []
    for part in parts:
        held.append(part)
        while sum(map(len, held)) >= rows:
            joined = torch.cat(held)
            yield joined[:rows]
            held = [joined[rows:]]
    if sum(map(len, held)):
        yield torch.cat(held)


def distance(a: Tensor, b: Tensor) -> Tensor:
    """(t,) Jensen-Shannon distances of log-probabilities (t, V): sqrt((KL(p | m) + KL(q | m)) / 2) in bits."""
    a, b = a.double(), b.double()
    middle = torch.logaddexp(a, b) - math.log(2)
    halves = [torch.where(own > -torch.inf, own.exp() * (own - middle), 0.0).sum(-1) for own in (a, b)]
    return ((halves[0] + halves[1]) / (2 * math.log(2))).clamp(0.0, 1.0).sqrt()


def meeting(a: TextReading, b: TextReading) -> Meeting:
    """The positions at which both have read the same bytes of the text, and how much they agree there."""
    ours, theirs = a.boundaries(), b.boundaries()
    common = sorted(ours.keys() & theirs.keys())
    raw = a.text.encode()
    at = tuple((len(raw[:place].decode(errors="ignore")), ours[place], theirs[place]) for place in common)
    overlap = tuple(len({piece for _, piece, _ in a.expected[mine]} & {piece for _, piece, _ in b.expected[their]})
                    for _, mine, their in at)
    js = a.js.get(b.name)
    return Meeting(a.name, b.name, at, overlap, None if js is None else tuple(js[mine] for _, mine, _ in at),
                   None if js is not None else "their vocabularies differ")
