"""Depth: residuals and layer norm let 12 to 24 layers train; without them they do not.

    with both        x + mix(norm(x)), then x + feed(norm(x))        dx_out / dx_in = 1 + ...
    with neither     feed(mix(x))                                    dx_out / dx_in = a product of 24 matrices

Stacks of attention and feed-forward layers learn the next letter of our stories: with both, with one of them, with
neither. They are trained from matrices drawn so that each keeps the size of what passes through it, the best case for a
stack that has no norm to see to that; measured is the loss, beside that of a model which knows only how often each
letter comes. The gradient that reaches each layer before the first step is measured from that start, and from the one
that torch gives every matrix, where nobody has taken such care.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from regard.contract import State
from regard.lab.exercises import FIRST, letters, story_text
from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Values
from regard.lab.tiny import find_layers, fit, loss_of, loss_on
from regard.layers.feedforward import FeedForward
from regard.layers.positions import LearnedPositions
from regard.layers.self_attention import SelfAttention
from regard.layers.stack import Block, Stack, make_norm
from regard.models.neural import NeuralLM

WIDTH, CONTEXT, ROWS = 32, 24, 16
KINDS = {"both": (True, True), "residuals": (True, False), "norms": (False, True), "neither": (False, False)}
NAMES = {"both": "residuals and norms", "residuals": "residuals alone", "norms": "norms alone", "neither": "neither"}


class PlainBlock(Block):
    """mix(x), then feed(x): a block that adds nothing to what was there."""

    def forward(
        self, x: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State | None]:
        assert self.feed is not None and self.feed_norm is not None
        mixed, state = self.mixer(self.mixer_norm(x), state, lengths)
        return self.feed(self.feed_norm(mixed)), state


def stack_of(layers: int, vocab: int, residuals: bool, norms: bool, careful: bool = True) -> NeuralLM:
    """Careful: matrices start so that what passes through them keeps its size; else as torch has them."""
    kind = Block if residuals else PlainBlock
    blocks = []
    for _ in range(layers):
        feed = FeedForward(WIDTH, expand=2)
        block = kind(SelfAttention(WIDTH, heads=2, positions="none"), feed)
        if not norms:
            block.mixer_norm, block.feed_norm = nn.Identity(), nn.Identity()
        for matrix in (module for module in block.modules() if careful and isinstance(module, nn.Linear)):
            gain = math.sqrt(2) if matrix is feed.down else 1.0                       # GELU lets half of it through
            nn.init.normal_(matrix.weight, std=gain * matrix.in_features**-0.5)
        blocks.append(block)
    model = NeuralLM(Stack([LearnedPositions(WIDTH, CONTEXT), *blocks]), vocab=vocab, tied=False,
                     norm=make_norm("layer", WIDTH) if norms else None)
    nn.init.normal_(model.embedding.weight)
    nn.init.normal_(model.head.weight, std=WIDTH**-0.5)
    return model


def trained(setting: Setting, kind: str) -> Values:
    known, text = story_text(setting.seed)
    depths = setting.pick((2, 12, 24), (2, 12)) if kind in ("both", "neither") else (12,)
    if setting.flipped:
        depths = (2,) if setting.flipped == "depth" else depths[-1:]
    if setting.flipped == "residuals":
        kind = "norms"
    guessing = math.log(len(known))                            # what is worse, or not a number, counts as this
    numbers: Values = {"depths": depths, "frequencies": entropy(text), "losses": []}
    for start in ("careful", "usual"):
        torch.manual_seed(setting.seed)
        model = stack_of(min(12, depths[-1]), FIRST + len(known), *KINDS[kind], careful=start == "careful")
        model = model.to(setting.device)
        numbers[f"gradients, {start}"] = gradients(model, setting.seed)
    for depth in depths:
        torch.manual_seed(setting.seed)
        model = stack_of(depth, FIRST + len(known), *KINDS[kind]).to(setting.device)
        fit(model, lambda step: letters(ROWS, CONTEXT, setting.seed, step), 100, rate=5e-3)
        loss = loss_on(model, letters(256, CONTEXT, setting.seed, -1))
        numbers["losses"].append(min(loss, guessing) if math.isfinite(loss) else guessing)
    return numbers


def gradients(model: NeuralLM, seed: int) -> list[float]:
    """The norm of the gradient of each block's weights before the first step, from the lowest block on."""
    loss_of(model, letters(64, CONTEXT, seed, 0).to(model.device)).backward()
    norms = [torch.stack([weight.grad.norm() for weight in block.parameters() if weight.grad is not None]).norm()
             for block in find_layers(model.stack, Block)]
    model.zero_grad()
    return torch.stack(norms).tolist()


