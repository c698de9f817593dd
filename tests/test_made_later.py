"""A constant that is made later is not made while pytest collects, which every worker does for itself."""

import inspect

import pytest

from tests.made_later import MadeLater


def test_looking_for_fixtures_makes_nothing():
    unmade = MadeLater(lambda: pytest.fail("it was made"))
    assert not hasattr(unmade, "_mock_name") and inspect.unwrap(unmade) is unmade
    for name in ("__test__", "__bases__", "__name__", "_pytestfixturefunction"):
        assert not hasattr(unmade, name)


def test_it_is_made_once_and_is_what_was_made():
    made = []
    later = MadeLater(lambda: made.append(1) or [3, 1, 2])
    assert not made
    assert (later.index(1), later[0], len(later), [*later], later + later) == (1, 3, 3, [3, 1, 2], [3, 1, 2] * 2)
    assert 2 in later and 5 not in later
    assert made == [1]
