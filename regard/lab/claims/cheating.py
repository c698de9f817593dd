"""Cheating: without the mask a model reads the answer, and has nothing to say where there is none to read.

    with the mask       h_t = sum_{s <= t} a_ts v_s          P(w[t+1] | w[1..t])
    without             h_t = sum_s a_ts v_s                 P(w[t+1] | w[1..T]), and w[t+1] is among them

Two models learn the next letter of our stories; one of them has no mask. Its training loss falls to nothing, as it only
has to copy the letter to the right. Then both write: each letter is foretold from those before it, which are read anew
every time, so that the model without a mask reads them as it has learned to, in both directions. Measured are the loss
of letters foretold so, and how many of the words written are words of the stories.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.lab.exercises import FIRST, generator, letters, story_text
from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Table, Values, column
from regard.lab.tiny import find_layers, fit, language_model
from regard.layers.self_attention import SelfAttention

CONTEXT, WIDTH, LAYERS = 32, 48, 2
BEGINNING = 12                             # letters given before the model writes on
NAMES = {"masked": "with the mask", "unmasked": "without the mask"}


class SeesTheFuture(SelfAttention):
    """Self-attention in which every position reads all positions there are, later ones too."""

    def who_reads_whom(self, queries: Tensor, keys: Tensor, whole: bool) -> tuple[Tensor, None]:
        return (keys[..., None, :] >= 0).expand(*queries.shape, -1).unsqueeze(-3), None


def unmask(model: torch.nn.Module) -> None:
    """Take the mask away; the weights stay."""
    for layer in find_layers(model, SelfAttention):
        layer.__class__ = SeesTheFuture


def trained(setting: Setting, arm: str) -> Values:
    known, _ = story_text(setting.seed)
    torch.manual_seed(2 * setting.seed + list(NAMES).index(arm))            # with a mask for both, still two models
    model = language_model("transformer", FIRST + len(known), setting.device, layers=LAYERS, width=WIDTH, heads=4,
                           context=CONTEXT)
    if arm == "unmasked" and setting.flipped != "mask":
        unmask(model)
    losses = fit(model, lambda step: letters(32, CONTEXT, setting.seed, step), setting.pick(400, 250), rate=1e-2)
    texts = written(model, setting.seed)
    return {"training loss": sum(losses[-20:]) / 20, "honest loss": honest_loss(model, setting.seed),
            "words": real_words(texts, setting.seed), "sample": texts[0]}


@torch.no_grad()
def honest_loss(model: Any, seed: int, rows: int = 64) -> float:
    """The loss of each next letter when the model reads those before it and no others; nats a letter."""
    batch = letters(rows, CONTEXT, seed, -1).to(model.device)
    scores = [model.score(batch.tokens[:, :t], batch.targets[:, :t])[0][:, -1] for t in range(1, CONTEXT + 1)]
    return -float(torch.stack(scores).mean())


@torch.no_grad()
def written(model: Any, seed: int, rows: int = 32) -> list[str]:
    """Texts that go on from the beginnings of held-out pieces, letters drawn by their probabilities."""
    known, _ = story_text(seed)
    tokens = letters(rows, BEGINNING, seed, -2).tokens
    chance = generator(seed, -3)
    for _ in range(2 * CONTEXT):
        vectors, _ = model.encode(tokens[:, -CONTEXT:].to(model.device))
        shares = model.head(vectors[:, -1]).double().exp().cpu()
        shares[:, :FIRST] = 0
        tokens = torch.cat((tokens, torch.multinomial(shares, 1, generator=chance)), 1)
    return ["".join(known[each - FIRST] for each in row[BEGINNING:]) for row in tokens.tolist()]


def real_words(texts: Sequence[str], seed: int) -> float:
    """The share of the words written that stand in the stories; the first and the last of a text may be cut."""
    known, text = story_text(seed)
    words = {bare(word) for word in "".join(known[each - FIRST] for each in text.tolist()).split()}
    said = [bare(word) for text in texts for word in text.split(" ")[1:-1]]
    return sum(word in words for word in said if word) / max(1, sum(bool(word) for word in said))


def bare(word: str) -> str:
    return word.strip("\"'!?,.")


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    kinds = {"training loss": "in training", "honest loss": "from the letters before it"}
    losses = [Line(name, list(kinds.values()), [[seed[arm][kind] for kind in kinds] for seed in seeds])
              for arm, name in NAMES.items()]
    words = [Line("words", list(NAMES.values()), [[seed[arm]["words"] for arm in NAMES] for seed in seeds])]
    return [Chart("The loss of the next letter", "how it is foretold", "nats a letter", losses, kind="bars", y_from=0),
            Chart("Words written that are words", "", "share of the words written", words, kind="bars", y_from=0,
                  y_to=1.02)]


def table(seeds: Sequence[Seed]) -> Table:
    def mean(arm: str, name: str) -> float:
        return round(sum(column(seeds, arm, name)) / len(seeds), 3)

    return Table(["", "training loss", "honest loss", "real words", "what it writes"],
                 [[name, mean(arm, "training loss"), mean(arm, "honest loss"), mean(arm, "words"),
                   seeds[0][arm]["sample"]] for arm, name in NAMES.items()])


EXPERIMENT = Experiment(
    name="cheating", number=10, title="Cheating: training without the mask",
    claim="Without the mask the training loss collapses, and what the model writes is garbage.",
    source="lecture 000, no q_2 k_3 because of cheating; lecture 002, 10.5, looking into the future",
    equation="a_ts = 0 for s > t",
    refuted="a training loss without the mask near the one with it, or a model without it that writes as well",
    flips=(Flip("mask", "gives the model without the mask the mask, in training and in writing", arms=("unmasked",)),),
    arms=tuple(Arm(name, partial(trained, arm=name)) for name in NAMES),
    rules=(Rule("the training loss without the mask, as a share of that with it, is",
                lambda s: s["unmasked"]["training loss"] / s["masked"]["training loss"], below=0.1),
           Rule("without the mask letters foretold from those before them cost more, by",
                lambda s: s["unmasked"]["honest loss"] - s["masked"]["honest loss"], above=1.0, unit=" nats"),
           Rule("with the mask a larger share of the words written are words of the stories, by",
                lambda s: s["masked"]["words"] - s["unmasked"]["words"], above=0.3)),
    charts=charts, table=table, fixed=Fixed("2026-11-15", "2e6dc7b4c79e"),
    notes="Two layers of width 48 over 32 letters, rotary positions. Loss on pieces that were not learned from. The "
          "two models begin from different weights and learn from the same pieces; flipped, they differ by their first "
          "weights alone.")
