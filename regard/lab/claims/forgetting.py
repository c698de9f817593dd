"""Forgetting over distance: who still knows, k words later, which name was said?

A name, then k words of noise, then a question: the answer is the name. An n-gram and a window see only their last n - 1
words; a mean has them all, each with weight 1 / t; a recurrent state has to carry the name through k steps,

    h_t = f(W_h h_{t-1} + W_c c_t),

in which it fades unless gates protect it; attention goes back to it, however far. Who has not learned to recall a name
one word later has nothing to forget: the Elman RNN is trained for as long as it needs for that, and the others for
fewer steps, all alike. A second task is the lecture's own: a row of As with at most one B, "if any B then B", by how
far back the B stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from regard.lab.exercises import FIRST, any_b, any_distance, recall_at
from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Values, column
from regard.lab.tiny import Exercise, accuracy, far_apart, fit, language_model
from regard.models.ngram import NGram

NAMES, NOISE = 12, 16
VOCAB = FIRST + 1 + NAMES + NOISE
DISTANCES = (1, 2, 4, 8, 16, 32, 64, 128)
LONGEST = DISTANCES[-1]
ORDER, WINDOW = 4, 8
ROWS = 48
AB = 8                                     # letters in a row of As and Bs
LONG, FEW = 900, 200                       # steps of the Elman RNN; flipped, it has few

SLOW = {"rnn": 5e-3}                       # families that need a smaller rate, and many steps
MODELS: dict[str, dict[str, Any]] = {              # eight to ten thousand weights each
    "window": dict(order=WINDOW, width=16, hidden=64, layers=1),
    "average": dict(width=24, hidden=56),
    "rnn": dict(width=24, hidden=72, tied=False),
    "gru": dict(width=24, hidden=40, tied=False),
    "lstm": dict(width=24, hidden=36, tied=False),
    "linear-rnn": dict(width=28, layers=1, expand=2.0),
    "mamba": dict(width=28, layers=1, state=8),
    "transformer": dict(width=32, layers=1, heads=2, expand=2.0, context=160),
}


def distance_at(setting: Setting, step: int) -> int:
    """Any distance is trained on; flipped, none is longer than one word."""
    return 1 if setting.flipped == "distance" else any_distance(LONGEST, setting.seed, step)


def asked(setting: Setting, distance: int) -> int:
    return 1 if setting.flipped == "distance" else distance


def steps(setting: Setting, family: str) -> tuple[int, int]:
    """To learn names, and to learn As and Bs. The Elman RNN learns names for long, flipped for a few steps only."""
    for_names, for_letters = setting.pick((260, 150), (190, 110))
    if family in SLOW:
        for_names = FEW if setting.flipped == "training" else LONG
    return for_names, for_letters


def trained(setting: Setting, family: str) -> Values:
    for_names, for_letters = steps(setting, family)
    own = MODELS[family] | ({"window": WINDOW} if setting.flipped == "reach" else {})
    model = far_apart(language_model(family, VOCAB, setting.device, dropout=0.0, **own))
    fit(model, lambda step: recall_at(ROWS, distance_at(setting, step), NAMES, NOISE, setting.seed, step), for_names,
        rate=SLOW.get(family, 1e-2))
    recalled = [accuracy(model, recall_at(200, asked(setting, k), NAMES, NOISE, setting.seed, -k)) for k in DISTANCES]
    letters = far_apart(language_model(family, FIRST + 2, setting.device, dropout=0.0, **own))
    fit(letters, lambda step: any_b(ROWS, AB, setting.seed, step), for_letters, rate=1e-2)
    return {"recall": recalled, "any_b": by_place(letters, any_b(600, AB, setting.seed, -1))}


def by_place(model: Any, batch: Exercise) -> list[float]:
    """The share of rows with a B that are right, by how far back it stands: in quarters of the row, nearest first."""
    back = AB - 1 - (batch.tokens == FIRST + 1).long().argmax(1)
    has = (batch.tokens == FIRST + 1).any(1)
    rows = [has & (back >= AB * part // 4) & (back < AB * (part + 1) // 4) for part in range(4)]
    return [accuracy(model, Exercise(batch.tokens[row], batch.targets[row], batch.counts[row])) for row in rows]


def counted(setting: Setting) -> Values:
    """The n-gram: counted on as much text as the others are trained on."""
    for_names, for_letters = steps(setting, "ngram")
    model = fitted([recall_at(ROWS, distance_at(setting, step), NAMES, NOISE, setting.seed, step)
                    for step in range(for_names)], VOCAB)
    recalled = [accuracy(Answers(model), recall_at(200, asked(setting, k), NAMES, NOISE, setting.seed, -k))
                for k in DISTANCES]
    letters = fitted([any_b(ROWS, AB, setting.seed, step) for step in range(for_letters)], FIRST + 2)
    return {"recall": recalled, "any_b": by_place(Answers(letters), any_b(600, AB, setting.seed, -1))}


def fitted(batches: list[Exercise], vocab: int) -> NGram:
    """Counted is what comes after the last words of each row, as the others are trained on that alone."""
    seen = [torch.cat((batch.tokens[:, 1 - ORDER:], batch.targets[:, -1:]), 1) for batch in batches]
    lengths = torch.tensor([rows.shape[1] for rows in seen for _ in rows])
    return NGram.fit(torch.cat([rows.flatten() for rows in seen]).numpy(), lengths.cumsum(0).numpy(), vocab=vocab,
                     order=ORDER)


class Answers:
    """An n-gram as `accuracy` asks a model: only the last position is asked for."""

    device = "cpu"

    def __init__(self, model: NGram):
        self.model = model
        self.head = lambda log_probs: log_probs

    def eval(self) -> None: ...

    def encode(self, tokens: torch.Tensor) -> tuple[torch.Tensor, None]:
        log_probs, _ = self.model.step(tokens, self.model.start(len(tokens), tokens.shape[1]))
        return log_probs[:, None].expand(-1, tokens.shape[1], -1), None


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    arms = ["ngram", *MODELS]
    quarters = [f"{AB * part // 4} to {AB * (part + 1) // 4 - 1}" for part in range(4)]
    return [
        Chart("A name, k words later", "words between the name and the question", "share of names recalled",
              [Line(arm, DISTANCES, column(seeds, arm, "recall")) for arm in arms], log_x=True, y_from=0, y_to=1.03,
              levels=[("chance", 1 / NAMES)]),
        Chart("If any B then B", "letters after the B", "share right, of rows with a B",
              [Line(arm, quarters, column(seeds, arm, "any_b")) for arm in arms], y_from=0, y_to=1.03)]


def last(seed: Seed, arm: str) -> float:
    return seed[arm]["recall"][-1]


EXPERIMENT = Experiment(
    name="forgetting", number=2, title="Forgetting over distance",
    claim="What an n-gram and a window do not see they cannot use, and an Elman RNN that recalls a name one word later "
          "forgets it over distance; attention does not.",
    source="lecture 001, why are RNNs bad; the As and Bs", equation="h_t = f(W_h h_{t-1} + W_c c_t)",
    refuted="an Elman RNN recalling as well as a Transformer at the longest distance, or a window beyond its reach",
    flips=(Flip("training", f"trains the Elman RNN for {FEW} steps in the place of {LONG}", arms=("rnn",)),
           Flip("reach", f"lets attention reach the last {WINDOW} words only", arms=("transformer",)),
           Flip("distance", "puts the name next to the question", arms=("ngram", "window"))),
    arms=(Arm("ngram", counted), *(Arm(family, partial(trained, family=family)) for family in MODELS)),
    rules=(Rule(f"at {LONGEST} words the Transformer recalls a larger share of names than the Elman RNN, by",
                lambda s: last(s, "transformer") - last(s, "rnn"), above=0.3, cause="training"),
           Rule(f"from one word to {LONGEST} the share of names that the Elman RNN recalls falls by",
                lambda s: s["rnn"]["recall"][0] - last(s, "rnn"), above=0.1, cause="training"),
           Rule("one word later the Elman RNN recalls a share of names of", lambda s: s["rnn"]["recall"][0], above=0.9,
                condition="else it has not learned what it could forget"),
           Rule(f"at {LONGEST} words the Transformer recalls a share of names of", lambda s: last(s, "transformer"),
                above=0.9, cause="reach"),
           Rule(f"at {LONGEST} words, beyond their reach, the better of n-gram and window recalls above chance",
                lambda s: max(last(s, "ngram"), last(s, "window")) - 1 / NAMES, below=0.15, cause="distance")),
    charts=charts,
    fixed=Fixed("2026-11-17", "aed2aec05ed3",
                after="all were changed after a first look at a smaller run; the condition on one "
                "word was added when an Elman RNN trained for 260 steps, as the others are, was seen to recall about "
                "half of the names even there, and was given 900, after which three seeds of three recalled all; the "
                "few steps of its flip were chosen after a look at 150"),
    notes=f"{NAMES} names, {NOISE} words of noise; an n-gram of {ORDER} and a window of {WINDOW}; the others of "
          "eight to ten thousand weights, trained alike on all distances, with word vectors far apart from the start; "
          f"the Elman RNN for {LONG} steps at half the rate, the others for 260. Whoever is as bad next to the name as "
          "far from it has not forgotten: it has not learned yet. The noise says nothing about the name and need not "
          "be kept, so that this is a mild test of a memory.")
