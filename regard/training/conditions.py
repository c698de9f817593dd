"""What decides the last bits of a run beside its settings, text and seed: sums in another order round otherwise.

Every checkpoint keeps these. A run that is resumed takes the same number of threads; of what cannot be the same it says
so, in the place of promising equal bits.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

from regard.kernels.onednn import cpu
from regard.models.learner import Learner


@dataclass(frozen=True)
class Conditions:
    device: str
    threads: int                       # of a CPU
    processor: str                     # the CPU's or the GPU's name: kernels differ
    torch: str                         # its version, with the build


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
