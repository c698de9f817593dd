"""Softmax: weights that sum to one keep training stable, a lecture conjectures. Does it go without?

    softmax          a_ts = exp(e_ts) / sum_r exp(e_tr)          sum_s a_ts = 1
    unnormalised     a_ts = exp(e_ts)                            what is read grows with the length and the scores
    sigmoid          a_ts = 1 / (1 + exp(-e_ts))                 each weight below one, their sum anything up to t

Three small Transformers that differ in this alone learn the next letter of our stories, at learning rates from careful
to careless and without clipping, which is another cure for the same illness. Measured is the loss that each reaches;
one that blows up, or ends worse than guessing among all letters, counts as guessing. Stable is what loses little when
the rate is too large: the loss at the two largest rates is compared with that at the rate which suits each kind best,
so that a kind is not called unstable for being worse at every rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.lab.exercises import FIRST, letters, story_text
from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Values, column
from regard.lab.tiny import find_layers, fit, language_model, loss_on
from regard.layers.attend import CAUSAL, scores_of
from regard.layers.self_attention import SelfAttention

CONTEXT = 48
RATES = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
WEIGHTS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda e: e.softmax(-1), "unnormalised": torch.exp, "sigmoid": torch.sigmoid}
FLIPPED: dict[str, dict[str, Callable[[Tensor], Tensor]]] = {
    "growth": {"unnormalised": lambda e: e.clamp(max=0).exp()},  # min(exp(e), 1): bounded, and no sum
    "bound": {"sigmoid": torch.exp}}                             # exp(e) / (1 + exp(e)) without what bounds it


class Weighted(SelfAttention):
    """Self-attention whose weights are another function of the scores, -inf where nothing may be read."""

    weigh: Callable[[Tensor], Tensor]

    def forward(self, x: Tensor, state: Any = None, lengths: Tensor | None = None) -> tuple[Tensor, None]:
        assert state is None, "read whole"
        q, k, v = self.queries_keys_values(x, torch.arange(x.shape[1], device=x.device))
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)             # each (B, H, T, K)
        y = self.weigh(scores_of(q, k, CAUSAL)) @ v
        return self.out(y.transpose(1, 2).flatten(2)), None


def reweigh(model: torch.nn.Module, weigh: Callable[[Tensor], Tensor]) -> None:
    """Make the weights of all layers by `weigh`; the parameters stay."""
    for layer in find_layers(model, SelfAttention):
        layer.__class__ = Weighted
        setattr(layer, "weigh", weigh)                                                # noqa: B010, it has just become one


def trained(setting: Setting, kind: str) -> Values:
    weigh = FLIPPED.get(setting.flipped, {}).get(kind, WEIGHTS[kind])
    known, _ = story_text(setting.seed)
    guessing, losses, largest = math.log(len(known)), [], []
    for rate in RATES:
        torch.manual_seed(setting.seed)
        model = language_model("transformer", FIRST + len(known), setting.device, layers=2, width=32, heads=2,
                               context=CONTEXT)
        reweigh(model, weigh)
        norms: list[Tensor] = []
        fit(model, lambda step: letters(16, CONTEXT, setting.seed, step), setting.pick(160, 100), rate=rate,
            clip=math.inf, watch_gradient=partial(keep_norm, norms))
        loss = loss_on(model, letters(128, CONTEXT, setting.seed, -1))
        losses.append(min(loss, guessing) if math.isfinite(loss) else guessing)
        largest.append(min(float(torch.stack(norms[20:] or norms).max()), 1e12))      # once the rate has warmed up
    return {"losses": losses, "largest gradients": largest, "lost": sum(losses[-2:]) / 2 - min(losses),
            "best": min(losses), "guessing": guessing}


def keep_norm(norms: list[Tensor], step: int, model: torch.nn.Module) -> None:
    """Add the norm of the whole gradient; one that is not a number is as bad as an infinite one."""
    norm = torch.stack([weight.grad.norm() for weight in model.parameters() if weight.grad is not None]).norm()
    norms.append(torch.nan_to_num(norm, nan=math.inf))


def more_lost(seed: Seed, kind: str) -> float:
    return float(seed[kind]["lost"] - seed["softmax"]["lost"])


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    names = [f"{rate:g}" for rate in RATES]

    def lines(value: str) -> list[Line]:
        return [Line(kind, names, column(seeds, kind, value)) for kind in WEIGHTS]

    return [Chart("The loss by the learning rate", "learning rate", "nats a letter", lines("losses"), kind="bars",
                  levels=[("guessing", seeds[0]["softmax"]["guessing"])]),
            Chart("The largest gradient met after the first 20 steps", "learning rate", "norm of the gradient",
                  lines("largest gradients"), kind="bars", log_y=True)]


EXPERIMENT = Experiment(
    name="softmax", number=18, title="Does normalising the weights matter for stability?",
    claim="That attention weights sum to one, by softmax, is critical for stable training.",
    source="lecture 003, a conjecture: this normalization is critical for its training stability",
    equation="a_ts = exp(e_ts) / sum_r exp(e_tr)",
    refuted="weights that are not normalised bearing large learning rates as well as softmax does",
    flips=(Flip("growth", "bounds each unnormalised weight by one, min(exp(e), 1), and still does not normalise",
                arms=("unnormalised",)),
           Flip("bound", "takes the denominator of the sigmoid away, which bounds each weight", arms=("sigmoid",))),
    arms=tuple(Arm(kind, partial(trained, kind=kind)) for kind in WEIGHTS),
    rules=tuple(Rule(f"from its best rate to the two largest, the loss with {kind} weights rises by more than that "
                     "with softmax, by", partial(more_lost, kind=kind), above=0.2, unit=" nats", cause=cause)
                for kind, cause in (("unnormalised", "growth"), ("sigmoid", "bound"))),
    fixed=Fixed("2026-11-15", "cf7fa89bf876",
                after="each kind is compared with itself at its best rate, since a kind that is worse at every rate is "
                "not unstable"), charts=charts,
    notes="Two layers of width 32, pieces of 48 letters, AdamW without clipping; each rate is warmed up over 20 steps. "
          "Sigmoid weights are bounded, though they do not sum to one: a kind that bears large rates without the sum "
          "says that bounds matter, and not the sum.")
