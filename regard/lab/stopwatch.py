"""Times and memory of one piece of work: medians after a warm-up, on whatever device it runs.

    seconds(lambda: step(batch), "cpu")
    kept_bytes(lambda: layer(x)[0], "cpu")         # what training has to hold until the backward pass
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def seconds(work: Callable[[], Any], device: str, *, repeats: int = 5, warm: int = 1) -> float:
    """The median time of `work`, waiting for the device where it runs ahead."""
    times = []
    for repeat in range(warm + repeats):
        began = _now(device)
        work()
        if repeat >= warm:
            times.append(_now(device) - began)
    return statistics.median(times)


def _now(device: str) -> float:
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


def kept_bytes(forward: Callable[[], Tensor], device: str) -> int:
    """Bytes held between a forward and a backward pass: each storage once. On CUDA, the most that was allocated."""
    if device != "cpu":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        forward().sum().backward()
        return torch.cuda.max_memory_allocated() - before
    held: dict[int, int] = {}
    alive: list[Tensor] = []                       # or a storage given back would be counted as another

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        alive.append(tensor)
        held[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        forward()
    return sum(held.values())


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """p of the law y = c x^p that fits best: the slope of the logarithms."""
    return law(x, y)[0]


def law(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """p and log c of the law y = c x^p that fits best."""
    slope, intercept = np.polyfit(np.log(x), np.log(y), 1)
    return float(slope), float(intercept)


def crossover(steep: tuple[float, float], flat: tuple[float, float]) -> float:
    """The x from which the first law is above the second; infinite where it never is for good."""
    (p, log_c), (q, log_d) = steep, flat
    return math.exp(min((log_d - log_c) / (p - q), 700.0)) if p > q else math.inf
