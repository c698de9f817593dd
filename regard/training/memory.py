"""Memory that runs out: the same error in two forms, one of a GPU and one of a CPU; and less of it for activations."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from regard.errors import TrainingStopped
from regard.layers.stack import stacked_layers

CHEAP = 0.9                    # of the memory for activations: any share below one recomputes what is cheap


def out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def no_memory(error: BaseException) -> TrainingStopped:
    """Return the error of a model of which not even a single row fits."""
    return TrainingStopped("out of memory with a single row at once: use a smaller --width, --layers or --context "
                           f"({str(error).splitlines()[0]})")


def recompute_activations(recompute: str) -> AbstractContextManager[Any]:
    """With `cheap`, code compiled inside this block recomputes in the backward pass all that the compiler thinks
    cheap."""
    if recompute != "cheap":
        return nullcontext()
    import torch._functorch.config as settings

    return settings.patch(activation_memory_budget=CHEAP)                             # type: ignore[no-any-return]


def recompute_layers(model: nn.Module) -> None:
    """Let each layer of the model's stacks keep only what it reads, and go forward again in the backward pass.

    A compiler does not look into it: it compiles what lies between.
    """
    for layer in stacked_layers(model):
        layer.forward = torch.compiler.disable(  # type: ignore[method-assign]
            partial(checkpoint, layer.forward, use_reentrant=False), recursive=False)
