"""The laws of a SequenceLayer, in the order in which they are tried. All but the first are a LanguageModel's, too."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.contract import State
from regard.laws.gradient_laws import NEVER_READ, gradients, parameters
from regard.laws.law import Law, LawBroken, all_finite, bit_equal
from regard.laws.reader import Reader
from regard.laws.reading_laws import MODE_LAWS, causality, cuts, padding
from regard.laws.state_laws import reorder, static_shapes


def shapes(reader: Reader) -> None:
    """(B, T, d_in) goes in and (B, T, d_out) comes out; no state in, no state out."""
    layer = reader.thing
    for name in ("d_in", "d_out"):
        if not isinstance(getattr(layer, name, None), int):
            raise LawBroken("shapes", f"{name} is not set: give it in __init__, as self.{name} = ...")
    with reader.mode(training=False):
        for batch, time in ((reader.batch, reader.time), (reader.batch, 1), (max(1, reader.sources), 2)):
            _one_read(reader, batch, time)


def _one_read(reader: Reader, batch: int, time: int) -> None:
    inputs = reader.draw(batch, time)
    original = inputs.clone()
    without_room = reader.start(batch)
    outputs, state = reader.read(inputs, without_room if reader.sources else None)
    _honest(reader, outputs, (batch, time, reader.thing.d_out))
    bit_equal("shapes", inputs, original, "the input was written into")
    if not reader.sources:
        if state is not None:
            raise LawBroken("shapes", f"read without a state, it returned a {type(state).__name__}: none in, none out")
        started = reader.read(inputs, without_room)[0]
        reader.same("shapes", started, outputs, "read from start(batch), with no capacity")
    before = reader.start(batch, capacity=time)
    kind = type(before)
    outputs, after = reader.read(inputs, before)
    _honest(reader, outputs, (batch, time, reader.thing.d_out))
    if not isinstance(after, kind) or not isinstance(after, State | None):
        raise LawBroken("shapes", f"read with a {kind.__name__}, it returned a {type(after).__name__} as next state")


def _honest(reader: Reader, outputs: Tensor, expected: tuple[int, ...]) -> None:
    if not isinstance(outputs, torch.Tensor) or tuple(outputs.shape) != expected:
        told = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
        raise LawBroken("shapes", f"the output is {told}, not (B, T, d_out) = {expected}")
    if outputs.dtype != reader.dtype:
        raise LawBroken("shapes", f"{reader.dtype} went in and {outputs.dtype} came out")
    all_finite("shapes", outputs, "the output")


READING_LAWS = (
    Law("cuts", cuts, "the state is not carried: did you use the one given, and return the next from forward, or from "
        "score?"),
    Law("causality", causality, "a mask that lets later positions in, a mean or a normalisation over time, a "
        "convolution padded on both sides, or tokens taken where targets were meant"),
    Law("padding", padding, "`lengths` is ignored, of the row or of the source: the state must be the one after each "
        "row's last real token, and positions are per row"),
    Law("reorder", reorder, "something that differs between rows is not a tensor of the state that leads with the "
        "batch"),
    Law("static shapes", static_shapes, "a cache that grows (make room for `capacity` in start), a count kept as a "
        "plain number, or a memory kept outside the state"),
    *MODE_LAWS,
    Law("gradients", gradients, "a wrong backward, a .detach() or .item() on the way, or NaN from a row that is masked "
        "entirely"),
    Law("parameters", parameters, NEVER_READ),
)
LAYER_LAWS: dict[str, Law] = {law.name: law for law in (
    Law("shapes", shapes, "d_in or d_out is not what the weights have, or forward does not return (outputs, state)"),
    *READING_LAWS)}
