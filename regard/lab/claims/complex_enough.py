"""Complex enough: a recurrence that adds, adds some words only, or adds while it is told to, learned from examples.

    RNN        h_t = f(W_h h_{t-1} + W_c c_t)          what it adds to depends on what it has
    DAN        the mean of c_1 .. c_t                  a network reads a mean: no state, no order
    window     c_{t-2}, c_{t-1}, c_t                   a network reads the last three words

Three tasks, each a running sum modulo three, asked for after every word. `add`: each word is a digit and is added.
`some`: only digits are added, and half of the words are none. `switch`: digits are added between "on" and "off" only.
Models learn from sequences of 16 words; measured are the sums after the last eight words of sequences drawn anew (of
some 10^7 or more: hardly one of them was learned from).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Values
from regard.lab.tasks import FIRST, generator
from regard.lab.tiny import Batch, accuracy, far_apart, fit, language_model
from regard.layers.recurrent import Elman

TASKS = ("add", "some", "switch")
MODULO, LENGTH = 3, 16
OTHER = FIRST + MODULO                     # the first of as many words that are no digits
ON, OFF = OTHER + MODULO, OTHER + MODULO + 1
VOCAB = OFF + 1
MODELS: dict[str, dict[str, Any]] = {
    "rnn": dict(width=16, hidden=32, tied=False), "average": dict(width=32, hidden=64, layers=3),
    "window": dict(width=16, hidden=64, order=4)}
NAMES = {"rnn": "RNN", "average": "DAN", "window": "window of 3"}


def sums(task: str, rows: int, seed: int, step: int) -> Batch:
    """Words, and after each the sum so far; the last half of the places count."""
    chance = generator(seed, step)
    words = FIRST + torch.randint(MODULO if task == "add" else 2 * MODULO, (rows, LENGTH), generator=chance)
    if task == "switch":
        drawn = torch.rand(rows, LENGTH, generator=chance)
        words = torch.where(drawn < 0.3, ON + (drawn < 0.15).long(), FIRST + (words - FIRST) % MODULO)
    counts = (torch.arange(LENGTH) >= LENGTH // 2).expand(rows, -1)
    return Batch(words, FIRST + (added(task, words).cumsum(1) % MODULO), counts)


def added(task: str, words: Tensor) -> Tensor:
    """What each word adds: a digit itself, another word nothing; in `switch`, nothing before "on" and after "off"."""
    digits = torch.where(words < OTHER, words - FIRST, 0)
    if task != "switch":
        return digits
    turned = torch.where(words == ON, 1, torch.where(words == OFF, -1, 0))
    at = torch.where(turned != 0, torch.arange(words.shape[1]), -1).cummax(1).values  # where it was turned last
    return digits * ((at >= 0) & (turned.gather(1, at.clamp(min=0)) == 1))


class Linear(Elman):
    """A recurrence without its nonlinearity: h[t] = W_h h[t-1] + W_c c[t] + b."""

    def _run(self, x: Tensor, hx: Any) -> tuple[Tensor, Any]:
        h, outputs = x.new_zeros(len(x), self.d_out), []
        for c in (x @ self.w_c.T + self.b_h + self.b_c).unbind(1):
            h = h @ self.w_h.T + c
            outputs.append(h)
        return torch.stack(outputs, 1), None


def take_away(model: nn.Module, cause: str) -> None:
    for layer in model.modules():
        if isinstance(layer, Elman) and cause == "nonlinearity":
            layer.__class__ = Linear
        elif isinstance(layer, Elman) and cause == "recurrence":
            nn.init.zeros_(layer.w_h).requires_grad_(False)            # nothing of h[t-1] is left in h[t]


def trained(setting: Setting, family: str, task: str) -> Values:
    model = far_apart(language_model(family, VOCAB, setting.device, **MODELS[family]))
    take_away(model, setting.flipped)
    lesson = partial(sums, task, 64, setting.seed)
    fit(model, lambda step: every_place(lesson(step)), setting.pick(800, 400), rate=5e-3)
    return {"right": accuracy(model, sums(task, 500, setting.seed, -1))}


def every_place(batch: Batch) -> Batch:
    """For learning: the first places count, too."""
    return Batch(batch.tokens, batch.targets, torch.ones_like(batch.counts))


def of(family: str, task: str, seed: Seed) -> float:
    return float(seed[f"{family}, {task}"]["right"])


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    lines = [Line(name, TASKS, [[of(family, task, seed) for task in TASKS] for seed in seeds])
             for family, name in NAMES.items()]
    return [Chart(f"Running sums modulo {MODULO}, after 9 to {LENGTH} words", "what is added", "share of sums right",
                  lines, kind="bars", y_from=0, y_to=1.02, levels=[("chance", 1 / MODULO)])]


EXPERIMENT = Experiment(
    name="complex-enough", number=28, title="RNNs are complex enough for hard tasks",
    claim="An RNN learns to add each word to its state, to add words of a certain kind only, and to add while it is "
          "told to; a mean of words and a window of three words learn none of these.",
    source="lecture 001: what can this model do? add each w_i into h; only add w_i if it has a certain value; RNNs are "
           "complex enough to fit hard tasks",
    equation="h_t = f(W_h h_{t-1} + W_c c_t), y_t = sum of what was added so far, modulo 3",
    refuted="an RNN that gets one of the three sums wrong, or a mean or a window that gets one right",
    flips=(Flip("recurrence", "sets W_h to zero and keeps it there: nothing of h[t-1] is left in h[t]",
                arms=("rnn, add",)),
           Flip("nonlinearity", "takes f away: h[t] = W_h h[t-1] + W_c c[t]", arms=("rnn, some", "rnn, switch"))),
    arms=tuple(Arm(f"{family}, {task}", partial(trained, family=family, task=task))
               for family in MODELS for task in TASKS),
    rules=(Rule("where each digit is added, the RNN is right in a share of", lambda s: of("rnn", "add", s), above=0.95,
                cause="recurrence"),
           Rule("where only digits are added, the RNN is right in a share of", lambda s: of("rnn", "some", s),
                above=0.95, cause="nonlinearity"),
           Rule("where digits are added between on and off, the RNN is right in a share of",
                lambda s: of("rnn", "switch", s), above=0.95, cause="nonlinearity"),
           Rule("the best of mean and window, in any of the three tasks, is right in a share of",
                lambda s: max(of(family, task, s) for family in ("average", "window") for task in TASKS), below=0.6,
                condition="else the tasks are not hard")),
    charts=charts,
    notes="A tanh RNN of 32 hidden numbers; the mean and the window are read by networks of 64. In `switch` the words "
          "on and off are three of ten.")
