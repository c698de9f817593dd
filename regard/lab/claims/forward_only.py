"""Forward only: a decoder-only model reads its source from left to right, so no word of it knows what comes later.

    encoder-decoder     each source word reads all source words, then the decoder reads what became of them
    decoder-only        each source word reads those before it; only the answer reads them all

The answer here needs the other direction for every source word: how many words are followed by none as large? Word j
stands out if x_j > x_l for all l > j. An encoder settles that where each word stands, in one layer, and the decoder
counts. A decoder-only model of equally many layers reaches the last word before any earlier word is settled, and what
is left over has to be done at one position. Mirrored (a word stands out if none before it is as large) the same task
needs nothing but what was read already. Deeper decoder-only models show how far depth makes up for direction.
B rows · L source words
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.lab.claims.cheating import unmask
from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Values
from regard.lab.tasks import FIRST, generator
from regard.lab.tiny import Batch, accuracy, far_apart, fit, parameters, translator

LENGTH, SIZES = 8, 8                       # words of a source, and how many sizes they come in
VOCAB = FIRST + max(SIZES, LENGTH + 1)
DEEPER = 4                                 # layers of the deeper decoder-only model


def stand_out(words: Tensor) -> Tensor:
    """(B,): how many words of each row are larger than every word after them. The last always is."""
    later = words.flip(1).cummax(1).values.flip(1)                                    # (B, L) largest from here on
    return 1 + (words[:, :-1] > later[:, 1:]).sum(1)


def count(rows: int, seed: int, step: int, mirrored: bool = False) -> Batch:
    """A source of words of some size, ended by <eos>; the target is one token, the number of words that stand out."""
    words = torch.randint(SIZES, (rows, LENGTH), generator=generator(seed, step))
    answer = FIRST + stand_out(words)[:, None]
    read = words.flip(1) if mirrored else words
    source = torch.cat((FIRST + read, torch.full((rows, 1), 2)), 1)
    begin = torch.ones(rows, 1, dtype=torch.long)
    return Batch(begin, answer, begin.bool(), source, torch.full((rows,), LENGTH + 1))


def model_of(kind: str, layers: int, device: str) -> Any:
    """`layers` in all. What a decoder-only model saves on cross-attention it is given in feed-forward width."""
    family, own, expand = ("transformer", layers // 2, 4.0) if kind == "encoder-decoder" else ("prefix", layers, 5.0)
    return far_apart(translator(family, VOCAB, VOCAB, device, layers=own, width=32, heads=4, expand=expand,
                                positions="learned", tied=False, dropout=0.0, context=LENGTH + 2))


def trained(setting: Setting, kind: str, layers: int = 2, mirrored: bool = False) -> Values:
    model = model_of(kind, layers, setting.device)
    if setting.flipped:
        unmask(model)                      # the one target token is not read by anybody: nothing leaks
    fit(model, lambda step: count(64, setting.seed, step, mirrored), setting.pick(700, 300), rate=5e-3)
    return {"right": accuracy(model, count(1000, setting.seed, -1, mirrored)), "parameters": parameters(model)}


ARMS = {"encoder-decoder": dict(kind="encoder-decoder"), "decoder-only": dict(kind="decoder-only"),
        "decoder-only, mirrored": dict(kind="decoder-only", mirrored=True),
        "decoder-only, deeper": dict(kind="decoder-only", layers=DEEPER)}
NAMES = {"encoder-decoder": "encoder-decoder, 1 + 1", "decoder-only": "decoder-only, 2",
         "decoder-only, deeper": f"decoder-only, {DEEPER}", "decoder-only, mirrored": "decoder-only, 2, mirrored"}


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    rows = [[seed[arm]["right"] for arm in NAMES] for seed in seeds]
    return [Chart("How many words are followed by none as large?", "model, layers", "share of answers right",
                  [Line("right", list(NAMES.values()), rows)], kind="bars", y_from=0, y_to=1.02)]


def ahead(seed: Seed, arm: str) -> float:
    return float(seed[arm]["right"] - seed["decoder-only"]["right"])


def apart(seed: Seed) -> float:
    one, other = (seed[arm]["parameters"] for arm in ("encoder-decoder", "decoder-only"))
    return abs(one - other) / float(one)


EXPERIMENT = Experiment(
    name="forward-only", number=30, title="Decoder-only models think forward only",
    claim="Where what each source word means depends on later source words, a decoder-only model of equal depth and "
          "parameters answers worse than an encoder-decoder; where it depends on earlier ones, it does not.",
    source="lecture 003: one potential issue is that it cannot reason back and forth across the words but must think "
           "in a forward only direction",
    equation="y = number of j with x_j > x_l for all l > j",
    refuted="a decoder-only model of two layers that is right as often as an encoder-decoder of one layer each, or as "
            "seldom when the source is mirrored",
    flips=(Flip("mask", "takes the mask away: every source word of the decoder-only model reads all others",
                arms=("decoder-only",)),),
    arms=tuple(Arm(name, partial(trained, **how)) for name, how in ARMS.items()),      # type: ignore[arg-type]
    rules=(Rule("the encoder-decoder gives the right answer more often than the decoder-only model, by a share of",
                lambda s: ahead(s, "encoder-decoder"), above=0.15),
           Rule("the decoder-only model gives it more often when the source is mirrored, by a share of",
                lambda s: ahead(s, "decoder-only, mirrored"), above=0.15),
           Rule("the encoder-decoder gives the right answer in a share of", lambda s: s["encoder-decoder"]["right"],
                above=0.9, condition="else the task was not learned"),
           Rule("the numbers of parameters differ by a share of", apart, below=0.03, exact=True,
                condition="else the larger one might be better for that alone")),
    charts=charts,
    notes=f"Sources of {LENGTH} words in {SIZES} sizes; width 32, four heads, learned positions. Of the deeper "
          f"decoder-only model ({DEEPER} layers, about twice the parameters) the chart tells; no rule judges it.")
