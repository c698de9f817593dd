"""Beam search on a GPU: a step for a fixed number of sources, recorded once as a CUDA graph and replayed.

One step orders the state by the beams that go on, reads their tokens and finds their best continuations. The state is
held twice, and a step goes from one copy into the other: so ordering it takes no second pass over it, and whoever is
done can leave in the same move. Sizes are few. A source that is done stays, unseen, until half of them are; then the
others go on in a smaller size, in the same memory. What `beam.Live` does step by step is the definition.
S sources · k beams · L source length · V vocabulary
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.contract import LanguageModel, Source, State, watching
from regard.decoding.best import best_of
from regard.decoding.fast import recorded
from regard.kernels.recording import recording
from regard.layers.positions import AddPositions
from regard.layers.scores import Location

WORTH, LEAST_ROWS = 8, 16      # tokens of a target and rows of a batch, from which on a recording pays
LEAST = 8                      # sources in the smallest size
ROOM, LENGTH = 32, 16          # targets and sources have room in multiples of these, so that a recording serves many
WARM = 2                       # steps of a size before it is recorded: kernels are built and chosen in them
MOST_KEPT = 4                  # sets of recordings of one model
SHARE_TAKEN, SHARE_KEPT = 4, 16            # one may take 1/4 of the memory that is free, and 1/16 of all is kept


class Steps(recorded.OfModel):
    """A model with its state in two copies that stay where they are, and a step from either into the other."""

    def __init__(self, model: Any, state: State, sources: int, k: int, banned: Sequence[int], vocab: int):
        device, gpu = model.device, model.device.type == "cuda"
        self.model, self.sources, self.k, self.found = model, sources, k, min(2 * k, k * vocab)
        first = state.map(lambda t: t.new_zeros(sources * k, *t.shape[1:]),
                          lambda t: t.new_zeros(sources, *t.shape[1:]))
        self.states = first, first.map(torch.zeros_like)      # of what belongs to the source there is one
        self.banned = torch.tensor(list(banned), dtype=torch.long, device=device)
        sizes = 3 * sources * k, 2 * sources * self.found
        self.sent, self.told = (torch.zeros(size, dtype=torch.float64, device=device) for size in sizes)
        self.outbox, self.inbox = (torch.zeros(size, dtype=torch.float64, pin_memory=gpu) for size in sizes)
        self.stream = torch.cuda.Stream(device) if gpu else None
        self.event = torch.cuda.Event() if gpu else None
        self.graphs: dict[tuple[int, int], Any] = {}
        self.seen: Counter[int] = Counter()
        self.pool: Any = None
        self.refused = ""

    # ------------------------------------------------------------------------------------ one step

    def step(self, size: int, now: int) -> None:
        """Of `size` sources, from copy `now` of the state into the other: order, read, and find the best."""
        rows, tokens, totals = self.sent[:3 * size * self.k].view(3, -1).unbind()
        state = self.ordered(rows.long(), size, now)
        log_probs, after = self.model.step(tokens.long()[:, None], state)
        recorded.keep_in_place(state, after)
        log_probs.index_fill_(1, self.banned, -torch.inf)
        best, at = best_of(totals.view(size, -1), log_probs, 2 * self.k)
        self.told[:2 * best.numel()].view(2, *best.shape).copy_(torch.stack((best, at.double())))

    def ordered(self, rows: Tensor, size: int, now: int) -> State:
        """These rows of one copy, put into the other: what `State.select` gives, in a place that was there before."""
        before = iter(self.states[now].tensors().values())

        def moved(t: Tensor) -> Tensor:
            return torch.index_select(next(before), 0, rows, out=t[:len(rows)])

        def of_source(t: Tensor) -> Tensor:
            next(before)
            return t[:size]

        return self.states[1 - now].map(moved, of_source)

    # --------------------------------------------------------------------------- asking the device

    def ask(self, size: int, now: int) -> None:
        """For a step with what lies in the outbox; `hear` waits for what comes of it."""
        sent, told = 3 * size * self.k, 2 * size * self.found
        self.sent[:sent].copy_(self.outbox[:sent], non_blocking=True)
        self._go(size, now)
        self.inbox[:told].copy_(self.told[:told], non_blocking=True)
        if self.event is not None:
            self.event.record()

    def hear(self, size: int) -> NDArray[np.float64]:
        """(2, S, 2 k): the best sums, and where they stand."""
        if self.event is not None:
            self.event.synchronize()                          # the one wait of a step
        return self.inbox[:2 * size * self.found].view(2, size, -1).numpy()

    def _go(self, size: int, now: int) -> None:
        """By the recording, if this size was seen often enough; the steps before it are real ones, too."""
        if self.stream is None:
            return self.step(size, now)
        if (size, now) not in self.graphs and self.seen[size] >= WARM and not self.refused:
            self.record(size, now)
        if (size, now) in self.graphs:
            return self.graphs[size, now].replay()            # type: ignore[no-any-return]
        self.seen[size] += 1
        here = torch.cuda.current_stream(self.model.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            self.step(size, now)
        here.wait_stream(self.stream)

    def record(self, size: int, now: int) -> None:
        """Recording runs nothing: where it fails, as a step waits for the GPU, the search goes on unrecorded."""
        graph = torch.cuda.CUDAGraph()
        try:
            with recording(graph, self.stream, self.pool):
                self.step(size, now)
        except RuntimeError as error:                         # of CUDA; a real mistake comes back in the step as it is
            torch.cuda.synchronize()
            self.stream = torch.cuda.Stream(self.model.device)                        # the other one was recording
            self.refused = f"a step cannot be recorded as a CUDA graph ({str(error).splitlines()[0]})"
            return
        self.graphs[size, now], self.pool = graph, graph.pool()

    # ------------------------------------------------------------------------- what lies between searches

    def fill(self, state: State) -> None:
        """Begin with this state, of one row a source: they stand at the beginning of the first copy."""
        values = iter(state.tensors().values())

        def put(t: Tensor) -> Tensor:
            new = next(values)
            t[:len(new)] = new
            return t

        self.states[0].map(put, put)

    def choose(self, sources: NDArray[np.int64]) -> None:
        """Only these sources, in this order, from now on."""
        chosen = torch.from_numpy(sources).to(self.model.device)

        def put(t: Tensor) -> Tensor:
            t[:len(chosen)] = t.index_select(0, chosen)       # first read, then written
            return t

        self.states[0].map(lambda t: t, put)

    def nbytes(self) -> int:
        return sum(state.nbytes() for state in self.states)


class Rows:
    """The rows of one search, on the device: where each source stands that is not done yet."""

    def __init__(self, steps: Steps, state: State, sources: int):
        self.steps, self.now, self.beams = steps, 0, 1        # of each source, so far, one row
        self.size, self.at = size_for(sources), np.arange(sources)
        steps.fill(state)

    def send(
        self, stay: NDArray[np.int64], parents: NDArray[np.int64], tokens: NDArray[np.int64],
        totals: NDArray[np.float64],
    ) -> None:
        """Ask for a step. Of those that were running these stay (S,), each with k beams: of which, token, log p (S, k).
        """
        before = self.at[stay]
        self.at = before
        if self.size > LEAST and 2 * len(stay) <= self.size:
            self.at, self.size = np.arange(len(stay)), size_for(len(stay))
            self.steps.choose(np.concatenate((before, np.full(self.size - len(stay), before[0]))))
        k = self.steps.k
        outbox = self.steps.outbox[:3 * self.size * k].view(3, self.size, k).numpy()
        # Whole numbers far below 2^53 are exact as doubles. Who is done goes on as one that is not: what it has read
        # must not outgrow the room there is.
        outbox[0], outbox[1:] = before[0] * self.beams, 0
        for own, new in zip(outbox, (before[:, None] * self.beams + parents, tokens, totals), strict=True):
            own[self.at] = new
        self.beams = k
        self.steps.ask(self.size, self.now)
        self.now = 1 - self.now

    def ask(self) -> NDArray[np.float64]:
        """What came of it, of those that are not done."""
        return self.steps.hear(self.size)[:, self.at]


def size_for(sources: int) -> int:
    """As many sources or a few more: 8, 12, 16, 24, 32, ..."""
    power = 1 << (max(sources, LEAST) - 1).bit_length()
    return power * 3 // 4 if power * 3 // 4 >= max(sources, LEAST) else power


# -------------------------------------------------------------------------------------------- when it is taken


def fits(model: LanguageModel, rows: int, limit: int) -> bool:
    """Whether a recording pays: on a GPU, for a model of kernels, for some rows and tokens, and when nobody watches."""
    return (model.device.type == "cuda" and isinstance(model, nn.Module) and rows >= LEAST_ROWS and limit >= WORTH
            and watching() is None and not torch.is_autocast_enabled("cuda")          # which keeps the weights it cast
            and not why_not(model))


def roomy(model: Any, source: Source | None, room: int) -> tuple[Source | None, int]:
    """The source with more pads, and more room for targets: the same for many lengths, and no more than may be."""
    length, more = 0, source
    most = places(model)
    if source is not None and source.items.ndim == 2:                                 # tokens: a picture has no pads
        length = source.items.shape[1]
        wide = rounded(length, LENGTH, None if most is None else most - room * model.one_text)
        lengths = source.lengths
        if lengths is None:
            lengths = torch.full(source.items.shape[:1], length, device=source.items.device)
        more, length = Source(nn.functional.pad(source.items, (0, wide - length)), lengths), wide
    return more, rounded(room, ROOM, None if most is None else most - length * model.one_text)


def rounded(number: int, multiple: int, most: int | None) -> int:
    up = -(-number // multiple) * multiple
    return up if most is None else max(number, min(up, most))


def places(model: Any) -> int | None:
    """How many positions every layer knows; a score by location needs one more, for pads."""
    limits = [model.context, *(each.limit for each in model.modules() if isinstance(each, AddPositions)),
              *(each.weight.shape[-1] - 1 for each in model.modules() if isinstance(each, Location))]
    return min((limit for limit in limits if limit is not None), default=None)


# ------------------------------------------------------------------------------------- kept for the next search


class Kept:
    """Recordings of one model that nobody uses just now, those used last at the end."""

    def __init__(self) -> None:
        self.steps: OrderedDict[Hashable, Steps] = OrderedDict()
        self.weights = 0                                      # where they were
        self.refused = ""


_kept: WeakKeyDictionary[nn.Module, Kept] = WeakKeyDictionary()


def take(model: Any, state: State, sources: int, k: int, banned: Sequence[int], vocab: int) -> Steps | None:
    """Steps for a state like this one, made now or before, for whoever asks and nobody else; or none."""
    kept, weights = _kept.setdefault(model, Kept()), recorded.weights_at(model)
    if kept.refused:
        return None
    if kept.weights != weights:                               # what was recorded reads weights that are gone
        kept.steps.clear()
        kept.weights = weights
    steps = kept.steps.pop(_key(state, k, banned, vocab), None)
    if steps is not None and steps.sources >= sources:
        return steps
    del steps
    size = size_for(sources)
    if not has_room(model.device, _bytes(state, size, k)):
        return None
    return Steps(model, state, size, k, banned, vocab)


def give_back(model: Any, banned: Sequence[int], vocab: int, steps: Steps) -> None:
    kept = _kept.setdefault(model, Kept())
    if steps.refused:
        kept.refused = steps.refused
        kept.steps.clear()
        return
    if kept.weights == recorded.weights_at(model):
        kept.steps[_key(steps.states[0], steps.k, banned, vocab)] = steps
    while len(kept.steps) > MOST_KEPT or sum(each.nbytes() for each in kept.steps.values()) > may_keep(model.device):
        kept.steps.popitem(last=False)


def why_not(model: Any) -> str:
    """Why a step of this model was not recorded; empty if it was, or was not tried."""
    return _kept.setdefault(model, Kept()).refused


def _key(state: State, k: int, banned: Sequence[int], vocab: int) -> Hashable:
    """All that a recording has in it but the number of sources: kinds and shapes of the state, and what may be said."""
    kinds: list[Hashable] = []

    def note(t: Tensor) -> Tensor:
        kinds.append((t.shape[1:], t.dtype))
        return t

    state.map(note, note)
    return tuple(kinds), _names(state), k, tuple(banned), vocab


def _names(value: Any) -> Hashable:
    """The kinds of state in a state: two kinds of cache may have the same shapes."""
    if isinstance(value, State):
        return type(value).__name__, _names(list(vars(value).values()))
    if isinstance(value, dict):
        return _names(list(value.values()))
    return tuple(_names(each) for each in value) if isinstance(value, (tuple, list)) else None


def _bytes(state: State, sources: int, k: int) -> int:
    """Of two copies of the rows of a state, and one of its sources."""
    total = 0

    def add(times: int, t: Tensor) -> Tensor:
        nonlocal total
        total += times * t[:1].numel() * t.element_size()
        return t

    state.map(lambda t: add(2 * sources * k, t), lambda t: add(sources, t))
    return total


def has_room(device: torch.device, nbytes: int) -> bool:
    if device.type != "cuda":
        return True
    free = torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return nbytes <= free // SHARE_TAKEN


def may_keep(device: torch.device) -> float:
    """Bytes of states: more would be missing to whoever trains between two searches."""
    if device.type != "cuda":
        return float("inf")
    return torch.cuda.get_device_properties(device).total_memory / SHARE_KEPT
