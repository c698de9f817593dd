"""The contracts: what a layer, an encoder, a language model and a learner promise to everyone else.

The one idea: a sequence layer reads left to right and carries a state. Read a sequence whole, or cut
it anywhere and carry the state across the cut: the outputs are the same. Training is one whole read,
generation is cuts of length one, prefill is anything between.

The rules, which `regard.laws` tests on everything that is registered:

* Pads stand only at the right. `lengths[b]` says how many of row b's tokens are real; none given means
  all. What comes out at a pad is finite and means nothing, even where a real output might be -inf. A row of
  length 0 leaves its state as it was, and what a step says about it means nothing.
* The state returned is the one after each row's last real token. A state passed in is spent: the layer
  may write into it, so clone it to keep it.
* `start(batch, capacity)` makes room for `capacity` tokens, once, so that later steps have static shapes.
  `capacity=None` says the sequence will be read whole, in one call: nothing has to be kept, and a layer
  may answer None. No state in, no state out.
* A source (the sentence to translate, the image to caption) enters through `start` and only there, in
  training too. What belongs to the source is stored once per source and is never reordered: of B rows and S
  sources, row r reads source r // (B / S), so that the beams of one source stand together.
* `capacity` counts the real tokens a row will read; pads may stand beyond it, and a source needs no room in it.
  A model's `context` counts everything one state may hold, a source read as a prefix included.
* Positions are absolute, per row, and live in the state. A fully masked row of attention gives zeros.

The shape alphabet:  B batch · T time · D width · H heads · K head width · V vocabulary · S sources · L source length
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor, nn

from regard.errors import RunError

TensorMap = Callable[[Tensor], Tensor]

# ---------------------------------------------------------------------------------------------- state


def of_source(**options: Any) -> Any:
    """A state field that belongs to the source: one row a source, left alone when beams are reordered."""
    return field(metadata={"source": True}, **options)


@dataclass
class State:
    """The memory between two reads: a dataclass whose tensors lead with the batch.

    Fields may be tensors, other states, tuples, lists or dicts of these, None, or plain values. Plain values
    are kept as they are; anything that differs between rows must be a tensor.
    """

    def map(self, f: TensorMap, source: TensorMap | None = None) -> Self:
        """Apply `f` to every tensor; `source`, if given, to those of the source. Returns a new state."""
        changed = {}
        for each in dataclasses.fields(self):
            change = source if each.metadata.get("source") else f
            value = getattr(self, each.name)
            changed[each.name] = value if change is None else _map_value(value, change, source)
        return dataclasses.replace(self, **changed)

    def clone(self) -> Self:
        return self.map(torch.clone, torch.clone)

    def detach(self) -> Self:
        return self.map(torch.detach, torch.detach)

    def to(self, device: torch.device | str) -> Self:
        return self.map(lambda t: t.to(device), lambda t: t.to(device))

    def select(self, rows: Tensor, sources: Tensor | None = None) -> Self:
        """The state of these rows, in this order (rows may repeat): how beams are reordered and widened.

        With `sources`, only those sources are kept: how finished sentences leave a batch.
        """
        return self.map(
            lambda t: t.index_select(0, rows), None if sources is None else lambda t: t.index_select(0, sources))

    def reorder(self, rows: Tensor, sources: Tensor | None = None) -> Self:
        """As `select`, of a state that is spent by it: some kinds move less, in place."""
        changed = {}
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if not each.metadata.get("source"):
                value = _map_value(value, lambda t: t.index_select(0, rows), None, lambda s: s.reorder(rows, sources))
            elif sources is not None:
                value = _map_value(value, lambda t: t.index_select(0, sources), None)
            changed[each.name] = value
        return dataclasses.replace(self, **changed)

    def put(self, rows: Tensor, other: Self, sources: Tensor | None = None) -> Self:
        """This state with `rows` replaced by those of `other`, which was started with the same capacity.

        The sources stay as they are, unless `sources` says which of them to replace too.
        """
        values = iter(other.tensors().values())

        def put_rows(t: Tensor) -> Tensor:
            return t.index_copy(0, rows, next(values).to(t.dtype))

        def put_sources(t: Tensor) -> Tensor:
            new = next(values)
            return t if sources is None else t.index_copy(0, sources, new.to(t.dtype))

        return self.map(put_rows, put_sources)

    def tensors(self, prefix: str = "") -> dict[str, Tensor]:
        """Every tensor under a dotted name, in the order in which `map` visits them."""
        tensors: dict[str, Tensor] = {}
        for each in dataclasses.fields(self):
            _collect(getattr(self, each.name), f"{prefix}{each.name}", tensors)
        return tensors

    def nbytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.tensors().values())


def _map_value(
    value: Any, f: TensorMap, source: TensorMap | None, inner: Callable[[State], State] | None = None
) -> Any:
    """`f` on every tensor in a value; `inner`, if given, on every state in it, in place of its `map`."""
    if isinstance(value, Tensor):
        return f(value)
    if isinstance(value, State):
        return value.map(f, source) if inner is None else inner(value)
    if isinstance(value, (tuple, list)):
        items = [_map_value(item, f, source, inner) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {name: _map_value(item, f, source, inner) for name, item in value.items()}
    return value


def _collect(value: Any, name: str, tensors: dict[str, Tensor]) -> None:
    if isinstance(value, Tensor):
        tensors[name] = value
    elif isinstance(value, State):
        tensors.update(value.tensors(f"{name}."))
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            _collect(item, f"{name}.{index}", tensors)
    elif isinstance(value, dict):
        for key, item in value.items():
            _collect(item, f"{name}.{key}", tensors)


@dataclass
class Source(State):
    """A text or picture to translate, summarise or caption: token ids (S, L) or pixels (S, C, height, width)."""

    items: Tensor
    lengths: Tensor | None = None


@dataclass
class Memory(State):
    """An encoded source: a vector for each of its positions, how many of them are real, and a summary."""

    vectors: Tensor                    # (S, L, D)
    lengths: Tensor                    # (S,)
    summary: Tensor | None = None      # (S, D'): the final state, for decoders without attention


# ------------------------------------------------------------------------------------------- contracts


@dataclass(frozen=True)
class Role:
    """The kind of a parameter, for optimisers and initialisers: see layers/roles.py."""

    kind: str                # "matrix" · "weight" · "embedding" · "gain"
    parts: int | tuple[int, ...] = 1       # equally large matrices in one tensor: q, k, v are three; or rows of each
    residual: bool = False   # what it gives is added to a residual stream: it starts at zero


class SequenceLayer(nn.Module, ABC):
    """Maps a sequence of vectors to a sequence of vectors, left to right, carrying a state.

    A subclass sets `d_in` and `d_out` and writes `start` and `forward`. Everything else follows; what a caller cannot
    see from outside, a layer declares.
    """

    d_in: int
    d_out: int
    reads: str = ""                    # what its attention reads: "self" · "source" · "encoder"; "": it has none
    maps: int = 0                      # maps (T, T) that a watched read of T positions records
    most_positions: int | None = None  # positions that it has parameters for; None: no limit
    adds_positions: bool = False       # it adds a vector for each position, and does nothing else

    def parameter_roles(self) -> dict[str, Role]:
        """The roles of its parameters, by name. Undeclared ones of two dimensions are matrices, others by shape."""
        return {}

    @property
    def backend(self) -> object:
        """The code that runs its recurrence, and why (a `kernels.Backend`); None where nothing is chosen."""
        return None

    @abstractmethod
    def start(self, batch: int, capacity: int | None = None, memory: Memory | None = None) -> State | None:
        """The state before the first token, with room for `capacity` tokens (None: one whole read)."""

    @abstractmethod
    def forward(self, x: Tensor, state: Any = None, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        """(B, T, d_in) to (B, T, d_out), and the state after each row's last real token."""

    __call__: Callable[..., tuple[Tensor, Any]]      # nn.Module leaves this untyped


