"""Passes: one piece of a batch forward and backward. As it is, compiled, or captured.

A small model leaves a GPU idle while Python launches its kernels one by one, compiled or not. A captured pass has them
recorded once for each shape, as a CUDA graph, and launched together from then on: the same kernels on the same numbers,
with nothing in between. Shapes must be few for that, so pieces are padded to a few widths.
B batch · T time · L source length
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard import kernels
from regard.contract import State
from regard.data.batching.batches import Batch
from regard.kernels.cpu import compiled_code
from regard.kernels.cuda import products
from regard.kernels.recording import recording
from regard.layers.feedforward import FeedForward
from regard.models.learner import Learner

CAPTURED_AFTER = 2             # passes over a shape before it is captured: rare ones are not worth it
CHEAP = 0.9                    # of what would be kept: any share below one makes the compiler drop what is cheap
SOME = 0.25                    # of the feed-forward layers: what f gives, worked out again
MOST_GRAPHS = 96               # each holds its gradients, and some memory of its own
MOST_HELD = 2**32              # bytes of gradients of all graphs together; one there may always be
MOST_WEIGHTS = 200_000_000     # beyond, the slowest of hosts keeps a GPU busy

Inputs = tuple[Tensor | None, ...]


def inputs_of(piece: Batch) -> Inputs:
    """Tokens, targets, lengths, and the source with its own, where there is one."""
    return piece.tokens, piece.targets, piece.lengths, *piece.source_items()


def with_inputs(piece: Batch, inputs: Inputs) -> Batch:
    """A piece of the same kind whose targets and lengths are these."""
    tokens, targets, lengths, *_ = inputs
    assert tokens is not None and targets is not None
    return replace(piece, tokens=tokens, targets=targets, lengths=lengths)


class Pass:
    """Adds the gradients of a piece's loss, which is a share of its batch's."""

    def __init__(self, model: Learner, *, bfloat16: bool, compiled: bool = False, recompute: str = "no"):
        self.model, self.bfloat16, self.recompute = model, bfloat16, recompute
        products.prepare(model.device, bfloat16)
        layers = [module for module in model.modules() if isinstance(module, FeedForward)]
        share = {"no": 0.0, "some": SOME}.get(recompute, 1.0)
        for number, layer in enumerate(layers):                # spread evenly
            layer.recompute = int((number + 1) * share) > int(number * share)
        model.head.sparing = recompute != "no"
        self.cast_once = True                                 # each weight, for all its uses in a pass
        self.loss: Callable[..., Any] = model.loss
        if compiled:
            compiled_code.keep()
            # On a CPU the calls between kernels are compiled, too: Python takes as long for them as some kernels do.
            options: dict[str, Any] | None = {"cpp_wrapper": True} if model.device.type == "cpu" else None
            self.loss = torch.compile(model.loss, dynamic=False, options=options)

    def __call__(self, piece: Batch, state: State | None, share: float) -> tuple[Tensor, State | None]:
        return self.run(inputs_of(piece), state, share, piece.mask)

    def run(
        self, inputs: Inputs, state: State | None, share: Tensor | float, mask: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, State | None]:
        with kernels.arithmetic(self.model.device, self.bfloat16):
            return self.in_precision(inputs, state, share, mask)

    def in_precision(
        self, inputs: Inputs, state: State | None, share: Tensor | float, mask: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, State | None]:
        tokens, targets, lengths, source, source_lengths = inputs
        with torch.autocast(self.model.device.type, torch.bfloat16, enabled=self.bfloat16,
                            cache_enabled=self.cast_once):
            assert targets is not None
            shares = mask(torch.ones_like(targets, dtype=torch.float32)) * share
            with kept_for_the_way_back(self.recompute):
                loss, after = self.loss(tokens, targets, shares, state, lengths, source, source_lengths)
        loss.backward()
        return loss.detach(), after

    def forget(self) -> None:
        """Give up what is kept for later passes, as memory has run out."""


class CapturedPass(Pass):
    """The same, recorded for each shape that comes often; a piece with a carried state goes as it is.

    All of it happens on one stream of its own: what autograd remembers of an earlier pass must not tie a recording to
    another stream. A pass that cannot be recorded (it waits for the GPU somewhere) is never recorded, and that is said.
    """

    def __init__(
        self, model: Learner, *, bfloat16: bool, say: Callable[[str], None], compiled: bool = False,
        recompute: str = "no",
    ):
        super().__init__(model, bfloat16=bfloat16, compiled=compiled, recompute=recompute)
        self.say = say
        # A weight cast once would be cast once for all replays. And not only while recording: what is compiled would be
        # compiled anew for that.
        self.cast_once = False
        held = sum(4 * weight.numel() for weight in model.parameters())
        self.most = min(MOST_GRAPHS, max(1, MOST_HELD // max(1, held)))
        self.seen: Counter[Hashable] = Counter()
        self.graphs: dict[Hashable, Graph] = {}
        self.refused = False
        self.pool: Any = None
        self.stream = torch.cuda.Stream()

    def __call__(self, piece: Batch, state: State | None, share: float) -> tuple[Tensor, State | None]:
        inputs = inputs_of(piece)
        shape = tuple(None if each is None else each.shape for each in inputs)
        self.seen[shape] += 1
        # A graph writes gradients of its own, and so it is for passes with none to add to.
        fits = state is None and all(weight.grad is None for weight in self.model.parameters())
        often = self.seen[shape] > CAPTURED_AFTER and len(self.graphs) < self.most and not self.refused
        if fits and often and shape not in self.graphs and self._has_room():
            self._record(shape, piece, inputs)
        here = torch.cuda.current_stream()
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            recorded = self.graphs.get(shape) if fits else None
            found = super().__call__(piece, state, share) if recorded is None else (recorded(inputs, share), None)
        here.wait_stream(self.stream)
        return found

    def _has_room(self) -> bool:
        """A recording keeps its memory for itself, also while the model is measured: half of the GPU must be free."""
        if half_is_free(self.model.device):
            return True
        self.refused = True
        self.say("passes are not recorded as CUDA graphs: these would keep more than half of the memory for themselves")
        return False

    def forget(self) -> None:
        self.graphs.clear()

    def _record(self, shape: Hashable, piece: Batch, inputs: Inputs) -> None:
        try:
            self.graphs[shape] = Graph(self, piece, inputs)
        except RuntimeError as error:                         # of CUDA; a real mistake comes back in the pass as it is
            self.refused = True
            self.graphs.clear()                               # their random numbers went with the generator's
            self.stream = torch.cuda.Stream()                 # the other one was recording
            why = str(error).splitlines()[0]
            self.say(f"the model goes on as it is: it cannot be recorded as a CUDA graph ({why})")
        finally:
            for weight in self.model.parameters():
                weight.grad = None


class Graph:
    """A pass over one shape, recorded: new inputs are copied into its own, and its gradients become the model's."""

    def __init__(self, owner: CapturedPass, piece: Batch, inputs: Inputs):
        self.weights = list(owner.model.parameters())
        self.inputs = tuple(None if each is None else each.clone() for each in inputs)
        self.share = torch.zeros((), device=owner.model.device)
        own = with_inputs(piece, self.inputs)                 # masks by its own lengths
        self.graph = torch.cuda.CUDAGraph()
        with recording(self.graph, owner.stream, owner.pool):
            self.loss, _ = owner.run(self.inputs, None, self.share, own.mask)
        owner.pool = self.graph.pool()
        self.gradients = [weight.grad for weight in self.weights]

    def __call__(self, inputs: Inputs, share: float) -> Tensor:
        for own, new in zip(self.inputs, inputs, strict=True):
            if own is not None and new is not None:
                own.copy_(new, non_blocking=True)
        self.share.fill_(share)
        self.graph.replay()
        for weight, gradient in zip(self.weights, self.gradients, strict=True):
            weight.grad = gradient
        return self.loss.clone()


