"""Beam search on a GPU: a step for a fixed number of sources, recorded once as a CUDA graph and replayed.

One step orders the state by the beams that go on, reads their tokens and finds their best continuations. The state is
held twice, and a step goes from one copy into the other: so ordering takes no second pass over it, and sources that are
done leave in the same move. Sizes are few. A source that is done stays, unseen, until half of them are; then the others
go on in a smaller size, in the same memory. `BeamRows` of `decoding/beam.py`, step by step, is the definition.
S sources · k beams · L source length · V vocabulary
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.contract import LanguageModel, Source, State
from regard.decoding.best import best_of
from regard.decoding.fast.recorded_stream import keep_in_place
from regard.kernels.recording import Recording, Recordings, recording
from regard.watching import watching

if TYPE_CHECKING:
    from regard.decoding.beam import BeamRows

WORTH, LEAST_ROWS = 8, 16      # least tokens of a target and rows of a batch, for which a recording is worthwhile
LEAST = 8                      # sources in the smallest size
ROOM, LENGTH = 32, 16          # targets and sources have room in multiples of these, so that a recording serves many
WARM = 2                       # steps of a size before it is recorded: kernels are built and chosen in them
SHARE = 1 / 4                  # of the free memory, which one set of recordings may take

RECORDINGS = Recordings(most=4, share=1 / 16)          # of one model


class RecordedBeamSteps(Recording):
    """A model with its state in two copies that stay in place, and a step from either into the other."""

    def __init__(self, model: Any, state: State, sources: int, k: int, banned: Sequence[int], vocab: int):
        super().__init__(model, key_of(state, k, banned, vocab))
        device, gpu = model.device, model.device.type == "cuda"
        self.sources, self.k, self.columns = sources, k, min(2 * k, k * vocab)
        first = state.map(lambda t: t.new_zeros(sources * k, *t.shape[1:]),
                          lambda t: t.new_zeros(sources, *t.shape[1:]))
        self.states = first, first.map(torch.zeros_like)      # tensors of the source are in both: there is one of each
        self.banned = torch.tensor(list(banned), dtype=torch.long, device=device)
        sizes = 3 * sources * k, 2 * sources * self.columns
        self.sent, self.answer = (torch.zeros(size, dtype=torch.float64, device=device) for size in sizes)
        self.outbox, self.inbox = (torch.zeros(size, dtype=torch.float64, pin_memory=gpu) for size in sizes)
        self.stream = torch.cuda.Stream(device) if gpu else None
        self.event = torch.cuda.Event() if gpu else None
        self.graphs: dict[tuple[int, int], Any] = {}
        self.seen: Counter[int] = Counter()
        self.pool: Any = None

    # ------------------------------------------------------------------------------------ one step

    def step(self, size: int, now: int) -> None:
        """Order, read and find the best of `size` sources, from copy `now` of the state into the other."""
        rows, tokens, totals = self.sent[:3 * size * self.k].view(3, -1).unbind()
        state = self.order_rows(rows.long(), size, now)
        log_probs, after = self.model.step(tokens.long()[:, None], state)
        keep_in_place(state, after)
        log_probs.index_fill_(1, self.banned, -torch.inf)
        best, index = best_of(totals.view(size, -1), log_probs, 2 * self.k)
        self.answer[:2 * best.numel()].view(2, *best.shape).copy_(torch.stack((best, index.double())))

    def order_rows(self, rows: Tensor, size: int, now: int) -> State:
        """Put these rows of one copy into the other; return what `State.select` returns, in place."""
        before = iter(self.states[now].tensors().values())

        def moved(t: Tensor) -> Tensor:
            return torch.index_select(next(before), 0, rows, out=t[:len(rows)])

        def of_source(t: Tensor) -> Tensor:
            next(before)
            return t[:size]

        return self.states[1 - now].map(moved, of_source)

    # ------------------------------------------------------------------------------ launching a step

    def launch(self, size: int, now: int) -> None:
        """Launch a step on what the outbox holds; `hear` waits for its result."""
        sent, answer = 3 * size * self.k, 2 * size * self.columns
        self.sent[:sent].copy_(self.outbox[:sent], non_blocking=True)
        self._run(size, now)
        self.inbox[:answer].copy_(self.answer[:answer], non_blocking=True)
        if self.event is not None:
            self.event.record()

    def hear(self, size: int) -> NDArray[np.float64]:
        """Return (2, S, 2 k): the best sums, and their indices."""
        if self.event is not None:
            self.event.synchronize()                          # the one wait of a step
        return self.inbox[:2 * size * self.columns].view(2, size, -1).numpy()

    def _run(self, size: int, now: int) -> None:
        """Replay the recording, if this size was seen often enough; the steps before it are eager."""
        if self.stream is None:
            return self.step(size, now)
        if (size, now) not in self.graphs and self.seen[size] >= WARM and not RECORDINGS.why_not(self.model):
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
        """Record a step, without running it. Where that fails, as it waits for the GPU, the search goes on eagerly."""
        graph = torch.cuda.CUDAGraph()
        try:
            with recording(graph, self.stream, self.pool):
                self.step(size, now)
        except RuntimeError as error:                         # of CUDA; a real mistake comes back in the eager step
            RECORDINGS.refuse(self.model, error)
            self.stream = torch.cuda.Stream(self.model.device)                        # the other one was recording
            return
        self.graphs[size, now], self.pool = graph, graph.pool()

    # ---------------------------------------------------------------------------- between two searches

    def fill(self, state: State) -> None:
        """Begin with this state, of one row a source: copy it to the beginning of the first copy."""
        values = iter(state.tensors().values())

        def put(t: Tensor) -> Tensor:
            new = next(values)
            t[:len(new)] = new
            return t

        self.states[0].map(put, put)

    def choose(self, sources: NDArray[np.int64]) -> None:
        """Go on with these sources only, in this order."""
        chosen = torch.from_numpy(sources).to(self.model.device)

        def put(t: Tensor) -> Tensor:
            t[:len(chosen)] = t.index_select(0, chosen)       # first read, then written
            return t

        self.states[0].map(lambda t: t, put)

    def nbytes(self) -> int:
        return sum(state.nbytes() for state in self.states)


class RecordedRows:
    """The rows of one search by recorded steps. Its first step is that of plain rows, whose state is then copied."""

    def __init__(self, plain: BeamRows, banned: Sequence[int]):
        self.plain, self.banned = plain, tuple(banned)
        self.steps: RecordedBeamSteps | None = None
        self.eager = False                                    # there are no recordings for this search
        self.now, self.beams = 0, 1                           # the copy of the state, and its rows a source
        self.size = size_for(len(plain.totals))
        self.slots = np.arange(len(plain.totals))             # the index of each source

    @property
    def vocab(self) -> int:
        return self.plain.vocab

    def ask(self, written: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what `BeamRows.ask` returns."""
        return self.plain.ask(written) if self.steps is None else self.hear()

    def hear(self) -> NDArray[np.float64]:
        assert self.steps is not None
        return self.steps.hear(self.size)[:, self.slots]

    def penalties(self) -> list[float] | None:
        return self.plain.penalties()

    def send(
        self, stay: NDArray[np.int64], parents: NDArray[np.int64], tokens: NDArray[np.int64],
        totals: NDArray[np.float64],
    ) -> None:
        """Launch a step for the sources `stay` (S,), each with k beams: their parent, next token and log p (S, k)."""
        if self.steps is None and not self.eager:
            self.begin()
        if self.steps is None:
            return self.plain.send(stay, parents, tokens, totals)
        before = self.slots[stay]
        self.slots = before
        if self.size > LEAST and 2 * len(stay) <= self.size:
            self.slots, self.size = np.arange(len(stay)), size_for(len(stay))
            self.steps.choose(np.concatenate((before, np.full(self.size - len(stay), before[0]))))
        k = self.steps.k
        outbox = self.steps.outbox[:3 * self.size * k].view(3, self.size, k).numpy()
        # Whole numbers far below 2^53 are exact as doubles. A source that is done goes on as one that is not: what it
        # has read must not outgrow the room there is.
        outbox[0], outbox[1:] = before[0] * self.beams, 0
        for row, new in zip(outbox, (before[:, None] * self.beams + parents, tokens, totals), strict=True):
            row[self.slots] = new
        self.beams = k
        self.steps.launch(self.size, self.now)
        self.now = 1 - self.now

    def begin(self) -> None:
        """Copy the state of the plain rows into recorded steps, if there can be any; asked once, after one step."""
        plain = self.plain
        self.steps = take(plain.model, plain.state, len(self.slots), plain.options.width, self.banned, plain.vocab)
        self.eager = self.steps is None
        if self.steps is not None:
            self.steps.fill(plain.state)
            del plain.state                                   # it was copied: its memory may serve others

    def close(self) -> None:
        """Give the recordings back, for the next search."""
        if self.steps is not None:
            RECORDINGS.give_back(self.steps)


