"""A training step recorded as CUDA graphs: forward and backward, clipping, and the update.

A small model leaves a GPU idle while Python launches its kernels one by one, compiled or not. Recorded once, they run
as a single graph launch: the same kernels on the same numbers, with nothing in between. A graph works on tensors that
never move, so new inputs are copied into its own, and gradients into `StaticGradients`. Forward and backward are
recorded for each shape: shapes must be few for that, so batches are padded to a few widths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.contract import Learner, State
from regard.data.batching.text_batches import Batch
from regard.kernels.recording import recording

# Forward and backward
RECORDED_AFTER = 2             # passes over a shape before it is recorded: rare ones are not worth it
MOST_GRAPHS = 96               # each holds its gradients, and some memory of its own
MOST_HELD = 2**32              # bytes of gradients of all graphs together; one there may always be

# Clipping and update
EAGER_UPDATES = 3              # before they are recorded: the optimisers make their state on the way
MOST_UPDATED = 50_000_000      # weights: beyond, the GPU takes longer than the host, and copying gradients costs more

Eager = Callable[[Batch, State | None, Tensor | float], tuple[Tensor, State | None]]


# --------------------------------------------------------------------------------- forward and backward


def tensors_of(batch: Batch) -> dict[str, Any]:
    """Return every tensor of a batch by name, or None: tokens, targets, lengths, and the source where there is one."""
    return {field.name: getattr(batch, field.name) for field in fields(batch)}


class RecordedForwardBackward:
    """Forward and backward as one CUDA graph for each frequent shape; with a carried state they stay eager.

    Everything runs on one stream of its own: what autograd remembers of an earlier pass must not tie a recording to
    another stream. A model that cannot be recorded (it waits for the GPU somewhere) is never recorded, and the user is
    told.
    """

    recorded = True

    def __init__(self, eager: Eager, model: Learner, say: Callable[[str], None], *, compiled: bool = False):
        self.eager, self.model, self.say, self.compiled = eager, model, say, compiled
        held = sum(4 * weight.numel() for weight in model.parameters())
        self.most = min(MOST_GRAPHS, max(1, MOST_HELD // max(1, held)))
        self.seen: Counter[Hashable] = Counter()
        self.graphs: dict[Hashable, Graph] = {}
        self.refused = False
        self.pool: Any = None
        self.stream = torch.cuda.Stream()

    def __call__(self, batch: Batch, state: State | None, share: float) -> tuple[Tensor, State | None]:
        shape = tuple(None if each is None else each.shape for each in tensors_of(batch).values())
        self.seen[shape] += 1
        # A graph writes gradients of its own: it serves passes that have none to add to.
        fits = state is None and all(weight.grad is None for weight in self.model.parameters())
        frequent = self.seen[shape] > RECORDED_AFTER and len(self.graphs) < self.most and not self.refused
        if fits and frequent and shape not in self.graphs and self._has_room():
            self._record(shape, batch)
        here = torch.cuda.current_stream()
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            graph = self.graphs.get(shape) if fits else None
            result = self.eager(batch, state, share) if graph is None else (graph(batch, share), None)
        here.wait_stream(self.stream)
        return result

    def free_graphs(self) -> None:
        """Free all recorded graphs, after running out of memory."""
        self.graphs.clear()

    def _has_room(self) -> bool:
        """Return whether half of the GPU is free: a graph keeps its memory, also while the model is measured."""
        if half_is_free(self.model.device):
            return True
        self.refused = True
        self.say("passes are not recorded as CUDA graphs: these would keep more than half of the memory for themselves")
        return False

    def _record(self, shape: Hashable, batch: Batch) -> None:
        try:
            self.graphs[shape] = Graph(self, batch)
        except RuntimeError as error:                         # of CUDA; a real mistake comes back in the eager pass
            self.refused = True
            self.graphs.clear()                               # their random numbers went with the generator's
            self.stream = torch.cuda.Stream()                 # the other one was recording
            why = str(error).splitlines()[0]
            self.say(f"the model goes on as it is: it cannot be recorded as a CUDA graph ({why})")
        finally:
            for weight in self.model.parameters():
                weight.grad = None


class Graph:
    """Forward and backward over one shape, recorded: it copies inputs into its own, and sets the model's gradients."""

    def __init__(self, owner: RecordedForwardBackward, batch: Batch):
        self.weights = list(owner.model.parameters())
        self.inputs: dict[str, Any] = {
            name: None if each is None else each.clone() for name, each in tensors_of(batch).items()}
        self.share = torch.zeros((), device=owner.model.device)
        self.graph = torch.cuda.CUDAGraph()
        with recording(self.graph, owner.stream, owner.pool):
            self.loss, _ = owner.eager(replace(batch, **self.inputs), None, self.share)
        owner.pool = self.graph.pool()
        self.gradients = [weight.grad for weight in self.weights]

    def __call__(self, batch: Batch, share: float) -> Tensor:
        for name, new in tensors_of(batch).items():
            own = self.inputs[name]
            if own is not None and new is not None:
                own.copy_(new, non_blocking=True)
        self.share.fill_(share)
        self.graph.replay()
        for weight, gradient in zip(self.weights, self.gradients, strict=True):
            weight.grad = gradient
        return self.loss.clone()


