"""Exporting: a length is any length, and a loop over time stays a loop.

torch.export would unroll a loop of Python and fix its length. As torch's `scan` it is one operation, which other
programs have, too (ONNX calls it Scan).   B batch · T time
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor

Vectors = tuple[Tensor, ...]


_reading = False


@contextmanager
def export_model() -> Iterator[None]:
    """Let an exporter read the model: within, `exporting()` is true."""
    global _reading
    before, _reading = _reading, True
    try:
        yield
    finally:
        _reading = before


def exporting() -> bool:
    """Return whether an exporter reads. torch.compiler.is_exporting will not do: torch 2.11 compiles it to True."""
    return _reading


def at_most(size: int, most: int) -> bool:
    """size <= most; False while exporting, when a size stands for every size."""
    return not exporting() and size <= most


def pieces(x: Tensor, size: int, axis: int) -> Sequence[Tensor]:
    """x cut into pieces of `size`, to hold less at once; while exporting, in one."""
    return (x,) if exporting() else x.split(size, axis)


def loop(
    step: Callable[[Vectors, Vectors], tuple[Vectors, Tensor]], carried: Vectors, inputs: Vectors
) -> tuple[Vectors, Tensor]:
    """Return the vectors carried after the last step, and the output of each step, (B, T, ...).

    `step` gives what is carried on and an output from what was carried and the inputs (B, ...) of a position.
    """
    from torch._higher_order_ops.scan import scan  # loads the compiler, which exporting did already

    def own(now: Vectors, x: Vectors) -> tuple[Vectors, Tensor]:
        after, y = step(now, x)
        return after, y.clone()                                       # two of its results may not be one tensor,

    first = tuple(each.clone() for each in carried)                   # nor two that are carried
    after, outputs = scan(own, first, tuple(each.transpose(0, 1) for each in inputs))
    return after, outputs.transpose(0, 1)
