"""Everything that is registered, as test parameters; REGARD_TEST_DEVICE=cuda tries the same there."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
import torch

from regard.families import FAMILIES, LAYERS
from regard.families.caption import CAPTION
from regard.families.family import tiny
from regard.families.ngram import MIXTURE
from regard.families.transformer import TransformerSettings
from regard.families.translate import TRANSLATE, PairTransformerSettings, PrefixSettings, Vocabularies
from regard.kernels.precision import exact_arithmetic
from regard.laws import LawSkipped, LayerReader, ModelReader

TRANSLATORS = {f"translate-{name}": family for name, family in TRANSLATE.items()}
CAPTIONERS = {f"caption-{name}": family for name, family in CAPTION.items()}
MIXED = {"mixture": MIXTURE}
# The settings that models of other programs need, all at once: biases of layers, norms and logits among them.
FOREIGN: dict[str, Any] = dict(width=8, heads=2, context=32, bias="all", logit_bias=True, eps=1e-3)
SETTINGS: dict[str, Any] = {
    "transformer-foreign": (FAMILIES["transformer"], TransformerSettings(
        **FOREIGN, layers=2, parallel=True, rotary_base=100.0, rotary_share=0.5, activation="gelu-tanh", qk_norm=True,
        tied=True), 11),
    "translate-transformer-foreign": (TRANSLATE["transformer"], PairTransformerSettings(
        **FOREIGN, layers=2, decoder_layers=1, positions="sinusoidal", placement="post", activation="silu",
        dropout=0.0), Vocabularies(11, 11, shared=True)),
    "prefix-foreign": (TRANSLATE["prefix"], PrefixSettings(
        **FOREIGN, layers=1, positions="alibi", activation="silu", dropout=0.0), Vocabularies(11, 11))}
VARIANTS = {name: replace(family, name=name, example=tiny(family.build, settings, vocab))
            for name, (family, settings, vocab) in SETTINGS.items()}
TABLES: dict[str, dict[str, Any]] = {
    "LAYERS": LAYERS, "FAMILIES": {**FAMILIES, **MIXED, **TRANSLATORS, **CAPTIONERS, **VARIANTS}}
DEVICE = torch.device(os.environ.get("REGARD_TEST_DEVICE", "cpu"))
DTYPES = {"float64": torch.float64, "float32": torch.float32}


def trials(laws: dict[str, Any]) -> list[tuple[str, str]]:
    """Every law in every type; the laws of gradients compute in float64 whatever they are given."""
    return [(law, dtype) for law in laws for dtype in DTYPES
            if law not in ("gradients", "parameters") or dtype == "float64"]


def names(name: str) -> list[str]:
    """Every name in LAYERS or FAMILIES."""
    return list(TABLES[name])


def layer_reader(name: str, dtype: str, **options: Any) -> LayerReader:
    torch.manual_seed(0)
    entry = LAYERS[name]
    layer = entry.example(DTYPES[dtype]).to(DEVICE)
    memory = entry.example_memory(DTYPES[dtype]).to(DEVICE) if hasattr(entry, "example_memory") else None
    return LayerReader(layer, memory, **options)


def model_reader(name: str, dtype: str, **options: Any) -> ModelReader:
    torch.manual_seed(0)
    entry = TABLES["FAMILIES"][name]
    model = entry.example(DTYPES[dtype])
    if isinstance(model, torch.nn.Module):
        model = model.to(DEVICE)
    source = entry.example_source().to(model.device) if model.needs_source else None
    return ModelReader(model, source, **options)


def hold(law: Any, reader: Any) -> None:
    """The law holds, or the test is skipped with the law's own reason."""
    try:
        with exact_arithmetic():
            law.check(reader)
    except LawSkipped as reason:
        pytest.skip(str(reason))
