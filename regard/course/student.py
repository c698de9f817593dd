"""A student's functions, called with care: results of any kind become tensors, and each mistake one line.

A `Slip` has a name, which stays the same from version to version, and a message for the learner.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

TOLERANCE = 2e-4                                  # of the largest number: float32, in any order of operations


class Slip(Exception):
    """A student's mistake: its name, and a line for the learner."""

    def __init__(self, name: str, message: str):
        super().__init__(message)
        self.name, self.message = name, " ".join(message.split())


class Student:
    """The functions of a solution. A call that writes into one of its tensors is a Slip."""

    def __init__(self, functions: Mapping[str, Any]):
        self._functions = functions

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = self._functions.get(name)
        if function is None:
            raise Slip("missing", f"there is no function {name}: the stub has its first line")
        if not callable(function):
            raise Slip("missing", f"{name} is a {type(function).__name__}, not a function")
        return lambda *args, **options: call(function, name, *args, **options)


def call(function: Callable[..., Any], name: str, *args: Any, **options: Any) -> Any:
    """Call a student's function; whatever it raises becomes a Slip."""
    before = [each.detach().clone() for each in args if isinstance(each, Tensor)]
    try:
        result = function(*args, **options)
    except Slip:
        raise
    except NotImplementedError:
        raise Slip("not_written", f"{name} is not written yet") from None
    except (Exception, SystemExit) as error:
        raise Slip("crashed", told(error, name)) from None
    after = [each for each in args if isinstance(each, Tensor)]
    if not all(torch.equal(one, other) for one, other in zip(before, after, strict=True)):
        raise Slip("writes_into_its_input", f"{name} changes a tensor that it was given: work on a copy (x = "
                                            "x.clone()), or without += and [...] = on the input")
    return result


def told(error: BaseException, name: str) -> str:
    """One line on an exception: its type, its words, and the student's own line where it happened."""
    ours = Path(__file__).parents[1]
    own = [frame for frame in traceback.extract_tb(error.__traceback__)
           if ours not in Path(frame.filename).parents and "site-packages" not in frame.filename]
    place = f" (line {own[-1].lineno} of {Path(own[-1].filename).name})" if own else ""
    if isinstance(error, SystemExit):
        return f"{name} calls exit({error.code if error.code is not None else ''}): return a value instead{place}"
    if isinstance(error, SyntaxError):
        file = Path(error.filename or name).name
        return f"{name} fails: {type(error).__name__}: {error.msg} (line {error.lineno} of {file})"
    words = " ".join(str(error).split())
    return f"{name} fails: {type(error).__name__}: {words[:200] + ('...' if len(words) > 200 else '')}{place}"


def tensor(value: Any, shape: Sequence[int], name: str) -> Tensor:
    """A result as a float tensor of this shape, or a Slip: tensors, arrays and lists of numbers are taken."""
    expected = "one number" if not len(shape) else f"{len(shape)} dimensions" if -1 in shape else str(tuple(shape))
    if value is None:
        raise Slip("wrong_type", f"{name} returns None: is there a return at its end?")
    try:
        values = value if isinstance(value, Tensor) else torch.as_tensor(value)
        values = values if values.is_floating_point() else values.to(torch.get_default_dtype())
    except Exception:
        parts = isinstance(value, list | tuple) and all(isinstance(each, Tensor) for each in value)
        cure = ": make one of its parts, with torch.stack" if parts else ""
        raise Slip("wrong_type", f"{name} returns a {type(value).__name__}, not a tensor of {expected}{cure}") from None
    if tuple(values.shape) != tuple(shape):
        raise Slip("wrong_shape", f"{name} returns the shape {tuple(values.shape)}, not {expected}")
    return values


def finite(values: Tensor, name: str, mistake: str = "not_a_number", message: str = "") -> Tensor:
    if not values.isfinite().all():
        place = (~values.isfinite()).nonzero()[0].tolist()
        raise Slip(mistake, message or f"{name} returns {values[tuple(place)].item()} at {place}: a number divided by "
                                       "0, a log of 0, or a softmax of minus infinities only")
    return values


def close(got: Tensor, expected: Tensor) -> bool:
    """Equal but for rounding in float32; NaN equals nothing."""
    got, expected = got.detach().double(), expected.detach().double()
    if got.shape != expected.shape or not got.isfinite().all() or not expected.isfinite().all():
        return False
    return bool(((got - expected).abs() <= TOLERANCE * (1 + expected.abs().max())).all()) if expected.numel() else True


Suspect = tuple[str, Callable[[], Tensor], str]       # the mistake's name, what it would return, a line for the learner


def name_the_mistake(got: Tensor, suspects: Sequence[Suspect]) -> None:
    """Raise the Slip that gives just these numbers, if one of the suspects does."""
    for name, would_return, message in suspects:
        if close(got, would_return()):
            raise Slip(name, message)


def hold_equal(name: str, got: Tensor, expected: Tensor, suspects: Sequence[Suspect] = ()) -> None:
    """Hold a result equal to the definition's; if it differs, name the mistake that gives just these numbers."""
    if close(got, expected):
        return
    name_the_mistake(got, suspects)
    finite(got, name)
    difference = (got.detach().double() - expected.detach().double()).abs()
    place = [int(i) for i in torch.unravel_index(difference.argmax(), difference.shape)] if difference.dim() else []
    index = f"{name}{place}" if place else name
    raise Slip("wrong_numbers", f"{index} is {got[tuple(place)].item():.4f}, and should be "
                                f"{expected[tuple(place)].item():.4f}")


def who_reads_whom(read: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """(T, T): at [t, j] True if the output at position t changes when the vector at position j does.  x: (B, T, D)"""
    usual = read(x)
    columns = []
    for j in range(x.shape[1]):
        changed = x.clone()
        changed[:, j] = torch.randn(x[:, j].shape, generator=torch.Generator().manual_seed(j)) * 2
        columns.append((read(changed) - usual).detach().abs().amax((0, 2)) > TOLERANCE)
    return torch.stack(columns, 1)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
