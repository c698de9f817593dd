"""Default sizes: how large a model, and how trained, for the data, the machine and the time at hand.

Measured, not derived: a small model that reads the text a few times beats a large one that does not get through it,
and what is read many times by a model large enough to learn it by heart wants dropout and weight decay. TABLE has the
sizes, RECIPES how each kind of model is trained and what else follows, `default_sizes` reads both.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

Tables = Mapping[str, Mapping[str, Any]]
WeightCount = Callable[[Mapping[str, Any], int], int]                 # (sizes, vocabulary) -> weights


@dataclass(frozen=True)
class Scale:
    """The data, machine and budget that default sizes are chosen from."""

    tokens: int                  # tokens to learn from
    vocab: int
    gpu: bool
    minutes: float               # of training, if that is the budget; else a guess
    steps: int = 0               # the budget, if it is one of steps
    budget: int = 0              # the budget, if it is one of tokens
    pace: float = 1.0            # the time this machine takes for what took the reference machine of its kind 1


@dataclass(frozen=True)
class Sizes:
    """Default sizes: changes to the family's settings, and to how it is trained."""

    model: dict[str, Any] = dataclasses.field(default_factory=dict)
    training: dict[str, Any] = dataclasses.field(default_factory=dict)
    why: str = ""                # this size and not the next, in a line


