"""The families: one visible table from a name to what it is, how it is built and how large it is by default.

Everything that differs between families is said in this folder, so that no other file has to ask which one it has.
A family has a small settings class (the [model] table of run.toml), a builder, and a choice of sizes for the
data and the minutes at hand. The tables are loaded when they are asked for: a help text needs the `names` alone, and
does not wait for torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.families.family import Family, LayerKind, randomised
    from regard.families.table import FAMILIES, LAYERS

__all__ = ["FAMILIES", "LAYERS", "Family", "LayerKind", "randomised"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from regard.families import family, table

    return getattr(table if name in ("FAMILIES", "LAYERS") else family, name)
