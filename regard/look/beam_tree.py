"""Beam search as a tree: at every step what was considered, what was kept, and why the rest was not.

    tree = beam_tree(regard.load("runs/fr-en"), "Le chat noir dort.", BeamOptions(width=3))
    for node in tree.columns[0]:
        print(node.piece, node.score, node.why)

The tree is that of the real search, which tells an observer of every step; nothing is searched twice. A column has the
continuations that the search saw at that step, the best 2 k, and those among the model's best 2 k that may not be said.
k beams · V vocabulary
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.decoding.beam import BeamOptions, BeamStep, Hypothesis, beam_search
from regard.decoding.best import best_of
from regard.look.opening import Opening

NEW_TOKENS = 24                        # of a language model, which has no source to say how much there is to say
ROOT = -1                              # the parent of the first column


@dataclass(frozen=True)
class Node:
    """One continuation that was considered. `total` is log p from the first token on, `margin` how far above the first
    that was not kept, or (negative) below the last that was; None where there is no such line to be above or below."""

    id: int
    parent: int                        # the node it continues
    token: int
    piece: str                         # the token, to show
    adds: str                          # what it adds to the text: nothing if it is a special, or half a character
    length: int                        # tokens so far, this one included
    log_prob: float
    total: float
    covered: float | None              # sum of log min(1, what was read of a source token), where coverage counts
    score: float                       # total / length^penalty + coverage * covered
    kept: bool
    why: str
    margin: float | None
    ended: bool


@dataclass(frozen=True)
class BeamResult:
    """A result of the search, and the node at which it ends."""

    node: int
    text: str
    tokens: tuple[int, ...]
    length: int                        # with its end
    log_prob: float
    score: float
    finished: bool


@dataclass(frozen=True)
class BeamTree:
    """A whole search."""

    columns: tuple[tuple[Node, ...], ...]
    finished: tuple[BeamResult, ...]
    source: tuple[str, ...]            # the pieces that were read first: of the source, or of a prompt
    text: str                          # what was read, cut to what the model can read
    how: BeamOptions
    force: tuple[int, ...]
    notes: tuple[str, ...] = ()


def beam_tree(
    trained: Any, what: Any, options: BeamOptions | None = None, *, force: Sequence[int] = (),
    new_tokens: int = NEW_TOKENS,
) -> BeamTree:
    """The search for a translation or summary of a text, a caption of a picture (S, S, 3), or what follows a prompt.

    With `force`, only for targets that begin with these tokens.
    """
    options, opening = options or BeamOptions(), trained.open(what, new_tokens=new_tokens)
    options = replace(options, n_best=options.width)
    builder = TreeBuilder(opening, options, tuple(force))
    (found,) = beam_search(
        opening.model, opening.source, limits=[opening.limit], begin=opening.prompt, end=opening.special_tokens.end,
        options=options, banned=opening.special_tokens.banned, force=builder.force, observer=builder)
    columns = builder.settled(found)
    finished = tuple(builder.placed(each) for each in found)
    return BeamTree(columns, finished, opening.pieces, opening.text, options, builder.force, opening.notes)


# ---------------------------------------------------------------------------------------------- the tree


class TreeBuilder:
    """The observer of one search: a column a step."""

    def __init__(self, opening: Opening, how: BeamOptions, force: tuple[int, ...]):
        self.opening, self.how, self.force = opening, how, force
        self.columns: list[tuple[Node, ...]] = []
        self.paths: list[tuple[int, ...]] = []             # of each node: the tokens up to it
        self.beams = [ROOT]                                # the node of each running beam
        self.at: dict[tuple[int, ...], int] = {}           # the node at the end of a path

    def __call__(self, step: BeamStep) -> None:
        reasons = Reasons(step, self.how, len(self.columns) < len(self.force))
        places = np.flatnonzero(np.isfinite(step.best[0])).tolist()
        considered = [self.node(step, reasons, int(step.beams[0, at]), int(step.tokens[0, at]), at) for at in places]
        kept = {at: node.id for at, node in zip(places, considered, strict=True)}
        considered += [self.node(step, reasons, beam, token, None) for beam, token in forbidden(step)]
        self.columns.append(tuple(sorted(considered, key=lambda node: (-node.total, node.id))))
        self.beams = [kept.get(int(at), ROOT) for at in step.order[0]]

    def node(self, step: BeamStep, reasons: Reasons, beam: int, token: int, place: int | None) -> Node:
        """`place` says where it stands among the best of the search; None: it may not be said."""
        parent = self.beams[beam]
        path = (*(self.paths[parent] if parent != ROOT else ()), token)
        id, ended = len(self.paths), token == self.opening.special_tokens.end
        self.paths.append(path)
        self.at[path] = id
        log_prob = float(step.log_probs[beam, token])
        total = float(step.totals[0, beam]) + log_prob if place is None else float(step.best[0, place])
        covered = None if step.covered is None else step.covered[beam]
        kept, why, margin = reasons.of(place, total, ended=ended, banned=token in self.opening.special_tokens.banned)
        return Node(id, parent, token, self.opening.tokenizer.token(token), self.adds(path), len(path), log_prob, total,
                    covered, self.how.score(total, len(path), covered or 0.0), kept, why, margin, ended)

    def adds(self, path: tuple[int, ...]) -> str:
        t = self.opening.tokenizer
        before = () if self.opening.source is not None else self.opening.prompt         # a prompt is part of the text
        return t.stream(after=(*before, *path[:-1])).push(path[-1])

    def settled(self, results: Sequence[Hypothesis]) -> tuple[tuple[Node, ...], ...]:
        """The columns, the last of which says why the search went no further with what it kept there."""
        if not self.columns:
            return ()
        cut = any(not each.finished for each in results)
        why = (f"cut short: {self.opening.limit} tokens is the limit" if cut
               else f"the limit of {self.opening.limit} tokens, and others have finished"
               if len(self.columns) >= self.opening.limit else f"not followed: {len(results)} have finished")
        *before, last = self.columns
        return (*before, tuple(replace(node, why=f"{node.why}; {why}") if node.kept and not node.ended else node
                               for node in last))

    def placed(self, found: Hypothesis) -> BeamResult:
        path = (*found.tokens, self.opening.special_tokens.end) if found.finished else found.tokens
        stream = self.opening.tokenizer.stream(after=() if self.opening.source is not None else self.opening.prompt)
        text = "".join([stream.push(token) for token in found.tokens]) + stream.flush()
        return BeamResult(self.at[path], text, found.tokens, len(path), found.log_prob, found.score, found.finished)


def forbidden(step: BeamStep) -> list[tuple[int, int]]:
    """(beam, token) of those among the model's own best 2 k that the search could not choose."""
    number, vocab = step.best.shape[1], step.log_probs.shape[-1]
    best, at = best_of(step.totals[:1], step.log_probs[:step.totals.shape[1]], number)
    real = np.isfinite(step.best[0])
    chosen = set(zip(step.beams[0, real].tolist(), step.tokens[0, real].tolist(), strict=True))
    line = step.best[0].min() if real.all() else -math.inf                 # what is below it is not shown either
    wanted = [divmod(place, vocab) for total, place in zip(best[0].tolist(), at[0].tolist(), strict=True)
              if math.isfinite(total) and total > line]
    return [each for each in wanted if each not in chosen]


