"""What a choice of family and size loses: from learning curves and paces, for any budget on the reference core.

The seconds that a token takes are a line in the number of weights, fitted to all that was timed of a family; the score
after so many tokens is read off the curve of its size, on a scale of logarithms. Where a budget buys more tokens than a
curve has, its last point counts; where it buys fewer, that size is left out. Regret is the distance between the choice
and the best of all families and sizes, chosen on the part valid and measured on test: in percent of the loss, or in
BLEU.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from typing import Any

import numpy as np

from regard.families.sizes import SEEN
from regret_parts.files import read_rows
from regret_parts.texts import SOURCES

IN_STEPS = 0.85
SHORTEST = 0.8                 # of a curve's first point: a budget that buys less has no score
Curve = list[tuple[int, float, float]]                     # tokens, and the scores on valid and on test: less is better
Choice = tuple[str, int]                                   # family, size


def print_losses(options: argparse.Namespace) -> None:
    """Print for each corpus and budget the default, the best, and the regret of always taking one family."""
    curves, weights = read_curves(options)
    lines = fit_lines(options)
    families = sorted({family for _, family, _ in curves})
    regrets: dict[str, list[float]] = defaultdict(list)
    print(f"{'corpus':15} min  {'best':24} {'score':>8}  regret on test of each family at its default size")
    for corpus in sorted({corpus for corpus, _, _ in curves}):
        for minutes in options.minutes:
            tokens = {(family, size): tokens_in(minutes, lines[kind_of(corpus), family], weights[corpus, family, size])
                      for name, family, size in curves if name == corpus}
            scores = {choice: read_curve(curves[corpus, *choice], number) for choice, number in tokens.items()
                      if number >= SHORTEST * curves[corpus, *choice][0][0]}
            best = min(scores, key=lambda choice: scores[choice][0])
            found = []
            for family in families:
                sizes = {size: weights[corpus, family, size] for one, size in scores if one == family}
                if sizes:
                    size = default_size(sizes, minutes, lines[kind_of(corpus), family])
                    lost = loss_of(scores[family, size][1], scores[best][1])
                    regrets[family].append(lost)
                    found.append(f"{family} {size}: {lost:.2f}")
            print(f"{corpus:15} {minutes:3g}  {best[0] + ' ' + str(best[1]):24} {abs(scores[best][1]):8.4f}  "
                  + " · ".join(found))
    for family, lost in regrets.items():
        print(f"{family:24} median {np.median(lost):.2f}  worst {max(lost):.2f}  of {len(lost)}")


def kind_of(corpus: str) -> str:
    return SOURCES[corpus].kind


def read_curves(options: argparse.Namespace) -> tuple[dict[tuple[str, str, int], Curve], dict[Any, int]]:
    """Return the curves with the default dropout, and the weights of each corpus, family and size."""
    curves: dict[tuple[str, str, int], Curve] = defaultdict(list)
    for row in read_rows(options.results / "curves.jsonl"):
        if row.get("dropout", -1.0) < 0 and row["batch"] == 1.0 and "valid" in row:
            curves[row["corpus"], row["family"], row["size"]].append(
                (row["tokens"], score(row["valid"]), score(row["test"])))
    timed = {(row["corpus"], row["family"], row["size"]): row["weights"]
             for row in read_rows(options.results / "paces.jsonl")}
    weights = {}
    for corpus, family, size in curves:
        like = "source" if corpus in ("source", "manuals") else "shakespeare"          # by vocabulary
        like = {"pairs": "tatoeba" if corpus == "tatoeba" else "multi30k-fr-en"}.get(kind_of(corpus), like)
        weights[corpus, family, size] = timed[like, "transformer" if "," in family else family, size]
    return {key: sorted(curve) for key, curve in curves.items()}, weights


def score(measured: dict[str, float]) -> float:
    return measured["mixture"] if "mixture" in measured else -measured["bleu"]


def fit_lines(options: argparse.Namespace) -> dict[tuple[str, str], tuple[float, float]]:
    """Return seconds a token of each kind and family, as a constant and a slope in weights, by relative error."""
    groups: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for row in read_rows(options.results / "paces.jsonl"):
        groups[kind_of(row["corpus"]), row["family"]].append((row["weights"], 1 / row["tokens_a_second"]))
    lines = {}
    for key, points in groups.items():
        x, y = np.array(points).T
        (constant, slope), *_ = np.linalg.lstsq(np.stack([np.ones_like(x), x], 1) / y[:, None], np.ones_like(y))
        lines[key] = float(constant), float(slope)
    return lines | {("text", "linear-rnn,attention"): lines["text", "transformer"]}


def tokens_in(minutes: float, line: tuple[float, float], weights: int) -> float:
    return 60 * minutes * IN_STEPS / (line[0] + line[1] * weights)


def read_curve(curve: Curve, tokens: float) -> tuple[float, float]:
    """Return the scores on valid and test after so many tokens."""
    x = [math.log(each) for each, _, _ in curve]
    valid, test = (float(np.interp(math.log(tokens), x, [point[n] for point in curve])) for n in (1, 2))
    return valid, test


def default_size(sizes: dict[int, int], minutes: float, line: tuple[float, float]) -> int:
    """Return the largest size whose weights each read SEEN tokens, as regard.families.sizes chooses."""
    return max((size for size, weights in sizes.items() if tokens_in(minutes, line, weights) >= SEEN * weights),
               default=min(sizes))


def loss_of(choice: float, best: float) -> float:
    """Return the regret in percent of a loss, or in BLEU, which is kept as its negative."""
    return choice - best if best < 0 else 100 * (choice / best - 1)