class Encoder(nn.Module, ABC):
    """Reads a whole source at once, in any direction it likes, and gives a Memory."""

    d_out: int

    @abstractmethod
    def forward(self, source: Source) -> Memory: ...


class LanguageModel(ABC):
    """Gives the probability of the next token. Generation, scoring, comparing and serving know only this.

    `tokens` are read, `targets` are scored: targets[b, t] follows tokens[b, t]. For a sentence framed as
    <bos> w1 .. wn <eos>, the tokens are <bos> w1 .. wn and the targets w1 .. wn <eos>.
    """

    vocab: int
    context: int | None = None       # the most tokens one state may read; None: no limit
    needs_source: bool = False
    one_text: bool = False           # source and target are read as one text: both count for the context
    in_one_pass: bool = False        # `encode` gives the vectors of all positions in one pass, `head` what follows each
    reach: int | None = None         # a prediction depends on the last so many tokens; None: on all of them
    asks_host: bool = False          # a step computes on the host, too: it cannot be recorded

    @property
    @abstractmethod
    def device(self) -> torch.device: ...

    @abstractmethod
    def start(self, batch: int, capacity: int | None = None, source: Source | None = None) -> State | None:
        """The state before the first token. A model that needs a source refuses to start without one."""

    @abstractmethod
    def score(
        self, tokens: Tensor, targets: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State | None]:
        """(B, T) log-probabilities of the targets, never holding (B, T, V) where it can be helped."""

    @abstractmethod
    def step(self, tokens: Tensor, state: State, lengths: Tensor | None = None) -> tuple[Tensor, State]:
        """Read tokens (B, T), any T >= 1, and give (B, V) log-probabilities of what follows the last real one."""

    def saved_tensors(self) -> dict[str, Tensor]:
        """Everything that was learned, under names. A module's tied tensor stands under the first of its names."""
        assert isinstance(self, nn.Module), f"{type(self).__name__} must say what there is to save"
        return module_tensors(self)


