"""Every law catches the bugs it is there for, and lets the honest ones pass."""

import pytest
import torch

from regard.laws import LAYER_LAWS, MODEL_LAWS, LawBroken, LawSkipped, LayerReader, ModelReader

from . import planted_layers, planted_models
from .honest import Decay, Speaker, Translator, a_source


def pairs(planted):
    return [pytest.param(law, bug, id=f"{law}-{bug.__name__}") for law, bugs in planted.items() for bug in bugs]


def reader_of(cls):
    torch.manual_seed(0)
    thing = cls().double()
    if not isinstance(thing, Speaker):
        return LayerReader(thing)
    return ModelReader(thing, a_source() if thing.needs_source else None)


@pytest.mark.parametrize(("law", "bug"), pairs(planted_layers.PLANTED))
def test_the_law_catches_the_layer(law, bug):
    with pytest.raises((LawBroken, RuntimeError)) as caught:
        LAYER_LAWS[law].check(reader_of(bug))
    assert caught.type is LawBroken, f"it crashed instead: {caught.value}"
    assert caught.value.law == law


@pytest.mark.parametrize(("law", "bug"), pairs(planted_models.PLANTED))
def test_the_law_catches_the_model(law, bug):
    with pytest.raises(LawBroken) as caught:
        MODEL_LAWS[law].check(reader_of(bug))
    assert caught.value.law == law


def test_every_law_has_a_planted_bug():
    assert set(planted_layers.PLANTED) == set(LAYER_LAWS)
    assert set(planted_models.PLANTED) == set(MODEL_LAWS)


@pytest.mark.parametrize("law", LAYER_LAWS)
def test_the_honest_layer_keeps_the_law(law):
    LAYER_LAWS[law].check(reader_of(Decay))


@pytest.mark.parametrize("model", [Speaker, Translator])
@pytest.mark.parametrize("law", MODEL_LAWS)
def test_the_honest_model_keeps_the_law(law, model):
    try:
        MODEL_LAWS[law].check(reader_of(model))
    except LawSkipped as reason:
        pytest.skip(str(reason))
