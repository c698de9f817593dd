"""The table of families of language models, from a name to what it is, and the table of registered layers."""

from __future__ import annotations

from regard.errors import SettingError, did_you_mean
from regard.families import hybrid, linear_rnn, mamba, mamba2, ngram, perceptrons, recurrent_networks, transformer
from regard.families.family import Family, LayerKind
from regard.families.user import is_user_layer
from regard.layers.positions import LearnedPositions
from regard.layers.recurrent import Elman
from regard.layers.self_attention import SelfAttention
from regard.layers.stack import Block, Stack

FAMILIES: dict[str, Family] = {
    family.name: family for family in (
        transformer.FAMILY, *recurrent_networks.FAMILIES, *perceptrons.FAMILIES, linear_rnn.FAMILY, mamba.FAMILY,
        mamba2.FAMILY, hybrid.FAMILY, ngram.FAMILY)}

STACK = LayerKind(
    "stack", "positions, a block and a recurrence, one after another",
    lambda d: Stack([LearnedPositions(d, 32), Block(SelfAttention(d, heads=2), None), Elman(d, d)]))
LAYERS: dict[str, LayerKind] = {
    kind.name: kind for kind in (
        *transformer.LAYERS, *recurrent_networks.LAYERS, *perceptrons.LAYERS, *linear_rnn.LAYERS, *mamba.LAYERS,
        *mamba2.LAYERS, STACK)}


def family(name: str) -> Family:
    """A family by its name; `module:Layer` imports a layer of the user's own and makes a family of it."""
    if is_user_layer(name):
        return hybrid.user_family(name)
    if name not in FAMILIES:
        raise SettingError(f"unknown family {name}{did_you_mean(name, FAMILIES)}")
    return FAMILIES[name]
