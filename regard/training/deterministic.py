"""Equal bits of two runs on a GPU: the algorithms that `--deterministic` chooses, put back afterwards.

On a CPU a run is a function of its settings, text and seed already. On a GPU four things are not: algorithms that add
up in the order in which threads come, workspaces of cuBLAS that streams share, kernels chosen by timing them, and a
budget of minutes. torch has ordered algorithms for the first; an operation without one is refused, in one line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from regard.errors import SettingError
from regard.training.settings import TrainingSettings

STRICT: Any = torch.utils.deterministic        # its attribute is a property of the module: mypy misses it
WORKSPACE, ONE_EACH = "CUBLAS_WORKSPACE_CONFIG", ":4096:8"      # a workspace for each stream, as torch asks for
LACKING = re.compile(r"(\S+) does not have a deterministic implementation|Deterministic behavior was enabled")


def refuse_minutes(s: TrainingSettings) -> None:
    """Refuse a budget that follows the clock together with the same bits."""
    if s.deterministic and s.minutes and not (s.steps or s.tokens):
        raise SettingError(f"--deterministic with a budget of {s.minutes:g} minutes: no two runs make equally many "
                           "steps in that time; give --steps or --tokens")


def set_deterministic(s: TrainingSettings, device: torch.device, say: Callable[[str], None]) -> None:
    """Choose algorithms that give the same bits every time, if the settings ask for them; say so."""
    if not s.deterministic:
        return
    if device.type == "cpu":
        say("same bits  nothing to set on a CPU: the same seed, threads and number of steps give the same bits anyway")
        return
    os.environ.setdefault(WORKSPACE, ONE_EACH)
    torch.use_deterministic_algorithms(True)
    STRICT.fill_uninitialized_memory = False                   # or all new memory is written twice
    torch.backends.cudnn.deterministic = True
    set_compiler(True)
    say("same bits  ordered algorithms, and none chosen by timing: slower, and the same bits every time"
        + (f"; not tried on {device.type}" if device.type != "cuda" else ""))


def set_compiler(strict: bool) -> None:
    """Let the compiler choose its kernels without timing them."""
    import torch._inductor.config as compiler

    compiler.deterministic = strict


@contextmanager
def kept_algorithms() -> Iterator[None]:
    """Put back afterwards what training chooses of algorithms for the whole process."""
    before = torch.are_deterministic_algorithms_enabled()
    filled, cudnn = STRICT.fill_uninitialized_memory, torch.backends.cudnn.deterministic
    try:
        yield
    finally:
        if torch.are_deterministic_algorithms_enabled() != before:
            torch.use_deterministic_algorithms(before)         # imports the compiler, which a count needs not
        STRICT.fill_uninitialized_memory = filled
        if torch.backends.cudnn.deterministic != cudnn:        # only `set_deterministic` changes it
            torch.backends.cudnn.deterministic = cudnn
            set_compiler(False)


@contextmanager
def refusing_in_one_line() -> Iterator[None]:
    """An operation for which torch has no ordered algorithm is refused by its name, with what to do."""
    try:
        yield
    except RuntimeError as error:
        lacking = LACKING.search(str(error))
        if lacking is None:
            raise
        if lacking[1] is None:
            raise SettingError("--deterministic: this process multiplied on the GPU before; set "
                               f"{WORKSPACE}={ONE_EACH} in the environment before Python begins") from error
        raise SettingError(f"--deterministic: torch has no ordered algorithm for {lacking[1]}, which this model needs "
                           "on a GPU: leave --deterministic out, or train with --device cpu") from error


@contextmanager
def any_order() -> Iterator[None]:
    """Allow any algorithm inside: for what writes texts and changes no weight."""
    strict = torch.are_deterministic_algorithms_enabled()
    if strict:
        torch.use_deterministic_algorithms(False)
    try:
        yield
    finally:
        if strict:
            torch.use_deterministic_algorithms(True)
