"""Work recorded as a CUDA graph, and a store of such recordings.

While a graph is recorded nothing may be freed on the GPU, so Python's garbage collector waits. When a recording fails,
torch's generator would go on as if its numbers were drawn for a graph, so it is put back to where it was.
"""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn


@contextmanager
def recording(graph: Any, stream: Any = None, pool: Any = None) -> Iterator[None]:
    """Record the kernels that this block launches, without running them. Raises RuntimeError where that cannot be."""
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    before = generator.get_state()
    with nothing_collected():
        try:
            with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
                yield
        except BaseException:
            fresh = torch.Generator(generator.device)
            fresh.set_state(before)
            generator.graphsafe_set_state(fresh)
            raise


@contextmanager
def nothing_collected() -> Iterator[None]:
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def record_step(step: Callable[[], None]) -> Callable[[], None]:
    """Return a step as one graph launch. It runs twice before, so that kernels are built and chosen beforehand."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    with recording(graph, stream):
        step()
    return graph.replay


# --------------------------------------------------------------------------------------------- the store


class Recording:
    """Recorded work on a model. It holds the model by a weak reference, so that a store does not keep it alive."""

    def __init__(self, model: Any, key: Hashable):
        self._model, self.key, self.weights = weakref.ref(model), key, weights_at(model)

    @property
    def model(self) -> Any:
        model = self._model()
        assert model is not None, "the model is gone"
        return model

    def nbytes(self) -> int:
        """Return the memory that counts against a store's share."""
        return 0


class Recordings:
    """Recordings that nobody uses just now, by model and key.

    A recording that is taken belongs to its user until it is given back. For each model at most `most` are stored,
    and, with a `share`, no more bytes than this share of the GPU's memory: those used least recently go first. All go
    when the weights have moved, since a graph reads them where they were.
    """

    def __init__(self, most: int, share: float | None = None):
        self.most, self.share = most, share
        self.idle: WeakKeyDictionary[nn.Module, OrderedDict[Hashable, Any]] = WeakKeyDictionary()
        self.refused: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()

    def take(self, model: nn.Module, key: Hashable) -> Any:
        """Return the recording with this key, or None."""
        idle, weights = self.idle.setdefault(model, OrderedDict()), weights_at(model)
        if any(each.weights != weights for each in idle.values()):
            idle.clear()
        return idle.pop(key, None)

    def give_back(self, recording: Recording) -> None:
        model = recording.model
        if self.why_not(model) or recording.weights != weights_at(model):
            return
        idle = self.idle.setdefault(model, OrderedDict())
        idle[recording.key] = recording
        while len(idle) > self.most or sum(each.nbytes() for each in idle.values()) > self.most_bytes(model.device):
            idle.popitem(last=False)

    def refuse(self, model: nn.Module, error: RuntimeError) -> str:
        """Drop all recordings of a model that cannot be recorded; return the reason."""
        torch.cuda.synchronize()
        self.idle.pop(model, None)
        self.refused[model] = f"a step cannot be recorded as a CUDA graph ({str(error).splitlines()[0]})"
        return self.refused[model]

    def why_not(self, model: nn.Module) -> str:
        """Return why a model is not recorded; "" if it is, or was not tried."""
        return self.refused.get(model, "")

    def most_bytes(self, device: torch.device) -> float:
        if self.share is None or device.type != "cuda":
            return float("inf")
        return torch.cuda.get_device_properties(device).total_memory * self.share

    def clear(self) -> None:
        self.idle.clear()
        self.refused.clear()


def weights_at(model: nn.Module) -> int:
    """Return a hash of the addresses of the weights: a graph reads them there, whatever their values have become."""
    return hash(tuple(weight.data_ptr() for weight in model.parameters()))
