"""Beam search: the k likeliest beginnings of each target go on together, for any model, with a source or without.

At every step each of the k beams of a source is continued by every token, and of all these the k best that do not end
go on; those among the k best that end are finished. A source is done when k have finished, or at its limit.
What one source gives does not depend on what else is in the batch: sources share the arithmetic and nothing else.

The device gives the best 2 k continuations of each source, and is asked for them once a step; everything about them
is decided on the host, and goes back in one piece.
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
from regard.decoding.coverage import Covered
from regard.errors import SettingError
from regard.layers.packed import packing

BLOCK = 64                 # tokens of which only the best is looked at first


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
    with packing():
        live = Live(model, source, searches, how, prompt, end, tuple(banned), tuple(force), observer)
        while live.searches:
            live.step()
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
    ):
        self.model, self.source, self.how, self.end, self.force = model, source, how, end, force
        self.observer = observer
        self.searches = list(searches)
        sources, device = len(searches), model.device
        self.beams = 1                             # all beams of a source are the same at first: one row does for them
        self.banned = torch.tensor(banned, dtype=torch.long, device=device)
        self.said = np.zeros((sources, 1, 0), dtype=np.int64)                          # tokens of every beam
        self.tokens = torch.tensor(prompt, device=device).repeat(sources, 1)           # read next
        self.totals = torch.zeros(sources, 1, dtype=torch.float64, device=device)
        room = max((search.limit for search in searches), default=1) + len(prompt) - 1
        state = model.start(sources, room, source)
        assert state is not None
        self.state: State = state
        self.covered = Covered(model, source, sources) if how.coverage else None

    def step(self) -> None:
        """One more token for every beam."""
        if self.covered is None:
            log_probs, self.state = self.model.step(self.tokens, self.state)
        else:
            log_probs, self.state = self.covered.step(self.tokens, self.state)
        unchanged = None if self.observer is None else log_probs.clone()
        best, at = best_of(self.totals, self.allowed(log_probs), 2 * self.how.width)   # k of them at most are ends
        told = self.in_full(torch.stack((best, at.double())).cpu().numpy())            # the one wait of a step
        beams, tokens = np.divmod(told[1].astype(np.int64), log_probs.shape[-1])
        finished, order = self.decide(told[0], beams, tokens)
        if unchanged is not None:
            self.tell(unchanged, told[0], beams, tokens, finished, order)
        self.go_on(*(np.take_along_axis(each, order, 1)
                     for each in (np.where(tokens == self.end, -np.inf, told[0]), beams, tokens)))

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
        self, best: NDArray[np.float64], beams: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Of the best continuations (S, 2 k): which have finished, and the places of the k best that do not end."""
        k = self.how.width
        ends = tokens == self.end
        among_the_best = (np.arange(best.shape[1]) < k) & ends & np.isfinite(best)
        finished = self.finish(best, beams, among_the_best)
        # A stable sort puts those that do not end first, in the order of their scores.
        return finished, np.argsort(ends, axis=1, kind="stable")[:, :k]

    def tell(
        self, log_probs: Tensor, best: NDArray[np.float64], beams: NDArray[np.int64], tokens: NDArray[np.int64],
        finished: NDArray[np.bool_], order: NDArray[np.int64],
    ) -> None:
        assert self.observer is not None
        same = self.how.width // self.beams                  # at first a row stands for all beams, of which one counts
        sources, totals = tuple(search.number for search in self.searches), self.totals
        totals = torch.nn.functional.pad(totals, (0, self.how.width - self.beams), value=-torch.inf)
        covered = None if self.covered is None else [each for each in self.covered.penalties() for _ in range(same)]
        self.observer(Step(sources, totals, log_probs.repeat_interleave(same, 0), best.copy(), beams.copy(),
                           tokens.copy(), finished, order.copy(), covered))

    def go_on(self, totals: NDArray[np.float64], parents: NDArray[np.int64], tokens: NDArray[np.int64]) -> None:
        """With these k beams a source (S, k), but for the sources that are done."""
        k = self.how.width
        said = np.take_along_axis(self.said, parents[..., None], 1)
        self.said = np.concatenate((said, tokens[..., None]), 2)
        stay = self.who_stays(totals, parents)
        self.searches = [self.searches[s] for s in stay]
        if not self.searches:
            return
        rows = (stay[:, None] * self.beams + parents[stay]).ravel()
        self.beams = k
        self.said = self.said[stay]
        # Whole numbers far below 2^53 are exact as doubles: so everything goes to the device in one piece.
        sent = torch.from_numpy(np.stack((rows, tokens[stay].ravel(), totals[stay].ravel()))).to(self.tokens.device)
        self.tokens, self.totals = sent[1].long()[:, None], sent[2].view(-1, k)
        if len(stay) < len(parents) or (rows != np.arange(len(rows))).any():
            self.reorder(sent[0].long(), None if len(stay) == len(parents) else stay)

    def reorder(self, rows: Tensor, stay: NDArray[np.int64] | None) -> None:
        kept = None if stay is None or self.source is None else torch.from_numpy(stay).to(rows.device)
        self.state = self.state.reorder(rows, kept)
        if self.covered is not None:
            self.covered.reorder(rows, kept)

    def finish(
        self, totals: NDArray[np.float64], beams: NDArray[np.int64], ends: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Keep what has ended, with its end one token longer than what was said before it; and say what was kept."""
        covered = self.covered.penalties() if self.covered is not None and ends.any() else None
        kept = np.zeros_like(ends)
        for s, place in np.argwhere(ends):
            if len(self.searches[s].finished) < self.how.width:
                kept[s, place], beam = True, beams[s, place]
                self.keep(s, self.said[s, beam], float(totals[s, place]),
                          0.0 if covered is None else covered[s * self.beams + beam])
        return kept

    def keep(self, s: int, said: NDArray[np.int64], total: float, covered: float, finished: bool = True) -> None:
        score = self.how.score(total, len(said) + finished, covered)
        self.searches[s].finished.append(Hypothesis(tuple(said.tolist()), total, score, finished))

    def who_stays(self, totals: NDArray[np.float64], parents: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sources that are not done; of the others, what a limit cut short counts as it is."""
        k, time = self.how.width, self.said.shape[-1]
        running = np.isfinite(totals)
        stay = []
        for s, search in enumerate(self.searches):
            if len(search.finished) < k and time < search.limit and running[s].any():
                stay.append(s)
            elif time >= search.limit and not search.finished:
                covered = None if self.covered is None else self.covered.penalties()
                for beam in np.flatnonzero(running[s]):
                    self.keep(s, self.said[s, beam], float(totals[s, beam]),
                              0.0 if covered is None else covered[s * self.beams + parents[s, beam]], finished=False)
        return np.array(stay, dtype=np.int64)


# ------------------------------------------------------------------------------------------ the k best


def best_of(totals: Tensor, log_probs: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """The best sums totals[s, i] + log_probs[s k + i, v] of each source, best first, and where: i * V + v, (S, number).

    In two steps, exactly: a sum among the best n stands in one of the n blocks of tokens with the best maxima. So the
    sums, in double precision, are worked out for few tokens only.
    """
    (sources, k), vocab = totals.shape, log_probs.shape[-1]
    blocks, device = -(-vocab // BLOCK), log_probs.device
    full = vocab // BLOCK * BLOCK
    maxima = log_probs[:, :full].unflatten(1, (-1, BLOCK)).amax(-1) if full else log_probs[:, :0]
    if full < vocab:
        maxima = torch.cat((maxima, log_probs[:, full:].amax(-1, keepdim=True)), 1)
    sums = totals[..., None] + maxima.view(sources, k, blocks).double()
    block = sums.flatten(1).topk(min(number, k * blocks), dim=1).indices               # (S, n) of k * blocks
    beam, first = block // blocks, block % blocks * BLOCK
    token = first[..., None] + torch.arange(BLOCK, device=device)                     # (S, n, BLOCK)
    at = (beam[..., None] * vocab + token.clamp(max=vocab - 1)).flatten(1)
    found = log_probs.view(sources, -1).gather(1, at).double().view(token.shape) + totals.gather(1, beam)[..., None]
    found = torch.where(token < vocab, found, -torch.inf).flatten(1)
    best, place = found.topk(min(number, k * vocab), dim=1)
    return best, at.gather(1, place)


def best_by_definition(totals: Tensor, log_probs: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """What `best_of` must equal."""
    sums = totals[..., None] + log_probs.double().view(*totals.shape, -1)              # (S, k, V)
    best, at = sums.flatten(1).topk(min(number, sums[0].numel()), dim=1)
    return best, at
