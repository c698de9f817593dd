"""The bottleneck: a long source that has to pass through one vector is lost; attention reads it where it stands.

    without attention   P(y[t] | y[<t], h_L)             h_L: the encoder's last state
    with attention      P(y[t] | y[<t], c_t)             c_t = sum_l softmax_l(e(s_t, h_l)) h_l

Made-up words have one translation each, and the order is reversed. Both models have the same encoder and cell and are
trained on the same sources of all lengths; measured is the share of words that are right, by the length of the source.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.lab.experiment import Arm, Chart, Experiment, Flip, Line, Rule, Seed, Setting, Values, column
from regard.lab.tasks import FIRST, reversed_words
from regard.lab.tiny import accuracy, fit, parameters, translator

WORDS = 24
LENGTHS = (2, 3, 4, 6, 8, 10, 12)


def trained(setting: Setting, attention: bool) -> Values:
    family = "rnn-attention" if attention else "rnn"
    vocab = FIRST + WORDS
    model = translator(family, vocab, vocab, setting.device, width=32, hidden=64, score="scaled-dot", dropout=0.0,
                       context=32)
    losses = fit(model, lambda step: reversed_words(32, (2, LENGTHS[-1]), WORDS, setting.seed, step),
                 setting.pick(500, 350), rate=1e-2)
    right = [accuracy(model, reversed_words(200, (n, n), WORDS, setting.seed, -1 - n)) for n in LENGTHS]
    return {"accuracy": right, "loss": losses[-1], "parameters": parameters(model)}


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    lines = [Line(arm, LENGTHS, column(seeds, arm, "accuracy")) for arm in ("rnn", "rnn-attention")]
    return [Chart("Words right by the length of the source", "words of the source", "share of words right", lines,
                  y_from=0, y_to=1.02, levels=[("chance", 1 / WORDS)])]


def drop(seed: Seed, arm: str) -> float:
    return seed[arm]["accuracy"][0] - seed[arm]["accuracy"][-1]


EXPERIMENT = Experiment(
    name="bottleneck", number=1, title="The bottleneck of one vector",
    claim="An encoder-decoder without attention loses quality as the source gets longer; with attention it does not.",
    source="lecture 000, issues of RNNs; lecture 002, attention", equation="c_t = sum_l softmax_l(e(s_t, h_l)) h_l",
    refuted="the model without attention being as good on long sources, or the one with attention losing as much",
    flips=(Flip("cause", "gives the model without attention attention"),),
    arms=(Arm("rnn", lambda s: trained(s, s.flipped)), Arm("rnn-attention", lambda s: trained(s, True))),
    rules=(Rule("on the longest sources attention is right more often, by", lambda s:
                s["rnn-attention"]["accuracy"][-1] - s["rnn"]["accuracy"][-1], above=0.2),
           Rule("with attention, what is lost from the shortest to the longest sources is",
                lambda s: drop(s, "rnn-attention"), below=0.1)),
    charts=charts, notes="24 words, sources of 2 to 12 of them, hidden state of 64; every step draws new sources.")
