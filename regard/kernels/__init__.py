"""Kernels: one operation a file, with the meaning of its definition; the operation decides which code runs.

    linear · feed_forward · norm · add_norm · dropout · rotary                     vectors, position by position
    attention · in_blocks · attend_next · attend_source                            softmax(q k^T) v
    fused_recurrence · scan · matrix_scan · selective_scan                         loops over time
    convolve                                                                       a position and the few before it
    state_space_dual · grouped_dual                                                the same, by products of matrices
    log_softmax · cross_entropy · sample                                           the vocabulary
    precision · host · exported                                  types, numbers known to Python, lengths that are not

Each file has its readable definition (`by_definition`, or a loop), which tests hold equal to every back-end: those of
`cuda/` (Triton, cuBLAS) and of `cpu/` (C, oneDNN, packed weights). Nobody has to guess whether Triton runs:

    kernels.path(x)        # "triton" or "torch"
    kernels.reason(x)      # why not Triton, in one line; empty where it does

`REGARD_KERNELS=torch` in the environment keeps Triton and C out, for comparing.
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

from regard.errors import SettingError, did_you_mean
from regard.kernels.precision import exact_arithmetic

PATHS = ("triton", "torch")
VARIABLE = "REGARD_KERNELS"


@dataclass(frozen=True)
class Backend:
    """The code that computes an operation, and why it is not the faster one."""

    name: str                # triton · torch
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})" if self.reason else self.name


def path(x: Tensor) -> str:
    """The code that a kernel runs for a tensor like this one: "triton" or "torch"."""
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
    """A context in which products have the model's precision: in float32 a GPU must not use TF32."""
    return nullcontext() if bfloat16 or device.type != "cuda" else exact_arithmetic()


@functools.cache
def _why_no_triton() -> str:
    """Asked once: whether Triton is there is found without importing it, which would take a second."""
    if importlib.util.find_spec("triton") is not None:
        return ""
    why = "Triton is not installed: pip install triton"
    warnings.warn(f"scans on this GPU run in plain torch, many times slower: {why}", RuntimeWarning, stacklevel=2)
    return why


__all__ = ["PATHS", "Backend", "arithmetic", "path", "reason"]
