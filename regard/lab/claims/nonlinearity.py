"""Non-linearities: attention alone takes averages of its values, and averages of averages are averages.

    one layer       Y = A X W_V W_O                         rows of A are shares: not below 0, and they sum to 1
    two layers      A_2 (A_1 X W_1) W_2  =  (A_2 A_1) X (W_1 W_2)                   again shares, again one matrix

So whatever the depth, what comes out is an average of the inputs times one matrix. A feed-forward layer between two of
them, W_2 f(W_1 x), is what breaks the chain. Checked on our layers, with the weights that they report.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

import regard
from regard.contract import SequenceLayer
from regard.lab.experiment import Arm, Chart, Experiment, Flip, Line, Rule, Seed, Setting, Values, column
from regard.layers.feedforward import FeedForward
from regard.layers.self_attention import SelfAttention
from regard.layers.stack import Stack

WIDTH, LENGTH = 32, 12
DEPTHS = (1, 2, 3, 4)


class Feed(SequenceLayer):
    """A feed-forward layer by itself, as a layer of a stack."""

    def __init__(self, width: int):
        super().__init__()
        self.d_in = self.d_out = width
        self.feed = FeedForward(width, expand=2, activation="gelu")

    def start(self, batch: int, capacity: int | None = None, memory: object = None) -> None:
        return None

    def forward(self, x: Tensor, state: None = None, lengths: Tensor | None = None) -> tuple[Tensor, None]:
        return x + self.feed(x), None


def stacked(depth: int, heads: int, feed: bool) -> Stack:
    """Layers of attention one after another, nothing added or normalised; perhaps a feed-forward layer on each."""
    layers: list[SequenceLayer] = []
    for _ in range(depth):
        attention = SelfAttention(WIDTH, heads=heads, positions="none")
        for matrix in (attention.qkv, attention.out):
            nn.init.normal_(matrix.weight, std=WIDTH**-0.5)      # what comes out is as large as what went in
        layers += [attention, *([Feed(WIDTH)] if feed else [])]
    return Stack(layers)


@torch.no_grad()
def averages(setting: Setting, feed: bool) -> Values:
    """How far a stack is from the product of its weights, the input and one matrix; and what its weights are like."""
    torch.manual_seed(setting.seed)
    found: dict[str, list[float]] = {"apart": [], "sum": [], "least": []}
    for depth in DEPTHS:
        stack = stacked(depth, 1, feed).double()
        x = torch.randn(1, LENGTH, WIDTH, dtype=torch.float64)
        with regard.watch() as seen:
            y, _ = stack(x)
        alpha, matrix = torch.eye(LENGTH, dtype=torch.float64), torch.eye(WIDTH, dtype=torch.float64)
        attention = [each for each in stack if isinstance(each, SelfAttention)]
        for reading, layer in zip(seen.readings, attention, strict=True):
            w_v = layer.qkv.weight[-WIDTH:]
            alpha, matrix = reading.values[0, 0] @ alpha, matrix @ w_v.T @ layer.out.weight.T
        found["apart"].append(float((y[0] - alpha @ x[0] @ matrix).abs().max() / y.abs().max()))
        found["sum"].append(float((alpha.sum(-1) - 1).abs().max()))
        found["least"].append(float(alpha.min()))
    return {**found, "largest": max(found["apart"] + found["sum"]), "least_apart": min(found["apart"])}


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    lines = [Line(f"{arm} feed-forward layers", DEPTHS, [[max(each, 1e-17) for each in own]
                  for own in column(seeds, arm, "apart")]) for arm in ("without", "with")]
    return [Chart("How far a stack is from averages of its inputs times one matrix", "layers of attention",
                  "largest difference, relative", lines, log_y=True)]


EXPERIMENT = Experiment(
    name="nonlinearity", number=14, title="Attention alone only takes averages",
    claim="Stacking self-attention without feed-forward layers only re-averages values.",
    source="lecture 002, 10.4: non-linearities", equation="A_2 (A_1 X W_1) W_2 = (A_2 A_1) X (W_1 W_2)",
    refuted="a stack that is not an average of its inputs times a matrix; or one with feed-forward layers that is",
    flips=(Flip("cause", "gives the stack without feed-forward layers feed-forward layers"),),
    arms=(Arm("without", lambda s: averages(s, s.flipped)), Arm("with", lambda s: averages(s, True))),
    rules=(Rule("without feed-forward layers a stack differs from averages of its inputs times one matrix by",
                lambda s: s["without"]["largest"], below=1e-10, exact=True),
           Rule("with them it differs by", lambda s: s["with"]["least_apart"], above=1e-3, exact=True)),
    charts=charts,
    notes="A theorem, checked on our layers: one head, width 32, nothing added and nothing normalised between layers. "
          "What it does not say is that nothing else can be learned: see exclusive-or.")
