"""Kernels: the loops over time that are worth writing more than once, each beside the loop that defines it.

On a GPU they run in Triton, which comes with torch there; everywhere else in plain torch. Nobody has to guess which:

    kernels.path(x)        # "triton" or "torch"
    kernels.reason(x)      # why not Triton, in one line; empty where it is

`REGARD_KERNELS=torch` in the environment keeps Triton out, for comparing.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.contract import exact_arithmetic
from regard.errors import SettingError, did_you_mean

PATHS = ("triton", "torch")
VARIABLE = "REGARD_KERNELS"


@dataclass(frozen=True)
class Path:
    """Which code computes a scan, and why it is not the faster one."""

    name: str                # triton · torch
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})" if self.reason else self.name


def path(x: Tensor) -> str:
    """Which of the paths a kernel takes for a tensor like this one: "triton" or "torch"."""
    return "torch" if reason(x) else "triton"


def reason(x: Tensor) -> str:
    """Why this tensor does not go through Triton; empty where it does."""
    return reason_on(x.device)


def reason_on(device: torch.device) -> str:
    if device.type != "cuda":
        return f"the tensors are on {device.type}, and Triton is for CUDA"
    said = os.environ.get(VARIABLE, "triton")
    if said not in PATHS:
        raise SettingError(f"{VARIABLE} = {said!r}{did_you_mean(said, PATHS)}")
    if said == "torch":
        return f"{VARIABLE} = torch says so"
    return _why_no_triton()


def arithmetic(device: torch.device, bfloat16: bool) -> AbstractContextManager[None]:
    """What the precision of a model promises: in float32 a GPU must not take shorter numbers for products."""
    return nullcontext() if bfloat16 or device.type != "cuda" else exact_arithmetic()


@functools.cache
def _why_no_triton() -> str:
    """Asked once: whether Triton is there is found without importing it, which would take a second."""
    if importlib.util.find_spec("triton") is not None:
        return ""
    why = "Triton is not installed: pip install triton"
    warnings.warn(f"scans on this GPU run in plain torch, many times slower: {why}", RuntimeWarning, stacklevel=2)
    return why


__all__ = ["PATHS", "Path", "arithmetic", "path", "reason"]
