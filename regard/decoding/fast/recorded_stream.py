"""Generation on a GPU: a step, from the token read to the token chosen, recorded once as a CUDA graph and replayed.

A GPU takes a fraction of a millisecond for a step of a small model. Launching its kernels one by one takes many times
as long, and so does waiting for each token before asking for the next. A recorded step is one graph launch. It reads
the token that the previous step chose, so several steps are queued before the host looks at any result. They are the
same kernels on the same numbers: the text does not change.
B batch · V vocabulary
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.contract import LanguageModel, State
from regard.decoding.sampling import Sampling, choose_next, row_noise
from regard.kernels.recording import Recording, Recordings, record_step
from regard.watching import watching

AHEAD = 16                     # steps queued at once, at most
ROOM = 256                     # capacity comes in multiples of this, so that a recording serves many lengths
WORTH = 16                     # tokens to be written, at least

RECORDINGS = Recordings(most=4)            # of one model: each holds a state


class RecordedSteps(Recording):
    """A model with a state that stays in place, a step on it, and the tokens that were chosen last."""

    def __init__(
        self, model: Any, batch: int, capacity: int, sampling: Sampling, banned: Sequence[int]
    ):
        super().__init__(model, key_of(batch, capacity, sampling, banned))
        device = model.device
        self.sampling = sampling
        self.state: State = model.start(batch, capacity).clone()      # a start may be the model's own tensors: learned
        self.banned = torch.tensor(list(banned), dtype=torch.long, device=device)
        self.tokens = torch.zeros(batch, 1, dtype=torch.long, device=device)
        self.noise, self.positions = (torch.zeros(batch, dtype=torch.long, device=device) for _ in range(2))
        self.history = torch.zeros(2 * AHEAD, batch, dtype=torch.long, device=device)
        self.row = torch.zeros(1, dtype=torch.long, device=device)    # of the history that is written next
        self.replay: Any = self.step

    def step(self) -> None:
        """Read a token, choose the next one, and keep what has changed in place."""
        log_probs, after = self.model.step(self.tokens, self.state)
        log_probs.index_fill_(1, self.banned, -torch.inf)
        chosen = choose_next(log_probs, self.sampling, self.noise, self.positions)
        self.history.index_copy_(0, self.row, chosen[None])
        self.row.add_(1).remainder_(len(self.history))
        self.positions += 1
        self.tokens.copy_(chosen[:, None])
        self._keep(after)

    def _keep(self, after: State) -> None:
        keep_in_place(self.state, after)

    def record(self) -> None:
        """Make `replay` one launch. Raises RuntimeError where a step waits for the GPU."""
        before = self.state.clone()
        self.replay = record_step(self.step)
        self._keep(before)

    def begin(self, state: State, ids: Tensor) -> None:
        """Go on from this state, with the noise of these rows."""
        self._keep(state)
        self.noise.copy_(row_noise(self.sampling.seed, ids))

    def run(self, chosen: Sequence[int], positions: Tensor, count: int) -> Iterator[list[int]]:
        """Read these tokens, one a row, and then the tokens chosen after them, in `count` steps; yield each step's.

        The next few steps are queued before the host looks at the results of earlier ones."""
        self.tokens.copy_(torch.tensor(chosen)[:, None])
        self.positions.copy_(positions)
        self.row.zero_()
        queued, size, waiting = 0, 1, None
        while queued < count or waiting is not None:
            new = self._queue(queued, min(size, count - queued)) if queued < count else None
            queued, size = min(queued + size, count), min(2 * size, AHEAD)
            if waiting is not None:
                yield from wait_for(*waiting)
            waiting = new

    def _queue(self, first: int, count: int) -> tuple[Tensor, torch.cuda.Event | None]:
        """Launch some steps; return their tokens on the way to the host, and an event to wait for."""
        for _ in range(count):
            self.replay()
        rows = torch.arange(first, first + count, device=self.row.device) % len(self.history)
        tokens = self.history.index_select(0, rows)
        if not tokens.is_cuda:
            return tokens, None
        held = torch.empty(tokens.shape, dtype=tokens.dtype, pin_memory=True).copy_(tokens, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        return held, event


def wait_for(tokens: Tensor, event: torch.cuda.Event | None) -> list[Any]:
    """Return the tokens of some steps, once they are there."""
    if event is not None:
        event.synchronize()
    return tokens.tolist()


def keep_in_place(state: State, after: State) -> None:
    """Copy into a state's tensors those of the state after it that lie elsewhere."""
    moved = [(here, new) for here, new in zip(state.tensors().values(), after.tensors().values(), strict=True)
             if here.data_ptr() != new.data_ptr()]
    if moved:
        torch._foreach_copy_([here for here, _ in moved], [new for _, new in moved])


# ------------------------------------------------------------------------------------------- from the store


def fits(model: LanguageModel, new_tokens: int) -> bool:
    """Return whether a recording is worthwhile: on a GPU, of a neural model, when nobody watches."""
    return (model.device.type == "cuda" and isinstance(model, nn.Module) and not model.asks_host
            and new_tokens >= WORTH and watching() is None)


def room_for(capacity: int, context: int | None) -> int:
    """Return as much room or a little more: the same for many lengths."""
    rounded = -(-capacity // ROOM) * ROOM
    return rounded if context is None else min(rounded, context)


def take(
    model: Any, batch: int, capacity: int, sampling: Sampling, banned: Sequence[int]
) -> tuple[RecordedSteps | None, str]:
    """Return recorded steps, stored or made now, until they are given back; or None and the reason."""
    if why := RECORDINGS.why_not(model):
        return None, why
    steps = RECORDINGS.take(model, key_of(batch, capacity, sampling, banned))
    if steps is not None:
        steps.sampling = sampling
        return steps, ""
    steps = RecordedSteps(model, batch, capacity, sampling, banned)
    try:
        steps.record()
    except RuntimeError as error:                             # of CUDA; a real mistake comes back in the eager step
        return None, RECORDINGS.refuse(model, error)
    return steps, ""


def key_of(batch: int, capacity: int, sampling: Sampling, banned: Sequence[int]) -> tuple[Any, ...]:
    """Return all that a recording depends on beside the weights: sizes, and sampling without its seed."""
    return batch, capacity, sampling.temperature, sampling.top_k, sampling.top_p, tuple(banned)
