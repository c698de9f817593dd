"""Beam search: the k likeliest beginnings of each target go on together, for any model, with a source or without.

At every step each of the k beams of a source is continued by every token. The k best continuations that do not end go
on; those among the k best that end are finished. A source is done when k have finished, or at its limit.
The result of a source does not depend on the batch: sources share the arithmetic and nothing else.

The device finds the best 2 k continuations of each source (`BeamRows`), and is asked for them once a step. The host
decides (`BeamState`), and sends all its decisions in one tensor. On a GPU the rows may be those of `recorded_beam.py`.
S sources · k beams · T time so far · L source length · V vocabulary
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.contract import LanguageModel, Source, State
from regard.decoding.best import best_of
from regard.decoding.coverage import Covered
from regard.decoding.fast import recorded_beam
from regard.decoding.forbidden import check_forced, forbid
from regard.decoding.source_batches import SourceBatch, run_batches
from regard.decoding.special_tokens import SpecialTokens
from regard.errors import RunError, SettingError
from regard.kernels.cpu.packing import packing


@dataclass(frozen=True)
class BeamOptions:
    """Options of a search. `length` is the penalty: scores are log p / tokens^length, so that 0 prefers short targets.

    `coverage` adds coverage * sum_l log min(1, attention to source token l), after Wu et al. 2016: targets that leave
    a part of the source unread fall behind. It ranks finished targets; the search itself goes by log p.
    """

    width: int = 5
    length: float = 1.0
    n_best: int = 1
    no_repeat: int = 0                         # no n-gram of this many tokens twice in one target; 0: any
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
    """The search of one source: its finished targets, and its limit."""

    limit: int
    number: int = 0                            # of its source
    finished: list[Hypothesis] = field(default_factory=list)

    def best(self, number: int) -> list[Hypothesis]:
        return sorted(self.finished, key=lambda each: -each.score)[:number]


@dataclass(frozen=True)
class BeamStep:
    """One step, for an observer: copies, which it may change. Where fewer than 2 k continuations are allowed, the rest
    have log p = -inf."""

    sources: tuple[int, ...]                   # the numbers of those still running: S of them
    totals: Tensor                             # (S, k) log p of the beams before this step; -inf: no beam
    log_probs: Tensor                          # (S k, V) of the model, before anything is forbidden
    best: NDArray[np.float64]                  # (S, 2 k) log p of the best continuations
    beams: NDArray[np.int64]                   # (S, 2 k) the beam of each
    tokens: NDArray[np.int64]                  # (S, 2 k) the token of each
    finished: NDArray[np.bool_]                # (S, 2 k) it ends, and is among the finished
    order: NDArray[np.int64]                   # (S, k) columns of `best`: the next beams, in order
    covered: list[float] | None                # (S k) the coverage of each beam, with --coverage


Observer = Callable[[BeamStep], None]


def search_batches(
    model: LanguageModel, batches: Iterable[SourceBatch], special_tokens: SpecialTokens,
    options: BeamOptions | None = None, on_batch: Callable[[int], None] | None = None,
) -> list[list[Hypothesis]]:
    """Return the best targets of every source, best first, in the order of the sources' numbers.

    `on_batch` hears how many sources are done.
    """
    t = special_tokens
    return run_batches(batches, lambda batch: beam_search(
        model, batch.source, limits=batch.limits, begin=t.begin, end=t.end, options=options, banned=t.banned), on_batch)


@torch.no_grad()
def beam_search(
    model: LanguageModel, source: Source | None, *, limits: Sequence[int], begin: int | Sequence[int], end: int,
    options: BeamOptions | None = None, banned: Sequence[int] = (), force: Sequence[int] = (),
    observer: Observer | None = None,
) -> list[list[Hypothesis]]:
    """Return the best targets of each source, best first; at most `limits[s]` tokens each, the end included.

    `begin` is read first and never scored: <bos>, or a whole prompt. Every target begins with the tokens `force`, which
    are scored and counted like all others. An `observer` hears of every step; it changes nothing.
    """
    options = options or BeamOptions()
    check_forced(force, limits, end, banned, model.vocab)
    if isinstance(model, nn.Module):
        model.eval()
    prompt = (begin,) if isinstance(begin, int) else tuple(begin)
    room = max(limits, default=1) + len(prompt) - 1
    plain = options.coverage or options.no_repeat or force or observer is not None
    record = not plain and recorded_beam.fits(model, len(limits) * options.width, max(limits, default=0))
    if record:
        source, room = recorded_beam.add_room(model, source, room)
    with packing():
        plain_rows = BeamRows(
            model, source, len(limits), room, prompt, options, banned, force, observed=observer is not None)
        rows = recorded_beam.RecordedRows(plain_rows, banned) if record else plain_rows
        beams = BeamState(rows, limits, options, end, observer)
        while beams.searches:
            beams.step()
        rows.close()
    if not all(search.finished for search in beams.all_searches):
        raise RunError("the model gives no target a probability that is a number: its weights are damaged or too "
                       "large; take the run from a copy, or train again")
    return [search.best(options.n_best) for search in beams.all_searches]


class BeamRows:
    """The rows of a search on the device, one for each beam: their states, and the tokens that they read next."""

    def __init__(
        self, model: LanguageModel, source: Source | None, sources: int, room: int, prompt: tuple[int, ...],
        options: BeamOptions, banned: Sequence[int], force: Sequence[int] = (), observed: bool = False,
    ):
        self.model, self.source, self.options, self.force, self.observed = model, source, options, force, observed
        self.banned = torch.tensor(tuple(banned), dtype=torch.long, device=model.device)
        self.tokens = torch.tensor(prompt, device=model.device).repeat(sources, 1)     # read next
        # All beams of a source are the same at first: one row does for them.
        self.totals = torch.zeros(sources, 1, dtype=torch.float64, device=model.device)
        state = model.start(sources, room, source)
        assert state is not None
        self.state: State = state
        self.covered = Covered(model, source, sources) if options.coverage else None

    def ask(self, written: NDArray[np.int64]) -> NDArray[np.float64]:
        """Read the next tokens; return (2, S, 2 k): the sums of the best continuations, and their indices beam * V +
        token. `written` (S, k, T) are the tokens of every beam."""
        if self.covered is None:
            log_probs, self.state = self.model.step(self.tokens, self.state)
        else:
            log_probs, self.state = self.covered.step(self.tokens, self.state)
        self.vocab = log_probs.shape[-1]
        self.log_probs = log_probs.clone() if self.observed else None
        allowed = forbid(log_probs, written, self.banned, self.options.no_repeat, self.force)
        best, index = best_of(self.totals, allowed, 2 * self.options.width)            # k of them at most are ends
        return self.fill_columns(torch.stack((best, index.double())).cpu().numpy())    # the one wait of a step

    def fill_columns(self, best: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return 2 k columns: those beyond a small vocabulary have log p = -inf, at index 0."""
        missing = 2 * self.options.width - best.shape[2]
        if self.totals.shape[1] == self.options.width or missing <= 0:
            return best
        nothing = np.broadcast_to(np.array([-np.inf, 0.0])[:, None, None], (*best.shape[:2], missing))
        return np.concatenate((best, nothing), 2)

    def penalties(self) -> list[float] | None:
        """Return the coverage penalty of each row (S k), with --coverage."""
        return None if self.covered is None else self.covered.penalties()

    def send(
        self, stay: NDArray[np.int64], parents: NDArray[np.int64], tokens: NDArray[np.int64],
        totals: NDArray[np.float64],
    ) -> None:
        """Go on with the sources `stay` (S,), each with k beams: their parent, next token and log p (S, k)."""
        before, beams = self.totals.shape
        rows = (stay[:, None] * beams + parents).ravel()
        # Whole numbers far below 2^53 are exact as doubles: so everything goes to the device in one piece.
        sent = torch.from_numpy(np.stack((rows, tokens.ravel(), totals.ravel()))).to(self.tokens.device)
        self.tokens, self.totals = sent[1].long()[:, None], sent[2].view(totals.shape)
        if len(stay) < before or (rows != np.arange(len(rows))).any():
            gone = len(stay) < before and self.source is not None
            sources = torch.from_numpy(stay).to(sent.device) if gone else None
            self.state = self.state.reorder(sent[0].long(), sources)
            if self.covered is not None:
                self.covered.reorder(sent[0].long(), sources)

    def close(self) -> None:
        """Do nothing: plain rows belong to one search."""


