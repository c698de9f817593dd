"""One-to-one RNNs cannot translate: one output for each input breaks with unequal lengths and with another order.

    one to one          y_t = g(h_t),  h_t = f(W_h h_{t-1} + W_c x_t)      the answer is due when its word is read
    encoder-decoder     reads all of x first, then writes y until <eos>

Made-up words, in three tasks: each has one translation, in the same order; the order is reversed; and some words become
two (so that the target is longer than the source). A one-to-one RNN can do the first and no other: what it has to say
is not yet read, or it has no room to say it. The encoder-decoder does all three.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from regard.lab.experiment import Arm, Chart, Experiment, Flip, Line, Rule, Seed, Setting, Values
from regard.lab.tasks import FIRST, generator
from regard.lab.tiny import Batch, far_apart, fit, language_model, predictions, translator

TASKS = ("same order", "reversed", "unequal")
WAYS = ("one to one", "encoder-decoder")
WORDS, LONGEST = 8, 5
VOCAB = FIRST + 2 * WORDS                  # words of the source, then those that only a target has


def pairs(task: str, rows: int, seed: int, step: int) -> tuple[Tensor, list[list[int]]]:
    """Sources (rows, LONGEST) and their translations. Word w becomes w + 1 (round); in `unequal`, every other word
    becomes two."""
    source = torch.randint(WORDS, (rows, LONGEST), generator=generator(seed, step))
    lines = []
    for line in source.tolist():
        said: list[int] = []
        for word in line[::-1] if task == "reversed" else line:
            said.append(FIRST + (word + 1) % WORDS)
            if task == "unequal" and word % 2 == 0:
                said.append(FIRST + WORDS + word)
        lines.append(said)
    return FIRST + source, lines


def one_to_one_batch(task: str, rows: int, seed: int, step: int) -> Batch:
    """The t-th word of the target is due at the t-th word of the source; what is beyond has no place."""
    source, lines = pairs(task, rows, seed, step)
    targets = torch.tensor([(line + [2] * LONGEST)[:LONGEST] for line in lines])
    return Batch(source, targets, torch.ones_like(targets, dtype=torch.bool))


def pair_batch(task: str, rows: int, seed: int, step: int) -> Batch:
    source, lines = pairs(task, rows, seed, step)
    longest = max(map(len, lines)) + 1
    targets = torch.tensor([line + [2] + [0] * (longest - len(line) - 1) for line in lines])
    tokens = torch.cat((torch.ones(rows, 1, dtype=torch.long), targets[:, :-1]), 1)
    lengths = torch.tensor([len(line) + 1 for line in lines])
    ends = torch.full((rows, 1), 2)
    return Batch(tokens, targets, torch.arange(longest) < lengths[:, None], torch.cat((source, ends), 1),
                 torch.full((rows,), LONGEST + 1), lengths)


def one_to_one(setting: Setting, task: str) -> float:
    """The share of targets that come out whole and right."""
    model = far_apart(language_model("gru", VOCAB, setting.device, width=24, hidden=48, tied=False))
    fit(model, lambda step: one_to_one_batch(task, 64, setting.seed, step), setting.pick(120, 100), rate=1e-2)
    _, lines = pairs(task, 300, setting.seed, -1)
    said = predictions(model, one_to_one_batch(task, 300, setting.seed, -1)).tolist()
    return sum(own == line for own, line in zip(said, lines, strict=True)) / len(lines)


def encoder_decoder(setting: Setting, task: str) -> float:
    model = far_apart(translator("rnn-attention", VOCAB, VOCAB, setting.device, width=24, hidden=48, dropout=0.0,
                                 context=16, score="scaled-dot"))
    fit(model, lambda step: pair_batch(task, 64, setting.seed, step), setting.pick(130, 100), rate=1e-2)
    batch = pair_batch(task, 300, setting.seed, -1)
    right = (predictions(model, batch) == batch.targets) | ~batch.counts
    return float(right.all(1).float().mean())


def run(setting: Setting, way: str, task: str) -> Values:
    one = way == "one to one" and not setting.flipped
    return {"right": one_to_one(setting, task) if one else encoder_decoder(setting, task)}


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    lines = [Line(way, TASKS, [[of(way, task, seed) for task in TASKS] for seed in seeds]) for way in WAYS]
    return [Chart("Translations that come out whole and right", "what the target is of the source",
                  "share of translations", lines, kind="bars", y_from=0, y_to=1.03)]


def of(way: str, task: str, seed: Seed) -> float:
    return float(seed[f"{way}, {task}"]["right"])


EXPERIMENT = Experiment(
    name="one-to-one", number=23, title="One-to-one RNNs cannot translate",
    claim="Unequal lengths and another order break a model with one output for each input; the encoder-decoder does "
          "not mind.",
    source="lecture 003: could we use a one-to-one input/output RNN?", equation="y_t = g(h_t) against P(y_t | y_<t, x)",
    refuted="a one-to-one RNN translating in another order or into longer sentences, or an encoder-decoder failing too",
    flips=(Flip("cause", "lets the one-to-one RNN read all of the source first: it becomes an encoder-decoder"),),
    arms=tuple(Arm(f"{way}, {task}", partial(run, way=way, task=task)) for way in WAYS for task in TASKS),
    rules=(Rule("in the same order one to one is right for", lambda s: of("one to one", "same order", s), above=0.9),
           Rule("reversed or unequal, one to one is right for at most",
                lambda s: max(of("one to one", task, s) for task in TASKS[1:]), below=0.3),
           Rule("the encoder-decoder is right for at least",
                lambda s: min(of("encoder-decoder", task, s) for task in TASKS), above=0.8)),
    charts=charts,
    notes=f"{WORDS} words, sources of {LONGEST}; the encoder-decoder is measured with the right words before each "
          "prediction, the whole sentence having to be right. Unequal, every other word becomes two; one target in 32 "
          "is as long as its source all the same, and that a one-to-one RNN can say.")
