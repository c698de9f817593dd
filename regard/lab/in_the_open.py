"""The work that fast kernels hide: attention with its weights written out, and operations followed one after another.

    layer.score = OpenDot()                # the same attention, with the (T, S) weights in memory
    depth_of(lambda: model(tokens))        # how many operations have to wait for one another
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from regard.layers.scores import Score, plain


class OpenDot(Score):
    """q · k / sqrt K, as every layer has it, but as a score of no known form: no kernel is fused around it."""

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return plain(q, k)


class Waiting(TorchDispatchMode):
    """Follows every operation: a result is one deeper than the deepest of what it was made from.

    Numbers are known by their storage, so that a view is as deep as what it looks at, and writing into a part of a
    tensor makes the whole as deep as what was written. What only receives a result (`out=`) is not waited for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.depth: dict[int, int] = {}
        self.alive: list[Tensor] = []              # a storage that is given back would be taken for another

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        before = max([self._of(each) for each in tensors_in((args, {k: v for k, v in kwargs.items() if k != "out"}))],
                     default=0)
        result = op(*args, **kwargs)
        for each in tensors_in(result):
            place = each.untyped_storage().data_ptr()
            self.alive.append(each)
            self.depth[place] = max(self.depth.get(place, 0), before if op.is_view else before + 1)
        return result

    def _of(self, tensor: Tensor) -> int:
        return self.depth.get(tensor.untyped_storage().data_ptr(), 0)


def tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for each in value for tensor in tensors_in(each)] if isinstance(value, (tuple, list)) else []


@torch.no_grad()
def depth_of(work: Callable[[], Any]) -> int:
    """The number of operations of `work` in the longest chain, each waiting for the one before; on a CPU.

    Torch's own recurrent kernels are kept out, so that their steps are seen. What goes on inside one operation, such as
    the sum of a product, is not counted.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")            # of a flag for other machines, which is set along with this one
        with torch.backends.mkldnn.flags(enabled=False), Waiting() as followed:
            work()
    return max(followed.depth.values(), default=0)
