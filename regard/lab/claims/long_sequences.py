"""Long sequences: one set of weights reads a text of any length, with one state and equally many operations a word.

    h_t = f(h_{t-1}, c_t)                  the same f with the same weights for every t, and h_t as large for every t

An RNN learns whether the Bs so far are odd in number from sequences of at most n letters, short ones first, and is then
asked after 4 n to 256 n. What it carries needs one bit, however long the text. A window of n letters, with weights for
each place, is asked the same. If the question needs a state that grows with the text (are there more Bs than As?),
weights that were learned on n letters do not carry on.

The cost of reading is counted, not timed: bytes of the state after T words, and multiplications for T words.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.contract import SequenceLayer
from regard.lab.exercises import FIRST, generator
from regard.lab.experiment import Arm, Chart, Experiment, Fixed, Flip, Line, Rule, Seed, Setting, Values, column
from regard.lab.in_the_open import OpenDot
from regard.lab.stopwatch import exponent
from regard.lab.tiny import Exercise, accuracy, far_apart, fit, language_model
from regard.layers.gated import GRU
from regard.layers.self_attention import SelfAttention

N = 16                                     # letters of the longest sequence that is learned from
LENGTHS = (N, 4 * N, 16 * N, 64 * N, 256 * N)
COUNTED = (64, 128, 256, 512, 1024)        # words over which costs are counted
WIDTH = 32
MODELS: dict[str, dict[str, Any]] = {
    "gru": dict(width=WIDTH, hidden=WIDTH, tied=False), "window": dict(width=8, hidden=64, order=N + 1)}
STEPS = {"gru": (500, 400), "window": (300, 100)}           # in full, and quick


def letters(rows: int, length: int, seed: int, step: int, growing: bool = False) -> Exercise:
    """As and Bs, each as often; after each letter, whether the Bs so far are odd in number. `growing`: whether there
    are more Bs than As."""
    bits = torch.randint(2, (rows, length), generator=generator(seed, step))
    odd, more = bits.cumsum(1) % 2, ((2 * bits - 1).cumsum(1) > 0).long()
    return Exercise(FIRST + bits, FIRST + (more if growing else odd), torch.ones_like(bits, dtype=torch.bool))


def some_of(longest: int, share: float) -> int:
    """The number of letters to learn from: two at first, all from three quarters of the training on."""
    return min(longest, 2 + round((longest - 2) * share / 0.75))


def at_the_end(batch: Exercise) -> Exercise:
    """Only the last quarter of the places counts."""
    counts = torch.arange(batch.tokens.shape[1]) >= batch.tokens.shape[1] * 3 // 4
    return Exercise(batch.tokens, batch.targets, counts.expand_as(batch.counts))


def trained(setting: Setting, family: str) -> Values:
    growing = bool(setting.flipped)
    model = far_apart(language_model(family, FIRST + 2, setting.device, **MODELS[family]))
    steps = setting.pick(*STEPS[family])
    fit(model, lambda step: letters(48, some_of(N, step / steps), setting.seed, step, growing), steps, rate=1e-2)
    right = [accuracy(model, at_the_end(letters(max(16, 2048 // length), length, setting.seed, -1, growing)))
             for length in LENGTHS]
    return {"right": right}


# ------------------------------------------------------------------------------------------------- counting


def reader(setting: Setting) -> SequenceLayer:
    if not setting.flipped:
        return GRU(WIDTH, WIDTH)
    layer = SelfAttention(WIDTH, heads=1, positions="none")
    layer.score = OpenDot()                # every product is written out, to be counted
    return layer


@torch.no_grad()
def counted(setting: Setting) -> Values:
    layer = reader(setting)
    states = [layer.start(1, length) for length in COUNTED]
    sizes = [0 if state is None else state.nbytes() for state in states]
    products = [multiplications(lambda length=length: layer(torch.randn(1, length, WIDTH)))         # type: ignore[misc]
                for length in COUNTED]
    return {"bytes": sizes, "multiplications": products, "bytes exponent": exponent(COUNTED, sizes),
            "multiplications exponent": exponent(COUNTED, products)}


def multiplications(work: Callable[[], Any]) -> int:
    """Multiplications in the matrix products of `work`; torch's own recurrent kernels are kept out, so that theirs are
    seen."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")            # of a flag for other machines, which is set along with this one
        with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as seen:
            work()
    return int(seen.get_total_flops()) // 2        # a multiplication and an addition are two


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    return [
        Chart(f"Are the Bs so far odd in number? Trained on {N} letters", "letters read", "share right, last quarter",
              [Line(name, LENGTHS, column(seeds, arm, "right"))
               for arm, name in (("gru", "RNN"), ("window", f"window of {N}"))],
              log_x=True, y_from=0, y_to=1.02, levels=[("chance", 0.5)]),
        Chart("The cost of reading with an RNN", "words read, T", "bytes, or thousand multiplications",
              [Line("state, bytes", COUNTED, column(seeds, "cost", "bytes")),
               Line("multiplications, thousands", COUNTED,
                    [[each / 1000 for each in own] for own in column(seeds, "cost", "multiplications")])],
              log_x=True, log_y=True)]


EXPERIMENT = Experiment(
    name="long-sequences", number=29, title="RNNs scale to long sequences",
    claim=f"An RNN that learned from sequences of {N} letters reads {256 * N:,} as well, where the answer needs a "
          "state of bounded size; its state is as large after every word, and its operations grow in proportion to "
          "the text.",
    source="lecture 001: why are RNNs good? they scale to long sequences; all cells have the same parameters",
    equation="h_t = f(h_{t-1}, c_t), one f for all t",
    refuted="an RNN that is wrong past the lengths it learned from, a state that grows, or operations that grow faster "
            "than the text",
    flips=(Flip("bounded-state", "asks whether there are more Bs than As: what has to be known grows with the text",
                arms=("gru",)),
           Flip("recurrence", "reads by self-attention, which keeps every word, instead of a recurrence",
                arms=("cost",))),
    arms=(Arm("gru", partial(trained, family="gru")), Arm("window", partial(trained, family="window")),
          Arm("cost", counted, once=True)),
    rules=(Rule(f"in the last quarter of {256 * N:,} letters the RNN is right in a share of",
                lambda s: s["gru"]["right"][-1], above=0.95, cause="bounded-state"),
           Rule("the bytes of the RNN's state grow with the number of words to the power",
                lambda s: s["cost"]["bytes exponent"], below=0.001, exact=True, cause="recurrence"),
           Rule("the multiplications of the RNN grow with the number of words to the power",
                lambda s: s["cost"]["multiplications exponent"], below=1.05, exact=True, cause="recurrence"),
           Rule("a window of as many letters as were learned from is right there in a share of",
                lambda s: s["window"]["right"][-1], below=0.6, condition="else the answer would not need the whole "
                "text")),
    fixed=Fixed("2026-11-17", "b8f9499a81f5", after=
                "a tanh RNN had not learned the task in 400 steps, so that a GRU learns it, short "
                "sequences first, in the way found for complex-enough; the bounds are the first ones"),
    charts=charts,
    notes=f"A GRU of {WIDTH} hidden numbers, asked after every letter. A Transformer with {N} learned positions "
          "refuses the next letter: see past-the-end.")
