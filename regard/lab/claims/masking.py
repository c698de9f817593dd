"""Masking as -inf in one product: the same numbers as reading every prefix again, without reading it again.

    prefix by prefix     h[t] = A(q_t, K[1..t], V[1..t])                              for each t anew
    at once              H = softmax(Q K^T + M) V,      M[t, s] = -inf for s > t      as e^-inf = 0

Compared are the outputs and the gradients, of attention alone and of a whole Transformer whose every prefix is read by
itself. Counted are the products and sums of both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Values, column
from regard.lab.in_the_open import OpenDot
from regard.lab.tiny import language_model
from regard.layers.attend import CAUSAL, attend, weights
from regard.layers.self_attention import SelfAttention

LENGTHS = (8, 16, 32, 64)
WIDTH = 16


class Unmasked(SelfAttention):
    """Self-attention that everyone may read all of: what masking prevents."""

    def who_reads_whom(self, queries: Tensor, keys: Tensor, whole: bool) -> Any:
        return None, None


def of_attention(setting: Setting, masked: bool) -> Values:
    """Largest differences between one masked product and all prefixes, with gradients; weights on the future."""
    mask = CAUSAL if masked else None
    apart, future = [], []
    for length in LENGTHS:
        torch.manual_seed(setting.seed * 31 + length)
        q, k, v = (torch.randn(1, 2, length, WIDTH, dtype=torch.float64, requires_grad=True) for _ in range(3))
        at_once = attend(q, k, v, mask=mask)
        prefixes = torch.cat([attend(q[:, :, t:t + 1], k[:, :, :t + 1], v[:, :, :t + 1]) for t in range(length)], 2)
        direction = torch.randn_like(at_once)
        ways = [(each, *torch.autograd.grad((each * direction).sum(), (q, k, v))) for each in (at_once, prefixes)]
        apart.append(max(float((a - b).detach().abs().max()) for a, b in zip(*ways, strict=True)))
        future.append(float(weights(q, k, mask).detach().triu(1).max()))
    return {"apart": apart, "largest": max(apart), "least": min(apart), "future": max(future)}


@torch.no_grad()
def of_model(setting: Setting) -> Values:
    """A Transformer of two layers: what it holds at t, read whole and after reading t words only."""
    torch.manual_seed(setting.seed)
    model = language_model("transformer", 20, layers=2, width=WIDTH, heads=2, context=64).double().eval()
    for weight in model.parameters():
        weight.normal_(std=0.3)                                  # what starts at zero would hide everything
    if setting.flipped == "mask":
        for block in model.stack:
            block.mixer.__class__ = Unmasked
    tokens = torch.randint(4, 20, (2, LENGTHS[-1]), generator=torch.Generator().manual_seed(setting.seed))
    whole, _ = model.encode(tokens)
    prefixes = torch.stack([model.encode(tokens[:, :t + 1])[0][:, -1] for t in range(tokens.shape[1])], 1)
    return {"apart": float((whole - prefixes).abs().max() / whole.abs().max())}


def cost(setting: Setting) -> Values:
    """Products and sums of a layer of attention: at once, and prefix by prefix."""
    layer = SelfAttention(WIDTH, heads=2, positions="none")
    layer.score = OpenDot()
    x = torch.zeros(1, LENGTHS[-1], WIDTH)
    read = word_by_word if setting.flipped == "recomputing" else every_prefix
    once = [counted(lambda n=n: layer(x[:, :n])) for n in LENGTHS]                                 # type: ignore[misc]
    anew = [counted(lambda n=n: read(layer, x[:, :n])) for n in LENGTHS]                           # type: ignore[misc]
    return {"once": once, "anew": anew, "times": anew[-1] / once[-1]}


def every_prefix(layer: SelfAttention, x: Tensor) -> None:
    for t in range(x.shape[1]):
        layer(x[:, :t + 1])


def word_by_word(layer: SelfAttention, x: Tensor) -> None:
    """The keys and values of a prefix are kept for the next one: only its last word is read."""
    state = layer.start(len(x), x.shape[1])
    for t in range(x.shape[1]):
        _, state = layer(x[:, t:t + 1], state)


@torch.no_grad()
def counted(work: Callable[[], Any]) -> int:
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    lines = [Line(name, LENGTHS, [[max(each, 1e-17) for each in own] for own in column(seeds, arm, "apart")])
             for arm, name in (("masked", "with the mask"), ("unmasked", "without"))]
    costs = [Line(name, LENGTHS, column(seeds, "cost", key))
             for key, name in (("once", "one masked product"), ("anew", "every prefix anew"))]
    return [Chart("One product against every prefix by itself", "length of the text", "largest difference", lines,
                  log_x=True, log_y=True),
            Chart("What it costs", "length of the text", "products and sums", costs, log_x=True, log_y=True)]


EXPERIMENT = Experiment(
    name="masking", number=11, title="Masking in one product equals reading every prefix",
    claim="Adding -inf to the scores of the future gives what attention over each prefix gives, outputs and "
          "gradients, in one product.",
    source="lecture 002, 10.5; lecture 000: no q_2 k_3", equation="softmax(Q K^T + M) V, M[t, s] = -inf for s > t",
    refuted="a difference beyond rounding, a weight on the future that is not zero, or prefixes that cost no more "
            "than one product",
    flips=(Flip("mask", "takes the mask away", arms=("masked", "model")),
           Flip("recomputing", "keeps the keys and values of each prefix for the next one", arms=("cost",))),
    arms=(Arm("masked", lambda s: of_attention(s, s.flipped != "mask")),
          Arm("unmasked", lambda s: of_attention(s, False)), Arm("model", of_model), Arm("cost", cost, once=True)),
    rules=(Rule("with the mask, outputs and gradients differ from those of the prefixes by at most",
                lambda s: s["masked"]["largest"], below=1e-12, exact=True, cause="mask"),
           Rule("with the mask, the largest weight on a later word is", lambda s: s["masked"]["future"], below=1e-300,
                exact=True, cause="mask"),
           Rule("without the mask, outputs and gradients differ from those of the prefixes by at least",
                lambda s: s["unmasked"]["least"], above=1e-3, exact=True,
                condition="else the comparison could not see a mask"),
           Rule("the vectors of a Transformer that reads a text whole differ from those of its prefixes by at most",
                lambda s: s["model"]["apart"], below=1e-12, exact=True, cause="mask"),
           Rule("all prefixes of 64 words, each computed anew, cost more products and sums than one masked product, by "
                "a factor of", lambda s: s["cost"]["times"], above=10, exact=True, cause="recomputing")),
    fixed=Fixed("2026-11-15", "b4dbfe38d0da"), charts=charts,
    notes="float64, two heads of 16, texts of 8 to 64 words; on a CPU whatever the device. Products and sums are "
          "counted for one layer, its projections included.")
