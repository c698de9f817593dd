"""The exclusive or: does it follow from "attention only takes averages" that nothing else can be learned without
feed-forward layers?

A stack of attention gives averages of its inputs times one matrix (see `nonlinearity`), but the weights of these
averages depend on what is read. Stacks are trained on what no fixed average can say: the exclusive or of two bits that
stand somewhere in a text, with feed-forward layers and without.

One layer of one head cannot: its answer is the sign of a sum N(a, b) of one term for each bit, so N(0,0) + N(1,1)
equals N(0,1) + N(1,0), and the first two cannot be negative with the last two positive. More heads, or a second
layer, are not bound by that: there the softmax is a nonlinearity of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from regard.lab.claims.nonlinearity import WIDTH, stacked
from regard.lab.exercises import FIRST, generator, only
from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Values, column
from regard.lab.tiny import Exercise, accuracy, find_layers, fit, parameters
from regard.layers.self_attention import SelfAttention
from regard.models.neural import NeuralLM

NOISE, LENGTH = 6, 4
QUESTION, A0, A1, B0, B1 = range(FIRST, FIRST + 5)               # a bit is one of two words; so is the other
DEPTHS = (1, 2)


def exclusive_or(rows: int, seed: int, step: int) -> Exercise:
    """Two bits among words of noise, the first one before the second; then a question: is one of them set, not both?"""
    chance = generator(seed, step)
    tokens = B1 + 1 + torch.randint(NOISE, (rows, LENGTH + 1), generator=chance)
    places = torch.rand(rows, LENGTH, generator=chance).topk(2).indices.sort(1).values
    bits = torch.randint(2, (rows, 2), generator=chance)
    tokens.scatter_(1, places, torch.tensor([A0, B0]) + bits)
    tokens[:, -1] = QUESTION
    answer = A0 + (bits[:, 0] ^ bits[:, 1])
    return only(tokens, torch.cat((tokens[:, 1:], answer[:, None]), 1), LENGTH)


def trained(setting: Setting, heads: int, feed: bool, frozen: bool = False) -> Values:
    """The share of exclusive ors that is right, by depth."""
    right, sizes = [], []
    for depth in DEPTHS:
        torch.manual_seed(setting.seed)
        model = NeuralLM(stacked(depth, heads, feed), vocab=B1 + 1 + NOISE, tied=False).to(setting.device)
        nn.init.normal_(model.embedding.weight, std=1.0)         # nothing normalises what the first layer reads
        if frozen:
            freeze(model)
        fit(model, lambda step: exclusive_or(64, setting.seed, step), setting.pick(600, 400), rate=5e-3)
        right.append(accuracy(model, exclusive_or(1000, setting.seed, -1)))
        sizes.append(parameters(model))
    return {"right": right, "parameters": sizes}


def freeze(model: nn.Module) -> None:
    """Queries are zero and stay so: every position reads all that it may with equal weight, whatever stands there."""
    for layer in find_layers(model, SelfAttention):
        weight = layer.qkv.weight
        with torch.no_grad():
            weight[:WIDTH] = 0
        learns = torch.ones_like(weight)
        learns[:WIDTH] = 0
        weight.register_hook(lambda gradient, learns=learns: gradient * learns)


NAMES = {"attention": "attention, one head", "attention-4": "attention, 4 heads", "feed": "with feed-forward, 4 heads"}


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    depths = [f"{depth} layers" if depth > 1 else "1 layer" for depth in DEPTHS]
    lines = [Line(name, depths, column(seeds, arm, "right")) for arm, name in NAMES.items()]
    return [Chart("The exclusive or of two bits that were read", "layers of attention", "share right", lines,
                  kind="bars", y_from=0, y_to=1.02, levels=[("chance", 0.5)])]


EXPERIMENT = Experiment(
    name="exclusive-or", number=24, title="What is no average needs feed-forward layers",
    claim="What no average of values can say, the exclusive or of two bits, is not learned without feed-forward "
          "layers.",
    source="lecture 002, 10.4: a reading of it that goes too far", equation="y = a xor b",
    refuted="the exclusive or learned by some stack without feed-forward layers, or not by one with them",
    flips=(Flip("weights", "freezes the attention weights: every average is a fixed one, and the claim should hold",
                arms=("attention", "attention-4")),),
    arms=(Arm("attention", lambda s: trained(s, 1, False, s.flipped == "weights")),
          Arm("attention-4", lambda s: trained(s, 4, False, s.flipped == "weights")),
          Arm("feed", lambda s: trained(s, 4, True))),
    rules=(Rule("the best of four stacks without feed-forward layers answers right in a share of", lambda s:
                max(s["attention"]["right"] + s["attention-4"]["right"]), below=0.75),
           Rule("the better of two stacks with feed-forward layers answers right in a share of",
                lambda s: max(s["feed"]["right"]), above=0.95,
                condition="else the exclusive or is not learned at this size at all")),
    fixed=Fixed("2026-11-15", "34fc1a7ec49c"), charts=charts,
    notes="Width 32, nothing added and nothing normalised between the layers of attention. Stacks have one or two "
          "layers of one or four heads without feed-forward layers, and one or two layers of four heads with them. The "
          "learned weights are the nonlinearity: with frozen ones the exclusive or is not learned.")
