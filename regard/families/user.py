"""A user's own layer, by name: `mypackage.mymodule:MyLayer`.

Whoever types the name means to run that code. A run folder that names one may come from anywhere, so its code is
imported only when the user says so.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from regard.contract import SequenceLayer
from regard.errors import RunError, SettingError
from regard.laws.objects import OTHERS, WIDTHS, load_object, required


def is_user_layer(name: str) -> bool:
    return ":" in name


def user_layer(name: str, sizes: Mapping[str, int]) -> SequenceLayer:
    """One of this class, with every width that it asks for the width of the stack."""
    layer_class = load_object(name)
    if not (isinstance(layer_class, type) and issubclass(layer_class, SequenceLayer)):
        raise SettingError(f"{name} is not a class of SequenceLayer: a family is made of layers, "
                           "built by Layer(width)")
    asked = required(inspect.signature(layer_class))
    settings = {each: sizes[each] if each in sizes else sizes["width"] for each in asked}
    strange = [each for each in asked if len(asked) > 1 and each not in {*WIDTHS, *OTHERS, *sizes}]
    if strange:
        raise SettingError(f"{name} asks for {', '.join(strange)}, which is not known here: give it a default")
    try:
        layer = layer_class(**settings)
    except SettingError:
        raise
    except Exception as error:
        raise SettingError(f"{name} cannot be built with {settings}: {type(error).__name__}: {error}") from error
    width = sizes["width"]
    if (getattr(layer, "d_in", None), getattr(layer, "d_out", None)) != (width, width):
        raise SettingError(f"{name}: in a stack a layer gives vectors as wide as it gets; built with {settings} it has "
                           f"d_in = {getattr(layer, 'd_in', None)}, d_out = {getattr(layer, 'd_out', None)}")
    return layer


def named_code(tables: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The layers of the user's own that a run is made of."""
    names = [tables.get("run", {}).get("family", ""), *tables.get("model", {}).get("pattern", ())]
    return (name for name in names if isinstance(name, str) and is_user_layer(name))


def require_trust(tables: Mapping[str, Mapping[str, Any]], path: object, trust: bool) -> None:
    """A folder never runs code by itself."""
    for name in named_code(tables):
        if not trust:
            raise RunError(f"{path} is made of {name}, which is code outside Regard: if you know where it comes from, "
                           "say --trust (in Python: load(path, trust=True))")
