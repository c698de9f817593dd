"""The next token: its distribution after a text and the tokens said since, and the token drawn from it.

    texts = Continuations(regard.load("runs/stories"))
    found = texts.after("Tom had a", how=Sampling(temperature=0.8, seed=3))
    found.log_probs                              # (V,) float32: the model's own, before any filter
    found.chosen                                 # what `regard generate --seed 3` would say here
    texts.after("Tom had a", [found.chosen.id])  # one step on: costs one step, as does going back

The prompt is read in one go and then a token at a time, exactly as generation does it, by the same `TokenReader`: so
are the numbers, and so is the token that is drawn, with the noise of (seed, row 0, position).   V vocabulary
"""

from __future__ import annotations

import copy
import math
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.data.tokens.vocabulary import FIRST, Tokenizer
from regard.decoding.sampling import Sampling, choose
from regard.decoding.stream import TokenReader
from regard.errors import SettingError
from regard.look.opening import Opening

MOST = 512                     # tokens said after a prompt
KEPT, BYTES = 64, 2**26        # texts remembered, and how much their states may take

Given = str | NDArray[np.uint8] | None           # what a translator or captioner reads: a sentence, or (S, S, 3) pixels


@dataclass(frozen=True)
class ChosenToken:
    """A token, and what it adds to the text."""

    id: int
    piece: str


@dataclass(frozen=True)
class Next:
    """The distribution of the next token after a text, and the token that would be drawn."""

    position: int                                # tokens read so far, <bos> included: the noise is drawn with it
    prefix: tuple[tuple[int, str], ...]          # every token read, as (id, what it adds to the text)
    said: tuple[tuple[int, str, float], ...]     # those after the prompt, with their log-probabilities
    over: str                                    # "" · "end": <eos> was said · "length": no more may be said
    log_probs: NDArray[np.float32] | None        # (V,), nothing left out; None once the text is over
    entropy: float | None                        # of this distribution, in bits
    chosen: ChosenToken | None
    end: int
    banned: tuple[int, ...]                      # tokens never said: the rest share their probability
    notes: tuple[str, ...] = ()


@dataclass
class ReadText:
    """A text as far as it was read: its reader, what it says follows, and the log-probabilities of what was said."""

    reader: TokenReader
    log_probs: Tensor                            # (1, V)
    scores: tuple[float, ...]
    notes: tuple[str, ...]