class Learner(nn.Module, ABC):
    """A model that learns by gradients: what the training loop asks of a model, whatever its task."""

    vocab: int
    context: int | None = None       # the most tokens read at once; None: no limit
    head: Any                        # from a position's vector to log-probabilities: models/head.py

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @abstractmethod
    def score(
        self, tokens: Tensor, targets: Tensor, state: Any = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """(B, T) log-probabilities of the targets, and the state after the tokens, for those that carry one."""

    def learn(
        self, tokens: Tensor, targets: Tensor, state: Any = None, lengths: Tensor | None = None,
        source: Tensor | None = None, source_lengths: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """As `score`, in training. With a source, one a row, the state starts from it and None is returned for it."""
        if source is None:
            return self.score(tokens, targets, state, lengths)
        start = self.start(len(tokens), None, Source(source, source_lengths))
        return self.score(tokens, targets, start, lengths)[0], None

    def loss(
        self, tokens: Tensor, targets: Tensor, shares: Tensor, state: Any = None, lengths: Tensor | None = None,
        source: Tensor | None = None, source_lengths: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """- sum(shares * learn(...)), one number, and the state: what the backward pass starts from."""
        scores, after = self.learn(tokens, targets, state, lengths, source, source_lengths)
        return -(scores * shares).sum(), after

    def start(self, batch: int, capacity: int | None = None, source: Source | None = None) -> State | None:
        """The state before the first token; None for what is always read whole."""
        return None

    def saved_tensors(self) -> dict[str, Tensor]:
        """Everything that was learned, under names; a tied tensor stands under the first of its names."""
        return module_tensors(self)

    def load_encoder(self, tensors: dict[str, Tensor]) -> None:
        """Take up the encoder of a model of another task, for those that begin with one."""
        raise AssertionError(f"a {type(self).__name__} begins with no model of another task")

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Take up what `saved_tensors` gave. Every tensor must be there, and fit."""
        own = self.saved_tensors()
        for name in [*own, *tensors]:
            if name not in own or name not in tensors or own[name].shape != tensors[name].shape:
                raise RunError(f"the weights do not fit the model: {name} is missing, superfluous or of another shape")
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(tensors[name])


def module_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Every tensor of a module's state, a tied one once, under the first of its names."""
    tensors: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        tensors.setdefault(id(tensor), (name, tensor.detach()))
    return dict(tensors.values())


def last_real(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Row b of (B, T, ...) at its last real position: (B, ...)."""
    if lengths is None:
        return x[:, -1]
    last = (lengths - 1).clamp(min=0)
    return x[torch.arange(x.shape[0], device=x.device), last]
