"""Mamba: a selective state space in every layer. The past in a state of one size, read and written by choice."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from regard.config import at_least, one_of, shares
from regard.families.family import LARGEST, Family, LayerKind, initialise, tiny
from regard.layers.convolution import CausalConvolution
from regard.layers.stack import NORMS, Block, Stack, make_norm
from regard.layers.state_space import DECAYS, SelectiveSSM
from regard.models.neural import NeuralLM
from regard.sizes import OFTEN, ONCE, Scale, Sizes, Tables, dropout_for, given, risk_of_rote


@dataclass(frozen=True)
class MambaSettings:
    layers: int = 4
    width: int = 128
    state: int = 16                        # numbers each channel remembers
    expand: float = 2.0                    # channels inside a layer / width
    conv: int = 4                          # positions the short convolution reads
    decay: str = "head"                    # head: Mamba-2, matrix products · channel: Mamba, a scan
    context: int = 128                     # tokens read at once in training; what can be read has no end
    norm: str = "layer"                    # layer · rms
    tied: bool = False                     # the output matrix is the embedding
    dropout: float = 0.0

    def __post_init__(self) -> None:
        one_of("model.decay", self.decay, DECAYS)
        one_of("model.norm", self.norm, NORMS)
        at_least("model", self, 1, "layers", "width", "context", most=LARGEST)
        at_least("model", self, 1, "state", "conv", most=1024)
        at_least("model", self, 0.1, "expand", most=100)
        shares("model", self, "dropout")


def build_mamba(s: MambaSettings, vocab: int) -> NeuralLM:
    blocks = []
    for _ in range(s.layers):
        mixer = SelectiveSSM(s.width, expand=s.expand, state=s.state, conv=s.conv, decay=s.decay)
        blocks.append(Block(mixer, None, norm=s.norm, dropout=s.dropout))
    model = NeuralLM(Stack(blocks), vocab=vocab, norm=make_norm(s.norm, s.width), tied=s.tied, dropout=s.dropout)
    initialise(model)
    return model


def resize_mamba(s: MambaSettings, size: int) -> MambaSettings:
    """Widths in steps as coarse as a twentieth of the parameters allows: even numbers are faster, eights more so."""
    step = next(n for n in (8, 4, 2, 1) if size >= 32 * n or n == 1)
    return replace(s, width=size // step * step)


# Minutes at most -> layers, width, context, rows in a step, on a CPU; tokens of text at most -> the same, on a GPU.
ON_CPU = ((1.5, (4, 96, 128, 16)), (8.0, (6, 128, 128, 16)), (30.0, (8, 192, 192, 16)), (math.inf, (8, 256, 256, 16)))
ON_GPU = ((5e6, (10, 384, 256, 64)), (1e8, (14, 512, 512, 64)), (math.inf, (24, 768, 1024, 32)))


def mamba_sizes(scale: Scale, wanted: Tables) -> Sizes:
    """As for the Transformer, but deeper, as a layer has half the weights."""
    table, size = (ON_GPU, scale.tokens) if scale.gpu else (ON_CPU, scale.minutes)
    layers, width, context, batch = next(sizes for limit, sizes in table if size <= limit)
    layers, wide = given(wanted, "model", "layers", layers), given(wanted, "model", "width", width)
    tied = scale.vocab > 2048
    weights = 6 * layers * wide**2 + scale.vocab * wide * (1 if tied else 2)
    rows = given(wanted, "training", "batch", batch) * given(wanted, "model", "context", context)
    risk = risk_of_rote(scale, weights, tokens_a_step=rows)
    model: dict[str, Any] = dict(layers=layers, width=width, context=context, tied=tied, decay=DECAY[scale.gpu])
    model["dropout"] = dropout_for(risk)
    return Sizes(model, dict(batch=batch, optimizer="muon", **(ONCE if risk <= 4 else OFTEN) | RATES))


# Products of matrices suit a CPU: a layer takes 0.4 of the time there. On a GPU the scan has a kernel of its own, and
# a model of 24 layers of 768 trains 1.35 times as fast with it.
DECAY = {False: "head", True: "channel"}
RATES = dict(muon_rate=0.02)           # 0.015 and 0.025 did alike; 0.03, the Transformer's, a little worse

FAMILY = Family(
    "mamba", "selective state space: a linear recurrence that chooses what to keep",
    MambaSettings, sizes=mamba_sizes, build=build_mamba, resize=resize_mamba,
    example=tiny(build_mamba, MambaSettings(layers=2, width=8, state=4)))

LAYERS = (
    LayerKind("convolution", "a short causal convolution, channel by channel", CausalConvolution),
    LayerKind("mamba-channel", "selective state space, each state with its own decay",
              lambda d: SelectiveSSM(d, state=4, decay="channel")),
    LayerKind("mamba-head", "selective state space, one decay a head",
              lambda d: SelectiveSSM(d, state=4, decay="head")),
)