# The limit: `fit` takes the last of the rows whose weights each read SEEN tokens in the budget. A number is, on a CPU,
# minutes at most; on a GPU, where time is rarely short, tokens to learn from at most. `batch`: rows, or target tokens,
# in a step.
TABLE = """
rows                   device  limit  layers  width  heads  context  batch
transformer            cpu     fit    2       64     2      128      16
transformer            cpu     fit    3       96     3      128      16
transformer            cpu     fit    4       128    4      128      16
transformer            cpu     fit    5       160    5      128      16
transformer            cpu     fit    6       192    6      192      16
transformer            cpu     fit    6       256    8      256      16
transformer            gpu     5e6    6       384    6      256      64
transformer            gpu     1e8    8       512    8      512      64
transformer            gpu     inf    12      768    12     1024     32

rows                   device  limit  layers  width  context  batch
mamba                  cpu     fit    3       64     128      8
mamba                  cpu     fit    4       96     128      8
mamba                  cpu     fit    6       128    128      8
mamba                  cpu     fit    8       192    192      16
mamba                  cpu     fit    8       256    256      16
mamba                  gpu     5e6    10      384    256      64
mamba                  gpu     1e8    14      512    512      64
mamba                  gpu     inf    24      768    1024     32

rows                   device  limit  hidden  batch
rnn                    cpu     fit    128     16
rnn                    cpu     fit    256     16
rnn                    cpu     fit    512     32
rnn                    gpu     inf    512     32
gated                  cpu     fit    128     16
gated                  cpu     fit    192     16
gated                  cpu     fit    256     16
gated                  cpu     fit    384     16
gated                  cpu     fit    512     32
gated                  gpu     inf    512     32
average                cpu     inf    512     32
average                gpu     inf    512     32
masked-rnn             cpu     4      128     32
masked-rnn             cpu     inf    256     32
masked-rnn             gpu     inf    256     32

rows                   device  limit  order  hidden  batch
window                 cpu     8      8      384     32
window                 cpu     inf    8      1024    32
window                 gpu     inf    8      1024    32

rows                   device  limit  layers  width  heads
masked-transformer     cpu     1.5    2       64     2

rows                   device  limit  layers  width  heads  dropout  batch
translate-transformer  cpu     fit    1       64     4      0.0      1024
translate-transformer  cpu     fit    1       96     4      0.0      1024
translate-transformer  cpu     fit    2       96     4      0.0      1024
translate-transformer  cpu     fit    2       128    4      0.1      1024
translate-transformer  cpu     fit    3       128    4      0.1      1024
translate-transformer  cpu     fit    3       192    6      0.1      2048
translate-transformer  cpu     fit    3       256    8      0.2      2048
translate-transformer  gpu     3e6    4       256    4      0.3      4096
translate-transformer  gpu     3e7    6       512    8      0.2      4096
translate-transformer  gpu     inf    6       512    8      0.1      4096
prefix                 cpu     fit    2       96     4      0.0      1024
prefix                 cpu     fit    3       96     4      0.0      1024
prefix                 cpu     fit    4       128    4      0.1      1024
prefix                 cpu     fit    6       192    6      0.1      2048
prefix                 cpu     fit    6       256    8      0.2      2048
prefix                 gpu     3e6    8       256    4      0.3      4096
prefix                 gpu     3e7    12      512    8      0.2      4096
prefix                 gpu     inf    12      512    8      0.1      4096

rows                   device  limit  width  hidden  dropout  batch  learning_rate
translate-rnn          cpu     fit    96     128     0.0      1024   6e-3
translate-rnn          cpu     fit    96     192     0.0      1024   6e-3
translate-rnn          cpu     fit    128    256     0.0      1024   6e-3
translate-rnn          cpu     fit    192    384     0.1      1024   3e-3
translate-rnn          gpu     inf    256    512     0.3      4096   3e-3
caption-rnn            cpu     20     96     128     0.0      384    3e-3
caption-rnn            cpu     inf    192    256     0.1      384    3e-3
caption-rnn            gpu     inf    256    512     0.1      1536   3e-3

rows                   device  limit  width  hidden  dropout  batch  learning_rate
label-average          cpu     inf    128    128     0.2      64     3e-3
label-average          gpu     inf    256    256     0.2      128    3e-3
label-window           cpu     inf    96     192     0.2      64     2e-3
label-window           gpu     inf    192    384     0.2      128    2e-3
label-rnn              cpu     inf    96     96      0.2      64     2e-3
label-rnn              gpu     inf    192    256     0.2      128    2e-3

rows                   device  limit  layers  width  heads  dropout  batch  learning_rate
label-transformer      cpu     8      2       96     3      0.1      64     1e-3
label-transformer      cpu     inf    4       128    4      0.1      64     1e-3
label-transformer      gpu     inf    4       256    4      0.1      128    1e-3

rows                   device  limit  encoder_layers  layers  width  heads  dropout  batch
caption-transformer    cpu     20     1               1       96     2      0.0      384
caption-transformer    cpu     inf    2               2       192    4      0.1      384
caption-transformer    gpu     inf    3               3       256    4      0.1      1536
"""
Row = tuple[float | None, dict[str, Any]]                            # up to which limit, None: if it fits; the sizes
TRAINED = ("batch", "learning_rate")                                 # columns that are settings of training
NAMED = ("layers", "width", "hidden")                                # columns that name a size
CPU_STATES = 64              # of each channel of `mamba2`
LARGE_VOCAB = 2048           # a larger vocabulary is too much to learn twice: its embedding is also the output matrix


def read_table(text: str) -> dict[tuple[str, str], list[Row]]:
    """The rows under each name and device, in their order; each block of the table has columns of its own."""
    found: dict[tuple[str, str], list[Row]] = {}
    for block in text.strip().split("\n\n"):
        (_, _, _, *columns), *lines = (line.split() for line in block.splitlines())
        for name, device, limit, *values in lines:
            numbers = (int(value) if value.isdigit() else float(value) for value in values)
            found.setdefault((name, device), []).append(
                (None if limit == "fit" else float(limit), dict(zip(columns, numbers, strict=True))))
    return found


ROWS = read_table(TABLE)


