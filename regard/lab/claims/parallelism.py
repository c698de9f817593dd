"""No parallelism over time: h[t] has to wait for h[t-1], so a longer text is a longer wait, whatever the machine.

    RNN           h[t] = f(W_h h[t-1] + W_c c[t])            T steps, one after another
    linear RNN    h[t] = a[t] * h[t-1] + b[t]                f(x) = x: pieces side by side, and the ends carried across
    Transformer   y[t] = sum_s alpha[t, s] v[s]              all t at once; only the layers wait for one another

Counted are the operations that stand one after another in a forward pass, followed as they run (`in_the_open.py`), and
measured is the time of a training step on the same number of tokens, cut into ever longer rows. The scan of the linear
recurrence has to equal its loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from regard.kernels.scan import scan, scan_loop
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
from regard.lab.in_the_open import depth_of
from regard.lab.stopwatch import exponent, seconds
from regard.lab.tiny import Exercise, language_model, loss_of
from regard.layers import linear_recurrence

VOCAB = 32
WIDTH = 64
LENGTHS = (32, 64, 128, 256, 512)          # followed operation by operation
ROWS = {"cpu": (32, 128, 512), "cuda": (32, 256, 2048)}        # positions of a row, in steps of equally many tokens
TOKENS = {"cpu": 4096, "cuda": 65536}      # of a step: on a GPU fewer would measure how fast it is told what to do
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "rnn": ("rnn", dict(hidden=WIDTH)), "gru": ("gru", dict(hidden=WIDTH)), "lstm": ("lstm", dict(hidden=WIDTH)),
    "linear-rnn": ("linear-rnn", {}), "mamba": ("mamba", {}),
    "transformer": ("transformer", dict(heads=2, context=ROWS["cuda"][-1]))}


def measured(setting: Setting, arm: str) -> Values:
    """Operations one after another by length and by layers, and the time of a step at equal tokens."""
    family, own = MODELS["linear-rnn" if setting.flipped == "nonlinearity" else arm]
    models = {layers: language_model(family, VOCAB, width=WIDTH, layers=layers, **own) for layers in (1, 2, 4)}
    count = FLIPPED.get(setting.flipped, operations)
    by_length = [count(models[2], length) for length in LENGTHS]
    by_layers = [count(each, LENGTHS[0]) for each in models.values()]
    counts = {"operations": by_length, "by_layers": by_layers, "exponent": exponent(LENGTHS, by_length)}
    if setting.flipped in FLIPPED:
        return counts | {"slower": 1.0}                          # not measured: no rule of these flips is about times
    model = models[2].to(setting.device).train()
    rows, tokens = ROWS[setting.device], TOKENS[setting.device] // setting.pick(1, 2)
    times = [step_time(model, setting, rows=tokens // length, length=length) for length in rows]
    return counts | {"rows": list(rows), "milliseconds": [1000 * each for each in times],
                     "slower": times[-1] / times[0]}


def operations(model: Any, length: int) -> int:
    """Operations in a chain, to read a text whole."""
    return depth_of(lambda: model.encode(torch.ones(1, length, dtype=torch.long)))


def operations_by_loop(model: Any, length: int) -> int:
    """Operations in a chain of a linear RNN, with the loop in the place of the scan."""
    with patch.object(linear_recurrence, "scan", scan_loop):
        return operations(model, length)


def operations_side_by_side(model: Any, length: int) -> int:
    """Operations in a chain where all blocks of the stack read the words: their results are added at the end."""
    blocks = list(model.stack)

    def read() -> Tensor:
        x = model.embedding(torch.ones(1, length, dtype=torch.long))
        return model.norm(torch.stack([block(x)[0] for block in blocks]).sum(0))

    return depth_of(read)


def operations_of_writing(model: Any, length: int) -> int:
    """In a chain, to write a text: each word is the likeliest after the one before, and waits for it."""

    def write() -> None:
        word, state = torch.ones(1, 1, dtype=torch.long), model.start(1, length)
        for _ in range(length):
            said, state = model.step(word, state)
            word = said.argmax(-1, keepdim=True)

    return depth_of(write)


FLIPPED = {"text": operations_of_writing, "stacking": operations_side_by_side, "scan": operations_by_loop}


def step_time(model: Any, setting: Setting, rows: int, length: int) -> float:
    drawn = torch.randint(4, VOCAB, (rows, length + 1), generator=torch.Generator().manual_seed(setting.seed))
    batch = Exercise(drawn[:, :-1], drawn[:, 1:], torch.ones(rows, length, dtype=torch.bool)).to(setting.device)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        loss_of(model, batch).backward()

    return seconds(step, setting.device, repeats=setting.pick(5, 3))


def scans(setting: Setting) -> Values:
    """The scan beside the loop that defines it: how far apart, and how much faster."""
    chance, length = torch.Generator().manual_seed(setting.seed), 1 if setting.flipped == "length" else 1024
    a = torch.rand(2, length, WIDTH, generator=chance).to(setting.device)
    b = torch.randn(2, length, WIDTH, generator=chance).to(setting.device)
    scanned = scan_pieces if setting.flipped == "carry" else scan
    apart = (scanned(a.double(), b.double()) - scan_loop(a.double(), b.double())).abs().max()
    repeats = 101 if length == 1 else 5
    loop, side_by_side = (seconds(lambda way=way: way(a, b), setting.device, repeats=repeats, warm=3)   # type: ignore[misc]
                          for way in (scan_loop, scan))
    return {"apart": float(apart), "faster": loop / side_by_side}


def scan_pieces(a: Tensor, b: Tensor) -> Tensor:
    """Pieces side by side, each from zero on: the end of one is not carried into the next."""
    a, b = (each.unflatten(1, (-1, 32)).flatten(0, 1) for each in (a, b))
    return scan(a, b).unflatten(0, (2, -1)).flatten(1, 2)


def charts(seeds: Sequence[Seed]) -> list[Chart]:
    ways = {"operations": ("Operations that wait for one another, two layers", "operations in a chain", LENGTHS),
            "milliseconds": ("A training step on equally many tokens", "milliseconds a step", seeds[0]["rnn"]["rows"])}
    return [Chart(title, "positions of a row", y, [Line(name, x, column(seeds, name, key)) for name in MODELS],
                  log_x=True, log_y=True) for key, (title, y, x) in ways.items()]


def table(seeds: Sequence[Seed]) -> Table:
    first = seeds[0]
    rows = [[name, *first[name]["operations"], f"{first[name]['exponent']:.2f}", *first[name]["by_layers"],
             f"{sum(column(seeds, name, 'slower')) / len(seeds):.2f}"] for name in MODELS]
    rows_of = first["rnn"]["rows"]
    return Table(["operations one after another", *(f"T={n}" for n in LENGTHS), "exponent", "1 layer", "2", "4",
                  f"time, rows of {rows_of[-1]} / {rows_of[0]}"], rows)


EXPERIMENT = Experiment(
    name="parallelism", number=4, title="No parallelism over time in RNNs",
    claim="An RNN's operations wait for one another along the text, a Transformer's only along its layers; a linear "
          "RNN can be computed in parallel, and equals its loop.",
    source="lectures 000, 002 and 004: lack of parallelizability; you can parallelize a linear RNN",
    equation="RNN: T steps one after another; Transformer: as many as layers; linear RNN by scan: about sqrt(T)",
    refuted="an RNN whose operations do not grow in proportion to the text, a Transformer whose operations do, or a "
            "linear RNN that is as slow in long rows or differs from its loop",
    flips=(Flip("nonlinearity", "takes the nonlinearity out of the RNN: a linear RNN, by scan", arms=("rnn",)),
           Flip("text", "does not give the Transformer the text: it writes it, and each word waits for the one before",
                arms=("transformer",)),
           Flip("stacking", "puts the Transformer's layers side by side: all of them read the words",
                arms=("transformer",)),
           Flip("scan", "computes the linear RNN by a loop", arms=("linear-rnn",)),
           Flip("carry", "does not carry the end of one piece of the scan into the next", arms=("scan",)),
           Flip("length", "scans a single word instead of 1,024", arms=("scan",))),
    arms=(*(Arm(name, lambda s, name=name: measured(s, name)) for name in MODELS),               # type: ignore[misc]
          Arm("scan", scans)),
    rules=(Rule("the RNN's chain of operations grows with the length to the power", lambda s: s["rnn"]["exponent"],
                above=0.9, exact=True, cause="nonlinearity"),
           Rule("the Transformer's chain of operations grows with the length to the power",
                lambda s: abs(s["transformer"]["exponent"]), below=0.01, exact=True, cause="text"),
           Rule("from 1 layer to 4 the Transformer's chain of operations grows by a factor of",
                lambda s: s["transformer"]["by_layers"][-1] / s["transformer"]["by_layers"][0], above=2, exact=True,
                cause="stacking"),
           Rule("the linear RNN's chain of operations, by scan, grows with the length to the power",
                lambda s: s["linear-rnn"]["exponent"], below=0.6, exact=True, cause="scan"),
           Rule("scan and loop differ by at most", lambda s: s["scan"]["apart"], below=1e-10, exact=True,
                cause="carry"),
           Rule("the scan of 1,024 words is faster than the loop by a factor of", lambda s: s["scan"]["faster"],
                above=2, cause="length"),
           Rule("at equal tokens, the longest rows slow the RNN's training step more than the linear RNN's, by a "
                "factor of", lambda s: s["rnn"]["slower"] / s["linear-rnn"]["slower"], above=1.5,
                cause="nonlinearity")),
    fixed=Fixed("2026-11-15", "2a76316847e9", after="rows on a GPU became longer, for the reason in the notes"),
    charts=charts, table=table, timing=True,
    notes="Operations are followed on a CPU, whatever the device of the times. An operation is one call, whatever goes "
          "on inside it; the kernels that fuse all steps of an RNN into one call still take them one after another. "
          "Attention's own cost grows with the length as well: see `quadratic`. On a GPU the rows are longer, up to "
          "2,048, and a step has 65,536 tokens: with 32,768 in rows of up to 512 the H200 waited for its orders in "
          "every family, and long rows cost the RNN only 1.2 times more.")
