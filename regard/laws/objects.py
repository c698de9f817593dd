"""Finding a user's own layer by name, and building a small one of it."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from torch import nn

from regard.contract import LanguageModel, SequenceLayer
from regard.errors import RegardError, SettingError, did_you_mean

WIDTH = 16
WIDTHS = {
    "width": WIDTH, "d": WIDTH, "dim": WIDTH, "size": WIDTH, "d_model": WIDTH, "features": WIDTH, "channels": WIDTH,
    "d_in": 6, "d_out": 4, "d_hidden": 8, "hidden": 8, "hidden_size": 8, "input_size": 6,
}
OTHERS = {
    "heads": 2, "layers": 2, "order": 2, "window": 3, "vocab": 11, "vocab_size": 11, "context": 8, "f": "tanh",
}


def load_object(name: str) -> Any:
    """The layer or model called `module:Name`, which may live in the current folder."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise SettingError(f"{name!r} does not say what to check: write module:Name, for instance my_layer:MyLayer")
    module = import_from_here(module_name)
    if not hasattr(module, attribute):
        known = checkable_names(module) or [n for n in vars(module) if not n.startswith("_")]
        raise SettingError(f"{module_name} has no {attribute}{did_you_mean(attribute, known)}")
    found = getattr(module, attribute)
    if not is_checkable(found):
        raise SettingError(f"{name} is {what_it_is(found)}, not a SequenceLayer or a LanguageModel: "
                           "derive it from regard.SequenceLayer or regard.LanguageModel")
    return found


def import_from_here(name: str) -> ModuleType:
    """Import a module, the current folder searched first; `folder/my_layer.py` is taken as folder.my_layer."""
    if name.endswith(".py"):
        name = name.removesuffix(".py").removeprefix("./").replace("/", ".")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise SettingError(f"there is no module {name}: neither in this folder ({here}) nor installed") from None
        raise SettingError(f"{name} imports {error.name}, which is not installed") from None
    except RegardError:
        raise
    except Exception as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        raise SettingError(f"{name} cannot be imported: {type(error).__name__}: {error}{line}") from None


def is_checkable(thing: Any) -> bool:
    kinds = (SequenceLayer, LanguageModel)
    return issubclass(thing, kinds) if isinstance(thing, type) else isinstance(thing, kinds)


def checkable_names(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if is_checkable(value) and value is not SequenceLayer
            and value is not LanguageModel]


def what_it_is(thing: Any) -> str:
    if isinstance(thing, type):
        return "a plain nn.Module" if issubclass(thing, nn.Module) else "a class of another kind"
    return f"a {type(thing).__name__}"


def build(cls: type) -> Any:
    """A small one of this class: by its own `example()`, or by filling in the sizes that it asks for."""
    if inspect.isabstract(cls):
        missing = ", ".join(sorted(cls.__abstractmethods__))     # type: ignore[attr-defined]
        raise SettingError(f"{cls.__name__} cannot be built: it does not define {missing} yet")
    if hasattr(cls, "example"):
        return cls.example()
    signature = inspect.signature(cls)
    refusals = []
    for settings in attempts(signature):
        try:
            return cls(**settings)
        except Exception as error:
            said = " ".join(str(error).split())
            refusals.append(f"with {settings or 'no settings'} it raised {type(error).__name__}: {said[:120]}")
    asked = ", ".join(required(signature))
    reason = refusals[-1] if refusals else f"it asks for {asked}, and what these should be cannot be guessed"
    raise SettingError(f"{cls.__name__} cannot be built: {reason}. Give it defaults, or a classmethod example() "
                       "that builds a small one")


def attempts(signature: inspect.Signature) -> Iterator[dict[str, Any]]:
    """Settings to try: each by its name, then one width everywhere; a lone setting of unknown name is a width."""
    names = required(signature)
    if len(names) > 1 and not {*names} <= {*WIDTHS, *OTHERS}:
        return
    yield {name: WIDTHS.get(name, OTHERS.get(name, WIDTH)) for name in names}
    if names:
        yield {name: OTHERS.get(name, WIDTH) for name in names}


def required(signature: inspect.Signature) -> list[str]:
    """The settings without a default."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [name for name, each in signature.parameters.items()
            if each.default is each.empty and each.kind not in variadic]
