"""The law against its definition, and its interval against curves whose end is known."""

import numpy as np
import pytest

from regard.scale import power_law
from regard.scale.power_law import LENGTHS, fit_power_law, group_runs, log_posterior, seed_noise

STEPS = [100] * 2 + [200] * 2 + [400] * 3 + [800] * 3
LADDERS = 200


def by_definition(x, y, alpha, start, noise):
    """The log of prior times likelihood at one point of the grid; E and A are integrated out by a sum over many."""
    runs = {each: np.exp(np.mean([np.log(b) for a, b in zip(x, y, strict=True) if a == each]))
            for each in sorted(set(x))}
    times, value = np.array(list(runs)) / max(runs), np.array(list(runs.values()))
    u = ((times + start) / (1 + start))**-alpha
    covariance = np.array([[power_law.DRIFT**2 * min(-np.log2(a), -np.log2(b)) for a in times] for b in times])
    covariance += np.diag([noise**2 / x.count(each) for each in runs])
    floor, fall = np.meshgrid(np.linspace(0.0, 3.0, 1501), np.linspace(0.0, 3.0, 1501))
    rest = 1 - (floor[..., None] + fall[..., None] * u) / value
    likelihood = np.exp(-np.einsum("abi,ij,abj->ab", rest, np.linalg.inv(covariance), rest) / 2)
    median, spread = LENGTHS
    return np.log(likelihood.sum()) - (np.log(alpha / median) / spread)**2 / 2


def test_the_posterior_is_that_of_the_definition():
    x, y = STEPS, [1.9 + 0.6 * (each / 800)**-0.8 for each in STEPS]
    alpha, start = np.array([0.6, 0.8, 1.0, 1.2]), np.array([0.02, 0.05, 0.1, 0.2])
    found, _, _ = log_posterior(group_runs(x, y), alpha, start, 0.02, LENGTHS)
    wanted = np.array([by_definition(x, y, *point, 0.02) for point in zip(alpha, start, strict=True)])
    np.testing.assert_allclose(found - found[0], wanted - wanted[0], atol=0.01)
    exact = log_posterior(group_runs(x, y), np.array([0.8]), np.array([1e-9]), 0.02, LENGTHS)[1]
    np.testing.assert_allclose(exact, [[1.9, 0.6]], rtol=1e-6)


def count_covered(random):
    """How many of the made ladders end, at ten times the longest run, within the interval."""
    covered = 0
    for _ in range(LADDERS):
        floor, fall, noise = random.uniform(0.4, 0.9), random.uniform(1.0, 3.0), random.uniform(0.002, 0.008)
        alpha = LENGTHS[0] * np.exp(LENGTHS[1] * random.normal())
        start = np.exp(random.uniform(np.log(0.02), np.log(0.5)))

        def measure(x, floor=floor, fall=fall, alpha=alpha, start=start, noise=noise):
            mean = fall * (floor + (1 - floor) * ((x / 800 + start) / (1 + start))**-alpha)
            return mean * np.exp(noise * random.normal())

        interval = fit_power_law(STEPS, [measure(x) for x in STEPS]).predict(8000)
        covered += interval.low <= measure(8000) <= interval.high
    return covered / LADDERS


def test_the_interval_holds_as_often_as_it_says():
    assert count_covered(np.random.default_rng(3)) >= 0.9


def no_floor(patch):
    """E is taken to be 0: its column of the design is."""
    patch.setattr(power_law.np, "ones_like", lambda u: np.full(u.shape, 1e-6))


def no_noise(patch):
    for name, value in {"DRIFT": 1e-6, "NOISE_RUNS": 1e9, "NOISE": 1e-5}.items():
        patch.setattr(power_law, name, value)


@pytest.mark.parametrize("bug", [no_floor, no_noise])
def test_a_planted_bug_makes_the_interval_fail(monkeypatch, bug):
    bug(monkeypatch)
    monkeypatch.setattr(f"{__name__}.LADDERS", 40)
    assert count_covered(np.random.default_rng(3)) < 0.8


def test_more_runs_make_the_interval_narrower_and_further_makes_it_wider():
    y = [1.9 + 0.6 * (each / 800)**-0.4 for each in STEPS]
    few, many = (fit_power_law(x, y * (len(x) // len(y)), noise=0.005) for x in (STEPS, STEPS * 8))
    assert many.predict(1600).half_width < few.predict(1600).half_width < few.predict(8000).half_width
    assert few.curve(8000).half_width < few.predict(8000).half_width
    assert np.median(few.floor) < few.predict(8000).median < few.predict(1600).median
    assert few.predict(8000) == fit_power_law(STEPS, y, noise=0.005).predict(8000)               # the same every time


def test_the_noise_is_pooled_over_lengths_and_begins_from_what_is_believed():
    assert seed_noise([1, 2, 3], [1.0, 2.0, 3.0]) == power_law.NOISE                             # one seed of each
    y = [np.exp(1.1), np.exp(0.9), np.exp(3.1), np.exp(2.9)]
    assert seed_noise([1, 1, 2, 2], y) == pytest.approx(((4 * 0.01 + power_law.NOISE**2) / 3)**0.5)
