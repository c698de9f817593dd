"""Products by oneDNN, which comes with torch and which torch leaves alone: on CPUs of AMD it is the quicker one.

torch multiplies by MKL, which is made by Intel: on two cores of an EPYC it gets to half of what they can do where there
are few rows, or wide outputs, and to three quarters elsewhere; oneDNN to nine tenths. On a Xeon it is the other way
round.   N rows · D width in · E width out
"""

from __future__ import annotations

import hashlib
import platform
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

ACTIVATIONS = {"": ("none", ""), "relu": ("relu", ""), "gelu": ("gelu", "none"), "gelu-tanh": ("gelu", "tanh")}
WIDE = 2048                    # of an output: from there on MKL falls behind, also with many rows


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str = "") -> Tensor:
    """x (..., D) times weight (E, D), packed or not, with the bias (E,), through the activation: (..., E). Without a
    gradient."""
    name, kind = ACTIVATIONS[activation]
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, name, [], kind)


def pack(weight: Tensor) -> Tensor:
    """The weight in the order in which `linear` reads it; it is the same for all numbers of rows but one."""
    return torch.ops.mkldnn._reorder_linear_weight(weight, 128)


def better(x: Tensor, weight: Tensor) -> bool:
    """True if `linear` is faster than torch for a weight that is not packed; asked without a gradient."""
    return (len(weight) >= WIDE and x.device.type == "cpu" and x.dtype == weight.dtype == torch.float32
            and x.numel() > 0 and not torch.is_autocast_enabled("cpu") and preferred())


def widened(x: Tensor) -> AbstractContextManager[object]:
    """A context without autocast where a recurrent kernel would be asked for bfloat16 on a CPU that has none: torch's
    LSTM does not run there."""
    refused = x.device.type == "cpu" and torch.is_autocast_enabled("cpu") and not has_bfloat16()
    return torch.autocast("cpu", enabled=False) if refused else nullcontext()


@cache
def has_bfloat16() -> bool:
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()) if there() else True


@cache
def preferred() -> bool:
    return there() and "AuthenticAMD" in cpu()


def there() -> bool:
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def cpu() -> str:
    """The CPU's description of itself."""
    told = Path("/proc/cpuinfo")
    return told.read_text("utf-8") if told.is_file() else platform.processor()


def cpu_name(told: str) -> str:
    """Name a CPU by its description: the model, and a hash of its instructions; its clock changes from call to call."""
    rows = [[part.strip() for part in line.split(":", 1)] for line in told.splitlines() if ":" in line]
    first = {row[0]: row[1] for row in reversed(rows)}
    if not (own := first.get("flags") or first.get("Features")):
        return told
    name = first.get("model name") or f"{first.get('CPU implementer', '')} {first.get('CPU part', '')}".strip()
    return f"{name} ({hashlib.sha256(own.encode()).hexdigest()[:8]})"