class Reasons:
    """Why each candidate of a step was kept or not."""

    def __init__(self, step: BeamStep, how: BeamOptions, forcing: bool):
        self.how, self.forcing = how, forcing
        best = step.best[0]
        self.kept = [int(at) for at in step.order[0] if np.isfinite(best[at])]
        self.finished = set(np.flatnonzero(step.finished[0]).tolist())
        pruned = [at for at in range(len(best)) if np.isfinite(best[at]) and at not in {*self.kept, *self.finished}]
        self.last = float(best[self.kept[-1]]) if self.kept else None
        self.next = float(best[pruned[0]]) if pruned else None

    def of(self, place: int | None, total: float, *, ended: bool, banned: bool) -> tuple[bool, str, float | None]:
        """Kept or not, why, and the margin."""
        k = self.how.width
        if place is None:
            return False, self.not_allowed(banned), None
        if place in self.finished:
            return True, "ended: kept as finished", None if self.next is None else total - self.next
        if place in self.kept and not ended:
            rank = self.kept.index(place) + 1
            return (True, "forced" if self.forcing else f"{ordinal(rank)} of {k} kept",
                    None if self.next is None else total - self.next)
        below = None if self.last is None else total - self.last
        if ended:
            return False, (f"ended, but {ordinal(place + 1)}: only the best {k} may finish" if place >= k
                           else f"ended, but the finished list is full: {k} are enough"), below
        assert below is not None, "what does not end is pruned only behind k that were kept"
        return False, f"{ordinal(place + 1)} best, {k} kept: {-below:.3g} below the last kept", below

    def not_allowed(self, banned: bool) -> str:
        if banned:
            return "banned: this token is never written"
        if self.forcing:
            return "another token was forced here"
        n = self.how.no_repeat
        return "said before: no token may come twice" if n == 1 else f"said before: no {n} tokens in a row twice"


def ordinal(number: int) -> str:
    teen = 10 < number % 100 < 20
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