def row_for(name: str, scale: Scale, weights: WeightCount | None = None) -> tuple[dict[str, Any], str]:
    """The sizes under a name, for this device, limit and budget, and why; none where the table goes no further.

    `weights` counts those of sizes that are taken if they fit.
    """
    rows, size = ROWS.get((name, "gpu" if scale.gpu else "cpu"), []), scale.tokens if scale.gpu else scale.minutes
    limited = [(limit, sizes) for limit, sizes in rows if limit is not None]
    if limited or not rows:
        return dict(next((sizes for limit, sizes in limited if size <= limit), {})), ""
    assert weights is not None, f"{name}: sizes that fit are told by their weights"
    read = [tokens_read(scale, count) / count for count in (weights(sizes, scale.vocab) for _, sizes in rows)]
    place = max((n for n, tokens in enumerate(read) if tokens >= SEEN), default=0)
    why = f"in {scale.minutes:g} minutes each weight reads about {read[place]:.1f} tokens"
    if place + 1 < len(rows):
        bigger = " ".join(f"{each} {value}" for each, value in rows[place + 1][1].items() if each in NAMED)
        why += f"; of the next size, {bigger}, {read[place + 1]:.1f}, and {SEEN:g} is the least that pays"
    return dict(rows[place][1]), why


# ---------------------------------------------------------------------------------------------- recipes


@dataclass(frozen=True)
class Recipe:
    """The training of one kind of model, and what follows from its sizes.

    `weights`, of a language model, counts them from its sizes and its vocabulary: how much to drop, and whether to
    train as `often`, depends on how often the text is read by how many weights.
    """

    rows: str                                                        # its name in the table
    training: dict[str, Any] = dataclasses.field(default_factory=dict)
    often: dict[str, Any] | None = None                              # in its place, for a text that is read often
    weights: WeightCount | None = None
    context: int = 0                                                 # tokens read at once, where no row says
    asked: tuple[str, ...] = ()                                      # sizes that others follow where a user gives them
    head: int = 0                                                    # channels of a head, where a user gives the width
    cpu: Sizes = Sizes()                                             # added on a CPU
    gpu: Sizes = Sizes()                                             # added on a GPU
    gentle: tuple[str, ...] = ()                                     # cells that want a quarter of the rates
    by_heart: bool = True                                            # `weights` tell how much to drop, too
    hurried: dict[str, Any] | None = None                            # added where `makes_few_steps`


def of_stack(times: float) -> WeightCount:
    """Weights of layers that have so many times their width squared; a large vocabulary's embedding counts once."""
    return lambda s, vocab: int(
        times * s["layers"] * s["width"]**2 + vocab * s["width"] * (1 if vocab > LARGE_VOCAB else 2))


def of_mamba2(s: Mapping[str, Any], vocab: int) -> int:
    """Weights of a stack of `mamba` with a CPU's states, whose b and c are read from the width."""
    return of_stack(6)(s, vocab) + int(2 * CPU_STATES * s["layers"] * s["width"])


def of_pairs(s: Mapping[str, Any], vocab: int) -> int:
    """Weights of an encoder and a decoder of so many layers each, with one embedding."""
    return int(28 * s["layers"] * s["width"]**2 + vocab * s["width"])


def of_recurrent_pairs(s: Mapping[str, Any], vocab: int) -> int:
    """Weights of a recurrent encoder in both directions and of its decoder, with one embedding."""
    return int(9 * s["hidden"] * (s["hidden"] + s["width"]) + vocab * s["width"])


def of_recurrence(gates: int, directions: int = 1) -> WeightCount:
    """Weights of a state that reads vectors of 128."""
    def count(s: Mapping[str, Any], vocab: int) -> int:
        hidden = directions * s["hidden"]
        return int(gates * hidden * (hidden + 128) + vocab * 128)

    return count


