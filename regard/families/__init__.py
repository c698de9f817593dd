"""The families: one visible table from a name to what it is, how it is built and how large it is by default.

Everything that differs between families is said in this folder, so that no other file has to ask which one it has.
A family has a small settings class (the [model] table of run.toml), a builder, and a choice of sizes for the
data and the minutes at hand.
"""

from __future__ import annotations

from regard.errors import SettingError, did_you_mean
from regard.families import ngram, recurrent, transformer
from regard.families.family import Family, LayerKind, randomised
from regard.layers.positions import LearnedPositions
from regard.layers.recurrent import Elman
from regard.layers.self_attention import SelfAttention
from regard.layers.stack import Block, Stack

FAMILIES: dict[str, Family] = {
    family.name: family for family in (transformer.FAMILY, *recurrent.FAMILIES, ngram.FAMILY)}

STACK = LayerKind(
    "stack", "positions, a block and a recurrence, one after another",
    lambda d: Stack([LearnedPositions(d, 32), Block(SelfAttention(d, heads=2), None), Elman(d, d)]))
LAYERS: dict[str, LayerKind] = {kind.name: kind for kind in (*transformer.LAYERS, *recurrent.LAYERS, STACK)}


def family(name: str) -> Family:
    if name not in FAMILIES:
        raise SettingError(f"unknown family {name}{did_you_mean(name, FAMILIES)}")
    return FAMILIES[name]


__all__ = ["FAMILIES", "LAYERS", "Family", "LayerKind", "family", "randomised"]
