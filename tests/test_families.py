"""The choice of sizes: what is read once needs no dropout, what is read often does, and what a user says fits."""

import pytest

from regard.config import fill
from regard.families import FAMILIES
from regard.families.sizes import Scale
from regard.training.settings import TrainingSettings

NEURAL = [name for name, family in FAMILIES.items() if family.build is not None]


def chosen(name, wanted=None, **scale):
    family = FAMILIES[name]
    sizes = family.sizes(Scale(**{"tokens": 10**6, "vocab": 69, "gpu": False, "minutes": 5.0, **scale}), wanted or {})
    return fill(family.settings, {**sizes.model, **(wanted or {}).get("model", {})}, "model"), \
        fill(TrainingSettings, sizes.training, "training")


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("tokens", [1, 10**4, 10**6, 10**9])
@pytest.mark.parametrize("minutes", [0.01, 1.0, 60.0])
def test_every_scale_gets_settings_that_are_allowed(name, gpu, tokens, minutes):
    chosen(name, gpu=gpu, tokens=tokens, minutes=minutes)


@pytest.mark.parametrize("name", NEURAL)
def test_a_text_read_often_is_dropped_from_and_one_read_once_is_not(name):
    assert chosen(name, steps=10)[0].dropout == 0
    assert chosen(name, steps=100_000, tokens=10**5)[0].dropout > 0
    assert chosen(name, budget=10**5)[0].dropout == 0
    assert chosen(name, minutes=1.0, tokens=10**8)[0].dropout == 0


@pytest.mark.parametrize("width", [1, 7, 30, 64, "96", 1000])
def test_heads_fit_a_width_that_the_user_gives(width):
    settings, _ = chosen("transformer", {"model": {"width": width}})
    assert settings.width == int(width) and settings.width % settings.heads == 0


def test_a_large_vocabulary_is_learned_once_not_twice():
    assert chosen("transformer", vocab=32_000)[0].tied and not chosen("transformer", vocab=69)[0].tied


def test_the_help_of_the_command_line_names_every_family():
    """Its names are written out in `families/names.py`, as --help must not import torch."""
    from regard.tasks.lm import flags

    assert flags.FAMILIES.split(", ") == list(FAMILIES)
