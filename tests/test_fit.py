"""Models of equal size: every family can be built with the number of parameters that was asked for."""

import pytest

from regard.errors import SettingError
from regard.families import FAMILIES
from regard.families.fit import TOLERANCE, fit_parameters, parameters
from regard.families.sizes import Scale

NEURAL = [name for name, family in FAMILIES.items() if family.build is not None]


def at_scale(family, vocab):
    sizes = family.sizes(Scale(tokens=10**6, vocab=vocab, gpu=False, minutes=2.0), {})
    return family.settings(**sizes.model)


@pytest.mark.parametrize("name", NEURAL)
@pytest.mark.parametrize("vocab, wanted", [(69, 200_000), (69, 1_000_000), (4096, 1_000_000), (300, 5_000_000)])
def test_a_family_has_the_parameters_asked_for(name, vocab, wanted):
    family = FAMILIES[name]
    settings = fit_parameters(family, at_scale(family, vocab), vocab, wanted)
    assert abs(parameters(family, settings, vocab) - wanted) <= TOLERANCE * wanted
    built = family.build(settings, vocab)
    assert sum(tensor.numel() for tensor in built.saved_tensors().values()) == parameters(family, settings, vocab)


@pytest.mark.parametrize("name", NEURAL)
def test_the_count_grows_with_the_size(name):
    family = FAMILIES[name]
    counts = [parameters(family, family.resize(at_scale(family, 69), size), 69) for size in range(8, 200, 5)]
    assert counts == sorted(counts)


def test_a_vocabulary_that_does_not_fit_is_refused():
    with pytest.raises(SettingError, match="smaller --vocab"):
        fit_parameters(FAMILIES["transformer"], at_scale(FAMILIES["transformer"], 50_000), 50_000, 20_000)
