"""The laws of gradients, in float64: they are right, they pass through a carried state, no pad touches them, and every
parameter has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError

from regard.laws.law import LawBroken, LawSkipped, all_finite, same
from regard.laws.reader import Examined, Reader

AnyReader = TypeVar("AnyReader", bound=Examined)
BATCH, TIME = 2, 3
INPUT = "the input"
NEVER_READ = "a matrix that is made and never read, or a .detach() on its way: leave it out, or use it"


def gradients(reader: Reader) -> None:
    """Gradients are those of the outputs, pass through a carried state, and never touch a pad."""
    reader, inputs = ready_to_learn(reader, max(BATCH, reader.sources), min(TIME, reader.time))
    with reader.mode(training=True):                 # cuDNN's recurrent layers only give gradients in train mode
        check_gradients(lambda: reader.whole(inputs), differentiable(reader, inputs))
        _same_when_cut(reader, inputs)
        # The first row has no token at all.
        untouched_by_pads(reader, inputs, [row % (inputs.shape[1] + 1) for row in range(inputs.shape[0])])


def ready_to_learn(reader: AnyReader, batch: int = 0, time: int = 0) -> tuple[AnyReader, Tensor]:
    """A copy in float64, and inputs drawn for it; what has no gradients is skipped."""
    if not isinstance(reader.thing, nn.Module):
        raise LawSkipped("it is not an nn.Module: it does not learn by gradients")
    reader = reader.in_float64()
    inputs = reader.draw(batch or reader.batch, time or reader.time)
    if not differentiable(reader, inputs):
        raise LawSkipped("it has nothing to differentiate")
    return reader, inputs


def differentiable(reader: Examined, inputs: Tensor) -> dict[str, Tensor]:
    """The tensors that have a gradient: the parameters, and inputs that are vectors."""
    named: dict[str, Tensor] = {INPUT: inputs.requires_grad_()} if inputs.is_floating_point() else {}
    return named | {name: each for name, each in reader.thing.named_parameters() if each.requires_grad}


def gradients_of(reader: Examined, inputs: Tensor, read: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """The gradient of a weighted sum of what `read` gives, for each thing that has one."""
    inputs = inputs.detach().clone()
    named = differentiable(reader, inputs)
    outputs = read(inputs)
    weights = torch.arange(outputs.numel(), device=outputs.device, dtype=outputs.dtype).cos().view_as(outputs)
    found = torch.autograd.grad((outputs * weights).sum(), list(named.values()), allow_unused=True,
                                materialize_grads=True)
    return dict(zip(named, found, strict=True))


def parameters(reader: Examined) -> None:
    """Every parameter has a part in the output."""
    reader, inputs = ready_to_learn(reader)
    with reader.mode(training=True):
        unread = [name for name, gradient in gradients_of(reader, inputs, reader.learned).items() if not gradient.any()]
    if unread:
        raise LawBroken("parameters", f"nothing reads {', '.join(unread)}: the gradient is zero throughout")


def check_gradients(outputs: Callable[[], Tensor], named: dict[str, Tensor]) -> None:
    """Against finite differences; gradcheck nudges the very tensors that the thing computes with."""
    together = _find_wrong_gradient(outputs, *named.values())
    if together is None:
        return
    for name, tensor in named.items():                                         # one by one, to say which
        told = _find_wrong_gradient(outputs, tensor)
        if told is not None:
            raise LawBroken("gradients", f"the gradient of {name} is not that of the output: {told}")
    raise LawBroken("gradients", f"a gradient is not that of the output: {together}")


def _find_wrong_gradient(outputs: Callable[[], Tensor], *tensors: Tensor) -> str | None:
    """Return what gradcheck says against the gradients of these tensors; None where it says nothing."""
    try:
        torch.autograd.gradcheck(lambda *_: outputs(), tensors, fast_mode=True, nondet_tol=1e-10)
    except GradcheckError as error:
        return " ".join(str(error).split())[:160]
    return None


def _same_when_cut(reader: Reader, inputs: Tensor) -> None:
    """The gradient of a read in steps, the state not detached, is that of the whole read."""
    expected = gradients_of(reader, inputs, reader.whole)
    try:
        in_steps = gradients_of(reader, inputs, lambda x: reader.in_chunks(x, [1] * x.shape[1]))
    except RuntimeError as error:
        if "inplace operation" in str(error):        # a loud refusal is honest: only a silent difference is not
            return
        raise
    for name in expected:
        same("gradients", in_steps[name], expected[name], f"the gradient of {name} through a carried state")


def untouched_by_pads(reader: Examined, inputs: Tensor, counts: list[int]) -> None:
    """The gradient of the real outputs is finite and the same whatever the pads hold; theirs is zero."""
    lengths = reader.ragged(counts)
    quiet, noisy = (gradients_of(reader, rows, lambda x: reader.learned(x, lengths))
                    for rows in (inputs, reader.padded(inputs.detach(), counts)))
    for name, expected in quiet.items():
        all_finite("gradients", expected, f"the gradient of {name} in a padded batch")
        same("gradients", noisy[name], expected, f"the gradient of {name} with garbage at the pads")
    if INPUT in quiet and lengths is not None and quiet[INPUT][~reader.inside(lengths, inputs.shape[1])].any():
        raise LawBroken("gradients", "the outputs at real positions have a gradient towards the inputs at pads")
