"""Linear interaction distance: in an RNN two words k apart meet after k steps, in a Transformer at once.

    RNN           d h[t] / d c[t-k]  =  product of k Jacobians        d h[i] / d h[i-1] = diag(f') W_h
    Transformer   d y[t] / d c[t-k]  has a term alpha[t, t-k] W_V     whatever k is

Each model is trained for as many steps to name a name that stood up to 48 words before the question. Then, for every
distance k: how large is the gradient of what the model holds at the question with respect to the name's embedding, and
how many operations lie between the two on the shortest way back? A recurrence is read word by word for that, attention
whole, as each is defined.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.lab.experiment import Arm, Chart, Experiment, Flip, Line, Rule, Seed, Setting, Values, column
from regard.lab.tasks import FIRST, generator, recall_at
from regard.lab.tiny import accuracy, fit, language_model

DISTANCES = (1, 2, 4, 8, 16, 32, 48)
NAMES, NOISE = 8, 8
WIDTH = 32
NOTHING = 1e-8                             # of a gradient, is none: rounding is about as large
BY_WORDS, WHOLE = True, False              # how the shortest way through a model is followed
MODELS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "rnn": ("rnn", dict(hidden=WIDTH), BY_WORDS), "gru": ("gru", dict(hidden=WIDTH), BY_WORDS),
    "lstm": ("lstm", dict(hidden=WIDTH), BY_WORDS), "linear-rnn": ("linear-rnn", dict(layers=1), BY_WORDS),
    "mamba": ("mamba", dict(layers=1), BY_WORDS),
    "transformer": ("transformer", dict(layers=1, heads=2, context=64), WHOLE)}
FLIPPED = MODELS | {                       # an RNN with a layer of attention above it: a way of one step
    "rnn": ("hybrid", dict(layers=2, heads=2, context=64, pattern=("rnn", "attention")), WHOLE)}


def measured(setting: Setting, arm: str) -> Values:
    family, own, by_words = (FLIPPED if setting.flipped else MODELS)[arm]
    model = language_model(family, FIRST + 1 + NAMES + NOISE, setting.device, width=WIDTH, **own)
    fit(model, lambda step: recall_at(32, distance_at(setting.seed, step), NAMES, NOISE, setting.seed, step),
        setting.pick(300, 150), rate=5e-3)
    right = [accuracy(model, recall_at(128, k, NAMES, NOISE, setting.seed, -1 - k)) for k in DISTANCES]
    found = [gradient(model, recall_at(32, k, NAMES, NOISE, setting.seed, -100 - k).tokens) for k in DISTANCES]
    steps = [operations_between(model, k, by_words) for k in DISTANCES]
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


def operations_between(model: Any, distance: int, by_words: bool) -> int:
    """Operations on the shortest way back from what is held after the last word to a word `distance` before it."""
    words = [torch.zeros(1, 1, WIDTH, device=model.device, requires_grad=True) for _ in range(distance + 1)]
    with torch.enable_grad():
        if by_words:
            state = model.stack.start(1, distance + 1)
            for word in words:
                y, state = model.stack(word, state)
        else:
            y, _ = model.stack(torch.cat(words, 1))
            y = y[:, -1]
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
    flips=(Flip("cause", "puts a layer of attention on the RNN"),),
    arms=tuple(Arm(name, lambda s, name=name: measured(s, name)) for name in MODELS),            # type: ignore[misc]
    rules=(Rule("operations a word on the shortest way through the RNN", lambda s: s["rnn"]["growth"], above=1,
                exact=True),
           Rule("and through the Transformer", lambda s: s["transformer"]["growth"], below=0.01, exact=True),
           Rule("from k = 1 to 48 the RNN's gradient loses more than the Transformer's, in powers of ten",
                lambda s: s["rnn"]["lost"] - s["transformer"]["lost"], above=1)),
    charts=charts,
    notes="One layer of 32 each, 300 steps of 32 texts. A linear recurrence read word by word takes as many steps as "
          "an RNN, but each is a product with a decay and nothing bends it.")
