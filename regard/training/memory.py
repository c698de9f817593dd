"""Memory that runs out: the same error in two forms, one of a GPU and one of a CPU; and less of it for activations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
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
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)


def no_memory(error: BaseException) -> TrainingStopped:
    """Return the error of a model of which not even a single row fits."""
    return TrainingStopped("out of memory with a single row at once: use a smaller --width, --layers or --context "
                           f"({str(error).splitlines()[0]})")


@contextmanager
def stopping_in_one_line() -> Iterator[None]:
    """Memory that runs out outside of a pass, which would halve its rows, ends the training in one line."""
    try:
        yield
    except (torch.OutOfMemoryError, RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        raise TrainingStopped(
            "out of memory; nothing that was saved is lost: go on with --resume when more is free, or begin anew with "
            f"a smaller --width, --layers, --context or --batch ({str(error).splitlines()[0][:200]})") from error


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
