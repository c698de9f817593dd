"""A power law with a floor and a late start, L(x) = E + A (x + b)^-alpha: its posterior, and its predictions.

Divided by the losses y that were measured at x_1 .. x_n, the law reads, with x counted in units of the largest,

    1 = E / y_i + A u_i / y_i + B(log2 x_i) + noise        u_i = ((x_i + b) / (1 + b))^-alpha

E and A enter linearly: for given alpha and b their posterior is a Gaussian, cut off where E or A is negative, and it
is integrated exactly. alpha and b are a grid. The noise is the spread between seeds. b is the start, in which a run has
learned little yet and the curve still bends down in log-log. B is what the law does not know: no real curve is a power
law, and the further from x = 1 the less. It is a random walk from x = 1, of variance DRIFT^2 for each doubling of x.

    prior of E, A     flat where neither is negative
    prior of alpha    log-normal: its median, and the factor e^spread within which two thirds of it lie; of lengths
                      LENGTHS, chosen on cases of their own (bench/scale_coverage.py); of sizes and data OTHERS, wide
    prior of b        log-uniform, from a hundredth of the largest x to all of it

n values of x · G points of the grid · S draws
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

LENGTHS, OTHERS = (1.2, 0.4), (0.5, 0.6)
DRIFT = 0.004
NOISE, NOISE_RUNS = 0.005, 1.0       # the spread between seeds as it is believed before any is seen, worth so many runs
LEVEL = 0.95                         # of an interval
DRAWS, TRIED = 4000, 40_000          # draws, and how many are tried for them: some are cut off
ALPHAS = np.geomspace(0.05, 5.0, 61)
STARTS = np.geomspace(0.01, 1.0, 31)

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Interval:
    """A median, and what lies between `low` and `high` with probability LEVEL."""

    median: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the width, as a share of the median."""
        return (self.high - self.low) / 2 / self.median


@dataclass(frozen=True)
class PowerLaw:
    """The posterior of a law as draws (S,) of its numbers, each as probable as the others."""

    largest: float                   # x of the largest that was measured
    floor: Array                     # E
    fall: Array                      # A: what the loss at the largest x has above the floor
    alpha: Array
    start: Array                     # b
    noise: float                     # between seeds, as a share of the loss

    def curve(self, x: float) -> Interval:
        """The mean loss of runs at x."""
        return between(self.draw(x, 0.0))

    def predict(self, x: float) -> Interval:
        """The loss of one more run at x: the curve, and the noise of a seed."""
        return between(self.draw(x, self.noise))

    def draw(self, x: float, noise: float) -> Array:
        """Draws (S,) of the loss of a run at x; the same every time."""
        times = x / self.largest
        spread = np.sqrt(DRIFT**2 * abs(np.log2(times)) + noise**2)
        walk = np.random.default_rng(1).normal(0.0, 1.0, len(self.floor))
        drawn: Array = (self.floor + self.fall * fallen(times, self.alpha, self.start)) * np.exp(spread * walk)
        return drawn


def fallen(times: Any, alpha: Array, start: Array) -> Array:
    """u: 1 at x = 1, and the less the larger x is."""
    return np.asarray(((times + start) / (1 + start)) ** -alpha)


def between(draws: Array) -> Interval:
    low, median, high = np.quantile(draws, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2])
    return Interval(float(median), float(low), float(high))


def seed_noise(x: Sequence[float], y: Sequence[float]) -> float:
    """The standard deviation of log y between runs of the same x, pooled, with the prior as NOISE_RUNS runs more."""
    squares, freedom = NOISE_RUNS * NOISE**2, NOISE_RUNS
    for own in group_runs(x, y).values():
        squares, freedom = squares + float(((own - own.mean())**2).sum()), freedom + len(own) - 1
    return float(np.sqrt(squares / freedom))


def group_runs(x: Sequence[float], y: Sequence[float]) -> dict[float, Array]:
    """log y of the runs at each x, in the order of x."""
    return {each: np.log([value for place, value in zip(x, y, strict=True) if place == each])
            for each in sorted(set(x))}


def fit_power_law(
    x: Sequence[float], y: Sequence[float], noise: float | None = None, prior: tuple[float, float] | None = None
) -> PowerLaw:
    """Fit runs of losses y at x. `noise` is the spread between seeds, where it is known from other runs; `prior` the
    median and the spread of alpha, LENGTHS where none is given."""
    noise = seed_noise(x, y) if noise is None else noise
    alpha, start = (each.ravel() for each in np.meshgrid(ALPHAS, STARTS))                          # (G,)
    log_chance, mean, covariance = log_posterior(group_runs(x, y), alpha, start, noise, prior or LENGTHS)
    chance, random = np.exp(log_chance - log_chance.max()), np.random.default_rng(0)
    picked = random.choice(len(chance), TRIED, p=chance / chance.sum())
    root = np.linalg.cholesky(covariance)                                                          # (G, 2, 2)
    floor, fall = (mean[picked] + np.einsum("sij,sj->si", root[picked], random.normal(size=(TRIED, 2)))).T
    kept = np.flatnonzero((floor >= 0) & (fall >= 0))[:DRAWS]
    if len(kept) < DRAWS // 10:                        # the loss does not fall with x at all: it is taken to stay
        kept, floor, fall = np.arange(DRAWS), floor + fall, np.zeros(TRIED)
    return PowerLaw(max(x), floor[kept], fall[kept], alpha[picked][kept], start[picked][kept], noise)


def log_posterior(
    runs: Mapping[float, Array], alpha: Array, start: Array, noise: float, prior: tuple[float, float]
) -> tuple[Array, Array, Array]:
    """The log posterior (G,) of alpha and b but for a constant, and the mean (G, 2) and covariance (G, 2, 2) of E, A.

    The means of the runs at each x are Gaussian around the law, with covariance V: the noise on its diagonal, and the
    walk B, which two x on the same side of x = 1 share as far as the nearer one.
    """
    places = np.array(list(runs))
    times = places / places.max()                                              # (n,)
    value = np.exp([own.mean() for own in runs.values()])
    count = np.array([len(own) for own in runs.values()])
    doublings = -np.log2(times)                                                # from x = 1 down
    weight = np.linalg.inv(np.diag(noise**2 / count) + DRIFT**2 * np.minimum.outer(doublings, doublings))      # V^-1
    u = fallen(times, alpha[:, None], start[:, None])                          # (G, n)
    design = np.stack([np.ones_like(u), u], 2) / value[:, None]                # (G, n, 2)
    precision = np.einsum("gip,ij,gjq->gpq", design, weight, design)           # (G, 2, 2)
    pull = np.einsum("gip,ij->gp", design, weight)
    covariance = np.linalg.inv(precision)
    mean = np.einsum("gpq,gq->gp", covariance, pull)
    misfit = weight.sum() - np.einsum("gp,gp->g", pull, mean)
    likely = -(np.log(alpha / prior[0]) / prior[1])**2 / 2                     # the grid is even in log alpha, log b
    return likely - misfit / 2 - np.linalg.slogdet(precision)[1] / 2, mean, covariance
