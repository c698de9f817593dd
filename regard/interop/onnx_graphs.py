"""The graphs of a model in ONNX, by torch's exporter.

    start     a text of one token, a source or a picture      ->  the state before the first token
    step      a token of each row, the state                  ->  log-probabilities of what follows, the state
    whole     whole texts (and their sources)                 ->  log-probabilities of what follows each token

A state has a fixed room, so a step has fixed shapes; batch, length and the length of a source are free.
B batch · T time · L source length · V vocabulary
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.contract import Source
from regard.interop.onnx_state import Axes, StateForm, find_form
from regard.kernels.exported import export_model

BATCH, TIME, LENGTH = 2, 7, 5              # of the examples that the exporter reads; each is free, and they differ
UNBOUNDED = 2**15                          # room for a state that takes as much whatever is read


@dataclass(frozen=True)
class ExportGraph:
    """A function of tensors to export: the module, an example, and the names of what goes in and out."""

    name: str
    module: nn.Module
    example: tuple[Tensor, ...]
    inputs: tuple[str, ...]
    axes: tuple[Axes, ...]
    outputs: tuple[str, ...]
    output_axes: tuple[Axes, ...]


class Start(nn.Module):
    """The state before the first token, from tokens (B, 1), of which only the number counts, or from a source."""

    def __init__(self, model: Any, form: StateForm, capacity: int):
        super().__init__()
        self.model, self.form, self.capacity = model, form, capacity

    def forward(self, given: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, ...]:
        source = Source(given, lengths) if self.model.needs_source else None
        return self.form.part(self.model.start(given.shape[0], self.capacity, source))


class Step(nn.Module):
    """Log-probabilities (B, V) of what follows tokens (B, 1), and the state after them."""

    def __init__(self, model: Any, form: StateForm):
        super().__init__()
        self.model, self.form = model, form

    def forward(self, tokens: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        log_probs, after = self.model.step(tokens, self.form.join([each.clone() for each in state]))
        return log_probs, *self.form.part(after)


class Whole(nn.Module):
    """Log-probabilities (B, T, V) of what follows each of tokens (B, T), read at once."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, given: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        state = None if given is None else self.model.start(tokens.shape[0], None, Source(given, lengths))
        return self.model.head(self.model.encode(tokens, state)[0])


class WholeMasked(nn.Module):
    """Log-probabilities (B, T, V) of what stands at each of tokens (B, T), the first `lengths` of each row real."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        return self.model.head(self.model.encode(tokens, lengths).vectors)


# ------------------------------------------------------------------------------------------------ a model's graphs


def stepping_graphs(model: Any, capacity: int | None) -> list[ExportGraph]:
    """Return start and step of a model that writes from left to right."""
    room = UNBOUNDED if capacity is None else capacity
    source, longer = example_source(model, LENGTH), example_source(model, LENGTH + 1)
    form = find_form(model, room, source, None if reads_pictures(model) else longer)
    names, example, axes = source_ports(model, source)
    if source is None:
        names, example, axes = ("tokens",), (torch.full((BATCH, 1), 4),), ({0: "batch"},)
    tokens = torch.full((BATCH, 1), 4)
    with torch.no_grad():                  # what a layer computes once is computed here: the exporter's are no numbers
        model.step(tokens, form.like.clone())
    state = tuple(form.like.clone().tensors().values())
    return [
        ExportGraph("start", Start(model, form, room), example, names, axes, form.names, form.axes),
        ExportGraph("step", Step(model, form), (tokens, *state), ("tokens", *form.names), ({0: "batch"}, *form.axes),
              ("log_probs", *form.outputs), ({0: "batch"}, *form.axes))]


def whole_graph(model: Any, limit: int | None) -> ExportGraph | None:
    """Return the graph that reads whole texts; None for a model that reads one token after another by its nature."""
    if any(getattr(module, "one_by_one", False) for module in model.modules()):
        return None
    # The exporter takes a size of one for a constant: the example has more than one block of a window.
    time = max(TIME, 1 + 2 * max((getattr(module, "window", 0) for module in model.modules()), default=0))
    tokens = torch.full((BATCH, min(time, limit or time)), 4)
    axes = {0: "batch", 1: "time"}
    if not hasattr(model, "step"):
        lengths = torch.tensor([tokens.shape[1], tokens.shape[1] - 1])
        return ExportGraph("whole", WholeMasked(model), (tokens, lengths), ("tokens", "lengths"), (axes, {0: "batch"}),
                           ("log_probs",), (axes,))
    names, example, of_source = source_ports(model, example_source(model, LENGTH))
    return ExportGraph("whole", Whole(model), (tokens, *example), ("tokens", *names), (axes, *of_source),
                       ("log_probs",), (axes,))


def reads_pictures(model: Any) -> bool:
    return hasattr(getattr(model, "encoder", None), "grid")


def example_source(model: Any, length: int) -> Source | None:
    """Return a small source of a model that reads one: token ids, or black pictures."""
    if not model.needs_source:
        return None
    if reads_pictures(model):
        return Source(torch.zeros(BATCH, 3, *model.encoder.size, dtype=torch.uint8))
    return Source(torch.full((BATCH, length), 4), torch.tensor([length, length - 1]))


def source_ports(
    model: Any, source: Source | None
) -> tuple[tuple[str, ...], tuple[Tensor, ...], tuple[Axes, ...]]:
    """Return names, tensors and free axes of what a source is."""
    if source is None:
        return (), (), ()
    if source.lengths is None:
        return ("pixels",), (source.items,), ({0: "batch"},)
    return (("source", "source_lengths"), (source.items, source.lengths), ({0: "batch", 1: "source"}, {0: "batch"}))


# -------------------------------------------------------------------------------------------------- the exporter


def translate(graph: ExportGraph) -> Any:
    """Return the graph as a program of ONNX."""
    shapes: Any = graph.axes
    if isinstance(graph.module, Step):     # its tensors of the state are one argument to the exporter
        shapes = (graph.axes[0], tuple(graph.axes[1:]))
    with torch.no_grad(), quiet(), export_model():
        program = torch.onnx.export(
            graph.module.eval(), graph.example, dynamo=True, input_names=list(graph.inputs),
            output_names=list(graph.outputs), dynamic_shapes=shapes, verbose=False)
    assert program is not None
    for value, axes in zip(program.model.graph.outputs, graph.output_axes, strict=True):
        for axis, name in axes.items():    # the exporter has terms of the names, "batch*((batch//batch))"
            value.shape[axis] = name                                                   # type: ignore[index]
    return program


def describe(program: Any, file: str) -> dict[str, Any]:
    """Return what goes into a graph and what comes out of it: names, shapes and types."""
    return {"file": file, "inputs": ports(program.model.graph.inputs), "outputs": ports(program.model.graph.outputs)}


def ports(values: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"name": value.name, "shape": [size if isinstance(size, int) else str(size) for size in value.shape],
             "dtype": value.dtype.numpy().name} for value in values]


@contextmanager
def quiet() -> Iterator[None]:
    """Without the exporter's remarks on packages that are not there."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
