"""Learned positions against sinusoids: which fit the data better, within the length of training?

    learned        x_t + p_t, a vector for each t <= n, learned with all other weights
    sinusoidal     x_t + PE(t), PE_2i(t) = sin(t / 10000^(2i/D)), PE_2i+1(t) = cos of the same

A learned vector can be what the data want of it, and the sinusoids are one table of such vectors among others. But they
are there from the first step, and learned ones have to be learned. Two models that differ in nothing else learn the
beginnings of our stories letter by letter: what stands at a place depends on the place. Each is trained with several
learning rates, and the best counts. Flipped, the data are of a kind in which only the place says where to look: at place
t the answer is the letter at place table[t], drawn once, which no formula of t knows.   N places · B batch
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, partial

import torch
from torch import Tensor

from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Table, Values, column
from regard.lab.tasks import FIRST, generator
from regard.lab.tiny import Batch, fit, language_model, loss_on
from regard.text import stories

N = 32                                     # places
ROWS, WIDTH = 24, 32
STORIES, HELD_OUT = 2000, 200
LETTERS = 8                                # of the texts with a table
KINDS = ("learned", "sinusoidal")
RATES = (3e-3, 1e-2)


@cache
def beginnings(seed: int) -> tuple[Tensor, int]:
    """(stories, N + 1): the first letters of each story as ids, and how many ids there are. Held-out ones come last."""
    texts = [story[:N + 1] for story in stories.generate(STORIES + HELD_OUT, seed=seed + 1)]
    known = sorted({letter for text in texts for letter in text})
    return torch.tensor([[FIRST + known.index(letter) for letter in text] for text in texts]), FIRST + len(known)


def from_the_beginning(rows: int, seed: int, step: int) -> Batch:
    """Beginnings of stories, each letter of which foretells the next; before step 0, all that are held out."""
    texts, _ = beginnings(seed)
    picked = torch.randint(STORIES, (rows,), generator=generator(seed, step)) if step >= 0 else slice(STORIES, None)
    pieces = texts[picked]
    return Batch(pieces[:, :-1], pieces[:, 1:], torch.ones_like(pieces[:, 1:], dtype=torch.bool))


def by_table(rows: int, seed: int, step: int) -> Batch:
    """Any letters; at place t the letter at place table[t] <= t is asked."""
    letters = FIRST + torch.randint(LETTERS, (rows, N), generator=generator(seed, step))
    return Batch(letters, letters[:, table_of(seed)], torch.ones(rows, N, dtype=torch.bool))


def table_of(seed: int) -> Tensor:
    """(N,): for each place, one that is not later; as likely as another."""
    return (torch.rand(N, generator=generator(seed, -9)) * (torch.arange(N) + 1)).long()


def trained(setting: Setting, kind: str) -> Values:
    """For each rate the loss of the last steps of training, and of what was not learned from."""
    task = by_table if setting.flipped == "table" else from_the_beginning
    vocab = FIRST + LETTERS if setting.flipped == "table" else beginnings(setting.seed)[1]
    fitted, held_out = [], []
    for rate in RATES:
        torch.manual_seed(setting.seed)
        model = language_model("transformer", vocab, setting.device, layers=2, width=WIDTH, heads=4, context=N,
                               positions=kind)
        losses = fit(model, lambda step: task(ROWS, setting.seed, step), setting.pick(200, 120), rate=rate)
        fitted.append(sum(losses[-20:]) / 20)
        held_out.append(loss_on(model, task(HELD_OUT, setting.seed, -1)))
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
    rates = [f"{rate:g}" for rate in RATES]
    return [Chart(title, "learning rate", "nats a letter", [Line(kind, rates, column(seeds, kind, what)) for kind in KINDS],
                  kind="bars", y_from=0)
            for title, what in (("The loss of held-out beginnings", "held out"),
                                ("The loss in the last steps of training", "fitted"))]


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
    flips=(Flip("table", "takes data in which only the place says where to look, by a table that no formula knows"),),
    arms=(*(Arm(kind, partial(trained, kind=kind)) for kind in KINDS), Arm("frequency", by_frequency)),
    rules=(Rule("on held-out beginnings of stories learned positions cost less than sinusoids, a letter, by",
                lambda s: saves(s, "held out"), above=0.02, unit=" nats"),
           Rule("in the last steps of training on them learned positions cost less than sinusoids, a letter, by",
                lambda s: saves(s, "fitted"), above=0.02, unit=" nats"),
           Rule("the worse of the two costs less than letters by their frequency, by", learns, above=0.5, unit=" nats",
                condition="else it was not trained")),
    charts=charts, table=table, fixed=Fixed("2026-11-17", ""),
    notes=f"Two layers of width {WIDTH} over {N} letters; each kind at the better of the rates "
          f"{' and '.join(f'{rate:g}' for rate in RATES)}, from the same first weights and on the same batches. "
          "Embeddings are multiplied by sqrt(D) below sinusoids, as they are by default, and not below learned "
          "positions. On places past the length of training see past-the-end.")
