"""Order: attention without positions cannot tell who came first; behind a mask it can, and it can even count.

    no positions          A(P X) = P A(X): the last word sees the same set, whatever its order
    with positions        A(X + PE)
    causal mask           h_t = sum_{s <= t} a_ts v_s: position t sees t words, and a_t1 = 1 / t tells it so

Two tasks. Who came first: among words of noise stand an X and a Y, and at the end the earlier one is asked. Which
place: after <bos> come words of noise, and each is asked for its place. Encoders with and without positions and a
causal model without positions learn both.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from regard.config import fill
from regard.families.masked import MASKED
from regard.lab.experiment import Arm, Chart, Experiment, Flip, Line, Rule, Seed, Setting, Values
from regard.lab.tasks import FIRST, generator
from regard.lab.tiny import Batch, fit, language_model

LENGTH, NOISE = 12, 6
QUESTION, X, Y = FIRST, FIRST + 1, FIRST + 2
WORDS = FIRST + 3                          # the first word of noise
PLACES = WORDS + NOISE                     # the id of the first place
VOCAB = PLACES + LENGTH
BEST = dict(layers=2, width=32, heads=2, context=LENGTH + 1)


def who_came_first(rows: int, seed: int, step: int) -> Batch:
    """Noise with an X and a Y in it, then a question: the answer is the one that stands further left."""
    chance = generator(seed, step)
    tokens = WORDS + torch.randint(NOISE, (rows, LENGTH), generator=chance)
    places = torch.rand(rows, LENGTH, generator=chance).argsort(1)[:, :2]             # of X, and of Y
    tokens.scatter_(1, places, torch.tensor([X, Y]).expand(rows, 2))
    tokens = torch.cat((tokens, torch.full((rows, 1), QUESTION)), 1)
    targets = torch.zeros_like(tokens)                                                # <pad>: nothing is asked
    targets[:, -1] = torch.where(places[:, 0] < places[:, 1], X, Y)
    return Batch(tokens, targets, targets > 0)


def which_place(rows: int, seed: int, step: int) -> Batch:
    """<bos> and words of noise; of each word its place is asked."""
    tokens = WORDS + torch.randint(NOISE, (rows, LENGTH + 1), generator=generator(seed, step))
    tokens[:, 0] = 1
    targets = (PLACES - 1 + torch.arange(LENGTH + 1)).repeat(rows, 1)
    targets[:, 0] = 0
    return Batch(tokens, targets, targets > 0)


TASKS = {"first": who_came_first, "place": which_place}


def model_of(kind: str, device: str) -> Any:
    if kind == "causal":
        return language_model("transformer", VOCAB, device, positions="none", **BEST)
    family = MASKED["transformer"]
    assert family.build is not None
    positions = "none" if kind == "set" else "learned"
    return family.build(fill(family.settings, {**BEST, "positions": positions}, "model"), VOCAB).to(device)


@torch.no_grad()
def right(model: Any, batch: Batch) -> float:
    """The share of what is asked that is answered right."""
    batch = batch.to(model.device)
    vectors = model.encode(batch.tokens)
    vectors = vectors[0] if isinstance(vectors, tuple) else vectors.vectors
    answers = model.head(vectors).argmax(-1)
    return float((answers == batch.targets)[batch.counts].float().mean())


def trained(setting: Setting, kind: str) -> Values:
    kind = "positions" if kind == "set" and setting.flipped else kind
    found: Values = {}
    for name, task in TASKS.items():
        torch.manual_seed(setting.seed)
        model = model_of(kind, setting.device)
        fit(model, partial(task, 32, setting.seed), setting.pick(300, 200), rate=5e-3)
        found[name] = right(model, task(2000, setting.seed, -1))
    return found


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
    flips=(Flip("cause", "gives the encoder without positions learned ones"),),
    arms=tuple(Arm(kind, partial(trained, kind=kind)) for kind in NAMES),
    rules=(Rule("who came first, without positions, is told better than chance by", lambda s: s["set"]["first"] - 0.5,
                below=0.05),
           Rule("with positions it is told", lambda s: s["positions"]["first"], above=0.9),
           Rule("which place, without positions, is told better than chance by",
                lambda s: s["set"]["place"] - 1 / LENGTH, below=0.05),
           Rule("behind a causal mask who came first is told without positions", lambda s: s["causal"]["first"],
                above=0.9),
           Rule("and which place is told better than chance by", lambda s: s["causal"]["place"] - 1 / LENGTH,
                above=0.4)),
    charts=charts, notes="Two layers of width 32, 12 words; 2000 texts that were not learned from.")
