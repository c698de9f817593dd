"""Generation on a GPU: a step, from the token read to the token chosen, recorded once as a CUDA graph and replayed.

A GPU takes a fraction of a millisecond for a step of a small model; telling it what to do, kernel by kernel, takes many
times as long, and so does waiting for each token before asking for the next. A recorded step is told in one word, and
it reads the token that the step before it chose, so that a few of them are asked for before any is looked at. They are
the same kernels on the same numbers: what is written does not change.
B batch · V vocabulary
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from regard.contract import LanguageModel, State, watching
from regard.decoding.sampling import Sampling, choose_next, row_noise
from regard.kernels.recording import recording

AHEAD = 16                     # steps asked for at once, at most
ROOM = 256                     # capacity comes in multiples of this, so that a recording serves many lengths
MOST_KEPT = 4                  # recordings of one model: each holds a state
WORTH = 16                     # tokens to be written, at least


class OfModel:
    """Something that works on a model and is kept for it. It holds on to the model no longer than others do: what is
    kept would otherwise keep the model, and never be let go."""

    @property
    def model(self) -> Any:
        model = self._model()
        assert model is not None, "the model is gone"
        return model

    @model.setter
    def model(self, model: Any) -> None:
        self._model = weakref.ref(model)


class Steps(OfModel):
    """A model with a state that stays where it is, a step on it, and the tokens that were chosen last."""

    def __init__(self, model: LanguageModel, batch: int, capacity: int, how: Sampling, banned: Sequence[int]):
        device = model.device
        self.model, self.how = model, how
        state = model.start(batch, capacity)
        assert state is not None
        self.state: State = state.clone()                     # a start may be the model's own tensors: it is learned
        self.banned = torch.tensor(list(banned), dtype=torch.long, device=device)
        self.tokens = torch.zeros(batch, 1, dtype=torch.long, device=device)
        self.noise, self.positions = (torch.zeros(batch, dtype=torch.long, device=device) for _ in range(2))
        self.history = torch.zeros(2 * AHEAD, batch, dtype=torch.long, device=device)
        self.at = torch.zeros(1, dtype=torch.long, device=device)
        self.replay: Any = self.step

    def step(self) -> None:
        """Read a token, choose the next one, and keep what has changed where it was."""
        log_probs, after = self.model.step(self.tokens, self.state)
        log_probs.index_fill_(1, self.banned, -torch.inf)
        chosen = choose_next(log_probs, self.how, self.noise, self.positions)
        self.history.index_copy_(0, self.at, chosen[None])
        self.at.add_(1).remainder_(len(self.history))
        self.positions += 1
        self.tokens.copy_(chosen[:, None])
        self._keep(after)

    def _keep(self, after: State) -> None:
        keep_in_place(self.state, after)

    def record(self) -> None:
        """From now on `replay` is one launch. Raises RuntimeError where a step waits for the GPU."""
        before = self.state.clone()
        self.replay = launch(self.step)
        self._keep(before)

    def begin(self, state: State, ids: Tensor) -> None:
        """Go on from this state, with the noise of these rows."""
        self._keep(state)
        self.noise.copy_(row_noise(self.how.seed, ids))

    def run(self, chosen: Sequence[int], positions: Tensor, count: int) -> Iterator[list[int]]:
        """Read these tokens, one a row, and then what was chosen after them, in `count` steps; a list of tokens each.

        The next few steps are asked for before those that were asked for earlier are looked at."""
        self.tokens.copy_(torch.tensor(chosen)[:, None])
        self.positions.copy_(positions)
        self.at.zero_()
        asked, size, waiting = 0, 1, None
        while asked < count or waiting is not None:
            new = self._ask(asked, min(size, count - asked)) if asked < count else None
            asked, size = min(asked + size, count), min(2 * size, AHEAD)
            if waiting is not None:
                yield from come(*waiting)
            waiting = new

    def _ask(self, first: int, count: int) -> tuple[Tensor, torch.cuda.Event | None]:
        for _ in range(count):
            self.replay()
        places = torch.arange(first, first + count, device=self.at.device) % len(self.history)
        tokens = self.history.index_select(0, places)
        if not tokens.is_cuda:
            return tokens, None
        held = torch.empty(tokens.shape, dtype=tokens.dtype, pin_memory=True).copy_(tokens, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        return held, event


def launch(step: Callable[[], None]) -> Callable[[], None]:
    """A step as one launch. It is done twice before, so that kernels are built and chosen when they are recorded."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    with recording(graph, stream):
        step()
    return graph.replay


def come(tokens: Tensor, event: torch.cuda.Event | None) -> list[Any]:
    """What was asked for, once it is there."""
    if event is not None:
        event.synchronize()
    return tokens.tolist()


def keep_in_place(own: State, after: State) -> None:
    """Copy into a state's own tensors whatever of the state after it stands elsewhere."""
    moved = [(there, new) for there, new in zip(own.tensors().values(), after.tensors().values(), strict=True)
             if there.data_ptr() != new.data_ptr()]
    if moved:
        torch._foreach_copy_([there for there, _ in moved], [new for _, new in moved])


# ------------------------------------------------------------------------------------------ kept for the next text


class Kept:
    """Recordings of one model that nobody uses just now, those used last at the end."""

    def __init__(self) -> None:
        self.steps: OrderedDict[Hashable, Steps] = OrderedDict()
        self.refused: str = ""


_kept: WeakKeyDictionary[nn.Module, Kept] = WeakKeyDictionary()


def fits(model: LanguageModel, new_tokens: int) -> bool:
    """Whether a recording pays: on a GPU, for a model of kernels, and when nobody watches."""
    return model.device.type == "cuda" and isinstance(model, nn.Module) and new_tokens >= WORTH and watching() is None


def room_for(capacity: int, context: int | None) -> int:
    """As much room, or a little more: the same for many lengths."""
    rounded = -(-capacity // ROOM) * ROOM
    return rounded if context is None else min(rounded, context)


def take(model: Any, batch: int, capacity: int, how: Sampling, banned: Sequence[int]) -> tuple[Steps | None, str]:
    """A recorded step, made now or before, for whoever asks and nobody else; or why there is none."""
    kept = _kept.setdefault(model, Kept())
    if kept.refused:
        return None, kept.refused
    steps = kept.steps.pop(_key(model, batch, capacity, how, banned), None)
    if steps is not None:
        steps.how = how
        return steps, ""
    steps = Steps(model, batch, capacity, how, banned)
    try:
        steps.record()
    except RuntimeError as error:                             # of CUDA; a real mistake comes back in the plain way
        torch.cuda.synchronize()
        kept.refused = f"a step cannot be recorded as a CUDA graph ({str(error).splitlines()[0]})"
        return None, kept.refused
    return steps, ""


def give_back(model: Any, batch: int, capacity: int, how: Sampling, banned: Sequence[int], steps: Steps) -> None:
    kept = _kept.setdefault(model, Kept())
    kept.steps[_key(model, batch, capacity, how, banned)] = steps
    while len(kept.steps) > MOST_KEPT:
        kept.steps.popitem(last=False)


def _key(model: nn.Module, batch: int, capacity: int, how: Sampling, banned: Sequence[int]) -> Hashable:
    """All that a recording has in it: sizes, how to choose (but for the seed), and where the weights are."""
    return batch, capacity, how.temperature, how.top_k, how.top_p, tuple(banned), weights_at(model)


def weights_at(model: nn.Module) -> int:
    """Where the weights are: a recording reads them there, whatever they have become."""
    return hash(tuple(weight.data_ptr() for weight in model.parameters()))
