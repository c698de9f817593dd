"""Is attention alignment? The map of what was read against what is known, and against what happens without it.

    A[t, l] = softmax_l(e(s_t, h_l))                          how much word t of the target reads word l of the source
    D[t, l] = log P(y_t | x) - log P(y_t | x without l)       how much it misses word l, if that is erased

The phrasebook knows which word says which, so a map can be judged: each target word is linked with the source word it
read most, and the alignment error rate counts the wrong links. It is measured on held-out pairs in which words change
places, for each head; saying that word t always comes from word t is what a map has to beat.

The lecture warns that a map says what a model does, not why. So each source word is erased in turn (<unk> takes its
place; in training one word in ten is erased, so that this is nothing new), and what the prediction loses is compared
with the map. If the map were the whole cause, the word missed most would always be the word read most. There are other
ways from a source word to a prediction: the encoder tells each position of the whole source, the decoder starts from a
summary of it, and attention reads several words. With these ways closed in the RNN, the map is the whole cause.
B pairs · T target words · L source words
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.contract import SequenceLayer, Source
from regard.lab.exercises import FIRST, generator
from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Table, Values, column
from regard.lab.phrases import LONGEST, UNK, Phrases, phrases
from regard.lab.tiny import Exercise, accuracy, far_apart, fit, translator
from regard.layers.scores import Score
from regard.look.attention_alignment import AttentionErrors, read_of_source, stacked
from regard.metrics.alignment_error import ErrorRate, error_rate

ERASED = 0.1                               # of the source words, in training
MATTERS = 1.0                              # nats lost without some word: else a prediction has no cause to be named
MODELS: dict[str, dict[str, Any]] = {
    "rnn-attention": dict(width=32, hidden=48),
    "transformer": dict(width=32, heads=2, layers=2, expand=2.0, positions="learned", tied=False)}


def trained(setting: Setting, family: str) -> Values:
    learned, held_out = phrases()
    model = far_apart(translator(family, *learned.vocab, setting.device, dropout=0.0, context=16, **MODELS[family]))
    if setting.flipped == "other-ways":
        encode_alone(model)
    fit(model, lambda step: lesson(learned, setting, step), setting.pick(220, 170), rate=1e-2)
    if setting.flipped == "other-ways":
        sharpen(model)
    rows = held_out.crossing()
    maps = maps_of(model, held_out.rows(rows))                                        # (layers, B, H, T, L)
    errors = AttentionErrors()
    for at, row in enumerate(rows.tolist()):
        errors.add(maps[:, at], *words_of(held_out, row), held_out.gold(row))
    return {"accuracy": accuracy(model, held_out.all()), **errors.as_dict(), "aer_diagonal": diagonal(held_out, rows),
            **faithful(model, held_out.rows(rows), maps.mean((0, 2)))}


class Alone(SequenceLayer):
    """A layer of an encoder that reads each position by itself: a source of L words is L sources of one word."""

    def __init__(self, layer: SequenceLayer):
        super().__init__()
        self.layer, self.d_in, self.d_out = layer, layer.d_in, layer.d_out

    def start(self, batch: int, capacity: int | None = None, memory: object = None) -> None:
        return None

    def forward(self, x: Tensor, state: None = None, lengths: Tensor | None = None) -> tuple[Tensor, None]:
        y, _ = self.layer(x.flatten(0, 1)[:, None])                                   # (B L, 1, D)
        return y.view(*x.shape[:2], -1), None


def encode_alone(model: Any) -> None:
    """In an RNN: no vector of the source knows of another word, and the decoder starts from nothing. What it knows of
    the source it has read by attention."""
    layers = model.encoder.stack.layers
    for at, layer in enumerate(layers):
        layers[at] = Alone(layer)
    for weight in model.stack.bridge.parameters():
        torch.nn.init.zeros_(weight).requires_grad_(False)


class Sharp(Score):
    """A score many times as large: the word with the largest is read, and no other."""

    def __init__(self, score: Score):
        super().__init__()
        self.score = score

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return 100 * self.score(q, k)


def sharpen(model: Any) -> None:
    model.stack.reader.score = Sharp(model.stack.reader.score)


def lesson(learned: Phrases, setting: Setting, step: int) -> Exercise:
    """Pairs with a source word erased here and there. With the flip `pairs`, each target stands with the source of
    another."""
    batch = learned.drawn(128, setting.seed, step)
    assert batch.source is not None and batch.source_lengths is not None
    blank = torch.rand(batch.source.shape, generator=generator(setting.seed, step)) < ERASED
    source = torch.where(blank & (batch.source >= FIRST), UNK, batch.source)
    shift = int(setting.flipped == "pairs")
    return replace(batch, source=source.roll(shift, 0), source_lengths=batch.source_lengths.roll(shift, 0))


def maps_of(model: Any, batch: Exercise) -> Tensor:
    own = batch.to(model.device)
    assert own.source is not None
    return stacked(read_of_source(model, Source(own.source, own.source_lengths), own.tokens, own.lengths)).cpu()


def words_of(held_out: Phrases, row: int) -> tuple[list[int], list[int]]:
    """The word of each token on either side; <eos> and pads belong to none."""
    lengths = int(held_out.source_lengths[row]) - 1, int(held_out.target_lengths[row]) - 1
    source, target = ([at if at < length else -1 for at in range(LONGEST + 1)] for length in lengths)
    return source, target


def diagonal(held_out: Phrases, rows: Tensor) -> float:
    """The error rate of linking word t with word t, the last one where there is none."""
    total = ErrorRate()
    for row in rows.tolist():
        source, target = (max(words) for words in words_of(held_out, row))
        total += error_rate({(min(t, source), t) for t in range(target + 1)}, held_out.gold(row))
    return total.aer


# ------------------------------------------------------------------------------------------------ erasing words


@torch.no_grad()
def losses_without(model: Any, batch: Exercise) -> Tensor:
    """D (B, T, L): what each target word loses in log-probability when one source word is erased."""
    assert batch.source is not None and batch.source_lengths is not None
    places = batch.source.shape[1]
    erased = batch.source.repeat(places + 1, 1, 1)                                    # (L + 1, B, L), the last whole
    at = torch.arange(places)
    erased[at, :, at] = UNK
    tokens, targets, counts = (each.repeat(places + 1, 1) for each in (batch.tokens, batch.targets, batch.counts))
    repeated = Exercise(tokens, targets, counts, erased.flatten(0, 1), batch.source_lengths.repeat(places + 1))
    repeated = repeated.to(model.device)
    scores, _ = model.learn(repeated.tokens, repeated.targets, None, None, repeated.source, repeated.source_lengths)
    scores = scores.cpu().unflatten(0, (places + 1, -1))                              # (L + 1, B, T)
    return (scores[-1] - scores[:-1]).permute(1, 2, 0)


def faithful(model: Any, batch: Exercise, weights: Tensor) -> Values:
    return agreement(weights, losses_without(model, batch), batch)


def agreement(weights: Tensor, lost: Tensor, batch: Exercise) -> Values:
    """The loss without the word read most, and without the others on average; and how often the word read most is the
    word missed most, where some word is missed at all (not a number where none is). Only words count: <eos> is neither
    read nor missed."""
    assert batch.source is not None
    words = (batch.source >= FIRST)[:, None].expand_as(weights)
    asked = batch.targets >= FIRST
    most = weights.masked_fill(~words, -1.0).argmax(-1, keepdim=True)
    others = words.scatter(2, most, False)
    without_others = (lost * others).sum(-1) / others.sum(-1)
    lost = lost.masked_fill(~words, -torch.inf)
    caused = asked & (lost.amax(-1) > MATTERS)
    agrees = lost.argmax(-1) == most[..., 0]
    return {"lost_attended": float(lost.gather(2, most)[..., 0][asked].mean()),
            "lost_others": float(without_others[asked].mean()),
            "agrees": float(agrees[caused].float().mean()) if caused.any() else math.nan,
            "caused": float(caused.sum() / asked.sum())}


# ------------------------------------------------------------------------------------------------------ judging


def heads_of(seed: Seed) -> dict[str, float]:
    named = {"RNN": seed["rnn-attention"]["aer_heads"][0][0]}
    for layer, heads in enumerate(seed["transformer"]["aer_heads"], 1):
        named |= {f"layer {layer}, head {head}": aer for head, aer in enumerate(heads, 1)}
    return named | {"mean of all": seed["transformer"]["aer"]}


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    names = list(heads_of(seeds[0]))
    erased = {"the word read most": "lost_attended", "another word": "lost_others"}
    return [
        Chart("Wrong links of attention, by layer and head", "the RNN's one head, and those of the Transformer",
              "alignment error rate", [Line("error", names, [list(heads_of(seed).values()) for seed in seeds])],
              kind="bars", y_from=0, y_to=1.02,
              levels=[("word t from word t", seeds[0]["transformer"]["aer_diagonal"])]),
        Chart("What a prediction loses when a source word is erased", "model", "nats of log P(right word)",
              [Line(name, list(MODELS), [[seed[arm][key] for arm in MODELS] for seed in seeds])
               for name, key in erased.items()], kind="bars"),
        Chart("Is the word missed most the word read most?", "model", "share of predictions",
              [Line("agrees", list(MODELS), [[seed[arm]["agrees"] for arm in MODELS] for seed in seeds])], kind="bars",
              y_from=0, y_to=1.02)]


def table(seeds: Sequence[Seed]) -> Table:
    rows = {"words right": "accuracy", "AER of the best head": "aer_best", "AER of the mean of heads": "aer",
            "AER of word t from word t": "aer_diagonal", "nats lost without the word read most": "lost_attended",
            "nats lost without another": "lost_others", "word missed most is the word read most": "agrees",
            "predictions that miss some word": "caused"}

    def cell(arm: str, key: str) -> str:
        values = column(seeds, arm, key)
        return f"{sum(values) / len(values):.2f} ({min(values):.2f}–{max(values):.2f})"

    return Table(["", *MODELS], [[name, *(cell(arm, key) for arm in MODELS)] for name, key in rows.items()])


def disagreement(seed: Seed) -> float:
    """In the model in which map and erasure agree more often."""
    return 1 - max(seed[arm]["agrees"] for arm in MODELS)


EXPERIMENT = Experiment(
    name="alignment", number=16, title="Is attention alignment?",
    claim="Attention finds which word says which, and erasing the word that is read most costs most on average; but "
          "often enough the word a prediction misses most is another one: the map says what is read, not why a word is "
          "said.",
    source="lecture 003: attention enables some interpretation; it does not answer why but rather what",
    equation="D[t, l] = log P(y_t | x) - log P(y_t | x without l), against A[t, l]",
    refuted="maps no better than word t from word t, erasing read words changing no more than erasing others, or maps "
            "that nearly always name the word that is missed most",
    flips=(Flip("pairs", "trains on pairs that do not belong together: there is nothing to align"),
           Flip("other-ways", "lets nothing of the source reach the RNN's prediction but the word that is read most",
                arms=("rnn-attention",))),
    arms=tuple(Arm(family, partial(trained, family=family)) for family in MODELS),
    rules=(Rule("the error rate of the RNN's map is lower than that of linking word t with word t, by",
                lambda s: s["rnn-attention"]["aer_diagonal"] - s["rnn-attention"]["aer_best"], above=0.05,
                cause="pairs"),
           Rule("the error rate of the Transformer's best head is lower than that of linking word t with word t, by",
                lambda s: s["transformer"]["aer_diagonal"] - s["transformer"]["aer_best"], above=0.05, cause="pairs"),
           Rule("erasing the word read most costs more than erasing another, in either model by at least",
                lambda s: min(s[arm]["lost_attended"] - s[arm]["lost_others"] for arm in MODELS), above=0.5,
                unit=" nats", cause="pairs"),
           Rule("the word missed most is not the word read most, in either model in at least a share of",
                disagreement, above=0.08, cause="other-ways")),
    fixed=Fixed("2026-11-17", "a019cf4f5853", after=
                "the share of predictions in which map and erasure agree had been 0.89 against a bound of "
                "0.9, and 0 by default where nothing mattered; now the share in which they do not agree "
                "is judged, and there is none where nothing matters; a first flip, without "
                "the neighbours in a word's vector, changed the agreement too little (0.73), so that it "
                "sharpens the map as well; the bound was 0.05, and is 0.08 since nine seeds gave 0.12, and 0.03 (0.01 "
                "to 0.052) with the flip, too near to tell"),
    charts=charts, table=table,
    notes="Sentences of up to seven words, of 250 French words; one layer of GRU either way, two layers of "
          "Transformer. For erasure the map is the mean of all heads and layers. Whether the word missed most is the "
          f"word read most is asked of predictions that lose more than {MATTERS:g} nat without some word; where there "
          "are none, there is no number.")
