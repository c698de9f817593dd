"""A curve: one piece of work at sizes that double, the law c n^p that fits the largest, and whether p is allowed.

    found = measure(Curve("tokenise", "characters", doubling(1000, 10**6), prepare, time=1.0), Setting())
    found.exponent, found.fast                     # 1.02, False

Sizes grow until one takes as long as the setting allows: then what a call costs whatever its size is small beside what
grows. Times are the least of some calls, as whatever else the machine does can only add to them; on a CPU they are the
seconds that the process itself had of it. A curve above its bound is measured again before it is said to be, and the
least of both counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.lab import stopwatch
from regard.lab.stopwatch import exponent

FITTED = 3                     # of the largest sizes, over which exponents are fitted
TIME_MARGIN = 0.45             # caches that overflow make what is linear look like n^1.4; a square is farther away
STEP_MARGIN = 0.2              # and from each size to the next: memory that is had anew is one step, and no growth
BYTES_MARGIN = 0.15            # bytes are counted, not timed
FLAT = 0.3                     # an exponent below it, where growth is allowed: what grows cannot be seen yet
SHORTEST = 0.002               # seconds: what takes less is done so often that it does not


@dataclass(frozen=True)
class Work:
    """A piece of work of one size, made ready: what is timed, and how many bytes it holds or gives."""

    run: Callable[[], Any]
    held: Callable[[], float] | None = None


@dataclass(frozen=True)
class Curve:
    """What is measured along what, and the largest exponents that are right."""

    name: str
    along: str
    sizes: Sequence[int]
    prepare: Callable[[int], Work]
    time: float
    held: float | None = None                # None: bytes are not looked at
    fresh: bool = False                      # made ready again for each call: what is kept would be measured else


@dataclass(frozen=True)
class Setting:
    """Where it is measured, and how long the largest size of a curve may take."""

    device: str = "cpu"
    most: float = 0.2                        # seconds: no larger size after one that takes so long
    repeats: int = 3

    @property
    def gpu(self) -> bool:
        return self.device != "cpu"

    def pick(self, on_cpu: int, on_gpu: int) -> int:
        return on_gpu if self.gpu else on_cpu


@dataclass
class Found:
    """What was measured."""

    curve: Curve
    sizes: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)           # seconds, the least of some calls
    held: list[float] = field(default_factory=list)            # bytes
    again: bool = False                                        # it was above its bound, and measured twice

    @property
    def exponent(self) -> float:
        return fitted(self.sizes, self.times)

    @property
    def held_exponent(self) -> float | None:
        return fitted(self.sizes, self.held) if self.held else None

    @property
    def steps(self) -> float:
        """The least exponent from one size of the fit to the next."""
        last = list(zip(self.sizes, self.times, strict=True))[-FITTED:]
        return min(exponent((n, m), (fast, slow)) for (n, fast), (m, slow) in pairwise(last))

    @property
    def slow(self) -> bool:
        """Whether its time grows faster than it may: as a whole, and in each of the last steps."""
        return self.exponent > self.curve.time + TIME_MARGIN and self.steps > self.curve.time + STEP_MARGIN

    @property
    def large(self) -> bool:
        """Whether its bytes do."""
        return self.held_exponent is not None and self.curve.held is not None \
            and self.held_exponent > self.curve.held + BYTES_MARGIN

    @property
    def verdict(self) -> str:
        said = ["time"] * self.slow + ["bytes"] * self.large
        if said:
            return f"{' and '.join(said)} TOO FAST"
        return "flat" if self.curve.time >= 1 and self.exponent < FLAT else ""

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.curve.name, "along": self.curve.along, "sizes": self.sizes,
                "milliseconds": [round(1000 * each, 4) for each in self.times], "exponent": round(self.exponent, 3),
                "allowed": self.curve.time, "bytes": [round(each) for each in self.held],
                "bytes_exponent": None if self.held_exponent is None else round(self.held_exponent, 3),
                "bytes_allowed": self.curve.held, "too_fast": self.slow or self.large, "measured_again": self.again,
                "flat": self.verdict == "flat"}


def fitted(sizes: Sequence[float], amounts: Sequence[float]) -> float:
    """The exponent over the largest sizes; what is nothing at all does not grow."""
    last = list(amounts)[-FITTED:]
    return 0.0 if min(last) <= 0 else exponent(list(sizes)[-FITTED:], last)


def doubling(first: int, last: int) -> tuple[int, ...]:
    """first, 2 first, 4 first .. up to last; three at least."""
    count = max(FITTED, 1 + int(math.log2(max(1, last / first)) + 1e-9))
    return tuple(first * 2**at for at in range(count))


def measure(curve: Curve, setting: Setting) -> Found:
    found = Found(curve)
    for size in curve.sizes:
        try:
            work = curve.prepare(size)
            took = least(curve, size, work, setting)
            held = work.held() if work.held is not None else None
        except torch.OutOfMemoryError:
            if len(found.times) < FITTED:
                raise
            break
        found.sizes.append(size)
        found.times.append(took)
        if held is not None:
            found.held.append(held)
        if took > setting.most and len(found.times) >= FITTED:
            break
    return confirmed(found, setting) if found.slow else found


def confirmed(found: Found, setting: Setting) -> Found:
    """The sizes of the fit once more: a moment of other work must not pass for growth."""
    found.again = True
    for at in range(len(found.sizes) - FITTED, len(found.sizes)):
        size = found.sizes[at]
        took = least(found.curve, size, found.curve.prepare(size), setting)
        found.times[at] = min(found.times[at], took)
    return found


def seconds(work: Callable[[], Any], device: str, *, warm: int) -> float:
    """One call's, after so many to warm up: of the processor, or of the clock where another device does the work."""
    if device != "cpu":
        return stopwatch.seconds(work, device, repeats=1, warm=warm)
    for _ in range(warm):
        work()
    began = time.process_time()
    work()
    return time.process_time() - began


def least(curve: Curve, size: int, work: Work, setting: Setting) -> float:
    """The least seconds of a call. Fresh work is done once for each time it is made ready."""
    if curve.fresh:
        times = [seconds(work.run, setting.device, warm=0)]
        while len(times) < setting.repeats and sum(times) < 2 * setting.most:
            times.append(seconds(curve.prepare(size).run, setting.device, warm=0))
        return min(times)
    once = seconds(work.run, setting.device, warm=1)
    calls = max(1, math.ceil(SHORTEST / max(once, 1e-7)))
    times = [once]
    while len(times) < setting.repeats + 1 and sum(times) < 2 * setting.most:
        times.append(seconds(lambda: [work.run() for _ in range(calls)], setting.device, warm=0) / calls)
    return min(times)


class _Largest(TorchDispatchMode):
    """Sees every operation of torch, those inside others too."""

    most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        sizes = [each.untyped_storage().nbytes() for each in tree_leaves(made) if isinstance(each, torch.Tensor)]
        self.most = max(self.most, *sizes, 0)
        return made


def largest_tensor(run: Callable[[], Any]) -> int:
    """Bytes of the largest tensor that is made or written on the way, views counted with what they are views of."""
    with _Largest() as seen:
        run()
    return seen.most
