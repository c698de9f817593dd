"""Recurrent layers: the past in one vector, h[t] = f(W_h h[t-1] + W_c c[t]), one step after another.

What all recurrences share, and the simple one (Elman 1990); GRU and LSTM are in `gated.py`.
B batch · T time · D input width (d_c) · N hidden width (d_h); the two need not be equal · L layers · G gates
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.contract import Memory, Role, SequenceLayer, State
from regard.errors import SettingError
from regard.kernels.dropout import Dropout
from regard.kernels.fused_recurrence import run_recurrent

ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu}
INITIAL = ("zero", "learned")
Vectors = tuple[Tensor, ...]             # what is carried: h alone, or h and c; each (B, L, N)


@dataclass
class Hidden(State):
    """The hidden state of each layer: all that is known of the past."""

    h: Tensor                # (B, L, N)


class Weights(NamedTuple):
    """The weights of one layer, under the names of the equation; its gates stand one above another."""

    w_h: Tensor              # (G N, N)
    w_c: Tensor              # (G N, D), or (G N, N) above the first layer
    b_h: Tensor              # (G N,)
    b_c: Tensor              # (G N,)


class Recurrence(SequenceLayer):
    """One or more recurrent layers of a kind. A fused kernel runs them; `equation` says what they are.

    The layers share a kernel as it works on several of them at a time. What each gives is dropped out in training.
    `initial` says what is known before the first token: nothing, or vectors that are learned.
    """

    fused: type[Any]         # torch's kernel
    gates: int               # matrices that stand one above another
    remembers: type[State]   # the state, whose tensors are (B, L, N) each
    w_h: Tensor
    w_c: Tensor
    b_h: Tensor
    b_c: Tensor

    def __init__(
        self, d_in: int, d_hidden: int, *, layers: int = 1, initial: str = "zero", dropout: float = 0.0, **options: Any
    ):
        super().__init__()
        if initial not in INITIAL:
            raise SettingError(f"model.initial = {initial!r}: the initial state is one of {', '.join(INITIAL)}")
        self.d_in, self.d_out, self.layers = d_in, d_hidden, layers
        self.kernel = self.fused(d_in, d_hidden, layers, batch_first=True, **options)
        self.kernel.dropout = dropout if layers > 1 else 0.0
        self.dropout = Dropout(dropout)
        for layer in range(self.layers):
            self._name_weights(layer)
            self._initialise(self.weights(layer))
        for name in self._carried() if initial == "learned" else ():
            self.register_parameter(f"{name}_0", nn.Parameter(torch.zeros(self.layers * self.d_out)))
        self.learned = initial == "learned"

    def _name_weights(self, layer: int) -> None:
        """The kernel's own parameters, under the names of the equation (it keeps two biases, which it adds)."""
        for name, fused in (("w_h", "weight_hh"), ("w_c", "weight_ih"), ("b_h", "bias_hh"), ("b_c", "bias_ih")):
            self.register_parameter(_numbered(name, layer), getattr(self.kernel, f"{fused}_l{layer}"))

    def parameter_roles(self) -> dict[str, Role]:
        matrices = Role("matrix", self.gates)
        return {_numbered(name, layer): matrices for layer in range(self.layers) for name in ("w_h", "w_c")}

    def _initialise(self, weights: Weights) -> None:
        for gate in weights.w_h.chunk(self.gates):
            nn.init.orthogonal_(gate)                        # keeps the past alive at the start
        for gate in weights.w_c.chunk(self.gates):
            nn.init.xavier_uniform_(gate)
        for bias in (weights.b_h, weights.b_c):
            nn.init.zeros_(bias)

    def weights(self, layer: int) -> Weights:
        return Weights(*(getattr(self, _numbered(name, layer)) for name in Weights._fields))

    # ------------------------------------------------------------------------------------- the state

    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> State | None:
        return None if capacity is None else self.remembers(*self.first(batch))

    def first(self, batch: int) -> Vectors:
        """The vectors before the first token."""
        shape = (batch, self.layers, self.d_out)
        if not self.learned:
            return tuple(self.w_h.new_zeros(shape) for _ in self._carried())
        learned = (getattr(self, f"{name}_0") for name in self._carried())
        # A copy, of one row too: a state may be written in place, and the learned vectors may not.
        return tuple(each.view(1, *shape[1:]).repeat(batch, 1, 1) for each in learned)

    def _carried(self) -> tuple[str, ...]:
        return tuple(self.remembers.__dataclass_fields__)

    # ------------------------------------------------------------------------------------- reading

    def forward(
        self, x: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State | None]:
        x = x.to(self.w_h.dtype)                           # autocast may have narrowed it; the kernel narrows it again
        if state is None:                                  # a whole read: pads stand at the right, and nothing is kept
            y, _ = self._run(x, self._for_kernel(self.first(x.shape[0]), x) if self.learned else None)
            return self.dropout(y), None
        before = tuple(getattr(state, name) for name in self._carried())
        if x.shape[1] == 1:                                # a single step is the equation; it compiles, too
            y, after = self.by_definition(x, before)
        else:
            y, after = self._fused(x, before, lengths)
        if lengths is not None:                            # a row that read nothing keeps what it had
            read = (lengths > 0)[:, None, None]
            after = tuple(torch.where(read, new, old.to(new.dtype)) for new, old in zip(after, before, strict=True))
        return self.dropout(y), self.remembers(*(new.to(old.dtype) for new, old in zip(after, before, strict=True)))

    @staticmethod
    def _for_kernel(vectors: Vectors, x: Tensor) -> Any:
        """The carried vectors in the kernel's layout: layers first, and h alone not in a tuple."""
        carried = tuple(each.to(x.dtype).transpose(0, 1).contiguous() for each in vectors)
        return carried if len(carried) > 1 else carried[0]

    def _fused(self, x: Tensor, before: Vectors, lengths: Tensor | None = None) -> tuple[Tensor, Vectors]:
        """The kernel's outputs (B, T, N), and what it carries after each row's last real token."""
        hx = self._for_kernel(before, x)
        if lengths is None:
            y, after = self._run(x, hx)
        else:
            y, after = run_recurrent(self.kernel, x, hx, self.dropout, lengths)
        vectors = after if isinstance(after, tuple) else (after,)
        return y, tuple(each.transpose(0, 1).contiguous() for each in vectors)

    def _run(self, x: Tensor, hx: Any) -> tuple[Tensor, Any]:
        return run_recurrent(self.kernel, x, hx, self.dropout)

    def by_definition(self, x: Tensor, before: Vectors) -> tuple[Tensor, Vectors]:
        """The equation, a step and a layer at a time: outputs (B, T, N) from x (B, T, D), and what is carried on."""
        layers = [tuple(each[:, layer] for each in before) for layer in range(self.layers)]
        outputs = []
        for c in x.unbind(1):
            for layer in range(self.layers):
                c = c if layer == 0 else self.dropout(c)
                layers[layer] = self.equation(c, layers[layer], self.weights(layer))
                c = layers[layer][0]
            outputs.append(c)
        after = tuple(torch.stack(each, 1) for each in zip(*layers, strict=True))
        return torch.stack(outputs, 1), after

    @abstractmethod
    def equation(self, c: Tensor, before: Vectors, w: Weights) -> Vectors:
        """One step of one layer: what is carried on, h first, from the input c (B, D) and what was carried."""


class Elman(Recurrence):
    """The simple recurrent layer: h[t] = f(W_h h[t-1] + W_c c[t] + b), with f = tanh or ReLU."""

    fused, gates, remembers = nn.RNN, 1, Hidden

    def __init__(self, d_in: int, d_hidden: int, *, f: str = "tanh", **options: Any):
        if f not in ACTIVATIONS:
            raise SettingError(f"model.f = {f!r}: the recurrent nonlinearity is one of {', '.join(ACTIVATIONS)}")
        super().__init__(d_in, d_hidden, nonlinearity=f, **options)
        self.f = f

    def equation(self, c: Tensor, before: Vectors, w: Weights) -> Vectors:
        (h,) = before
        return (ACTIVATIONS[self.f](h @ w.w_h.T + c @ w.w_c.T + w.b_h + w.b_c),)


def _numbered(name: str, layer: int) -> str:
    """w_h of the first layer, w_h2 of the second."""
    return name if layer == 0 else f"{name}{layer + 1}"