MUON = dict(optimizer="muon", weight_decay=0.1)
# What serves a text that is read a few times, and one that is read so often that it could be learned by heart.
ONCE = dict(**MUON, learning_rate=6e-3, muon_rate=0.03, schedule="cosine")
OFTEN = dict(**MUON, learning_rate=3e-3, muon_rate=0.03, schedule="wsd")
SLOWER = dict(muon_rate=0.02)          # of mamba, 0.015 and 0.025 did alike; 0.03, the Transformer's, a little worse
# The fused kernel of a recurrence is opaque to the compiler, which costs more there than it gains.
UNCOMPILED = dict(compile="no")
RECORDED = dict(compile="capture", widths=8)        # on a GPU: few shapes, each recorded once
SMOOTH = dict(label_smoothing=0.1, ema=0.999)
PAIRS = dict(**MUON, learning_rate=3e-3, muon_rate=0.02)
# The few thousand steps of some minutes on a CPU: twice the rates, averaged over fewer steps, nothing smoothed. Of five
# minutes of one core on Multi30k it made 2 BLEU more; by AdamW one minute came to BLEU 18, and so to 30 or more.
MUON_OF_PAIRS = dict(optimizer="muon", muon_rate=0.04, ema=0.99)
SHORT = Sizes({}, MUON_OF_PAIRS | dict(learning_rate=6e-3, label_smoothing=0.0))
LABELS = dict(weight_decay=0.05, ema=0.99)
RECIPES = {
    "transformer": Recipe("transformer", ONCE, OFTEN, of_stack(12), asked=("layers",), head=32),
    # The pace of the slowest: at the rate of attention a recurrence diverges.
    "hybrid": Recipe("transformer", ONCE | SLOWER, OFTEN | SLOWER, of_stack(12), asked=("layers",), head=32),
    "linear-rnn": Recipe("transformer", ONCE, None, of_stack(12), asked=("layers",)),
    # Deeper than the Transformer, as a layer has half the weights. Products of matrices (`head`) suit a CPU: a layer
    # takes 0.4 of the time there. On a GPU the scan (`channel`) has a kernel of its own, and a model of 24 layers of
    # 768 trains 1.35 times as fast with it.
    "mamba": Recipe("mamba", ONCE | SLOWER, OFTEN | SLOWER, of_stack(6), asked=("layers",),
                    cpu=Sizes({"decay": "head"}), gpu=Sizes({"decay": "channel"})),
    # The sizes of `mamba`. States cost products of matrices: half as many on a CPU as were published.
    "mamba2": Recipe("mamba", ONCE | SLOWER, OFTEN | SLOWER, of_mamba2, asked=("layers",),
                     cpu=Sizes({"state": CPU_STATES}), gpu=Sizes({"state": 128})),
    # A recurrence is trained with care: a rate at which attention learns well makes it diverge.
    "rnn": Recipe("rnn", MUON | dict(learning_rate=6e-3, muon_rate=0.02) | UNCOMPILED, None, of_recurrence(1), 64),
    # Smaller than a simple recurrence, as each gate has its own matrices; gates also bear a higher rate.
    "gated": Recipe("gated", MUON | dict(learning_rate=6e-3, muon_rate=0.05) | UNCOMPILED, None, of_recurrence(4), 64,
                    asked=("hidden",)),
    # A mean says little, whatever reads it: a small network is enough.
    "average": Recipe("average", MUON | dict(learning_rate=6e-3, muon_rate=0.1), None, lambda s, vocab:
                      s["hidden"] * (s["hidden"] + 128) + 2 * vocab * s["hidden"], 128, asked=("hidden",)),
    # A window costs weights for each of its places: many characters, or few words.
    "window": Recipe("window", MUON | dict(learning_rate=6e-3, muon_rate=0.1), None, lambda s, vocab:
                     s["hidden"] * (s["hidden"] + (s["order"] - 1) * 64) + 2 * vocab * s["hidden"], 128,
                     asked=("order", "hidden")),
    # As the recurrent language model, its state shared out between the two directions.
    "masked-rnn": Recipe("masked-rnn", MUON | dict(learning_rate=6e-3, muon_rate=0.02) | UNCOMPILED, None,
                         of_recurrence(1, directions=2), 64),
    "translate-transformer": Recipe("translate-transformer", PAIRS | SMOOTH, weights=of_pairs, by_heart=False, head=64,
                                    cpu=SHORT, gpu=Sizes({}, RECORDED)),
    # One stack does the work of two.
    "prefix": Recipe("prefix", PAIRS | SMOOTH, weights=of_stack(12), by_heart=False, head=64, cpu=SHORT,
                     gpu=Sizes({}, RECORDED)),
    # A simple RNN wants a quarter of the rates of gated cells: at theirs it diverges on a GPU. The additive score takes
    # half as long again on a CPU.
    "translate-rnn": Recipe("translate-rnn", weights=of_recurrent_pairs, by_heart=False, gentle=("rnn", "relu"),
                            hurried=dict(schedule="wsd"),
                            cpu=Sizes({"score": "scaled-dot"}, UNCOMPILED | MUON_OF_PAIRS),
                            gpu=Sizes({}, dict(optimizer="muon", muon_rate=0.02) | SMOOTH | RECORDED)),
    # Few layers, narrow, without dropout where time is short: to see many pictures counts for more. Steps of about 130
    # or 32 pictures, in tokens of captions; Muon takes the convolutions too, which learn several times faster by it.
    "caption-transformer": Recipe("caption-transformer", PAIRS | dict(ema=0.995), head=48, gpu=Sizes({}, RECORDED),
                                  cpu=Sizes({}, UNCOMPILED | dict(weight_decay=0.5))),
    # A label says little of a text: few weights learn it, by AdamW, which takes less time than Muon in small steps.
    "label-average": Recipe("label-average", LABELS),
    "label-window": Recipe("label-window", LABELS),
    "label-rnn": Recipe("label-rnn", LABELS | UNCOMPILED),
    "label-transformer": Recipe("label-transformer", LABELS, head=32),
    "caption-rnn": Recipe("caption-rnn", PAIRS | dict(ema=0.995), gpu=Sizes({}, RECORDED), cpu=Sizes({}, UNCOMPILED)),
}


