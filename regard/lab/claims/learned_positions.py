"""Learned positions against sinusoids: which fit the data better, within the length of training?

    learned        x_t + p_t, a vector for each t <= n, learned with all other weights
    sinusoidal     x_t + PE(t), PE_2i(t) = sin(t / 10000^(2i/D)), PE_2i+1(t) = cos of the same

A learned vector can be what the data want of it, and the sinusoids are one table of such vectors among others. But they
are there from the first step, and learned ones have to be learned. Two models that differ in nothing else learn the
beginnings of our stories letter by letter. Learned vectors begin thirty times smaller than sinusoids are, which matters
by itself: so sinusoids are tried as they are and as small as that, each kind with several learning rates, and the best
counts. Flipped, the learned vectors stay what they are at first: a table that knows nothing.   N places
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from regard.corpora import stories
from regard.lab.exercises import FIRST, generator
from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Table, Values, column
from regard.lab.tiny import Exercise, far_apart, find_layers, fit, language_model, loss_on
from regard.layers.positions import LearnedPositions, SinusoidalPositions

N = 32                                     # places
ROWS, WIDTH = 24, 32
STORIES, HELD_OUT = 2000, 200
RATES = (5e-3, 1e-2)
SMALL = 0.02 * 2**0.5                      # makes sinusoids as small as learned vectors begin
KINDS = ("learned", "sinusoidal")
TRIED = {"learned": [(1.0, rate) for rate in RATES],                   # scale and rate
         "sinusoidal": [(scale, rate) for scale in (1.0, SMALL) for rate in RATES]}


@cache
def beginnings(seed: int) -> tuple[Tensor, int]:
    """(stories, N + 1): the first letters of each story as ids, and how many ids there are. Held-out ones come last."""
    texts = [story[:N + 1] for story in stories.generate(STORIES + HELD_OUT, seed=seed + 1)]
    known = sorted({letter for text in texts for letter in text})
    return torch.tensor([[FIRST + known.index(letter) for letter in text] for text in texts]), FIRST + len(known)


def from_the_beginning(rows: int, seed: int, step: int) -> Exercise:
    """Beginnings of stories, each letter of which foretells the next; before step 0, all that are held out."""
    texts, _ = beginnings(seed)
    picked = torch.randint(STORIES, (rows,), generator=generator(seed, step)) if step >= 0 else slice(STORIES, None)
    pieces = texts[picked]
    return Exercise(pieces[:, :-1], pieces[:, 1:], torch.ones_like(pieces[:, 1:], dtype=torch.bool))


def model_of(kind: str, scale: float, learns: bool, vocab: int, device: str) -> Any:
    """A small Transformer. Its table of positions holds sinusoids times `scale`, or small random vectors; it may be
    learned, or stay as it is."""
    model = far_apart(language_model("transformer", vocab, device, layers=2, width=WIDTH, heads=4, context=N,
                                     positions="learned", embedding_scale="none"))
    layer = find_layers(model, LearnedPositions)[0]
    if kind == "sinusoidal":
        with torch.no_grad():
            layer.table.copy_(scale * SinusoidalPositions(WIDTH).vectors(torch.arange(N)))
    layer.table.requires_grad_(learns)
    return model


def trained(setting: Setting, kind: str) -> Values:
    """For each scale and rate the loss of the last steps of training, and of what was not learned from."""
    learns, vocab = kind == "learned" and setting.flipped != "learning", beginnings(setting.seed)[1]
    fitted, held_out = [], []
    for scale, rate in TRIED[kind]:
        torch.manual_seed(setting.seed)
        model = model_of(kind, scale, learns, vocab, setting.device)
        losses = fit(model, lambda step: from_the_beginning(ROWS, setting.seed, step), setting.pick(180, 100),
                     rate=rate)
        fitted.append(sum(losses[-20:]) / 20)
        held_out.append(loss_on(model, from_the_beginning(HELD_OUT, setting.seed, -1)))
    return {"fitted": fitted, "held out": held_out}


def by_frequency(setting: Setting) -> Values:
    """Nats a letter of the beginnings by how frequent each letter is at any place: what a model without words costs."""
    texts, vocab = beginnings(setting.seed)
    counts = texts[:STORIES, 1:].flatten().bincount(minlength=vocab).double()
    shares = counts[counts > 0] / counts.sum()
    return {"nats": -float((shares * shares.log()).sum())}


def saves(seed: Seed, what: str) -> float:
    """By how much learned positions cost less than sinusoids, each at its best rate: nats a letter."""
    return float(min(seed["sinusoidal"][what]) - min(seed["learned"][what]))


def learns(seed: Seed) -> float:
    """By how much the worse of the two is below what frequencies alone cost."""
    return float(seed["frequency"]["nats"] - max(min(seed[kind]["held out"]) for kind in KINDS))


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    names = {"held out": "held out", "fitted": "in training"}
    lines = [Line(kind, list(names.values()), [[min(seed[kind][what]) for what in names] for seed in seeds])
             for kind in KINDS]
    return [Chart("The loss of beginnings of stories, at the best scale and rate", "", "nats a letter", lines,
                  kind="bars", y_from=0)]


def table(seeds: Sequence[Seed]) -> Table:
    def mean(kind: str, what: str) -> str:
        best = [min(values) for values in column(seeds, kind, what)]
        return f"{sum(best) / len(best):.3f}" if all(map(math.isfinite, best)) else "not finite"

    return Table(["positions", "held out, nats a letter", "in training, nats a letter"],
                 [[kind, mean(kind, "held out"), mean(kind, "fitted")] for kind in KINDS])


EXPERIMENT = Experiment(
    name="learned-positions", number=25, title="Learned positions against sinusoids",
    claim="Position vectors that are learned from scratch fit the data better than sinusoids, within the length of "
          "training.",
    source="lecture 002, 10.3.2: learned position vectors will likely better fit the data",
    equation="x_t + p_t, p_t learned or PE(t)",
    refuted="sinusoids that cost as little as learned positions on the beginnings of stories, held out or learned from",
    flips=(Flip("learning", "leaves the learned vectors as they are at first", arms=("learned",)),),
    arms=(*(Arm(kind, partial(trained, kind=kind)) for kind in KINDS), Arm("frequency", by_frequency)),
    rules=(Rule("on held-out beginnings of stories learned positions cost less than sinusoids, a letter, by",
                lambda s: saves(s, "held out"), above=0.02, unit=" nats"),
           Rule("in the last steps of training on them learned positions cost less than sinusoids, a letter, by",
                lambda s: saves(s, "fitted"), above=0.02, unit=" nats"),
           Rule("the worse of the two costs less than letters by their frequency, by", learns, above=0.5, unit=" nats",
                condition="else it was not trained")),
    charts=charts, table=table,
    fixed=Fixed("2026-11-17", "ebaa16038d80",
                after="in a first quick run learned positions won by 0.4 nats, partly because "
                "sinusoids are larger than learned vectors begin; small sinusoids were added then, and the flip became "
                "another; the bounds stayed"),
    notes=f"Two layers of width {WIDTH} over {N} letters, word vectors far apart from the start; each kind at the "
          f"better of the rates {' and '.join(f'{rate:g}' for rate in RATES)}, sinusoids also at the better of two "
          "sizes; the same first weights and batches. Training is short: what is judged is the fit after that. On "
          "places past the length of training see past-the-end.")