def size_for(sources: int) -> int:
    """Return as many sources or a few more: 8, 12, 16, 24, 32, ..."""
    power = 1 << (max(sources, LEAST) - 1).bit_length()
    return power * 3 // 4 if power * 3 // 4 >= max(sources, LEAST) else power


# ------------------------------------------------------------------------------------------- when it fits


def fits(model: LanguageModel, rows: int, limit: int) -> bool:
    """Return whether a recording is worthwhile: on a GPU, of a neural model, with enough rows and tokens, unwatched."""
    return (model.device.type == "cuda" and isinstance(model, nn.Module) and not model.asks_host
            and rows >= LEAST_ROWS and limit >= WORTH and watching() is None
            and not torch.is_autocast_enabled("cuda")                                 # which caches cast weights
            and not RECORDINGS.why_not(model))


def add_room(model: Any, source: Source | None, room: int) -> tuple[Source | None, int]:
    """Return the source with more pads, and more room for targets: the same for many lengths, within the model's."""
    length, more = 0, source
    most = count_positions(model)
    if source is not None and source.items.ndim == 2:                                 # tokens: a picture has no pads
        length = source.items.shape[1]
        wide = round_up(length, LENGTH, None if most is None else most - room * model.one_text)
        lengths = source.lengths
        if lengths is None:
            lengths = torch.full(source.items.shape[:1], length, device=source.items.device)
        more, length = Source(nn.functional.pad(source.items, (0, wide - length)), lengths), wide
    return more, round_up(room, ROOM, None if most is None else most - length * model.one_text)