def half_is_free(device: torch.device) -> bool:
    """Return whether half of a GPU's memory was free at the worst moment so far."""
    total = torch.cuda.get_device_properties(device).total_memory
    return bool(2 * torch.cuda.max_memory_allocated(device) <= total)


# ----------------------------------------------------------------------------------- clipping and update


def why_updates_are_eager(model: nn.Module, compile: str) -> str:
    """Return why clipping and updates are not recorded, given training.compile; "" where they are."""
    weights = list(model.parameters())
    if not all(weight.is_cuda for weight in weights):
        return "not on a GPU"
    if compile == "no":
        return "training.compile = no"
    large = sum(weight.numel() for weight in weights) > MOST_UPDATED
    return f"more than {MOST_UPDATED:,} weights keep a GPU busy" if large else ""


class StaticGradients:
    """One tensor for each weight that never moves; the gradients of each step are copied into it."""

    def __init__(self, model: nn.Module):
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]
        self.held = [torch.zeros_like(weight) for weight in self.weights]

    @torch.no_grad()
    def copy(self) -> None:
        """Copy the gradients of the last backward pass; a weight that it did not reach has a gradient of zero."""
        moved = [(held, weight.grad) for held, weight in zip(self.held, self.weights, strict=True)
                 if weight.grad is not None and weight.grad is not held]
        if moved:
            torch._foreach_copy_([held for held, _ in moved], [grad for _, grad in moved])
        for held, weight in zip(self.held, self.weights, strict=True):
            if weight.grad is None:
                held.zero_()
            weight.grad = held


class RecordedWork:
    """Work on tensors that never move: eager the first few times, then one graph launch. Its result stays in place."""

    def __init__(self, work: Callable[[], Any], say: Callable[[str], None]):
        self.work, self.say = work, say
        self.calls = 0
        self.replay: Callable[[], Any] | None = None
        self.refused = False
        self.result: Any = None

    def __call__(self) -> Any:
        self.calls += 1
        if self.replay is None and self.calls > EAGER_UPDATES and not self.refused:
            self._try()
        if self.replay is None:
            return self.work()
        self.replay()
        return self.result

    def _try(self) -> None:
        try:
            self.replay = self.record()
        except RuntimeError as error:                         # of CUDA; a real mistake comes back in the eager work
            torch.cuda.synchronize()
            self.refused = True
            why = str(error).splitlines()[0]
            self.say(f"updates go on as they are: they cannot be recorded as a CUDA graph ({why})")

    def record(self) -> Callable[[], Any]:
        graph = torch.cuda.CUDAGraph()
        with recording(graph):
            self.result = self.work()
        return graph.replay


def scalar(value: float, device: torch.device) -> Tensor | float:
    """Return a number that recorded work reads anew each time: on a GPU a tensor to be filled."""
    return torch.tensor(value, dtype=torch.float32, device=device) if device.type == "cuda" else value