def kept_for_the_way_back(recompute: str) -> AbstractContextManager[Any]:
    """With `cheap`, what is compiled inside this block works out again all that the compiler thinks cheap."""
    if recompute != "cheap":
        return nullcontext()
    import torch._functorch.config as settings

    return settings.patch(activation_memory_budget=CHEAP)                             # type: ignore[no-any-return]


def half_is_free(device: torch.device) -> bool:
    """Of a GPU's memory, at the worst moment so far."""
    total = torch.cuda.get_device_properties(device).total_memory
    return bool(2 * torch.cuda.max_memory_allocated(device) <= total)


def make_pass(
    model: Learner, wish: str, bfloat16: bool, say: Callable[[str], None], recompute: str = "no"
) -> Pass:
    """What training.compile asks for: `yes` compiles, `capture` records, `graphs` both, and `auto`, on a GPU, the first
    for a very large model and both for others."""
    gpu = model.device.type == "cuda"
    compiled = wish in ("yes", "graphs") or (wish == "auto" and gpu)
    weights = sum(weight.numel() for weight in model.parameters())
    if gpu and (wish in ("capture", "graphs") or (wish == "auto" and weights <= MOST_WEIGHTS)):
        return CapturedPass(model, bfloat16=bfloat16, say=say, compiled=compiled, recompute=recompute)
    return Pass(model, bfloat16=bfloat16, compiled=compiled, recompute=recompute)