# --------------------------------------------------------------------------------------------- choosing


def default_sizes(name: str, scale: Scale, wanted: Tables) -> Sizes:
    """The sizes of the table, with what a user `wanted`, and what follows from them."""
    recipe = RECIPES[name]
    said, added = wanted.get("model", {}), recipe.gpu if scale.gpu else recipe.cpu
    sizes, why = row_for(recipe.rows, scale, recipe.weights)
    if not recipe.head:
        sizes.pop("heads", None)
    if "order" in sizes and scale.vocab > LARGE_VOCAB:
        sizes["order"] = 5
    sizes |= {each: given(wanted, "model", each, sizes[each]) for each in recipe.asked}
    if recipe.head and "width" in said:
        width = sizes["width"] = given(wanted, "model", "width", sizes["width"])
        sizes["heads"] = next(n for n in range(max(1, width // recipe.head), 0, -1) if width % n == 0)
    training = {**recipe.training, **{each: sizes.pop(each) for each in TRAINED if each in sizes}, **added.training}
    if recipe.weights is not None and recipe.by_heart:
        wide = sizes | ({"width": given(wanted, "model", "width", sizes["width"])} if "width" in sizes else {})
        read = given(wanted, "training", "batch", training["batch"])
        read *= given(wanted, "model", "context", sizes.get("context", recipe.context))
        risk = risk_of_rote(scale, recipe.weights(wide, scale.vocab), tokens_a_step=read)
        sizes |= {"tied": scale.vocab > LARGE_VOCAB, "dropout": dropout_for(risk)}
        training |= recipe.often if recipe.often and risk > 4 else {}
    if recipe.hurried and makes_few_steps(scale):
        training |= recipe.hurried
    if said.get("cell") in recipe.gentle:
        training |= {each: training[each] / 4 for each in ("learning_rate", "muon_rate") if each in training}
    return Sizes({**sizes, **added.model}, training, "" if any(each in said for each in NAMED) else why)


def sizes_of(name: str) -> Callable[[Scale, Tables], Sizes]:
    """The default sizes under one name, as a family gives them."""
    return partial(default_sizes, name)


def masked_transformer_sizes(scale: Scale, wanted: Tables) -> Sizes:
    """Only one token in seven is learned from, so the same minutes serve a smaller model than a language model's."""
    sizes = default_sizes("transformer", replace(scale, minutes=scale.minutes / 4), wanted)
    smaller = {} if "width" in wanted.get("model", {}) else row_for("masked-transformer", scale)[0]
    return Sizes(sizes.model | smaller, sizes.training)


def longer(sizes: Callable[[Scale, Tables], Sizes], context: int) -> Callable[[Scale, Tables], Sizes]:
    """Sizes for sources of up to so many tokens, many times as long as their targets: steps of fewer targets."""

    def found(scale: Scale, wanted: Tables) -> Sizes:
        same = sizes(replace(scale, minutes=scale.minutes / 3), wanted)               # each target costs more
        batch = max(256, same.training["batch"] // 4)
        return Sizes({**same.model, "context": context}, {**same.training, "batch": batch})

    return found


# -------------------------------------------------------------------------------------- learning by heart


MOST_EPOCHS = 20.0           # a text is read no more often than this, unless the user says for how long to train
SEEN = 1.5                   # tokens that each weight reads in the budget, at least: else a smaller model does more
IN_STEPS = 0.85              # of a budget of minutes
# On a CPU (False), one core of the reference machine, and on a GPU (True), an H200: floating-point operations a second
# that training reaches; seconds a token that do not depend on the size of the model; seconds before the first step, in
# which a compiler works, of which a short budget keeps a third for steps.
SPEED = {False: 3.75e10, True: 2.8e14}
OVERHEAD = {False: 1.5e-5, True: 0.0}
LEAD = {False: 0.0, True: 30.0}
LEAST_IN_STEPS = 0.3


def tokens_read(scale: Scale, weights: int) -> float:
    """The tokens that a model of so many weights reads in the minutes, as well as can be said before it is timed."""
    budget = 60 * scale.minutes
    seconds = max(LEAST_IN_STEPS * budget, IN_STEPS * budget - LEAD[scale.gpu])
    return seconds / (scale.pace * (6 * weights / SPEED[scale.gpu] + OVERHEAD[scale.gpu]))


ATTENDS = 1000               # steps after which the smallest Transformer attends from one text to another
FEW_PASSES = 3.0             # over the pairs: one that reads them more often has learned to attend all the same


def makes_few_steps(scale: Scale) -> bool:
    """Return whether a CPU has time for so few steps on pairs that a recurrence learns more than any Transformer.

    After some 550 steps on message catalogs the recurrence was 11 BLEU better, on Multi30k as good; after 2,000, or on
    short pairs that were read 24 times, the Transformer was.
    """
    if scale.gpu or scale.steps or scale.budget:
        return False
    smallest = ROWS["translate-transformer", "cpu"][0][1]
    read = tokens_read(scale, of_pairs(smallest, scale.vocab))
    return read < min(ATTENDS * smallest["batch"], FEW_PASSES * scale.tokens)


def risk_of_rote(scale: Scale, weights: int, tokens_a_step: int) -> float:
    """The passes over the text of a model with a weight for each of its tokens.

    Half as many weights, a quarter of the risk: Transformers of 0.8 and 0.35 weights a token that read Shakespeare six
    and twelve times were both 4.6% better without dropout.
    """
    text = max(1, scale.tokens)
    read: float = scale.budget or scale.steps * tokens_a_step
    if not read:
        read = min(MOST_EPOCHS * text, tokens_read(scale, weights))
    return read / text * min(1.0, weights / text)**2


def given(wanted: Tables, table: str, name: str, otherwise: int) -> int:
    """A size that the user gave, else `otherwise`; whether it will do is checked elsewhere."""
    said = str(wanted.get(table, {}).get(name, ""))
    return max(1, int(said)) if said.isdigit() else otherwise


def dropout_for(risk: float) -> float:
    """The dropout for a risk: a text seen once cannot be learned by heart."""
    return next(dropout for limit, dropout in ((4, 0.0), (8, 0.1), (16, 0.2), (math.inf, 0.3)) if risk <= limit)
