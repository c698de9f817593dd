"""Layer norm: it sets the scale of all activations at once, and learning no longer dies where they are near zero.

    h[l] = relu(W[l] h[l-1])                       entries of W of standard deviation 1 / sqrt(3 D), as torch has them:
                                                   each layer passes on sqrt(1/6) = 0.41 of the size of what it read
    h[l] = relu(norm(W[l] h[l-1]))                 norm(x) = (x - mean x) / sqrt(var x + eps) * w: size 1 at every layer

Twelve such layers learn to tell classes of points apart, with layer norm and without, from the same matrices and at the
best of three learning rates each, by SGD with momentum. AdamW is another cure for small gradients, since it divides
each by its own size: how far it comes without layer norm is measured beside. Measured before the first step: the size
of the activations of each layer (root of the mean square) and the gradient of the weights of the lowest layer. Measured
after training: the share of new points that is put into the right class. The scale is the cause: with matrices of
standard deviation sqrt(2 / D), which keep sizes as they are, nothing is near zero to begin with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.lab.exercises import generator
from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Values, column
from regard.layers.stack import make_norm

LAYERS, WIDTH = 12, 32
INPUTS, POINTS, CLASSES = 16, 32, 8        # numbers of an input; places around which inputs lie; what they belong to
SPREAD = 0.3                               # of inputs around their place
RATES = {"sgd": (0.003, 0.01, 0.03), "adamw": (3e-4, 1e-3, 3e-3)}
ARMS = {"plain": "without layer norm", "normed": "with layer norm", "adamw": "without layer norm, by AdamW"}


class Layer(nn.Module):
    """relu(norm(W x)), or relu(W x)."""

    def __init__(self, inputs: int, norm: bool, std: float):
        super().__init__()
        self.linear = nn.Linear(inputs, WIDTH, bias=False)
        nn.init.normal_(self.linear.weight, std=std * inputs**-0.5)
        self.norm = make_norm("layer", WIDTH) if norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.linear(x)))


def network(norm: bool, std: float) -> nn.Sequential:
    """Layers of equal width and a linear one above; matrices of standard deviation `std` / sqrt of their inputs."""
    layers = [Layer(WIDTH if at else INPUTS, norm, std) for at in range(LAYERS)]
    return nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES, bias=False))


def layers_of(model: nn.Sequential) -> list[Layer]:
    """Without the linear one above."""
    return [each for each in model if isinstance(each, Layer)]


def points(rows: int, seed: int, step: int) -> tuple[Tensor, Tensor]:
    """Inputs around the seed's places, and the class of each place: four places for every class."""
    where = torch.randn(POINTS, INPUTS, generator=generator(seed, -9))
    chance = generator(seed, step)
    at = torch.randint(POINTS, (rows,), generator=chance)
    return where[at] + SPREAD * torch.randn(rows, INPUTS, generator=chance), at % CLASSES


@torch.no_grad()
def sizes(model: nn.Sequential, x: Tensor) -> list[float]:
    """The root of the mean square of each layer's activations, from the lowest on."""
    found = []
    for layer in layers_of(model):
        x = layer(x)
        found.append(float(x.square().mean().sqrt()))
    return found


def gradients(model: nn.Sequential, x: Tensor, y: Tensor) -> list[float]:
    """The norm of the gradient of each layer's matrix, from the lowest on."""
    F.cross_entropy(model(x), y).backward()
    found = [layer.linear.weight.grad for layer in layers_of(model)]
    model.zero_grad()
    return [float(each.norm()) for each in found if each is not None]


def train(model: nn.Sequential, setting: Setting, optimizer: torch.optim.Optimizer, rate: float) -> float:
    """The share of new points that is right after training."""
    steps = setting.pick(300, 120)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 20) * (0.55 + 0.45 * math.cos(math.pi * step / steps))
        x, y = (each.to(setting.device) for each in points(64, setting.seed, step))
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    x, y = (each.to(setting.device) for each in points(2000, setting.seed, -1))
    with torch.no_grad():
        return float((model(x).argmax(-1) == y).float().mean())


