"""Quadratic cost: attention compares every word with every other, T^2 of them; a recurrence takes T steps.

    attention       S = Q K^T has T x T entries         time ~ T^2; memory ~ T^2 if S is kept, ~ T if it never is
    RNN, SSM        one state, T steps                  time ~ T, memory ~ T (in training, for the way back)
    linear RNN      h[t] = sum_s (a[s+1] .. a[t]) b[s]  the same without a state: a sum over all pairs, ~ T^2

One layer of each, forward and backward, on ever longer texts: `naive` has the weights in memory, `fused` is the same
attention by torch's kernel, which goes through S in tiles and keeps none of it. An exponent p is the slope of the
logarithms over the longer half of the lengths: y ~ T^p. Memory is what is held between forward and backward (on CUDA,
the most that was allocated).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median
from unittest.mock import patch

import torch
from torch import Tensor

from regard.contract import SequenceLayer
from regard.lab.experiment import (
    Arm,
    Chart,
    Experiment,
    Fixed,
    Flip,
    Line,
    Rule,
    Seed,
    Setting,
    Table,
    Values,
    column,
)
from regard.lab.in_the_open import OpenDot
from regard.lab.stopwatch import crossover, exponent, kept_bytes, law, seconds
from regard.layers import linear_recurrence
from regard.layers.linear_recurrence import GatedRecurrence
from regard.layers.recurrent import Elman
from regard.layers.self_attention import SelfAttention
from regard.layers.state_space import SelectiveSSM

WIDTH = 64
WINDOW = 64                                # of attention that is not allowed to look at everything
LONGER = 3                                 # the longest lengths, over which exponents are fitted


def lengths(setting: Setting, name: str) -> tuple[int, ...]:
    """As long as an arm can afford: the slow ones stop earlier, and so does what a flip makes quadratic."""
    longest = {"naive": 4096, "rnn": 2048, "fusion": 4096, "state": 256}.get(
        setting.flipped if setting.flipped in ("fusion", "state") else name, setting.pick(16384, 8192))
    longest *= 1 if setting.device == "cpu" else 4
    return tuple(longest // 2**at for at in (4, 3, 2, 1, 0))


def naive() -> SelfAttention:
    layer = SelfAttention(WIDTH, heads=1, positions="none")
    layer.score = OpenDot()
    return layer


LAYERS: dict[str, Callable[[str], SequenceLayer]] = {
    "naive": lambda device: naive(), "fused": lambda device: SelfAttention(WIDTH, heads=1, positions="none"),
    "rnn": lambda device: Elman(WIDTH, WIDTH), "linear-rnn": lambda device: GatedRecurrence(WIDTH, WIDTH),
    "ssm": lambda device: SelectiveSSM(WIDTH, decay="head" if device == "cpu" else "channel")}


def measured(setting: Setting, name: str) -> Values:
    torch.manual_seed(setting.seed)
    layer = LAYERS["naive" if setting.flipped == "fusion" else name](setting.device).to(setting.device)
    read = {"window": in_windows, "state": without_state}.get(setting.flipped, whole)
    along, times, memory = lengths(setting, name), [], []
    for length in along:
        x = torch.randn(1 if setting.device == "cpu" else 8, length, WIDTH).to(setting.device).requires_grad_()

        def step(x: Tensor = x) -> None:
            layer.zero_grad(set_to_none=True)
            read(layer, x).sum().backward()

        times.append(1000 * seconds(step, setting.device, repeats=3))
        memory.append(kept_bytes(lambda x=x: read(layer, x), setting.device) / 2**20)              # type: ignore[misc]
    return {"lengths": list(along), "milliseconds": times, "megabytes": memory,
            "time exponent": exponent(along[-LONGER:], times[-LONGER:]),
            "memory exponent": exponent(along[-LONGER:], memory[-LONGER:])}


def whole(layer: SequenceLayer, x: Tensor) -> Tensor:
    return layer(x)[0]


def in_windows(layer: SequenceLayer, x: Tensor) -> Tensor:
    """Attention in blocks of a window: each reads itself alone, so that nobody is compared with everybody."""
    return layer(x.unflatten(1, (-1, WINDOW)).flatten(0, 1))[0].unflatten(0, (len(x), -1)).flatten(1, 2)


def without_state(layer: SequenceLayer, x: Tensor) -> Tensor:
    """A linear recurrence with its scan replaced by a sum over all words before."""
    with patch.object(linear_recurrence, "scan", sum_over_pairs):
        return layer(x)[0]


def sum_over_pairs(a: Tensor, b: Tensor, h0: Tensor | None = None) -> Tensor:
    """h[t] = sum_s a[s+1] .. a[t] b[s], for every two words: what a scan gives, without a state."""
    assert h0 is None, "read whole"
    sums = a.expand_as(b).log().cumsum(1)
    decays = sums[:, :, None] - sums[:, None]                                         # (B, T, S, D)
    later = torch.ones(b.shape[1], b.shape[1], dtype=torch.bool, device=b.device).triu(1)
    return torch.einsum("btsd,bsd->btd", decays.masked_fill(later[..., None], -math.inf).exp(), b)


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    ways = {"milliseconds": ("Forward and backward through one layer", "milliseconds"),
            "megabytes": ("Memory held for the way back", "MiB")}
    return [Chart(title, "length T of the text", unit,
                  [Line(name, seeds[0][name]["lengths"], column(seeds, name, key)) for name in LAYERS],
                  log_x=True, log_y=True) for key, (title, unit) in ways.items()]


def attention_is_slower_from(seed: Seed, name: str) -> float:
    """The length at which the fitted laws of fused attention and of another layer meet."""
    laws = [law(seed[each]["lengths"][-LONGER:], seed[each]["milliseconds"][-LONGER:]) for each in ("fused", name)]
    return crossover(*laws)


def table(seeds: Sequence[Seed]) -> Table:
    def mean(name: str, key: str) -> float:
        return sum(column(seeds, name, key)) / len(seeds)

    rows = []
    for name in LAYERS:
        last = seeds[0][name]["lengths"][-1]
        spent = [sum(each[-1] for each in column(seeds, name, key)) / len(seeds)
                 for key in ("milliseconds", "megabytes")]
        meets = ""
        if name not in ("naive", "fused"):
            meets = f"{median([attention_is_slower_from(seed, name) for seed in seeds]):.0f}"
        rows.append([name, last, f"{spent[0]:.3g}", f"{spent[1]:.3g}", f"{mean(name, 'time exponent'):.2f}",
                     f"{mean(name, 'memory exponent'):.2f}", meets])
    return Table(["layer", "T", "ms", "MiB", "time ~ T^", "memory ~ T^", "fused is slower from T ="], rows)


EXPERIMENT = Experiment(
    name="quadratic", number=5, title="The quadratic cost of attention",
    claim="Attention's time grows with the square of the length, and so does its memory unless a fused kernel keeps no "
          "weights; recurrences and state spaces are linear.",
    source="lectures 001 and 003: memory and computation scale quadratically in sequence length",
    equation="Q K^T is T x T", refuted="attention that grows much slower than T^2, or a recurrence much faster than T",
    flips=(Flip("window", f"lets attention read blocks of {WINDOW} words only", arms=("naive", "fused")),
           Flip("fusion", "takes the fused kernel away: its attention has the weights in memory", arms=("fused",)),
           Flip("state", "takes the linear RNN's state away: each word sums over all words before it",
                arms=("linear-rnn",))),
    arms=tuple(Arm(name, lambda s, name=name: measured(s, name)) for name in LAYERS),            # type: ignore[misc]
    rules=(Rule("the time of naive attention grows with the length to the power", lambda s: s["naive"]["time exponent"],
                above=1.6, cause="window"),
           Rule("the time of fused attention grows with it to the power", lambda s: s["fused"]["time exponent"],
                above=1.5, cause="window"),
           Rule("the memory of naive attention grows with it to the power", lambda s: s["naive"]["memory exponent"],
                above=1.7, cause="window"),
           Rule("the memory of fused attention grows with it to the power", lambda s: s["fused"]["memory exponent"],
                below=1.2, cause="fusion"),
           Rule("the times of RNN, linear RNN and SSM grow with it to at most the power", lambda s:
                max(s[name]["time exponent"] for name in ("rnn", "linear-rnn", "ssm")), below=1.3, cause="state"),
           Rule("the memories of RNN, linear RNN and SSM grow with it to at most the power", lambda s:
                max(s[name]["memory exponent"] for name in ("rnn", "linear-rnn", "ssm")), below=1.2, cause="state")),
    fixed=Fixed("2026-11-15", "f507c289449c"), charts=charts, table=table, timing=True,
    notes="Width 64, one head, one text at a time (8 on CUDA). Projections cost T, and a call costs something whatever "
          "T is, so that exponents near 2 only at some length. The crossover is where the fitted laws meet, perhaps "
          "beyond what was measured: below it attention is the cheaper one.")