class Continuations:
    """Texts that a model goes on with. What was read is remembered for a while, so that a step forward, back or into
    another branch does not read the text again."""

    def __init__(self, trained: Any):
        self.trained = trained
        self.model, self.tokenizer, self.banned = trained.model, trained.writes, trained.special_tokens.banned
        self.continues = trained.task.card.continues
        self.known: OrderedDict[Hashable, ReadText] = OrderedDict()

    def after(
        self, prompt: str = "", said: Sequence[int] = (), how: Sampling | None = None, *, source: Given = None,
        steps: int = 0,
    ) -> Next:
        """The next token after the prompt and what was said; with `steps`, so many tokens are drawn first."""
        opening = self.trained.open(prompt if self.continues else source, new_tokens=MOST, whole=True)
        how, tokens = how or Sampling(), list(said)
        self._check(tokens)
        for step in range(steps + 1):
            over = self._over(tokens, opening)
            read = self._read(opening, tokens[:-1] if over == "end" else tokens)
            if over:
                break
            allowed = read.log_probs.clone()
            allowed[:, list(self.banned)] = -torch.inf
            position = len(opening.prompt) + len(tokens)
            chosen = int(choose(allowed, how, torch.tensor([0]), torch.tensor([position])))
            if step < steps:
                tokens.append(chosen)
        return self._told(opening, tokens, read, over, None if over else chosen)

    # ------------------------------------------------------------------------------------- reading

    @torch.no_grad()
    def _read(self, opening: Opening, tokens: Sequence[int]) -> ReadText:
        """From the longest part of it that is remembered, a token at a time."""
        if isinstance(self.model, nn.Module):
            self.model.eval()
        first = next((n for n in range(len(tokens), -1, -1) if (opening.key, *tokens[:n]) in self.known), None)
        read = self._begin(opening) if first is None else self.known[opening.key, *tokens[:first]]
        for place in range(first or 0, len(tokens)):
            read = self._step(read, tokens[place])
            self._remember((opening.key, *tokens[:place + 1]), read)
        self.known.move_to_end((opening.key, *tokens))
        return read

    def _begin(self, opening: Opening) -> ReadText:
        notes: list[str] = []
        reader = TokenReader(self.model, [opening.prompt], most_of(opening), opening.source, notes.append)
        told = ReadText(reader, reader.read_prompts().float(), (), ())
        self._remember((opening.key,), told)
        told.notes = tuple(notes)
        return told

    def _step(self, before: ReadText, token: int) -> ReadText:
        notes = list(before.notes)
        reader = copy.copy(before.reader)
        assert reader.state is not None
        reader.state = reader.state.clone()               # what is read on from is spent
        reader.texts, reader.used = [list(text) for text in reader.texts], list(reader.used)
        reader.notice = notes.append if reader.notice is not None else None
        log_probs = reader.read([token], [True]).float()
        return ReadText(reader, log_probs, (*before.scores, float(before.log_probs[0, token])), tuple(notes))

    def _remember(self, key: Hashable, told: ReadText) -> None:
        self.known[key] = told
        size = sum(each.reader.state.nbytes() for each in self.known.values() if each.reader.state is not None)
        while len(self.known) > 1 and (len(self.known) > KEPT or size > BYTES):
            _, dropped = self.known.popitem(last=False)
            size -= 0 if dropped.reader.state is None else dropped.reader.state.nbytes()

    # ------------------------------------------------------------------------------------- telling

    def _check(self, tokens: Sequence[int]) -> None:
        if len(tokens) > MOST:
            raise SettingError(f"{len(tokens)} tokens were said: at most {MOST} can be followed")
        for place, token in enumerate(tokens):
            if not 0 <= token < self.model.vocab or token in self.banned:
                raise SettingError(f"token {token} is never said: give ids from 0 to {self.model.vocab - 1} "
                                   f"other than {', '.join(map(str, self.banned[:4]))}")
            if token == self.tokenizer.eos and place + 1 < len(tokens):
                raise SettingError(f"token {place + 1} of those said is <eos>, which ends the text: nothing follows it")

    def _over(self, said: Sequence[int], opening: Opening) -> str:
        if said and said[-1] == self.tokenizer.eos:
            return "end"
        return "length" if len(said) >= most_of(opening) else ""

    def _told(self, opening: Opening, tokens: Sequence[int], read: ReadText, over: str, chosen: int | None) -> Next:
        ids = (*opening.prompt, *tokens)
        pieces = written(self.tokenizer, ids)
        scores = read.scores
        if over == "end":
            scores = (*scores, float(read.log_probs[0, self.tokenizer.eos]))
        own = tuple(zip(tokens, pieces[len(opening.prompt):], scores, strict=True))
        log_probs = None if over else read.log_probs[0].cpu().numpy()
        return Next(
            position=len(ids), prefix=tuple(zip(ids, pieces, strict=True)), said=own, over=over, log_probs=log_probs,
            entropy=None if log_probs is None else entropy(log_probs),
            chosen=None if chosen is None else ChosenToken(chosen, written(self.tokenizer, (*ids, chosen))[-1]),
            end=self.tokenizer.eos, banned=self.banned, notes=read.notes)


def most_of(opening: Opening) -> int:
    """The number of tokens that may be said, the end not counted."""
    return opening.limit if opening.source is None else min(MOST, max(1, opening.limit - 1))


def written(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """The piece that each token adds to the text: none while a character is unfinished; a special's name."""
    stream = tokenizer.stream()
    return [tokenizer.token(id) if id < FIRST else stream.push(int(id)) for id in ids]


def vocabulary(trained: Any) -> list[str]:
    """The name of each token that the model could say, by its id; an empty one for an id that only a source has."""
    tokenizer, _ = trained.writes, trained.special_tokens                # which one that writes nothing refuses to tell
    return [tokenizer.token(id) if id < tokenizer.vocab_size else "" for id in range(trained.model.vocab)]


def entropy(log_probs: NDArray[np.floating[Any]]) -> float:
    """In bits, of log-probabilities in nats."""
    p = np.exp(log_probs.astype(np.float64))
    with np.errstate(invalid="ignore"):
        return float(-np.where(p > 0, p * log_probs, 0.0).sum() / math.log(2))
