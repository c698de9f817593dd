"""Beam search: the k likeliest beginnings of each target go on together, for any model, with a source or without.

At every step each of the k beams of a source is continued by every token, and of all these the k best that do not end
go on; those among the k best that end are finished. A source is done when k have finished, or at its limit.
What one source gives does not depend on what else is in the batch: sources share the arithmetic and nothing else.
S sources · k beams · T time so far · V vocabulary
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from regard.contract import LanguageModel, Source, State
from regard.errors import SettingError


@dataclass(frozen=True)
class Beam:
    """How to search. `length` is the penalty: scores are log p / tokens^length, so that 0 prefers short ones."""

    width: int = 5
    length: float = 1.0
    n_best: int = 1
    no_repeat: int = 0                         # no n-gram of this many tokens twice in one target; 0: as it comes

    def __post_init__(self) -> None:
        if self.width < 1:
            raise SettingError(f"--beam {self.width}: must be at least 1")
        if not 1 <= self.n_best <= self.width:
            raise SettingError(f"--n-best {self.n_best}: must be from 1 to the {self.width} beams")
        if not (math.isfinite(self.length) and self.length >= 0):
            raise SettingError(f"--length-penalty {self.length}: must be 0 or more")
        if self.no_repeat < 0:
            raise SettingError(f"--no-repeat {self.no_repeat}: must be 0 or more")

    def score(self, log_prob: float, tokens: int) -> float:
        return log_prob / max(1, tokens) ** self.length


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
    finished: list[Hypothesis] = field(default_factory=list)

    def best(self, number: int) -> list[Hypothesis]:
        return sorted(self.finished, key=lambda each: -each.score)[:number]


@torch.no_grad()
def beam_search(
    model: LanguageModel, source: Source | None, *, limits: Sequence[int], begin: int, end: int,
    how: Beam | None = None, banned: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """The best targets of each source, best first; at most `limits[s]` tokens each, the end included."""
    how = how or Beam()
    if isinstance(model, nn.Module):
        model.eval()
    searches = [Search(limit) for limit in limits]
    live = Live(model, source, searches, how, begin, end, tuple(banned))
    while live.searches:
        live.step()
        live.leave()
    return [search.best(how.n_best) for search in searches]


class Live:
    """The beams that are still running, of the sources that are not done yet."""

    def __init__(
        self, model: LanguageModel, source: Source | None, searches: list[Search], how: Beam, begin: int, end: int,
        banned: tuple[int, ...],
    ):
        self.model, self.how, self.begin, self.end, self.banned = model, how, begin, end, banned
        self.searches = list(searches)
        sources, k, device = len(searches), how.width, model.device
        self.tokens = torch.full((sources * k, 1), begin, device=device)
        self.totals = torch.full((sources, k), -torch.inf, dtype=torch.float64, device=device)
        self.totals[:, 0] = 0.0                                # all beams are the same at first: one is enough
        state = model.start(sources * k, 1 + max((search.limit for search in searches), default=0), source)
        assert state is not None
        self.state: State = state
        self.has_source = source is not None

    def step(self) -> None:
        """One more token for every beam."""
        k, time = self.how.width, self.tokens.shape[1]
        log_probs, self.state = self.model.step(self.tokens[:, -1:], self.state)
        log_probs = self.allowed(log_probs.double())
        totals = self.totals[..., None] + log_probs.unflatten(0, (-1, k))              # (S, k, V)
        vocab = totals.shape[-1]
        best, at = totals.flatten(1).topk(min(2 * k, k * vocab), dim=1)                # ends take k of them at most
        beams, tokens = at // vocab, at % vocab
        ends = tokens == self.end
        self.finish(best[:, :k], beams[:, :k], ends[:, :k] & best[:, :k].isfinite(), time)
        # The k best that go on: a stable sort puts those that do not end first, in the order of their scores.
        order = ends.int().sort(dim=1, stable=True).indices[:, :k]
        self.totals = torch.where(ends, -torch.inf, best).gather(1, order)
        rows = (torch.arange(len(at), device=at.device)[:, None] * k + beams.gather(1, order)).flatten()
        self.tokens = torch.cat((self.tokens[rows], tokens.gather(1, order).flatten()[:, None]), 1)
        self.state = self.state.select(rows)

    def allowed(self, log_probs: Tensor) -> Tensor:
        """Without what may not be said: banned tokens, and n-grams that were said before."""
        log_probs[:, list(self.banned)] = -torch.inf
        n, time = self.how.no_repeat, self.tokens.shape[1]
        if n and time > n:                                                            # the first token is <bos>
            said = self.tokens[:, 1:].unfold(1, n, 1)                                  # (S k, places, n)
            last = self.tokens[:, time - n + 1:]
            again = (said[:, :, :-1] == last[:, None]).all(-1)                        # where these words stood before
            rows, places = again.nonzero(as_tuple=True)
            log_probs[rows, said[rows, places, -1]] = -torch.inf
        return log_probs

    def finish(self, totals: Tensor, beams: Tensor, ends: Tensor, time: int) -> None:
        """Keep what has ended; `time` tokens were read, so that with its end a target has as many."""
        for s, place in ends.nonzero().tolist():
            search, k = self.searches[s], self.how.width
            if len(search.finished) < k:
                total = float(totals[s, place])
                said = self.tokens[s * k + int(beams[s, place]), 1:].tolist()
                search.finished.append(Hypothesis(tuple(said), total, self.how.score(total, time)))

    def leave(self) -> None:
        """Sources that are done leave the batch; what a limit cut short counts as it is."""
        k, time = self.how.width, self.tokens.shape[1] - 1
        stay = []
        for s, search in enumerate(self.searches):
            running = bool(self.totals[s].isfinite().any())
            if len(search.finished) < k and time < search.limit and running:
                stay.append(s)
            elif time >= search.limit and not search.finished:
                self.cut_short(s, search, time)
        if len(stay) == len(self.searches):
            return
        self.searches = [self.searches[s] for s in stay]
        if not stay:
            return
        kept = torch.tensor(stay, device=self.tokens.device)
        rows = (kept[:, None] * k + torch.arange(k, device=kept.device)).flatten()
        self.tokens, self.totals = self.tokens[rows], self.totals[kept]
        self.state = self.state.select(rows, kept if self.has_source else None)

    def cut_short(self, s: int, search: Search, time: int) -> None:
        for beam, total in enumerate(self.totals[s].tolist()):
            if math.isfinite(total):
                said = tuple(self.tokens[s * self.how.width + beam, 1:].tolist())
                search.finished.append(Hypothesis(said, total, self.how.score(total, time), finished=False))