class BeamState:
    """The beams still running of the sources that are not done: the host's part of a search."""

    def __init__(
        self, rows: BeamRows | recorded_beam.RecordedRows, limits: Sequence[int], options: BeamOptions, end: int,
        observer: Observer | None = None,
    ):
        self.rows, self.options, self.end, self.observer = rows, options, end, observer
        self.all_searches = [Search(limit, number) for number, limit in enumerate(limits)]
        self.searches = list(self.all_searches)                                        # not done
        self.limits = np.array(limits, dtype=np.int64)
        self.ended = np.zeros(len(limits), dtype=np.int64)                             # how many have finished
        self.written = np.zeros((len(limits), 1, 0), dtype=np.int64)                   # (S, k, T) tokens of every beam

    def step(self) -> None:
        """Write one more token of every beam."""
        best, index = self.rows.ask(self.written)
        beams, tokens = np.divmod(index.astype(np.int64), self.rows.vocab)
        finished, order = self.decide(best, tokens)
        totals, parents, chosen = (np.take_along_axis(each, order, 1) for each in (
            np.where(tokens == self.end, -np.inf, best), beams, tokens))
        stay, short = self.who_stays(totals)
        penalties = self.rows.penalties() if self.observer or finished.any() or len(short) else None
        if self.observer is not None:
            self.observer(self.describe(best, beams, tokens, finished, order, penalties))
        if len(stay):
            self.rows.send(stay, parents[stay], chosen[stay], totals[stay])            # the device goes on meanwhile
        self.keep_finished(best, beams, finished, penalties)
        self.keep_short(short, totals, parents, chosen, penalties)
        self.go_on(stay, parents[stay], chosen[stay])

    def decide(
        self, best: NDArray[np.float64], tokens: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return which of the best continuations (S, 2 k) have finished, and the columns of the k best that do not
        end."""
        k, ends = self.options.width, tokens == self.end
        among_the_best = (np.arange(best.shape[1]) < k) & ends & np.isfinite(best)
        finished = among_the_best & (self.ended[:, None] + among_the_best.cumsum(1) <= k)
        self.ended = self.ended + finished.sum(1)
        # A stable sort puts those that do not end first, in the order of their scores.
        return finished, np.argsort(ends, axis=1, kind="stable")[:, :k]

    def who_stays(self, totals: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the sources that are not done, and those that a limit cut short before anything had finished."""
        full = self.written.shape[-1] + 1 >= self.limits
        running = (self.ended < self.options.width) & ~full & np.isfinite(totals).any(1)
        return np.flatnonzero(running), np.flatnonzero(full & (self.ended == 0))

    def describe(
        self, best: NDArray[np.float64], beams: NDArray[np.int64], tokens: NDArray[np.int64],
        finished: NDArray[np.bool_], order: NDArray[np.int64], penalties: list[float] | None,
    ) -> BeamStep:
        """Return the step for an observer; at first one row stands for all beams of a source."""
        rows, width = self.rows, self.options.width
        assert isinstance(rows, BeamRows) and rows.log_probs is not None
        same = width // rows.totals.shape[1]
        totals = nn.functional.pad(rows.totals, (0, width - rows.totals.shape[1]), value=-torch.inf)
        covered = None if penalties is None else [each for each in penalties for _ in range(same)]
        return BeamStep(tuple(search.number for search in self.searches), totals,
                        rows.log_probs.repeat_interleave(same, 0), best.copy(), beams.copy(), tokens.copy(),
                        finished.copy(), order.copy(), covered)

    # ------------------------------------------------------------------------------------- finished targets

    def keep_finished(
        self, totals: NDArray[np.float64], beams: NDArray[np.int64], finished: NDArray[np.bool_],
        penalties: list[float] | None,
    ) -> None:
        """Keep the targets that have ended: one token longer, with the end, than their text."""
        source, column = finished.nonzero()
        beam = beams[source, column]
        texts, covered = self.written[source, beam].tolist(), self.select(penalties, source, beam)
        for s, text, total, penalty in zip(source.tolist(), texts, totals[finished].tolist(), covered, strict=True):
            self.keep(s, text, total, penalty)

    def keep_short(
        self, short: NDArray[np.int64], totals: NDArray[np.float64], parents: NDArray[np.int64],
        tokens: NDArray[np.int64], penalties: list[float] | None,
    ) -> None:
        """Keep the targets that a limit cut short, without an end."""
        row, beam = np.isfinite(totals[short]).nonzero()
        source = short[row]
        parent = parents[source, beam]
        texts = np.concatenate((self.written[source, parent], tokens[source, beam, None]), 1).tolist()
        covered = self.select(penalties, source, parent)
        for s, text, total, penalty in zip(source.tolist(), texts, totals[source, beam].tolist(), covered, strict=True):
            self.keep(s, text, total, penalty, finished=False)

    def select(
        self, penalties: list[float] | None, sources: NDArray[np.int64], beams: NDArray[np.int64]
    ) -> list[float]:
        """Return the coverage penalties of these beams of these sources."""
        if penalties is None:
            return [0.0] * len(sources)
        return [penalties[row] for row in (sources * self.written.shape[1] + beams).tolist()]

    def keep(self, s: int, text: list[int], total: float, covered: float, finished: bool = True) -> None:
        score = self.options.score(total, len(text) + finished, covered)
        self.searches[s].finished.append(Hypothesis(tuple(text), total, score, finished))

    def go_on(self, stay: NDArray[np.int64], parents: NDArray[np.int64], tokens: NDArray[np.int64]) -> None:
        """Go on with these sources (S,), each with k beams: their parent and their next token (S, k)."""
        if len(stay) < len(self.searches):
            self.searches = [self.searches[s] for s in stay]
            self.limits, self.ended = self.limits[stay], self.ended[stay]
        texts = self.written[stay[:, None], parents]                                   # (S, k, T)
        self.written = np.concatenate((texts, tokens[..., None]), 2)
