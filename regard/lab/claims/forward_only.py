"""Forward only: a decoder-only model reads its source from left to right, so no word of it knows what comes later.

    both ways        h_j = g(x_1 .. x_L)              an encoder: each source word reads all of them
    forward only     h_j = g(x_1 .. x_j)              a decoder-only model: each reads those before it

The source here is six words, and a seventh that decides what all of them mean: in dialect d, word x means x + 2 d (round).
A model says what each word means, either at the word itself or after the whole source, word by word. Both models have
the same layers and parameters, and differ by the mask alone. Read forward only, a word cannot be understood when it is
read; it can afterwards, as the target reads all of the source. If the deciding word comes first, forward is enough.
B rows · L words of the source
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
from regard.lab.tiny import Batch, accuracy, far_apart, fit, language_model, parameters

WORDS, DIALECTS, LENGTH = 8, 4, 6
DIALECT = FIRST + WORDS                    # the first of the words that decide
VOCAB = DIALECT + DIALECTS
BEGIN, NOTHING = 1, 0


def drawn(rows: int, seed: int, step: int) -> tuple[Tensor, Tensor, Tensor]:
    """Words (B, L), the word that decides (B, 1), and what the words mean (B, L), as ids."""
    chance = generator(seed, step)
    words, dialect = (torch.randint(most, (rows, many), generator=chance)
                      for most, many in ((WORDS, LENGTH), (DIALECTS, 1)))
    return FIRST + words, DIALECT + dialect, FIRST + (words + 2 * dialect) % WORDS


def at_the_word(rows: int, seed: int, step: int, first: bool = False) -> Batch:
    """What each word means is due where it stands. The deciding word comes last, or first."""
    words, decides, means = drawn(rows, seed, step)
    none = torch.full_like(decides, NOTHING)
    tokens, targets = ((decides, words), (none, means)) if first else ((words, decides), (means, none))
    return counted(torch.cat(tokens, 1), torch.cat(targets, 1))


def afterwards(rows: int, seed: int, step: int) -> Batch:
    """What the words mean is due after the source, one after another, each read before the next."""
    words, decides, means = drawn(rows, seed, step)
    begin = torch.full_like(decides, BEGIN)
    tokens = torch.cat((words, decides, begin, means[:, :-1]), 1)
    return counted(tokens, torch.cat((torch.full_like(words, NOTHING), torch.full_like(decides, NOTHING), means), 1))


def counted(tokens: Tensor, targets: Tensor) -> Batch:
    return Batch(tokens, targets, targets != NOTHING)


def model_of(layers: int, device: str) -> Any:
    return far_apart(language_model("transformer", VOCAB, device, layers=layers, width=32, heads=4, expand=2.0,
                                    positions="learned", context=2 * LENGTH + 2))


def trained(setting: Setting, due: str, layers: int = 2, both_ways: bool = False) -> Values:
    model = model_of(layers, setting.device)
    if both_ways or setting.flipped == "mask":
        unmask(model)
    batch = TASKS["at the word" if setting.flipped == "waiting" else due]
    fit(model, lambda step: batch(64, setting.seed, step), setting.pick(500, 300), rate=5e-3)
    return {"right": accuracy(model, batch(500, setting.seed, -1)), "parameters": parameters(model)}


TASKS = {"at the word": at_the_word, "first": partial(at_the_word, first=True), "afterwards": afterwards}
ARMS: dict[str, dict[str, Any]] = {
    "both ways": dict(due="at the word", both_ways=True), "forward only": dict(due="at the word"),
    "forward only, decided before": dict(due="first"), "forward only, afterwards": dict(due="afterwards"),
    "forward only, afterwards, one layer": dict(due="afterwards", layers=1)}


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    rows = [[seed[arm]["right"] for arm in ARMS] for seed in seeds]
    return [Chart("What a word means, if a later word decides", "reading, and where the answer is due",
                  "share of meanings right", [Line("right", list(ARMS), rows)], kind="bars", y_from=0, y_to=1.02,
                  levels=[("without the deciding word", 1 / DIALECTS)])]


EXPERIMENT = Experiment(
    name="forward-only", number=30, title="Decoder-only models think forward only",
    claim="At a source word, a decoder-only model cannot use the later words that decide what it means, as an encoder "
          "of equal depth and parameters can; it can use them after the whole source was read.",
    source="lecture 003: one potential issue is that it cannot reason back and forth across the words but must think "
           "in a forward only direction",
    equation="h_j = g(x_1 .. x_j), against h_j = g(x_1 .. x_L)",
    refuted="a model that reads forward only and knows at a word what a later one decides, or one that does not know it "
            "after the source either",
    flips=(Flip("mask", "takes the mask away: each word reads the later ones too", arms=("forward only",)),
           Flip("waiting", "asks for what each word means at the word itself", arms=("forward only, afterwards",))),
    arms=tuple(Arm(name, partial(trained, **how)) for name, how in ARMS.items()),
    rules=(Rule("at the word itself, the model that reads forward only is right in a share of",
                lambda s: s["forward only"]["right"], below=0.5, cause="mask"),
           Rule("after the source, the model that reads forward only is right in a share of",
                lambda s: s["forward only, afterwards"]["right"], above=0.9, cause="waiting"),
           Rule("at the word itself, the model that reads both ways is right in a share of",
                lambda s: s["both ways"]["right"], above=0.9, condition="else the task was not learned"),
           Rule("at the word itself and with the deciding word first, the model that reads forward only is right in a "
                "share of", lambda s: s["forward only, decided before"]["right"], above=0.9,
                condition="else it is not the direction")),
    charts=charts,
    notes=f"{LENGTH} words of {WORDS} and {DIALECTS} dialects; two layers of width 32 with four heads and learned "
          "positions. The chart also tells of one layer. What this does not show is a loss in translation: there the "
          "answers come after the source, and a decoder-only model makes up for its direction.")
