"""Answering: how a trained model answers many inputs, one line or one vector each, behind commands over files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Options = Mapping[str, Any]                  # of the command, by name


@dataclass
class InputAnswers:
    """The answers to some inputs: a text for each (several lines where n best were asked for), or a row of an array."""

    lines: Sequence[str] = ()
    rows: NDArray[np.float32] | None = None
    failed: dict[int, str] = field(default_factory=dict)             # the reason of an input that has no answer
    notices: dict[str, int] = field(default_factory=dict)            # of how many lines something is to be said


@dataclass(frozen=True)
class Answering:
    """`answer(trained, inputs, first, options)`; `first` is the number of the first input in its file."""

    answer: Callable[[Any, Sequence[str], int, Options], InputAnswers]
    empty: Callable[[Options, str, str], str]                # (options, input, reason): the line of one that failed
    options: tuple[str, ...]                                 # those that mean something
    pictures: bool = False                                   # inputs are names of pictures, not lines of text
    together: bool = True                                    # all files give one output; else each its own