def round_up(number: int, multiple: int, most: int | None) -> int:
    up = -(-number // multiple) * multiple
    return up if most is None else max(number, min(up, most))


def count_positions(model: Any) -> int | None:
    """Return the number of positions that every layer knows; None: no limit."""
    limits = [model.context, *(getattr(module, "most_positions", None) for module in model.modules())]
    return min((limit for limit in limits if limit is not None), default=None)


# ------------------------------------------------------------------------------------------- from the store


def take(
    model: Any, state: State, sources: int, k: int, banned: Sequence[int], vocab: int
) -> RecordedBeamSteps | None:
    """Return steps for a state like this one, stored or made now, until they are given back; or None."""
    if RECORDINGS.why_not(model):
        return None
    steps = RECORDINGS.take(model, key_of(state, k, banned, vocab))
    if steps is not None and steps.sources >= sources:
        return steps                                          # type: ignore[no-any-return]
    del steps
    size = size_for(sources)
    if not has_room(model.device, count_bytes(state, size, k)):
        return None
    return RecordedBeamSteps(model, state, size, k, banned, vocab)


def key_of(state: State, k: int, banned: Sequence[int], vocab: int) -> Hashable:
    """Return all that a recording depends on but the number of sources: kinds and shapes of the state, and tokens."""
    kinds: list[Hashable] = []

    def note(t: Tensor) -> Tensor:
        kinds.append((t.shape[1:], t.dtype))
        return t

    state.map(note, note)
    return tuple(kinds), _names(state), k, tuple(banned), vocab


def _names(value: Any) -> Hashable:
    """Return the classes in a state: two kinds of cache may have the same shapes."""
    if isinstance(value, State):
        return type(value).__name__, _names(list(vars(value).values()))
    if isinstance(value, dict):
        return _names(list(value.values()))
    return tuple(_names(each) for each in value) if isinstance(value, (tuple, list)) else None


def count_bytes(state: State, sources: int, k: int) -> int:
    """Return the bytes of two copies of a state's rows, and one of its sources."""
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
    return nbytes <= free * SHARE
