"""What decides the last bits of a run beside its settings, text and seed: sums in another order round otherwise.

Every checkpoint keeps these. A run that is resumed takes the same number of threads; of what cannot be the same it says
so, in the place of promising equal bits.

Compiled code adds up the gradients of embeddings on all threads at once, in whatever order they come; torch's
deterministic mode keeps it to one order, so that two runs are equal there, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch

from regard.kernels.cpu.onednn import cpu
from regard.models.learner import Learner
from regard.training.settings import TrainingSettings

DETERMINISTIC: Any = torch.utils.deterministic               # its attribute is a property of the module: mypy misses it


@dataclass(frozen=True)
class Conditions:
    device: str
    threads: int                       # of a CPU
    processor: str                     # the CPU's or the GPU's name: kernels differ
    torch: str                         # its version, with the build


@contextmanager
def kept_conditions() -> Iterator[None]:
    """Put back afterwards what `set_conditions` changes of the whole process."""
    threads = torch.get_num_threads()
    strict, filled = torch.are_deterministic_algorithms_enabled(), DETERMINISTIC.fill_uninitialized_memory
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(strict)
        DETERMINISTIC.fill_uninitialized_memory = filled


def set_conditions(s: TrainingSettings, model: Learner) -> None:
    torch.set_flush_denormal(True)                  # denormal numbers cost a CPU many times over
    if model.device.type != "cpu":
        return
    if s.threads:
        torch.set_num_threads(s.threads)
    if s.compile in ("yes", "graphs"):
        torch.use_deterministic_algorithms(True)
        DETERMINISTIC.fill_uninitialized_memory = False      # or all new memory is written twice


def current_conditions(model: Learner) -> Conditions:
    device = model.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else cpu()
    return Conditions(device.type, torch.get_num_threads() if device.type == "cpu" else 0, name, torch.__version__)


def changed_conditions(before: dict[str, Any] | None, now: Conditions) -> list[str]:
    """What differs, for people; a checkpoint from before they were kept says nothing of them."""
    if before is None:
        return ["threads, processor and torch are not known: the checkpoint is of an earlier version"]
    return [f"{name} {value}, was {before.get(name, 'unknown')}" for name, value in asdict(now).items()
            if before.get(name) != value]
