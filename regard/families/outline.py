"""The outline of a model: what its settings would make of it, compared with the weights before anything is built.

A run folder of a few kilobytes may ask for a million layers, or for a width of a million. So the model is first built
on torch's `meta` device, which takes no memory, and given up as soon as it has more parameters or modules than any
model of so few tensors has; then each name and shape must be that of a tensor.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules import module as registering

from regard.errors import RunError
from regard.families.family import Family
from regard.families.fit import Undrawn
from regard.families.user import named_code

PARAMETERS = (2, 64)           # for each tensor, and beside: tied ones are stored once, others are replaced
MODULES = (32, 1024)           # likewise
BUFFERS = 2**26                # bytes of tables that are worked out and not stored, beyond those of the weights


class TooMany(Exception):
    """A model has more parts than its weights could fill."""


def check_outline(kind: Family, settings: Any, vocab: Any, tensors: Mapping[str, Tensor]) -> None:
    """Refuse settings whose model these tensors do not fill. Code of the user's own is trusted, and not tried."""
    if any(named_code({"run": {"family": kind.name}, "model": {"pattern": getattr(settings, "pattern", ())}})):
        return
    assert kind.build is not None
    try:
        with counted(len(tensors)), torch.device("meta"), Undrawn():
            model = kind.build(settings, vocab)
    except TooMany as what:
        raise RunError(f"the weights do not fit the model: its settings ask for more than {what}, and "
                       f"{len(tensors):,} tensors are stored") from None
    except (RuntimeError, OverflowError, MemoryError) as error:
        raise RunError("the weights do not fit the model: its settings ask for tensors that cannot be "
                       f"({str(error).splitlines()[0][:80]})") from None
    model.load_tensors(dict(tensors))                        # which compares names and shapes; nothing is copied here
    if sum(each.nbytes for each in model.buffers()) > BUFFERS + 4 * sum(each.nbytes for each in tensors.values()):
        raise RunError("the weights do not fit the model: its settings ask for tables that are many times as large")


@contextmanager
def counted(tensors: int) -> Iterator[None]:
    """Raise TooMany in a model that is being built in this thread, once it has too many parts."""
    here = threading.get_ident()

    def counter(what: str, each: int, beside: int) -> Callable[..., None]:
        most, found = each * tensors + beside, 0

        def count(*registered: Any) -> None:
            nonlocal found
            found += threading.get_ident() == here
            if found > most:
                raise TooMany(f"{most:,} {what}")

        return count

    hooks = (registering.register_module_parameter_registration_hook(counter("parameters", *PARAMETERS)),
             registering.register_module_module_registration_hook(counter("modules", *MODULES)))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()

