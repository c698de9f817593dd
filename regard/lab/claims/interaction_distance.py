"""Linear interaction distance: in an RNN two words k apart meet after k steps, in a Transformer at once.

    RNN           d h[t] / d c[t-k]  =  product of k Jacobians        d h[i] / d h[i-1] = diag(f') W_h
    Transformer   d y[t] / d c[t-k]  has a term alpha[t, t-k] W_V     whatever k is

Each model is trained for as many steps to name a name that stood up to 48 words before the question. Then, for every
distance k: how large is the gradient of what the model holds at the question with respect to the name's embedding, and
how many operations lie between the two on the shortest way back? For that every model reads word by word, with what it
keeps of each word held apart, so that a way leads through the words that carry it and through no others.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.contract import State
from regard.lab.exercises import FIRST, generator, recall_at
from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Values, column
from regard.lab.tiny import accuracy, fit, language_model
from regard.layers.cache import KeyValueCache, Readable, WindowCache

DISTANCES = (1, 2, 4, 8, 16, 32, 48)
NAMES, NOISE = 8, 8
WIDTH = 32
NOTHING = 1e-8                             # of a gradient, is none: rounding is about as large
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "rnn": ("rnn", dict(hidden=WIDTH)), "gru": ("gru", dict(hidden=WIDTH)), "lstm": ("lstm", dict(hidden=WIDTH)),
    "linear-rnn": ("linear-rnn", dict(layers=1)), "mamba": ("mamba", dict(layers=1)),
    "transformer": ("transformer", dict(layers=1, heads=2, context=64))}
WINDOW, LAYERS = 16, 4                     # of a Transformer that reaches 60 words back, in steps of 15
FLIPPED: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "recurrence": {"rnn": ("hybrid", dict(layers=2, heads=2, context=64, pattern=("rnn", "attention")))},
    "reach": {"transformer": ("transformer", dict(layers=LAYERS, heads=2, context=64, window=WINDOW))}}


def measured(setting: Setting, arm: str) -> Values:
    family, own = (MODELS | FLIPPED.get(setting.flipped, {}))[arm]
    model = language_model(family, FIRST + 1 + NAMES + NOISE, setting.device, width=WIDTH, **own)
    fit(model, lambda step: recall_at(32, distance_at(setting.seed, step), NAMES, NOISE, setting.seed, step),
        setting.pick(300, 150), rate=5e-3)
    right = [accuracy(model, recall_at(128, k, NAMES, NOISE, setting.seed, -1 - k)) for k in DISTANCES]
    found = [gradient(model, recall_at(32, k, NAMES, NOISE, setting.seed, -100 - k).tokens) for k in DISTANCES]
    steps = [operations_between(model, k) for k in DISTANCES]
    relative = [max(each / found[0], NOTHING) if found[0] else math.nan for each in found]
    return {"gradient": found, "relative": relative, "right": right, "operations": steps,
            "growth": (steps[-1] - steps[0]) / (DISTANCES[-1] - DISTANCES[0]), "lost": -math.log10(relative[-1])}


def distance_at(seed: int, step: int) -> int:
    return int(torch.randint(1, DISTANCES[-1] + 1, (), generator=generator(seed, 10**6 + step)))


def gradient(model: Any, tokens: Tensor, directions: int = 4) -> float:
    """The norm of d y[T] / d c[1], estimated from its products with a few random directions of y; mean over rows."""
    model.train(False)
    embedded = model.embedding(tokens.to(model.device)).detach().requires_grad_()
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):              # which refuses a way back in eval
        y = model.norm(model.stack(embedded)[0])[:, -1]
    squares = 0.0
    for at in range(directions):
        direction = torch.randn(y.shape, generator=generator(0, at)).to(y)
        (found,) = torch.autograd.grad((y * direction).sum(), embedded, retain_graph=True)
        squares = squares + found[:, 0].square().sum(-1) / directions
    return float(torch.as_tensor(squares).sqrt().mean())


# ----------------------------------------------------------------------------------- the shortest way back


@dataclass
class HeldApart(State):
    """A cache of attention that holds every word by itself; with a window, the last words only."""

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    count: Tensor
    window: int                            # 0: everything

    def next(self, *given: Any) -> tuple[None, HeldApart]:
        """No kernel reads words that are held apart."""
        return None, self

    def write(self, keys: Tensor, values: Tensor, lengths: Tensor | None) -> tuple[HeldApart, Readable]:
        first = -self.window if self.window else None
        after = replace(self, keys=(*self.keys, keys)[first:], values=(*self.values, values)[first:],
                        count=self.count + 1)
        at = int(after.count) - len(after.keys) + torch.arange(len(after.keys), device=keys.device)
        return after, Readable(torch.cat(after.keys, 1), torch.cat(after.values, 1), at)


def held_apart(state: Any) -> Any:
    """The state of a stack, in which caches of attention hold their words apart."""
    def apart(each: State | None) -> State | None:
        if isinstance(each, KeyValueCache | WindowCache):
            window = each.keys.shape[1] if isinstance(each, WindowCache) else 0
            return HeldApart((), (), each.count, window)
        return each

    return replace(state, layers=tuple(map(apart, state.layers))) if hasattr(state, "layers") else apart(state)


def operations_between(model: Any, distance: int) -> int:
    """Operations on the shortest way back from what is held after the last word to a word `distance` before it."""
    words = [torch.zeros(1, 1, WIDTH, device=model.device, requires_grad=True) for _ in range(distance + 1)]
    with torch.enable_grad():
        state = held_apart(model.stack.start(1, distance + 1))
        for word in words:
            y, state = model.stack(word, state)
    return shortest_way(y, words[0])


def shortest_way(output: Tensor, leaf: Tensor) -> int:
    """Breadth first, through the graph that autograd keeps for the way back."""
    waiting, seen = deque([(output.grad_fn, 0)]), {output.grad_fn}
    while waiting:
        node, steps = waiting.popleft()
        if getattr(node, "variable", None) is leaf:
            return steps
        for following, _ in node.next_functions if node is not None else ():
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append((following, steps + 1))
    raise AssertionError("the output does not depend on the input")


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    def lines(key: str) -> list[Line]:
        return [Line(name, DISTANCES, column(seeds, name, key)) for name in MODELS]

    away = "words between, k"
    return [Chart("Gradient from the question back to the name", away, "norm, relative to k = 1", lines("relative"),
                  log_x=True, log_y=True),
            Chart("Operations on the shortest way back", away, "operations", lines("operations"), log_x=True,
                  log_y=True),
            Chart("Names recalled", away, "share right", lines("right"), log_x=True, y_from=0, y_to=1.02,
                  levels=[("chance", 1 / NAMES)])]


EXPERIMENT = Experiment(
    name="interaction-distance", number=3, title="Linear interaction distance",
    claim="In an RNN the way between two words, and the loss of gradient on it, grows with their distance; in a "
          "Transformer it does not.",
    source="lecture 002, 3.2: linear interaction distance", equation="d h[t] / d c[t-k] = product of k Jacobians",
    refuted="a way through the RNN that does not grow with k, one through the Transformer that does, or a gradient "
            "that falls no more in the RNN than in the Transformer",
    flips=(Flip("recurrence", "puts a layer of attention on the RNN: the recurrence is no longer the only way",
                arms=("rnn",)),
           Flip("reach", f"lets attention reach the last {WINDOW} words only, in {LAYERS} layers: the way to a word "
                "farther back leads through words between", arms=("transformer",))),
    arms=tuple(Arm(name, lambda s, name=name: measured(s, name)) for name in MODELS),            # type: ignore[misc]
    rules=(Rule("on the shortest way back through the RNN each word more takes, in operations",
                lambda s: s["rnn"]["growth"], above=1, exact=True, cause="recurrence"),
           Rule("on the shortest way back through the Transformer each word more takes, in operations",
                lambda s: s["transformer"]["growth"], below=0.01, exact=True, cause="reach"),
           Rule("from k = 1 to 48 the RNN's gradient loses more than the Transformer's, in powers of ten",
                lambda s: s["rnn"]["lost"] - s["transformer"]["lost"], above=1, cause="recurrence")),
    charts=charts, fixed=Fixed("2026-11-15", "fbc86e4d57e5"),
    notes="One layer of 32 each, 300 steps of 32 texts. A linear recurrence takes as many steps as an RNN, but each is "
          "a product with a decay and nothing bends it. The gradient is measured after training for a fixed number of "
          "steps; a gradient below 1e-8 of the one at k = 1 counts as that. The third chart shows who has learned the "
          "names by then.")
