"""Order: attention without positions cannot tell who came first; behind a mask it can, and it can even count.

    no positions          A(P X) = P A(X): the last word sees the same set, whatever its order
    with positions        A(X + PE)
    causal mask           h_t = sum_{s <= t} a_ts v_s: position t sees t words, and a_t1 = 1 / t tells it so

Two tasks. Who came first: among words of noise stand an X and a Y, and at the end the earlier one is asked. Which
place: after <bos> come words of noise, and each is asked for its place. Encoders with and without positions and a
causal model without positions learn both. With the words of a text shuffled after the answers are known, nothing that a
model reads tells the order that is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from regard.config import fill
from regard.families.masked_encoders import MASKED
from regard.lab.claims.cheating import unmask
from regard.lab.exercises import FIRST, generator
from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Values
from regard.lab.tiny import Exercise, fit, language_model

LENGTH, NOISE = 12, 6
QUESTION, X, Y = FIRST, FIRST + 1, FIRST + 2
WORDS = FIRST + 3                          # the first word of noise
PLACES = WORDS + NOISE                     # the id of the first place
VOCAB = PLACES + LENGTH
BEST = dict(layers=2, width=32, heads=2, context=LENGTH + 1)


def who_came_first(rows: int, seed: int, step: int) -> Exercise:
    """Noise with an X and a Y in it, then a question: the answer is the one that stands further left."""
    chance = generator(seed, step)
    tokens = WORDS + torch.randint(NOISE, (rows, LENGTH), generator=chance)
    places = torch.rand(rows, LENGTH, generator=chance).argsort(1)[:, :2]             # of X, and of Y
    tokens.scatter_(1, places, torch.tensor([X, Y]).expand(rows, 2))
    tokens = torch.cat((tokens, torch.full((rows, 1), QUESTION)), 1)
    targets = torch.zeros_like(tokens)                                                # <pad>: nothing is asked
    targets[:, -1] = torch.where(places[:, 0] < places[:, 1], X, Y)
    return Exercise(tokens, targets, targets > 0)


def which_place(rows: int, seed: int, step: int) -> Exercise:
    """<bos> and words of noise; of each word its place is asked."""
    tokens = WORDS + torch.randint(NOISE, (rows, LENGTH + 1), generator=generator(seed, step))
    tokens[:, 0] = 1
    targets = (PLACES - 1 + torch.arange(LENGTH + 1)).repeat(rows, 1)
    targets[:, 0] = 0
    return Exercise(tokens, targets, targets > 0)


TASKS = {"first": who_came_first, "place": which_place}


def shuffled(batch: Exercise, seed: int, step: int) -> Exercise:
    """The words of each text in any order; the question or <bos>, and what is asked, stay where they are."""
    asked_last = bool((batch.tokens[:, -1] == QUESTION).all())
    words = slice(0, LENGTH) if asked_last else slice(1, LENGTH + 1)
    order = torch.rand(len(batch.tokens), LENGTH, generator=generator(seed, step)).argsort(1)
    tokens = batch.tokens.clone()
    tokens[:, words] = tokens[:, words].gather(1, order)
    return Exercise(tokens, batch.targets, batch.counts)


def model_of(kind: str, device: str) -> Any:
    if kind == "causal":
        return language_model("transformer", VOCAB, device, positions="none", **BEST)
    family = MASKED["transformer"]
    assert family.build is not None
    positions = "none" if kind == "set" else "learned"
    return family.build(fill(family.settings, {**BEST, "positions": positions}, "model"), VOCAB).to(device)


@torch.no_grad()
def right(model: Any, batch: Exercise) -> float:
    """The share of what is asked that is answered right."""
    batch = batch.to(model.device)
    vectors = model.encode(batch.tokens)
    vectors = vectors[0] if isinstance(vectors, tuple) else vectors.vectors
    answers = model.head(vectors).argmax(-1)
    return float((answers == batch.targets)[batch.counts].float().mean())


def trained(setting: Setting, kind: str) -> Values:
    numbers: Values = {}
    for name, task in TASKS.items():
        def lesson(rows: int, step: int, task: Any = task) -> Exercise:
            batch = task(rows, setting.seed, step)
            return shuffled(batch, setting.seed, step) if setting.flipped == "shuffling" else batch

        torch.manual_seed(setting.seed)
        model = model_of("positions" if setting.flipped == "positions" else kind, setting.device)
        if setting.flipped == "mask":
            unmask(model)
        fit(model, partial(lesson, 32), setting.pick(200, 150), rate=5e-3)
        numbers[name] = right(model, lesson(2000, -1))
    return numbers


NAMES = {"set": "no positions", "positions": "learned positions", "causal": "no positions, causal mask"}


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    tasks = {"first": "who came first (chance 1/2)", "place": f"which place (chance 1/{LENGTH})"}
    lines = [Line(name, list(tasks.values()), [[seed[arm][task] for task in tasks] for seed in seeds])
             for arm, name in NAMES.items()]
    return [Chart("What can be told of the order", "task", "share right", lines, kind="bars", y_from=0, y_to=1.02)]


EXPERIMENT = Experiment(
    name="order", number=8, title="Without positions order is lost, but not behind a mask",
    claim="Without positions attention is at chance on order, with them it is not; a causal model needs none to count.",
    source="lecture 002, 10.3, sequence order; lecture 003, positional encoding, with the caveat of the mask",
    equation="A(PX) = P A(X)",
    refuted="order told without positions and mask, not told with positions, or a causal model that cannot count",
    flips=(Flip("positions", "gives the encoder without positions learned ones", arms=("set",)),
           Flip("shuffling", "shuffles the words of each text after the answer is known: a word's position is no "
                "longer its place", arms=("positions",)),
           Flip("mask", "takes the mask away from the causal model without positions", arms=("causal",))),
    arms=tuple(Arm(kind, partial(trained, kind=kind)) for kind in NAMES),
    rules=(Rule("who came first, without positions, is told better than chance by", lambda s: s["set"]["first"] - 0.5,
                below=0.05, cause="positions"),
           Rule("with positions the share of texts in which it is told right is", lambda s: s["positions"]["first"],
                above=0.9, cause="shuffling"),
           Rule("which place, without positions, is told better than chance by",
                lambda s: s["set"]["place"] - 1 / LENGTH, below=0.05, cause="positions"),
           Rule("behind a causal mask, without positions, the share of texts in which it is told right who came first "
                "is", lambda s: s["causal"]["first"], above=0.9, cause="mask"),
           Rule("behind a causal mask, without positions, which place is told better than chance by",
                lambda s: s["causal"]["place"] - 1 / LENGTH, above=0.4, cause="mask")),
    charts=charts, fixed=Fixed("2026-11-15", "b906130dbf19"),
    notes="Two layers of width 32, 12 words; 2000 texts that were not learned from.")
