"""How often a 95% interval over seeds covers what it is for: `python bench/coverage.py [--draws N] [--write]`.

Seeds are drawn from shapes whose median is known: a normal, skewed ones, accuracies near 1, a share of seeds that fail,
two humps, and the numbers of our own claims, each rule's about its own median and in units of its own spread. A rule
that is exactly on its bound should say *holds* in at most 2.5% of cases. `--write` puts the table between its marks in
docs/lab.md.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.metrics.intervals import over_seeds

ROOT = Path(__file__).parents[1]
COUNTS = (3, 5, 6, 9, 10)
T95 = {3: 4.303, 5: 2.776, 6: 2.571, 9: 2.306, 10: 2.262}
Draw = Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.float64]]
Limits = tuple[NDArray[np.float64], NDArray[np.float64]]


# ------------------------------------------------------------------------------------------------- shapes


def failing(share: float) -> Draw:
    """Seeds that are right nearly always, and a share of them that fail."""
    def draw(chance: np.random.Generator, size: tuple[int, ...]) -> NDArray[np.float64]:
        good, bad = 1 - np.abs(chance.normal(0, 0.02, size)), chance.uniform(0.1, 0.4, size)
        return np.where(chance.random(size) < share, bad, good)
    return draw


def two_humps(chance: np.random.Generator, size: tuple[int, ...]) -> NDArray[np.float64]:
    return np.where(chance.random(size) < 0.45, 0.2, 0.9) + chance.normal(0, 0.02, size)


def shapes() -> Iterator[tuple[str, Draw]]:
    yield "normal", lambda chance, size: chance.normal(size=size)
    yield "log-normal", lambda chance, size: chance.lognormal(size=size)
    yield "accuracies near 1", lambda chance, size: chance.beta(20, 0.7, size)
    yield "one seed in ten fails", failing(0.1)
    yield "one seed in three fails", failing(0.33)
    yield "two humps", two_humps
    own = our_values()
    yield "the numbers of our claims", lambda chance, size: chance.choice(own, size)


def our_values() -> NDArray[np.float64]:
    """The numbers of every rule that chance is in, about its own median and in units of its own spread."""
    found = []
    for path in sorted((ROOT / "lab" / "results").glob("*/*.json")):
        for rule in json.loads(path.read_text()).get("rules", ()):
            values = np.array(rule["values"], np.float64)
            if not rule["exact"] and len(values) >= 5 and np.isfinite(values).all() and np.ptp(values) > 0:
                found.append((values - np.median(values)) / values.std(ddof=1))
    return np.concatenate(found)


# ---------------------------------------------------------------------------------------------- intervals


def ours(drawn: NDArray[np.float64]) -> Limits:
    found = [over_seeds(row) for row in drawn.tolist()]
    return np.array([each.low for each in found]), np.array([each.high for each in found])


def student(drawn: NDArray[np.float64]) -> Limits:
    count = drawn.shape[1]
    half = T95[count] * drawn.std(1, ddof=1) / math.sqrt(count)
    return drawn.mean(1) - half, drawn.mean(1) + half


def bootstrap(drawn: NDArray[np.float64], samples: int = 400) -> Limits:
    """What 95% of the means of resampled seeds lie between."""
    chance = np.random.default_rng(1)
    picks = chance.integers(drawn.shape[1], size=(samples, drawn.shape[1]))
    means = drawn[:, picks].mean(2)
    low, high = np.quantile(means, [0.025, 0.975], axis=1)
    return low, high


# -------------------------------------------------------------------------------------------------- table


def measure(draw: Draw, count: int, draws: int, seed: int = 0) -> dict[str, float]:
    """Shares of draws: ours over the median, and how often it is all above; Student's t and bootstrap over the mean."""
    chance = np.random.default_rng(seed)
    many = draw(chance, (1_000_000,))
    median, mean = float(np.median(many)), float(many.mean())
    drawn = draw(chance, (draws, count))
    low, high = ours(drawn)
    found = {"ours": float(((low <= median) & (median <= high)).mean()), "above": float((low > median).mean())}
    for name, interval in (("student", student), ("bootstrap", bootstrap)):
        low, high = interval(drawn)
        found[name] = float(((low <= mean) & (mean <= high)).mean())
    return found


def table(draws: int) -> str:
    lines = ["| seeds scatter like | " + " | ".join(f"{count} seeds" for count in COUNTS) + " |",
             "|---|" + "---:|" * len(COUNTS)]
    for name, draw in shapes():
        cells = []
        for count in COUNTS:
            found = measure(draw, count, draws)
            cells.append(f"{found['ours']:.1%} ({found['student']:.0%}, {found['bootstrap']:.0%})")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--draws", type=int, default=20_000)
    asked.add_argument("--write", action="store_true")
    given = asked.parse_args()
    made = table(given.draws)
    print(made)
    if given.write:
        page = ROOT / "docs" / "lab.md"
        marks = re.compile(r"(<!-- coverage -->\n).*?(<!-- /coverage -->)", re.S)
        page.write_text(marks.sub(lambda found: found[1] + made + "\n" + found[2], page.read_text()))


if __name__ == "__main__":
    main()
