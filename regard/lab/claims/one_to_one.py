"""One-to-one RNNs cannot translate: one output for each input breaks with unequal lengths and with another order.

    one to one          y_t = g(h_t),  h_t = f(W_h h_{t-1} + W_c x_t)      the answer is due when its word is read
    encoder-decoder     reads all of x first, then writes y until <eos>

Made-up words, in three tasks: each has one translation, in the same order; the order is reversed; and some words become
two (so that the target is longer than the source). A one-to-one RNN can do the first and no other: what it has to say
is not yet read, or it has no room to say it. The encoder-decoder does all three.

Two causes are taken away. If the same one-to-one RNN waits, reading blanks after its source for as long as a target may
be, and says its words there, it has read everything and has room. And an encoder-decoder that is shown the first words
of the source only has nothing to say about the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from regard.lab.exercises import FIRST, generator
from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Values
from regard.lab.tiny import Exercise, far_apart, fit, language_model, predictions, translator

EXERCISES = ("same order", "reversed", "unequal")
WAYS = ("one to one", "encoder-decoder")
WORDS, LONGEST = 8, 4
SHOWN = 2                                  # words of a source that are shown, where some are hidden
STEPS = {"same order": 120, "reversed": 350, "unequal": 700}
EOS, BLANK = 2, 3
VOCAB = FIRST + 2 * WORDS                  # words of the source, then those that only a target has


def pairs(exercise: str, rows: int, seed: int, step: int) -> tuple[Tensor, list[list[int]]]:
    """Sources (rows, LONGEST) and their translations. Word w becomes w + 1 (round); in `unequal`, every other word
    becomes two."""
    source = torch.randint(WORDS, (rows, LONGEST), generator=generator(seed, step))
    lines = []
    for line in source.tolist():
        said: list[int] = []
        for word in line[::-1] if exercise == "reversed" else line:
            said.append(FIRST + (word + 1) % WORDS)
            if exercise == "unequal" and word % 2 == 0:
                said.append(FIRST + WORDS + word)
        lines.append(said)
    return FIRST + source, lines


def one_to_one_batch(exercise: str, rows: int, seed: int, step: int, waits: bool = False) -> Exercise:
    """The t-th word of the target is due at the t-th word of the source; what is beyond has no place. If it waits,
    blanks follow the source, and the t-th word is due at the t-th blank."""
    source, lines = pairs(exercise, rows, seed, step)
    room = 2 * LONGEST if waits else LONGEST
    targets = torch.tensor([(line + [EOS] * room)[:room] for line in lines])
    if not waits:
        return Exercise(source, targets, torch.ones_like(targets, dtype=torch.bool))
    tokens = torch.cat((source, torch.full((rows, room), BLANK)), 1)
    targets = torch.cat((torch.full_like(source, BLANK), targets), 1)
    return Exercise(tokens, targets, torch.arange(LONGEST + room).expand_as(tokens) >= LONGEST)


def pair_batch(exercise: str, rows: int, seed: int, step: int) -> Exercise:
    source, lines = pairs(exercise, rows, seed, step)
    longest = max(map(len, lines)) + 1
    targets = torch.tensor([line + [2] + [0] * (longest - len(line) - 1) for line in lines])
    tokens = torch.cat((torch.ones(rows, 1, dtype=torch.long), targets[:, :-1]), 1)
    lengths = torch.tensor([len(line) + 1 for line in lines])
    ends = torch.full((rows, 1), 2)
    return Exercise(tokens, targets, torch.arange(longest) < lengths[:, None], torch.cat((source, ends), 1),
                 torch.full((rows,), LONGEST + 1), lengths)


def shorten(batch: Exercise, words: int) -> Exercise:
    """The source is its first words and <eos>; the target is still that of the whole."""
    assert batch.source is not None
    source = torch.cat((batch.source[:, :words], batch.source[:, -1:]), 1)
    return replace(batch, source=source, source_lengths=torch.full((len(source),), words + 1))


def one_to_one(setting: Setting, exercise: str) -> float:
    """The share of targets that come out whole and right."""
    waits = setting.flipped == "waiting"
    model = far_apart(language_model("gru", VOCAB, setting.device, width=24, hidden=48, tied=False))
    fit(model, lambda step: one_to_one_batch(exercise, 64, setting.seed, step, waits), STEPS[exercise], rate=1e-2)
    _, lines = pairs(exercise, 300, setting.seed, -1)
    said = predictions(model, one_to_one_batch(exercise, 300, setting.seed, -1, waits)).tolist()
    return sum(until_end(own[LONGEST:] if waits else own) == line
               for own, line in zip(said, lines, strict=True)) / len(lines)


def until_end(said: list[int]) -> list[int]:
    return said[:said.index(EOS)] if EOS in said else said


def encoder_decoder(setting: Setting, exercise: str) -> float:
    model = far_apart(translator("rnn-attention", VOCAB, VOCAB, setting.device, width=24, hidden=48, dropout=0.0,
                                 context=16, score="scaled-dot"))
    shown = SHOWN if setting.flipped == "source" else LONGEST
    fit(model, lambda step: shorten(pair_batch(exercise, 64, setting.seed, step), shown), setting.pick(130, 100),
        rate=1e-2)
    batch = shorten(pair_batch(exercise, 300, setting.seed, -1), shown)
    right = (predictions(model, batch) == batch.targets) | ~batch.counts
    return float(right.all(1).float().mean())


def run(setting: Setting, way: str, exercise: str) -> Values:
    return {"right": (one_to_one if way == "one to one" else encoder_decoder)(setting, exercise)}


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    lines = [Line(way, EXERCISES, [[of(way, exercise, seed) for exercise in EXERCISES] for seed in seeds])
             for way in WAYS]
    return [Chart("Translations that come out whole and right", "what the target is of the source",
                  "share of translations", lines, kind="bars", y_from=0, y_to=1.03)]


def of(way: str, exercise: str, seed: Seed) -> float:
    return float(seed[f"{way}, {exercise}"]["right"])


EXPERIMENT = Experiment(
    name="one-to-one", number=23, title="One-to-one RNNs cannot translate",
    claim="An RNN with one output for each input translates into neither another order nor another length; an "
          "encoder-decoder does both.",
    source="lecture 003: could we use a one-to-one input/output RNN?", equation="y_t = g(h_t) against P(y_t | y_<t, x)",
    refuted="a one-to-one RNN translating in another order or into longer sentences, or an encoder-decoder failing too",
    flips=(Flip("waiting", "lets the one-to-one RNN wait: it reads all of the source, then blanks, and says its words "
                "at the blanks", arms=("one to one, reversed", "one to one, unequal")),
           Flip("source", f"shows the encoder-decoder the first {SHOWN} words of a source of {LONGEST} only",
                arms=tuple(f"encoder-decoder, {exercise}" for exercise in EXERCISES))),
    arms=tuple(Arm(f"{way}, {exercise}", partial(run, way=way, exercise=exercise))
               for way in WAYS for exercise in EXERCISES),
    rules=(Rule("with the target in reversed order, the one-to-one RNN gets whole targets right in a share of",
                lambda s: of("one to one", "reversed", s), below=0.3, cause="waiting"),
           Rule("with some words becoming two, the one-to-one RNN gets whole targets right in a share of",
                lambda s: of("one to one", "unequal", s), below=0.3, cause="waiting"),
           Rule("the encoder-decoder, in the worst of the three tasks, gets whole targets right in a share of",
                lambda s: min(of("encoder-decoder", exercise, s) for exercise in EXERCISES), above=0.8, cause="source"),
           Rule("with the target in the same order, the one-to-one RNN gets whole targets right in a share of",
                lambda s: of("one to one", "same order", s), above=0.9, condition="else it was not trained")),
    fixed=Fixed("2026-11-17", "3232136b62a0", after=
                "the rule of unequal lengths was changed after an earlier look; it was then parted from "
                "that of another order, the same order became a condition, and sources have four words, "
                "which an RNN that waits can learn in seconds, with more steps than at first"),
    charts=charts,
    notes=f"{WORDS} words, sources of {LONGEST}; the encoder-decoder is measured with the right words before each "
          "prediction, the whole sentence having to be right. Unequal, every other word becomes two; one target in 16 "
          "is as long as its source all the same, and that a one-to-one RNN can say.")