def measured(setting: Setting, arm: str) -> Values:
    """Sizes and gradients before the first step, and what is right after training, by learning rate."""
    norm = arm == "normed" and setting.flipped != "norm"
    std = math.sqrt(2) if setting.flipped == "scale" else math.sqrt(1 / 3)
    x, y = (each.to(setting.device) for each in points(1000, setting.seed, -2))
    right = []
    for rate in RATES["adamw" if arm == "adamw" else "sgd"]:
        torch.manual_seed(setting.seed)
        model = network(norm, std).to(setting.device)
        before = {"sizes": sizes(model, x), "gradients": gradients(model, x, y)}
        optimizer = (torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.01) if arm == "adamw"
                     else torch.optim.SGD(model.parameters(), momentum=0.9))
        right.append(train(model, setting, optimizer, rate))
    return {**before, "right": right, "best": max(right)}


def changed(seed: Seed, arm: str) -> float:
    """By how many powers of ten the activations of the last layer are smaller or larger than those of the first."""
    first, last = (max(seed[arm]["sizes"][at], 1e-30) for at in (0, -1))
    return abs(math.log10(last / first))


def gradient_gained(seed: Seed) -> float:
    """By how many powers of ten the gradient of the lowest layer is larger with layer norm."""
    normed, plain = (max(seed[arm]["gradients"][0], 1e-30) for arm in ("normed", "plain"))
    return math.log10(normed / plain)


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    layers, rates = list(range(1, LAYERS + 1)), ["the smallest rate", "the middle one", "the largest"]

    def lines(x: Sequence[object], value: str, arms: Sequence[str] = ("plain", "normed")) -> list[Line]:
        return [Line(ARMS[arm], x, column(seeds, arm, value)) for arm in arms]

    return [Chart("The share right by learning rate", "learning rate: 0.003, 0.01, 0.03; of AdamW 0.0003, 0.001, 0.003",
                  "share of new points right", lines(rates, "right", tuple(ARMS)), kind="bars", y_from=0, y_to=1.02,
                  levels=[("chance", 1 / CLASSES)]),
            Chart("The size of the activations before the first step", "layer, 1 is the lowest", "root mean square",
                  lines(layers, "sizes"), log_y=True),
            Chart("The gradient before the first step", "layer, 1 is the lowest",
                  "norm of the gradient of its matrix", lines(layers, "gradients"), log_y=True)]


EXPERIMENT = Experiment(
    name="layer-norm", number=27, title="Layer norm against activations near zero",
    claim="Where activations shrink towards zero from layer to layer, layer norm keeps them at one scale, brings the "
          "gradient back to the lowest layer, and lets the network learn what it does not learn without.",
    source="lecture 002, 13.2: easily set the scale of all the activations at once, preventing the issue of "
           "uninformative learning once activations near zero",
    equation="norm(x) = (x - mean x) / sqrt(var x + eps) * w",
    refuted="activations that change their scale under layer norm, a lowest layer that gets as much gradient without "
            "it, or a network that learns as much without it",
    flips=(Flip("norm", "takes layer norm away from the network that has it", arms=("normed",)),
           Flip("scale", "starts with matrices that keep the size of what passes through them",
                arms=("plain", "normed"))),
    arms=tuple(Arm(arm, partial(measured, arm=arm)) for arm in ARMS),
    rules=(Rule("with layer norm the activations of layer 12 differ in size from those of layer 1 by powers of ten",
                partial(changed, arm="normed"), below=0.3, cause="norm"),
           Rule("with layer norm the gradient of the lowest layer is larger, by powers of ten", gradient_gained,
                above=2.0, cause="scale"),
           Rule("with layer norm the network is right more often, each at its best rate, by",
                lambda s: s["normed"]["best"] - s["plain"]["best"], above=0.1, cause="scale"),
           Rule("without layer norm the activations of layer 12 are smaller than those of layer 1 by powers of ten",
                partial(changed, arm="plain"), above=2.0, condition="else they are not near zero"),
           Rule("with layer norm the network is right in", lambda s: s["normed"]["best"], above=0.8,
                condition="else the task is not learned at this size")),
    fixed=Fixed("2026-11-17", "afe9188d7f08",
                after="networks are trained by SGD, and not by AdamW, which is another cure for small gradients: with "
                "it they were right in 0.82 to 0.98 without layer norm; width, batch, steps and the rates were then "
                "chosen for SGD; rules and bounds stayed as they were"),
    charts=charts,
    notes="12 layers of width 32 without biases and without residuals; SGD with momentum 0.9, the best of the rates "
          "0.003, 0.01 and 0.03 for each. The chart shows AdamW without layer norm too: no rule judges it, "
          "and its size and steps are those chosen for SGD.")
