"""Beam search: the k likeliest beginnings of each target go on together, for any model, with a source or without.

At every step each of the k beams of a source is continued by every token, and of all these the k best that do not end
go on; those among the k best that end are finished. A source is done when k have finished, or at its limit.
What one source gives does not depend on what else is in the batch: sources share the arithmetic and nothing else.

The device gives the best 2 k continuations of each source, and is asked for them once a step; everything about them
is decided on the host, and goes back in one piece. On a GPU the step may be a recorded one: see `recorded_beam.py`.
S sources · k beams · T time so far · L source length · V vocabulary
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.contract import LanguageModel, Source, State
from regard.decoding.best import best_of
from regard.decoding.coverage import Covered
from regard.decoding.fast import recorded_beam
from regard.errors import SettingError
from regard.kernels.cpu.packing import packing


@dataclass(frozen=True)
class Beam:
    """How to search. `length` is the penalty: scores are log p / tokens^length, so that 0 prefers short ones.

    `coverage` adds coverage * sum_l log min(1, what was read of source token l), after Wu et al. 2016: targets that
    leave a part of the source unread fall behind. It ranks what has finished; the search itself goes by log p.
    """

    width: int = 5
    length: float = 1.0
    n_best: int = 1
    no_repeat: int = 0                         # no n-gram of this many tokens twice in one target; 0: as it comes
    coverage: float = 0.0

    def __post_init__(self) -> None:
        if self.width < 1:
            raise SettingError(f"--beam {self.width}: must be at least 1")
        if not 1 <= self.n_best <= self.width:
            raise SettingError(f"--n-best {self.n_best}: must be from 1 to the {self.width} beams")
        for flag, value in (("--length-penalty", self.length), ("--coverage", self.coverage)):
            if not (math.isfinite(value) and value >= 0):
                raise SettingError(f"{flag} {value}: must be 0 or more")
        if self.no_repeat < 0:
            raise SettingError(f"--no-repeat {self.no_repeat}: must be 0 or more")

    def score(self, log_prob: float, tokens: int, covered: float = 0.0) -> float:
        return log_prob / max(1, tokens) ** self.length + self.coverage * covered


@dataclass(frozen=True)
class Hypothesis:
    """A target, without its end: its tokens, log p (the end included), its score, and whether it came to an end."""

    tokens: tuple[int, ...]
    log_prob: float
    score: float
    finished: bool = True


@dataclass
class Search:
    """What is known of one source: what has finished, and how far it may go."""

    limit: int
    number: int = 0                            # of its source
    finished: list[Hypothesis] = field(default_factory=list)

    def best(self, number: int) -> list[Hypothesis]:
        return sorted(self.finished, key=lambda each: -each.score)[:number]


@dataclass(frozen=True)
class Step:
    """What an observer is told of one step: copies, in which it may do as it likes.

    The best 2 k continuations are those of the search, with -inf where there were fewer that may be said.
    """

    sources: tuple[int, ...]                   # the numbers of those that are still running: S of them
    totals: Tensor                             # (S, k) log p of the beams before this step; -inf: there is none
    log_probs: Tensor                          # (S k, V) as the model gave them, before anything was forbidden
    best: NDArray[np.float64]                  # (S, 2 k) log p of the best continuations
    beams: NDArray[np.int64]                   # (S, 2 k) of which beam each is one
    tokens: NDArray[np.int64]                  # (S, 2 k) by which token
    finished: NDArray[np.bool_]                # (S, 2 k) has ended, and was put on the list of what has finished
    order: NDArray[np.int64]                   # (S, k) places in `best`: the next beams, in their order
    covered: list[float] | None                # (S k) the coverage of each beam, if it counts


Observer = Callable[[Step], None]


@torch.no_grad()
def beam_search(
    model: LanguageModel, source: Source | None, *, limits: Sequence[int], begin: int | Sequence[int], end: int,
    how: Beam | None = None, banned: Sequence[int] = (), force: Sequence[int] = (), observer: Observer | None = None,
) -> list[list[Hypothesis]]:
    """The best targets of each source, best first; at most `limits[s]` tokens each, the end included.

    `begin` is read first and never scored: <bos>, or a whole prompt. `force` is how every target must begin: tokens
    that are scored and counted like all others. An `observer` is told of every step; it changes nothing.
    """
    how = how or Beam()
    check_forced(force, limits, end, banned, model.vocab)
    if isinstance(model, nn.Module):
        model.eval()
    searches = [Search(limit, number) for number, limit in enumerate(limits)]
    prompt = (begin,) if isinstance(begin, int) else tuple(begin)
    plain = not (how.coverage or how.no_repeat or force or observer)
    fixed = plain and recorded_beam.fits(model, len(limits) * how.width, max(limits, default=0))
    with packing():
        live = Live(model, source, searches, how, prompt, end, tuple(banned), tuple(force), observer, fixed)
        while live.searches:
            live.step()
        live.close()
    return [search.best(how.n_best) for search in searches]


def check_forced(force: Sequence[int], limits: Sequence[int], end: int, banned: Sequence[int], vocab: int) -> None:
    if force and len(force) >= min(limits, default=0):
        raise SettingError(f"a forced prefix of {len(force)} tokens leaves no room for more, as a target may have "
                           f"{min(limits, default=0)}: force fewer")
    if end in force:
        raise SettingError(f"a forced prefix has the end (token {end}) in it, which nothing may follow: leave it out")
    if strange := [token for token in force if not 0 <= token < vocab]:
        raise SettingError(f"a forced prefix has token {strange[0]} in it: tokens go from 0 to {vocab - 1}")
    if wrong := sorted(set(force) & set(banned)):
        raise SettingError(f"a forced prefix has token {wrong[0]} in it, which may not be written: leave it out")


class Live:
    """The beams that are still running, of the sources that are not done yet."""

    def __init__(
        self, model: LanguageModel, source: Source | None, searches: list[Search], how: Beam, prompt: tuple[int, ...],
        end: int, banned: tuple[int, ...], force: tuple[int, ...] = (), observer: Observer | None = None,
        fixed: bool = False,
    ):
        self.model, self.how, self.end, self.force = model, how, end, force
        self.observer = observer
        self.searches = list(searches)
        self.limits = np.array([search.limit for search in searches], dtype=np.int64)
        self.ended = np.zeros(len(searches), dtype=np.int64)                           # how many have finished
        sources, device = len(searches), model.device
        self.beams = 1                             # all beams of a source are the same at first: one row does for them
        self.never = banned                        # what may not be said, by which a recording is known
        self.banned = torch.tensor(banned, dtype=torch.long, device=device)
        self.said = np.zeros((sources, 1, 0), dtype=np.int64)                          # tokens of every beam
        self.tokens = torch.tensor(prompt, device=device).repeat(sources, 1)           # read next
        self.totals = torch.zeros(sources, 1, dtype=torch.float64, device=device)
        room = max((search.limit for search in searches), default=1) + len(prompt) - 1
        if fixed:
            source, room = recorded_beam.roomy(model, source, room)
        self.source, self.fixed = source, fixed
        self.rows: recorded_beam.Rows | None = None          # once the first step is done, if they are of fixed number
        state = model.start(sources, room, source)
        assert state is not None
        self.state: State = state
        self.covered = Covered(model, source, sources) if how.coverage else None

    def step(self) -> None:
        """One more token for every beam."""
        told = self.ask() if self.rows is None else self.rows.ask()
        beams, tokens = np.divmod(told[1].astype(np.int64), self.vocab)
        finished, order = self.decide(told[0], tokens)
        if self.observer is not None:
            self.tell(told[0], beams, tokens, finished, order)
        totals, parents, chosen = (np.take_along_axis(each, order, 1) for each in (
            np.where(tokens == self.end, -np.inf, told[0]), beams, tokens))
        stay, short = self.who_stays(totals)
        going = stay, parents[stay], chosen[stay], totals[stay]
        if self.rows is not None and len(stay):
            self.rows.send(*going)                           # the device goes on while the host writes things down
        self.keep_finished(told[0], beams, finished)
        self.keep_short(short, totals, parents, chosen)
        self.go_on(*going)

    def ask(self) -> NDArray[np.float64]:
        """(2, S, 2 k): the sums of the best continuations, and where they stand."""
        if self.covered is None:
            log_probs, self.state = self.model.step(self.tokens, self.state)
        else:
            log_probs, self.state = self.covered.step(self.tokens, self.state)
        self.vocab = log_probs.shape[-1]
        self.unchanged = None if self.observer is None else log_probs.clone()
        best, at = best_of(self.totals, self.allowed(log_probs), 2 * self.how.width)   # k of them at most are ends
        return self.in_full(torch.stack((best, at.double())).cpu().numpy())            # the one wait of a step

    def in_full(self, told: NDArray[np.float64]) -> NDArray[np.float64]:
        """With 2 k columns, of which those beyond a small vocabulary stand for nothing: log p = -inf, at 0."""
        missing = 2 * self.how.width - told.shape[2]
        if self.beams == self.how.width or missing <= 0:
            return told
        nothing = np.broadcast_to(np.array([-np.inf, 0.0])[:, None, None], (*told.shape[:2], missing))
        return np.concatenate((told, nothing), 2)

    def allowed(self, log_probs: Tensor) -> Tensor:
        """Without what may not be said: banned tokens, n-grams that were said before, all but a forced token."""
        log_probs = log_probs.index_fill_(1, self.banned, -torch.inf)
        n, time = self.how.no_repeat, self.said.shape[-1]
        if time < len(self.force):
            only = torch.full_like(log_probs, -torch.inf)
            only[:, self.force[time]] = log_probs[:, self.force[time]]
            return only
        if n and time >= n:
            said = self.said.reshape(len(log_probs), -1)
            grams = np.lib.stride_tricks.sliding_window_view(said, n, axis=1)          # (S k, places, n)
            last = said[:, said.shape[1] - n + 1:]
            rows, places = (grams[:, :, :-1] == last[:, None]).all(-1).nonzero()       # where these words stood before
            again = torch.from_numpy(np.stack((rows, grams[rows, places, -1]))).to(log_probs.device)
            log_probs[again[0], again[1]] = -torch.inf
        return log_probs

    def decide(
        self, best: NDArray[np.float64], tokens: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Of the best continuations (S, 2 k): which have finished, and the places of the k best that do not end."""
        k, ends = self.how.width, tokens == self.end
        among_the_best = (np.arange(best.shape[1]) < k) & ends & np.isfinite(best)
        finished = among_the_best & (self.ended[:, None] + among_the_best.cumsum(1) <= k)
        self.ended = self.ended + finished.sum(1)
        # A stable sort puts those that do not end first, in the order of their scores.
        return finished, np.argsort(ends, axis=1, kind="stable")[:, :k]

    def who_stays(self, totals: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The sources that are not done, and those that a limit cut short before anything had finished."""
        full = self.said.shape[-1] + 1 >= self.limits
        running = (self.ended < self.how.width) & ~full & np.isfinite(totals).any(1)
        return np.flatnonzero(running), np.flatnonzero(full & (self.ended == 0))

    def tell(
        self, best: NDArray[np.float64], beams: NDArray[np.int64], tokens: NDArray[np.int64],
        finished: NDArray[np.bool_], order: NDArray[np.int64],
    ) -> None:
        assert self.observer is not None and self.unchanged is not None
        same = self.how.width // self.beams                  # at first a row stands for all beams, of which one counts
        sources, totals = tuple(search.number for search in self.searches), self.totals
        totals = torch.nn.functional.pad(totals, (0, self.how.width - self.beams), value=-torch.inf)
        covered = None if self.covered is None else [each for each in self.covered.penalties() for _ in range(same)]
        self.observer(Step(sources, totals, self.unchanged.repeat_interleave(same, 0), best.copy(), beams.copy(),
                           tokens.copy(), finished.copy(), order.copy(), covered))

    # ------------------------------------------------------------------------------------- what is kept

    def keep_finished(
        self, totals: NDArray[np.float64], beams: NDArray[np.int64], finished: NDArray[np.bool_]
    ) -> None:
        """Keep what has ended, with its end one token longer than what was said before it."""
        source, place = finished.nonzero()
        beam = beams[source, place]
        covered = self.penalties(source, beam)
        for s, said, total, own in zip(source.tolist(), self.said[source, beam].tolist(), totals[finished].tolist(),
                                       covered, strict=True):
            self.keep(s, said, total, own)

    def keep_short(
        self, short: NDArray[np.int64], totals: NDArray[np.float64], parents: NDArray[np.int64],
        tokens: NDArray[np.int64],
    ) -> None:
        """What a limit cut short counts as it is."""
        at, beam = np.isfinite(totals[short]).nonzero()
        source = short[at]
        parent = parents[source, beam]
        said = np.concatenate((self.said[source, parent], tokens[source, beam, None]), 1).tolist()
        covered = self.penalties(source, parent)
        for s, own, total, read in zip(source.tolist(), said, totals[source, beam].tolist(), covered, strict=True):
            self.keep(s, own, total, read, finished=False)

    def penalties(self, sources: NDArray[np.int64], beams: NDArray[np.int64]) -> list[float]:
        """Of these beams of these sources, for what they left unread."""
        if self.covered is None or not len(sources):
            return [0.0] * len(sources)
        covered = self.covered.penalties()
        return [covered[row] for row in (sources * self.beams + beams).tolist()]

    def keep(self, s: int, said: list[int], total: float, covered: float, finished: bool = True) -> None:
        score = self.how.score(total, len(said) + finished, covered)
        self.searches[s].finished.append(Hypothesis(tuple(said), total, score, finished))

    # ------------------------------------------------------------------------------------- what goes on

    def go_on(
        self, stay: NDArray[np.int64], parents: NDArray[np.int64], tokens: NDArray[np.int64],
        totals: NDArray[np.float64],
    ) -> None:
        """Of the sources so far with these (S,), each with these beams (S, k) and these tokens."""
        before, rows = len(self.said), (stay[:, None] * self.beams + parents).ravel()
        if len(stay) < before:
            self.searches = [self.searches[s] for s in stay]
            self.limits, self.ended = self.limits[stay], self.ended[stay]
        if not self.searches:
            return
        said = self.said.reshape(before * self.beams, -1)[rows]
        self.said = np.concatenate((said, tokens.reshape(-1, 1)), 1).reshape(*tokens.shape, -1)
        self.beams = self.how.width
        if self.rows is not None:                            # it was told already
            return
        if self.fixed and (fixed := self.fix(before)) is not None:
            self.rows = fixed
            return self.rows.send(stay, parents, tokens, totals)
        # Whole numbers far below 2^53 are exact as doubles: so everything goes to the device in one piece.
        sent = torch.from_numpy(np.stack((rows, tokens.ravel(), totals.ravel()))).to(self.tokens.device)
        self.tokens, self.totals = sent[1].long()[:, None], sent[2].view(totals.shape)
        if len(stay) < before or (rows != np.arange(len(rows))).any():
            self.reorder(sent[0].long(), None if len(stay) == before else stay)

    def reorder(self, rows: Tensor, stay: NDArray[np.int64] | None) -> None:
        kept = None if stay is None or self.source is None else torch.from_numpy(stay).to(rows.device)
        self.state = self.state.reorder(rows, kept)
        if self.covered is not None:
            self.covered.reorder(rows, kept)

    def fix(self, sources: int) -> recorded_beam.Rows | None:
        """Rows of a fixed number from now on, if there can be any; asked once, after the first step."""
        self.fixed = False
        steps = recorded_beam.take(self.model, self.state, sources, self.how.width, self.never, self.vocab)
        if steps is None:
            return None
        rows = recorded_beam.Rows(steps, self.state, sources)
        del self.state                                       # it was copied: its memory may serve others
        return rows

    def close(self) -> None:
        if self.rows is not None:
            recorded_beam.give_back(self.model, self.never, self.vocab, self.rows.steps)
