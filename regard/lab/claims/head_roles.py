"""Head roles: one head attends to entities, another attends to syntax.

    head_i = softmax(X W_Qi (X W_Ki)^T / sqrt K) X W_Vi,   K = D / H;   [head_1, ..., head_H] W_H

    ... Nora ... lamps ... | keys of cabinet | VERB          the verb's form says: Nora, and the number of `keys`

A sentence has one name, anywhere, and three nouns. The verb at its end has one form for each name and number: it names
the entity and agrees with the head noun, which always stands three words before the verb. The name is known by what it
is, the head noun only by its place: two other nouns stand elsewhere, one of them next to the verb. One layer with two
heads learns the verb's form. Then a head is erased (its output becomes its mean over the texts), and measured is which
share of the right answers beyond chance is lost, for the name and for the number. If each head has a role, one of them
costs names and hardly numbers, and the other numbers and hardly names. A model with one head of twice the width has
equally many parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.lab.exercises import FIRST, generator, only
from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Values
from regard.lab.tiny import Exercise, far_apart, find_layers, fit, language_model, parameters, predictions
from regard.layers.self_attention import SelfAttention
from regard.watching import watch

NAMES, STEMS, NOISE = 8, 3, 8
VERB, OF, NAME = FIRST, FIRST + 1, FIRST + 2
NOUN = NAME + NAMES                        # a noun is NOUN + 2 * stem + number
WORD = NOUN + 2 * STEMS
FORM = WORD + NOISE                        # a verb's form is FORM + 2 * name + number
VOCAB = FORM + 2 * NAMES
BEFORE = 8                                 # words before the head noun, the name and a noun among them
HEAD, LENGTH = BEFORE, BEFORE + 4          # keys of cabinet VERB
CHANCE = {"entity": 1 / NAMES, "syntax": 1 / 2}
EXERCISES = tuple(CHANCE)


def sentences(rows: int, seed: int, step: int, lots: str = "") -> tuple[Exercise, dict[str, Tensor]]:
    """Sentences that end with a verb whose form is asked for; and where each task's word stands. Of the task `lots`
    the answer is drawn by lot: nothing in the sentence tells it."""
    chance = generator(seed, step)

    def draw(most: int, *shape: int) -> Tensor:
        return torch.randint(most, (rows, *shape), generator=chance)

    tokens = WORD + draw(NOISE, LENGTH)
    places = torch.rand(rows, BEFORE, generator=chance).topk(2).indices               # of the name, of a noun
    name, number, nouns = draw(NAMES), draw(2), NOUN + draw(2 * STEMS, 2)
    tokens.scatter_(1, places, torch.stack((NAME + name, nouns[:, 0]), 1))
    tokens[:, HEAD:] = torch.stack(
        (NOUN + 2 * draw(STEMS) + number, torch.full((rows,), OF), nouns[:, 1], torch.full((rows,), VERB)), 1)
    lot_of_name, lot_of_number = draw(NAMES), draw(2)
    form = FORM + 2 * (lot_of_name if lots == "entity" else name) + (lot_of_number if lots == "syntax" else number)
    batch = only(tokens, torch.cat((tokens[:, 1:], form[:, None]), 1), LENGTH - 1)
    return batch, {"entity": places[:, 0], "syntax": torch.full((rows,), HEAD)}


def shares_right(model: Any, batch: Exercise) -> dict[str, float]:
    """The shares of forms with the right name, and with the right number. No form of a verb: neither."""
    said, right = predictions(model, batch)[:, -1], batch.targets[:, -1]
    form = said >= FORM
    return {"entity": float((form & ((said - FORM) // 2 == (right - FORM) // 2)).float().mean()),
            "syntax": float((form & ((said - FORM) % 2 == (right - FORM) % 2)).float().mean())}


@contextmanager
def erased(layer: SelfAttention, head: int) -> Iterator[None]:
    """A head gives its mean over the texts, at every position: it no longer tells one text from another."""
    own = slice(head * layer.value_width, (head + 1) * layer.value_width)

    def erase(_: Any, inputs: tuple[Tensor]) -> tuple[Tensor]:
        heads = inputs[0].clone()
        heads[..., own] = heads[..., own].mean(0, keepdim=True)
        return (heads,)

    hook = layer.out.register_forward_pre_hook(erase)
    try:
        yield
    finally:
        hook.remove()


def lost_shares(whole: dict[str, float], without: dict[str, float]) -> dict[str, float]:
    """The share that is lost of what is right beyond chance; 0 for a task that was not learned."""
    return {exercise: (whole[exercise] - without[exercise]) / (whole[exercise] - CHANCE[exercise])
            if whole[exercise] > CHANCE[exercise] + 0.1 else 0.0 for exercise in EXERCISES}


@torch.no_grad()
def weights_on(model: Any, batch: Exercise, places: dict[str, Tensor]) -> dict[str, list[float]]:
    """The mean weight that each head's verb gives to the name and to the head noun."""
    with watch() as seen:
        model.score(batch.tokens.to(model.device), batch.targets.to(model.device))
    of_verb = seen.of("weights")[0].values[:, :, -1].cpu()                            # (B, H, T)
    rows = torch.arange(len(of_verb))
    return {exercise: of_verb[rows, :, at].mean(0).tolist() for exercise, at in places.items()}


