"""Default sizes of translators: how large, and how trained, for the pairs, the machine and the time at hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from regard.sizes import Scale, Sizes, Tables, given

# Target tokens at most -> layers, width, heads, dropout: few pairs are soon known by heart.
ON_GPU = ((3e6, (4, 256, 4, 0.3)), (3e7, (6, 512, 8, 0.2)), (float("inf"), (6, 512, 8, 0.1)))
# Minutes at most -> the same, on a CPU.
ON_CPU = ((3.0, (2, 128, 4, 0.1)), (20.0, (3, 192, 6, 0.1)), (float("inf"), (3, 256, 8, 0.2)))
RECORDED = dict(compile="capture", widths=8)        # on a GPU: few shapes, each recorded once
SMOOTH = dict(label_smoothing=0.1, ema=0.999)


def transformer_sizes(scale: Scale, wanted: Tables, deeper: int = 1) -> Sizes:
    table, size = (ON_GPU, scale.tokens) if scale.gpu else (ON_CPU, scale.minutes)
    layers, width, heads, dropout = next(sizes for limit, sizes in table if size <= limit)
    if "width" in wanted.get("model", {}):
        width = given(wanted, "model", "width", width)
        heads = next(n for n in range(max(1, width // 64), 0, -1) if width % n == 0)
    model = dict(layers=deeper * layers, width=width, heads=heads, dropout=dropout)
    training = dict(batch=4096 if scale.gpu else 2048, optimizer="muon", learning_rate=3e-3, muon_rate=0.02,
                    weight_decay=0.1, **SMOOTH, **(RECORDED if scale.gpu else {}))
    return Sizes(model, training)


def longer(sizes: Callable[[Scale, Tables], Sizes], context: int) -> Callable[[Scale, Tables], Sizes]:
    """Sizes for sources of up to so many tokens, many times as long as their targets: steps of fewer targets."""

    def found(scale: Scale, wanted: Tables) -> Sizes:
        same = sizes(replace(scale, minutes=scale.minutes / 3), wanted)               # each target costs more
        batch = max(256, same.training["batch"] // 4)
        return Sizes({**same.model, "context": context}, {**same.training, "batch": batch})

    return found


def prefix_sizes(scale: Scale, wanted: Tables) -> Sizes:
    """One stack does the work of two."""
    return transformer_sizes(scale, wanted, deeper=2)


def recurrent_sizes(scale: Scale, wanted: Tables) -> Sizes:
    """On a CPU a small one in many small steps by AdamW: there Muon takes as long as the rest of a step.

    A simple RNN wants a quarter of the rates of gated cells. At theirs it gets to BLEU 9 in two minutes on a CPU and
    diverges on a GPU; at a quarter to 91 and to 98.7 (the phrasebook, e = s · h).
    """
    gentler = 4 if wanted.get("model", {}).get("cell") in ("rnn", "relu") else 1
    if scale.gpu:
        return Sizes(dict(width=256, hidden=512, dropout=0.3), dict(
            batch=4096, optimizer="muon", learning_rate=3e-3 / gentler, muon_rate=0.02 / gentler, **SMOOTH, **RECORDED))
    long = scale.minutes > 10
    model: dict[str, Any] = dict(width=192 if long else 96, hidden=384 if long else 192, dropout=0.1 if long else 0.0,
                                 score="scaled-dot")                 # the additive one takes half as long again
    return Sizes(model, dict(batch=512 if long else 256, learning_rate=(2e-3 if long else 4e-3) / gentler, ema=0.995,
                             compile="no"))
