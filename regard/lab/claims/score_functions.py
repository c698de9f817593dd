"""Score functions compared: the softmax is always the same; what differs is e(q, k), how a query matches a key.

    dot          q · k                             scaled-dot   q · k / sqrt d
    bilinear     q · W k                           low-rank     (U q) · (V k)
    additive     v · tanh(W q + U k)               location     (W q + b)_l, which looks at no key

Quality: an RNN translator with each of them learns the phrasebook, and the look-up that attention is likened to: the
source has six names in any order, each with a colour, and the target is the colours in the order of the names. The
decoder starts from nothing, so that whatever it knows of the source it has read by attention.

Cost: the time of one way forth and back through attention, beside the scaled dot product's.

Behaviour with width: for queries and keys drawn at width d, the largest of 32 weights as the layer starts: where it is
near one, the softmax has chosen before anything was learned, and little comes back through it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from regard.lab.experiment import Arm, Chart, Experiment, Flip, Line, Rule, Seed, Setting, Table, Values, column
from regard.lab.phrases import phrases
from regard.lab.stopwatch import seconds
from regard.lab.tasks import FIRST, generator
from regard.lab.tiny import Batch, accuracy, far_apart, fit, loss_on, parameters, translator
from regard.layers.attend import attend, weights
from regard.layers.scores import SCORES, make_score

WIDTHS = (8, 32, 128, 512)
KEYS = 32
NAMES, COLOURS = 6, 4
LOOKING = tuple(name for name in SCORES if name != "location")     # those that look at the keys
STEADY = tuple(name for name in SCORES if name != "dot")


def measured(setting: Setting, score: str) -> Values:
    own = "scaled-dot" if setting.flipped else score
    return {**translated(setting, own), "looked_up": looking_up(setting, own), "cost": cost(setting, own),
            "largest": largest(setting, own)}


def model_of(setting: Setting, score: str, vocab: tuple[int, int]) -> Any:
    """An RNN with attention whose decoder starts from nothing: else its first state would carry a short source past the
    score that is to be measured."""
    model = far_apart(translator("rnn-attention", *vocab, setting.device, width=32, hidden=40, dropout=0.0, context=16,
                                 score=score))
    for weight in model.stack.bridge.parameters():
        torch.nn.init.zeros_(weight).requires_grad_(False)
    return model


def translated(setting: Setting, score: str) -> Values:
    learned, held_out = phrases()
    model = model_of(setting, score, learned.vocab)
    fit(model, lambda step: learned.drawn(64, setting.seed, step), setting.pick(130, 90), rate=1e-2)
    return {"right": accuracy(model, held_out.all()), "loss": loss_on(model, held_out.all()),
            "parameters": parameters(model)}


def looking_up(setting: Setting, score: str) -> float:
    """The share of colours found."""
    model = model_of(setting, score, (FIRST + NAMES * COLOURS, FIRST + COLOURS))
    fit(model, lambda step: look_up(64, setting.seed, step), setting.pick(100, 80), rate=1e-2)
    return accuracy(model, look_up(300, setting.seed, -1))


def look_up(rows: int, seed: int, step: int) -> Batch:
    """Word n * COLOURS + c is name n of colour c. The last word of a source is <eos>."""
    chance = generator(seed, step)
    colours = torch.randint(COLOURS, (rows, NAMES), generator=chance)                 # by name
    names = torch.rand(rows, NAMES, generator=chance).argsort(1)                      # in any order
    source = FIRST + names * COLOURS + colours.gather(1, names)
    targets = FIRST + colours
    tokens = torch.cat((torch.ones(rows, 1, dtype=torch.long), targets[:, :-1]), 1)
    ended = torch.cat((source, torch.full((rows, 1), 2)), 1)
    return Batch(tokens, targets, torch.ones_like(targets, dtype=torch.bool), ended, torch.full((rows,), NAMES + 1))


def cost(setting: Setting, score: str, length: int = 64, width: int = 64) -> float:
    """Milliseconds for attention of 64 queries to 64 keys, forth and back, in a batch of 8 with 4 heads."""
    e = make_score(score, 4, width // 4, places=length).to(setting.device)
    q, k, v = (torch.randn(8, 4, length, width // 4, device=setting.device, requires_grad=True) for _ in range(3))
    return 1000 * seconds(lambda: attend(q, k, v, score=e).sum().backward(), setting.device, repeats=7, warm=2)


@torch.no_grad()
def largest(setting: Setting, score: str) -> list[float]:
    """The mean of the largest weight, by width, with one head as it starts."""
    found = []
    for d in WIDTHS:
        e = make_score(score, 1, d, places=KEYS).to(setting.device)
        q, k = (torch.randn(1, 1, each, d, device=setting.device) for each in (256, KEYS))
        found.append(float(weights(q, k, score=e).amax(-1).mean()))
    return found


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    def bars(key: str, name: str) -> Line:
        return Line(name, SCORES, [[seed[score][key] for score in SCORES] for seed in seeds])

    return [
        Chart("Translation of the phrasebook", "score function", "share of held-out words right",
              [bars("right", "translation")], kind="bars", y_from=0, y_to=1.02),
        Chart("Looking up six names", "score function", "share of colours found", [bars("looked_up", "look-up")],
              kind="bars", y_from=0, y_to=1.02, levels=[("chance", 1 / COLOURS)]),
        Chart("Attention of 64 to 64, forth and back", "score function", "milliseconds, batch of 8, 4 heads",
              [bars("cost", "time")], kind="bars"),
        Chart("As the layer starts", "width d of queries and keys", f"largest of {KEYS} weights",
              [Line(score, WIDTHS, column(seeds, score, "largest")) for score in SCORES], log_x=True, y_from=0,
              y_to=1.02, levels=[("all weights alike", 1 / KEYS)])]


def table(seeds: Sequence[Seed]) -> Table:
    def mean(score: str, key: str) -> float:
        return sum(column(seeds, score, key)) / len(seeds)

    def wide(score: str) -> float:
        return sum(values[-1] for values in column(seeds, score, "largest")) / len(seeds)

    rows = [[score, f"{mean(score, 'right'):.3f}", f"{mean(score, 'looked_up'):.3f}", f"{mean(score, 'loss'):.3f}",
             f"{mean(score, 'cost'):.2f}", f"{wide(score):.2f}", f"{mean(score, 'parameters'):,.0f}"]
            for score in SCORES]
    return Table(["score", "words right", "colours found", "loss, nats", "time, ms",
                  f"largest weight at d = {WIDTHS[-1]}", "parameters"], rows)


def growth(seed: Seed, score: str) -> float:
    return float(seed[score]["largest"][-1] - seed[score]["largest"][0])


EXPERIMENT = Experiment(
    name="score-functions", number=17, title="Score functions compared",
    claim="All scores that look at the keys translate about alike; one that looks at none looks up worse; the additive "
          "one costs most; and only the plain dot product saturates as it gets wider.",
    source="lecture 002, attention variants; lecture 003, the linear score as a special case",
    equation="A(q, K, V) = sum_i softmax_i(e(q, k_i)) v_i",
    refuted="scores that look at the keys differing by much, the location score keeping up, an additive score as "
            "cheap as a product, or another score than the dot product saturating",
    flips=(Flip("cause", "gives every arm the scaled dot product"),),
    arms=tuple(Arm(score, partial(measured, score=score)) for score in SCORES),
    rules=(Rule("of the scores that look at the keys the best is right more often than the worst by",
                lambda s: max(s[name]["right"] for name in LOOKING) - min(s[name]["right"] for name in LOOKING),
                below=0.1),
           Rule("in looking up, the worst of them is right more often than the location score by",
                lambda s: min(s[name]["looked_up"] for name in LOOKING) - s["location"]["looked_up"], above=0.05),
           Rule("the additive score takes longer than the scaled dot product by a factor of",
                lambda s: s["additive"]["cost"] / s["scaled-dot"]["cost"], above=2),
           Rule(f"from d = {WIDTHS[0]} to {WIDTHS[-1]} the largest weight grows with the dot product by",
                lambda s: growth(s, "dot"), above=0.3),
           Rule("and with any other at most by", lambda s: max(growth(s, name) for name in STEADY), below=0.1)),
    charts=charts, table=table, timing=True,
    notes="GRU encoder and decoder, one head of 40; sentences of up to seven words. The low-rank score has rank 16. "
          "A score without keys is not blind: each vector of the encoder tells something of the whole source, so that "
          "it reads a summary wherever it looks.")