def trained(setting: Setting, heads: int) -> Values:
    lots, heads = (setting.flipped, heads) if setting.flipped in EXERCISES else ("", 1 if setting.flipped else heads)
    model = far_apart(language_model("transformer", VOCAB, setting.device, layers=1, width=32, heads=heads,
                                     context=LENGTH, tied=False))
    fit(model, lambda step: sentences(64, setting.seed, step, lots)[0], setting.pick(500, 350), rate=5e-3)
    batch, places = sentences(1000, setting.seed, -1, lots)
    layer = find_layers(model, SelfAttention)[0]
    whole, lost = shares_right(model, batch), []
    for head in range(heads):
        with erased(layer, head):
            lost.append(lost_shares(whole, shares_right(model, batch)))
    weights = weights_on(model, batch, places)
    return {"parameters": parameters(model), **{f"right, {exercise}": whole[exercise] for exercise in EXERCISES},
            **{f"lost, {exercise}": [own[exercise] for own in lost] for exercise in EXERCISES},
            **{f"weight, {exercise}": weights[exercise] for exercise in EXERCISES}}


def head_for(seed: Seed, exercise: str, arm: str = "two heads") -> int:
    """The head whose erasing costs this task the most beyond what it costs the other."""
    return max(range(len(seed[arm][f"lost, {exercise}"])), key=lambda head: more_lost(seed, exercise, head, arm))


def more_lost(seed: Seed, exercise: str, head: int | None = None, arm: str = "two heads") -> float:
    """The share lost of this task less that of the other, without a head: the one for this task, if none is named."""
    head = head_for(seed, exercise, arm) if head is None else head
    other = next(each for each in EXERCISES if each != exercise)
    return float(seed[arm][f"lost, {exercise}"][head] - seed[arm][f"lost, {other}"][head])


def weight_of(seed: Seed, exercise: str) -> float:
    """The weight that the head for a task gives to that task's word."""
    return float(seed["two heads"][f"weight, {exercise}"][head_for(seed, exercise)])


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    bars = ["entity head", "syntax head", "the only head"]

    def of(value: str, exercise: str) -> list[list[float]]:
        key = f"{value}, {exercise}"
        return [[*(seed["two heads"][key][head_for(seed, each)] for each in EXERCISES), seed["one head"][key][0]]
                for seed in seeds]

    told, models = {"entity": "name", "syntax": "number"}, ["two heads", "one head"]
    right = [Line(told[exercise], models, [[seed[arm][f"right, {exercise}"] for arm in models] for seed in seeds])
             for exercise in EXERCISES]
    return [Chart("What is lost without a head", "head", "share of the right answers beyond chance that is lost",
                  [Line(f"the {told[exercise]}", bars, of("lost", exercise)) for exercise in EXERCISES], kind="bars",
                  y_to=1.1),
            Chart("What the verb's heads attend to", "head", "mean weight",
                  [Line(name, bars, of("weight", exercise)) for exercise, name in (("entity", "on the name"),
                                                                          ("syntax", "on the head noun"))],
                  kind="bars", y_from=0, y_to=1.02),
            Chart("How often the form is right", "model", "share right", right, kind="bars", y_from=0, y_to=1.02,
                  levels=[("chance, number", 1 / 2), ("chance, name", 1 / NAMES)])]


EXPERIMENT = Experiment(
    name="head-roles", number=26, title="One head for entities, another for syntax",
    claim="Of two heads that have to find a name and a head noun, one takes the name and the other the noun: without "
          "it that task is lost, and the other task is not.",
    source="lecture 002, 12: we can have one attention head attending to entities, and another one to attend to syntax",
    equation="[head_1, ..., head_H] W_H",
    refuted="a head whose erasing costs both tasks alike, or a head that gives its task's word little of its weight",
    flips=(Flip("heads", "gives the model one head of twice the width", arms=("two heads",)),
           Flip("entity", "draws the name in the verb's form by lot: no name has to be found", arms=("two heads",)),
           Flip("syntax", "draws the number in the verb's form by lot: no head noun has to be found",
                arms=("two heads",))),
    arms=(Arm("two heads", partial(trained, heads=2)), Arm("one head", partial(trained, heads=1))),
    rules=(Rule("without its own head, each task (name, number) loses a larger share of its right answers than the "
                "other, by at least", lambda s: min(more_lost(s, exercise) for exercise in EXERCISES), above=0.5,
                cause="heads"),
           Rule("the entity head gives the name a weight of", partial(weight_of, exercise="entity"), above=0.6,
                cause="entity"),
           Rule("the syntax head gives the head noun a weight of", partial(weight_of, exercise="syntax"), above=0.6,
                cause="syntax"),
           Rule("name and number are each right in a share of at least", lambda s:
                min(s["two heads"][f"right, {exercise}"] for exercise in EXERCISES), above=0.9,
                condition="else the model was not trained")),
    fixed=Fixed("2026-11-17", "9d51b280497c", after="two rules, on erasing either head, became one on the smaller of "
                "both, since one head that learned names alone looked like an entity head; and nouns have three stems "
                "instead of eight, and training has fewer steps, since with eight one seed of three had not learned "
                "the number"), charts=charts,
    notes="One layer of width 32, two heads of 16 or one of 32, rotary positions, a feed-forward layer above. The "
          "entity head is the one whose erasing costs names the most beyond what it costs numbers, and likewise for "
          "the syntax head: a head that is both is neither. Lost shares are of right answers beyond chance (1 of 8 "
          "names, 1 of 2 numbers). Syntax is here a fixed place relative to the verb. How cleanly heads divide the "
          "work depends on the seed. A harder task was tried for two seeds, with three kinds of names and a verb for "
          "each: there both heads took part in both tasks. Learned positions, another rate, another batch and more "
          "steps were tried too; none divided the work reliably over seeds.")