def entropy(text: Tensor) -> float:
    """The loss of a model that knows how often each letter comes, and nothing else; nats a letter."""
    shares = torch.bincount(text)[FIRST:] / len(text)
    return -float((shares * shares.log()).sum())


def learned(seed: Seed, arm: str) -> float:
    """The distance of the loss below the letters' frequencies, in the deepest stack."""
    return seed[arm]["frequencies"] - seed[arm]["losses"][-1]


def lost(seed: Seed) -> float:
    """By how many powers of ten the gradient of the lowest layer is smaller with neither than with both."""
    both, neither = (max(seed[arm]["gradients, usual"][0], 1e-30) for arm in ("both", "neither"))
    return math.log10(both / neither)


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    losses = [Line(name, seeds[0][arm]["depths"], [seed[arm]["losses"] for seed in seeds])
              for arm, name in NAMES.items()]
    known = [("letter frequencies alone", seeds[0]["both"]["frequencies"])]
    return [Chart("The loss by depth", "layers", "nats a letter", losses, levels=known),
            reach(seeds, "usual", "from torch's usual start"),
            reach(seeds, "careful", "from matrices that keep sizes")]


def reach(seeds: Sequence[Seed], start: str, told: str) -> Chart:
    lines = [Line(name, list(range(1, 13)),
                  [[max(each, 1e-20) for each in seed[arm][f"gradients, {start}"]] for seed in seeds])
             for arm, name in NAMES.items()]
    return Chart(f"The gradient that reaches each of 12 layers, {told}", "layer, 1 is the lowest",
                 "norm of the gradient of its weights", lines, log_y=True)


EXPERIMENT = Experiment(
    name="depth", number=13, title="Residuals and layer norm let deep stacks train",
    claim="Residuals and layer norm let 12 to 24 layers train; without them they do not.",
    source="lecture 002, 10.4 (12 to 24 layers) and 13, Add & Norm", equation="x + f(norm(x))",
    refuted="deep stacks that learn with neither, or that do not learn with both",
    flips=(Flip("residuals", "takes the residuals away from the stack that has both", arms=("both",)),
           Flip("depth", "makes all stacks two layers deep", arms=("both", "neither"))),
    arms=tuple(Arm(kind, partial(trained, kind=kind)) for kind in KINDS),
    rules=(Rule("with both, the loss of the deepest stack is below that of the letters' frequencies by",
                lambda s: learned(s, "both"), above=0.5, unit=" nats", cause="residuals"),
           Rule("with neither, the loss of the deepest stack is below that of the letters' frequencies by",
                lambda s: learned(s, "neither"), below=0.1, unit=" nats", cause="depth"),
           Rule("from torch's start, the gradient of the lowest of 12 layers is smaller with neither than with both, "
                "by powers of ten", lost, above=3.0, cause="depth")),
    fixed=Fixed("2026-11-15", "2a4e4f8c93fb",
                after="one rule, on the gradient of the lowest layer, is about torch's own start: from matrices that "
                "keep sizes the gradient does not fade"), charts=charts,
    notes="Width 32, two heads, pieces of 24 letters, 100 steps, one learning rate for all; gradients are clipped, as "
          "usual. The deepest stack has 24 layers, in a quick run 12. With residuals alone or norms alone 12 layers do "
          "not learn either. From "
          "the careful start the gradient with neither is as even as with both, and the stack still does not learn: "
          "even gradients alone are not enough.")
