"""Non-linearities: attention alone takes averages of its values, and averages of averages are averages.

    one layer       Y = A X W_V W_O                         rows of A are shares: not below 0, and they sum to 1
    two layers      A_2 (A_1 X W_1) W_2  =  (A_2 A_1) X (W_1 W_2)                   again shares, again one matrix

So whatever the depth, what comes out is an average of the inputs times one matrix. A feed-forward layer between two of
them, W_2 f(W_1 x), is what breaks the chain, by its f. Checked on our layers, with the weights that they report:
without feed-forward layers against the product of the matrices, with them against the one matrix that fits best.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

import regard
from regard.contract import SequenceLayer
from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Values, column
from regard.lab.tiny import find_layers
from regard.layers.feedforward import FeedForward
from regard.layers.self_attention import SelfAttention
from regard.layers.stack import Stack

WIDTH, LENGTH, TEXTS = 32, 12, 64           # far more words than a matrix has rows: not every output can be fitted
DEPTHS = (1, 2, 3, 4)


class Feed(SequenceLayer):
    """A feed-forward layer by itself, as a layer of a stack."""

    def __init__(self, width: int, linear: bool = False):
        super().__init__()
        self.d_in = self.d_out = width
        feed = FeedForward(width, expand=2, activation="gelu")
        self.feed = nn.Sequential(feed.up, feed.down) if linear else feed

    def start(self, batch: int, capacity: int | None = None, memory: object = None) -> None:
        return None

    def forward(self, x: Tensor, state: None = None, lengths: Tensor | None = None) -> tuple[Tensor, None]:
        return x + self.feed(x), None


def stacked(depth: int, heads: int, feed: bool, linear: bool = False) -> Stack:
    """Layers of attention one after another, nothing added or normalised; perhaps a feed-forward layer on each, perhaps
    without its activation."""
    layers: list[SequenceLayer] = []
    for _ in range(depth):
        attention = SelfAttention(WIDTH, heads=heads, positions="none")
        for matrix in (attention.qkv, attention.out):
            nn.init.normal_(matrix.weight, std=WIDTH**-0.5)      # what comes out is as large as what went in
        layers += [attention, *([Feed(WIDTH, linear)] if feed else [])]
    return Stack(layers)


@torch.no_grad()
def averages(setting: Setting, feed: bool, linear: bool = False) -> Values:
    """The distance of a stack from the product of its weights, the input and one matrix: that of the equation, and the
    one that fits best; and what its weights are like."""
    torch.manual_seed(setting.seed)
    numbers: dict[str, list[float]] = {"apart": [], "apart from the best": [], "sum": [], "least": []}
    for depth in DEPTHS:
        stack = stacked(depth, 1, feed, linear).double()
        x = torch.randn(TEXTS, LENGTH, WIDTH, dtype=torch.float64)
        with regard.watch() as seen:
            y, _ = stack(x)
        alpha, matrix = torch.eye(LENGTH, dtype=torch.float64), torch.eye(WIDTH, dtype=torch.float64)
        for reading, layer in zip(seen.readings, find_layers(stack, SelfAttention), strict=True):
            w_v = layer.qkv.weight[-WIDTH:]
            alpha, matrix = reading.values[:, 0] @ alpha, matrix @ w_v.T @ layer.out.weight.T       # (TEXTS, T, T)
        average = alpha @ x
        numbers["apart"].append(apart(y, average, matrix))
        numbers["apart from the best"].append(apart(y, average, best_matrix(y, average)))
        numbers["sum"].append(float((alpha.sum(-1) - 1).abs().max()))
        numbers["least"].append(float(alpha.min()))
    return {**numbers, "largest": max(numbers["apart"] + numbers["sum"]),
            "least_apart": min(numbers["apart from the best"])}


def apart(y: Tensor, average: Tensor, matrix: Tensor) -> float:
    """The largest difference, over the largest entry."""
    return float((y - average @ matrix).abs().max() / y.abs().max())


def best_matrix(y: Tensor, average: Tensor) -> Tensor:
    """The matrix that turns averages into outputs with the least squared difference."""
    return torch.linalg.lstsq(average.flatten(0, 1), y.flatten(0, 1), driver="gelsd").solution


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    lines = [Line(f"{arm} feed-forward layers", DEPTHS, [[max(each, 1e-17) for each in own]
                  for own in column(seeds, arm, key)]) for arm, key in (("without", "apart"),
                                                                        ("with", "apart from the best"))]
    return [Chart("How far a stack is from averages of its inputs times one matrix", "layers of attention",
                  "largest difference, relative", lines, log_y=True)]


EXPERIMENT = Experiment(
    name="nonlinearity", number=14, title="Attention alone only takes averages",
    claim="Stacking self-attention without feed-forward layers only re-averages values.",
    source="lecture 002, 10.4: non-linearities", equation="A_2 (A_1 X W_1) W_2 = (A_2 A_1) X (W_1 W_2)",
    refuted="a stack that is not an average of its inputs times a matrix; or one with feed-forward layers that is",
    flips=(Flip("absence", "puts feed-forward layers into the stack without them", arms=("without",)),
           Flip("activation", "takes the activation out of the feed-forward layers", arms=("with",))),
    arms=(Arm("without", lambda s: averages(s, s.flipped == "absence")),
          Arm("with", lambda s: averages(s, True, linear=s.flipped == "activation"))),
    rules=(Rule("without feed-forward layers, outputs differ from averages of the inputs times the product of the "
                "matrices by at most", lambda s: s["without"]["largest"], below=1e-10, exact=True,
                cause="absence"),
           Rule("with feed-forward layers, they differ from averages times the matrix that fits best by at least",
                lambda s: s["with"]["least_apart"], above=1e-3, exact=True, cause="activation")),
    fixed=Fixed("2026-11-17", "670523008d57",
                after="stacks with feed-forward layers are compared with the one matrix that fits best; at first it "
                "was the product of the attention's own matrices, which is far off even where the feed-forward layers "
                "are linear; and of 64 texts, as with 8 one matrix fits nearly everything"), charts=charts,
    notes="A theorem, checked on our layers: stacks of one to four layers, one head, width 32, 64 texts of 12 words, "
          "nothing normalised, and nothing added but by the feed-forward layers, x + feed(x). Differences are the "
          "largest of all entries, over the largest entry. It does not say that nothing else can be learned: see "
          "exclusive-or.")
