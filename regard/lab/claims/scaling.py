"""Scaling by 1/sqrt(d): a product of d terms grows with d, a softmax of large scores is nearly one-hot, and nothing is
learned through it.

    q, k with entries of variance 1       Var(q · k) = d        Var(q · k / sqrt d) = 1
    d softmax(s) / d s = diag(a) - a a^T                        which is 0 where a is one-hot

Drawn are queries and 32 keys of every width d; measured are the variance of the scores, the largest weight, and the
size of the gradient that comes back through the softmax. And one layer of attention with one head of d = 256 is trained
to name a name that stood some words before, with and without the scale, from the same weights: entries of queries and
keys have variance 1 at the start, as the equation has it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from regard.lab.exercises import FIRST, recall_at
from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Values, column
from regard.lab.stopwatch import exponent
from regard.lab.tiny import accuracy, fit
from regard.layers.attend import scores_of, weights
from regard.layers.feedforward import FeedForward
from regard.layers.scores import Dot
from regard.layers.self_attention import SelfAttention
from regard.layers.stack import Block, Stack, make_norm
from regard.models.neural import NeuralLM

WIDTHS = (4, 16, 64, 256, 1024)
KEYS = 32
LARGE = 256                                # the head width that is trained
NAMES, NOISE, DISTANCE = 16, 16, 24


def drawn(setting: Setting, scaled: bool) -> Values:
    """Variance of scores, largest weight and gradient through the softmax, for queries and keys of each width.

    Flipped by size, entries have the variance 1 / sqrt d, and their products the variance 1 without a scale.
    """
    variance, largest, gradient = [], [], []
    for d in WIDTHS:
        torch.manual_seed(setting.seed * 31 + d)
        size = d**-0.25 if setting.flipped == "size" else 1.0
        q, k = size * torch.randn(1, 1, 256, d), size * torch.randn(1, 1, KEYS, d)
        score = Dot(1, d, scaled=scaled)
        s = scores_of(q, k, score=score)
        alpha = weights(q, k, score=score)
        variance.append(float(s.var()))
        largest.append(float(alpha.max(-1).values.mean()))
        jacobian = torch.diag_embed(alpha) - alpha[..., :, None] * alpha[..., None, :]              # (.., S, S)
        gradient.append(float(jacobian.flatten(-2).norm(dim=-1).mean()))
    return {"variance": variance, "largest": largest, "gradient": gradient, "exponent": exponent(WIDTHS, variance)}


def trained(setting: Setting, scaled: bool) -> Values:
    torch.manual_seed(setting.seed)
    vocab = FIRST + 1 + NAMES + NOISE
    mixer = SelfAttention(LARGE, heads=1, score="scaled-dot" if scaled else "dot", qk_norm=setting.flipped == "size")
    nn.init.normal_(mixer.qkv.weight, std=LARGE**-0.5)           # entries of q, k and v of variance 1 after the norm
    for norm in (mixer.q_norm, mixer.k_norm):
        if norm is not None:                                     # products of variance 1, with the scale and without
            nn.init.constant_(norm.weight, 1.0 if scaled else LARGE**-0.25)
    block = Block(mixer, FeedForward(LARGE, expand=1))
    model = NeuralLM(Stack([block]), vocab=vocab, norm=make_norm("layer", LARGE), tied=False).to(setting.device)
    losses = fit(model, lambda step: recall_at(16, DISTANCE, NAMES, NOISE, setting.seed, step), setting.pick(150, 100),
                 rate=1e-3)
    tenth = len(losses) // 10
    return {"right": accuracy(model, recall_at(256, DISTANCE, NAMES, NOISE, setting.seed, -1)),
            "losses": [sum(losses[at:at + tenth]) / tenth for at in range(0, len(losses), tenth)],
            "mean loss": sum(losses) / len(losses)}


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    names = {"scaled": "q · k / sqrt d", "unscaled": "q · k"}
    of_width = [("variance", "Variance of the scores", "variance", True),
                ("largest", "The largest of 32 weights", "weight", False),
                ("gradient", "What comes back through the softmax", "norm of diag(a) - a aᵀ", True)]
    charts = [Chart(title, "width d of a head", unit,
                    [Line(name, WIDTHS, column(seeds, arm, key)) for arm, name in names.items()], log_x=True, log_y=log)
              for key, title, unit, log in of_width]
    length = len(seeds[0]["trained"]["losses"])
    losses = [Line(name, [10 * (at + 1) for at in range(length)], column(seeds, arm, "losses"))
              for arm, name in (("trained", names["scaled"]), ("trained-unscaled", names["unscaled"]))]
    return [*charts, Chart(f"Training with one head of {LARGE}", "% of the steps", "loss, nats", losses, y_from=0)]


EXPERIMENT = Experiment(
    name="scaling", number=12, title="Scaling by 1/sqrt(d)",
    claim="Without the scale, scores grow with the width, the softmax saturates, its gradient dies, and a wide head "
          "learns worse.",
    source="lecture 002, 12.3: scaled dot product", equation="Var(q · k) = d",
    refuted="scores whose variance does not follow d, a softmax that passes as much gradient unscaled, or training "
            "that goes as well",
    flips=(Flip("size", "keeps queries and keys so small that their products have the variance 1 without a scale: "
                "drawn so, and in training normalised", arms=("unscaled", "trained", "trained-unscaled")),
           Flip("scale", "takes the scale away from the scores that have it", arms=("scaled",))),
    arms=(Arm("scaled", lambda s: drawn(s, s.flipped != "scale")), Arm("unscaled", lambda s: drawn(s, False)),
          Arm("trained", lambda s: trained(s, True)), Arm("trained-unscaled", lambda s: trained(s, False))),
    rules=(Rule("without the scale, the variance of the scores grows with d to a power that differs from 1 by",
                lambda s: abs(s["unscaled"]["exponent"] - 1), below=0.1, cause="size"),
           Rule("with the scale, it grows with d to a power that differs from 0 by",
                lambda s: abs(s["scaled"]["exponent"]), below=0.1, cause="scale"),
           Rule("at d = 1024 the largest of 32 weights is larger without the scale, by",
                lambda s: s["unscaled"]["largest"][-1] - s["scaled"]["largest"][-1], above=0.4, cause="size"),
           Rule("at d = 1024 the gradient that the softmax passes is, without the scale, this share of that with it",
                lambda s: s["unscaled"]["gradient"][-1] / s["scaled"]["gradient"][-1], below=0.5, cause="size"),
           Rule("one head of 256 has, without the scale, a loss that is higher on average over its training, by",
                lambda s: s["trained-unscaled"]["mean loss"] - s["trained"]["mean loss"], above=0.1, unit=" nats",
                cause="size")),
    fixed=Fixed("2026-11-15", "b19b8db0fa85"), charts=charts,
    notes=f"{KEYS} keys and 256 queries of each width, entries of variance 1. Training: {NAMES} names, {DISTANCE} "
          "words of noise, 150 steps of 16 texts, AdamW, one learning rate for both. Flipped, both normalise "
          "queries and keys in training, so that scores stay small whatever the scale. Three other flips were tried "
          "for that rule before: small initial weights and a head 4 wide left the loss higher by 1.0 and 0.25 nats; "
          "normalising the unscaled head alone was unclear. So the size of scores is shown to be the cause at the "
          "start, and less surely over a whole training.")
