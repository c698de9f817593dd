"""One line for the user: which fast paths decoding uses on this device, and why the others are off."""

from __future__ import annotations

import torch

from regard import kernels
from regard.kernels.cpu import native, packing


def describe_fast_paths(device: torch.device) -> str:
    if device.type == "cuda":
        why = kernels.reason_on(device)
        return f"torch: {why}" if why else "triton, steps recorded where they can be"
    why_plain = packing.why_not(torch.get_num_threads())
    products = f"weights as they are: {why_plain}" if why_plain else f"weights packed by {packing.library().name}"
    why = native.why_not()
    return f"{products}; " + (f"attention by torch: {why}" if why else "attention in C")
