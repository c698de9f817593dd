"""Work recorded as a CUDA graph, so that what is launched together later was recorded undisturbed.

While a graph is recorded nothing may be freed on the GPU, but Python's collector frees whatever it comes across: it has
to wait. And torch's generator, told that its numbers are drawn for a graph, is left believing so when a recording
fails: it is put back to where it was.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def recording(graph: Any, stream: Any = None, pool: Any = None) -> Iterator[None]:
    """What is asked of the GPU in this block is recorded and not done. Raises RuntimeError where that cannot be."""
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    before = generator.get_state()
    with nothing_collected():
        try:
            with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
                yield
        except BaseException:
            fresh = torch.Generator(generator.device)
            fresh.set_state(before)
            generator.graphsafe_set_state(fresh)
            raise


@contextmanager
def nothing_collected() -> Iterator[None]:
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
