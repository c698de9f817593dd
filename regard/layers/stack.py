"""Stacks: layers one after another, and the residual block. A stack is itself a SequenceLayer.

B batch · T time · D width
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from regard.contract import Memory, SequenceLayer, State
from regard.kernels.add_norm import add_norm, normalise
from regard.kernels.dropout import Dropout
from regard.layers.norms import EPS
from regard.layers.norms import NORMS as NORMS
from regard.layers.norms import make_norm as make_norm


@dataclass
class StackState(State):
    """The state of each layer, in order; None for a layer that has nothing to remember."""

    layers: tuple[State | None, ...]


class Stack(SequenceLayer):
    """Layers are stackable: each reads what the one below wrote."""

    def __init__(self, layers: Sequence[SequenceLayer]):
        super().__init__()
        assert layers, "a stack has at least one layer"
        self.layers = nn.ModuleList(layers)
        self.d_in, self.d_out = layers[0].d_in, layers[-1].d_out

    def __iter__(self) -> Iterator[SequenceLayer]:
        return iter(self.layers)                                                       # type: ignore[arg-type]

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> StackState | None:
        states = tuple(layer.start(batch, capacity, memory) for layer in self)
        return None if all(state is None for state in states) else StackState(states)

    def forward(
        self, x: Tensor, state: StackState | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, StackState | None]:
        before = (None,) * len(self.layers) if state is None else state.layers
        after = []
        for layer, own in zip(self, before, strict=True):
            x, own = layer(x, own, lengths)
            after.append(own)
        return x, None if state is None else StackState(tuple(after))


def stacked_layers(model: nn.Module) -> list[SequenceLayer]:
    """Return the layers of all stacks of a model; a stack among them is none itself."""
    return [layer for stack in model.modules() if isinstance(stack, Stack) for layer in stack
            if not isinstance(layer, Stack)]


class Block(SequenceLayer):
    """x + mix(norm(x)), then x + feed(norm(x)): the mixer moves information between positions, the rest stays put.

    Normalising before each part (pre-norm) and adding to what was there (residual) lets gradients reach every
    layer, however deep. The first Transformers normalised after adding (post-norm): norm(x + mix(x)). In a parallel
    block (GPT-J, GPT-NeoX) both parts read x: x + mix(norm(x)) + feed(norm(x)). The state is the mixer's own.
    """

    def __init__(
        self, mixer: SequenceLayer, feed: nn.Module | None, *, norm: str = "layer", eps: float = EPS,
        bias: bool = False, placement: str = "pre", parallel: bool = False, dropout: float = 0.0,
    ):
        super().__init__()
        assert mixer.d_in == mixer.d_out, "a residual block adds its output to its input"
        self.after, self.parallel = placement == "post", parallel
        self.d_in = self.d_out = mixer.d_in
        self.mixer, self.feed = mixer, feed
        self.mixer_norm = make_norm(norm, self.d_in, eps=eps, bias=bias)
        self.feed_norm = make_norm(norm, self.d_in, eps=eps, bias=bias) if feed is not None else None
        self.dropout = Dropout(dropout)

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> State | None:
        return self.mixer.start(batch, capacity, memory)

    def forward(
        self, x: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State | None]:
        mixed, state = self.mixer(x if self.after else normalise(x, self.mixer_norm), state, lengths)
        if self.parallel and self.feed is not None and self.feed_norm is not None:
            return x + self.dropout(mixed) + self.dropout(self.feed(normalise(x, self.feed_norm))), state
        x, normed = add_norm(x, self.dropout(mixed), self.mixer_norm if self.after else self.feed_norm)
        if self.feed is None:
            return normed if self.after else x, state
        if self.after:
            return add_norm(normed, self.dropout(self.feed(normed)), self.feed_norm)[1], state
        return x + self.dropout(self.feed(normed)), state


PLACEMENTS = ("pre", "post")
