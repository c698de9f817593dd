"""Mamba: a selective state space in every layer. The past in a state of one size, read and written by choice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from regard.config import one_of
from regard.families.family import Family, LayerKind, initialise, tiny
from regard.families.setting_groups import StateSpaceSettings
from regard.families.sizes import sizes_of
from regard.layers.convolution import CausalConvolution
from regard.layers.stack import Block, Stack, make_norm
from regard.layers.state_space import DECAYS, SelectiveSSM
from regard.models.neural import NeuralLM


@dataclass(frozen=True)
class MambaSettings(StateSpaceSettings):
    norm: str = "rms"                      # rms, as in the paper · layer
    decay: str = "head"                    # head: one a head, matrix products · channel: Mamba, a scan

    def __post_init__(self) -> None:
        one_of("model.decay", self.decay, DECAYS)
        super().__post_init__()


def build_mamba(s: MambaSettings, vocab: int) -> NeuralLM:
    blocks = []
    for _ in range(s.layers):
        mixer = SelectiveSSM(s.width, expand=s.expand, state=s.state, conv=s.conv, decay=s.decay)
        blocks.append(Block(mixer, None, norm=s.norm, eps=s.eps, dropout=s.dropout))
    model = NeuralLM(Stack(blocks), vocab=vocab, norm=make_norm(s.norm, s.width, eps=s.eps), tied=s.tied,
                     logit_bias=s.logit_bias, dropout=s.dropout)
    initialise(model)
    return model


def resize_mamba(s: Any, size: int) -> Any:
    """Widths in steps as coarse as a twentieth of the parameters allows: even numbers are faster, eights more so."""
    step = next(n for n in (8, 4, 2, 1) if size >= 32 * n or n == 1)
    return replace(s, width=size // step * step)


FAMILY = Family(
    "mamba", "selective state space: a linear recurrence that chooses what to keep",
    MambaSettings, sizes=sizes_of("mamba"), build=build_mamba, resize=resize_mamba,
    example=tiny(build_mamba, MambaSettings(layers=2, width=8, state=4)))

LAYERS = (
    LayerKind("convolution", "a short causal convolution, channel by channel", CausalConvolution),
    LayerKind("mamba-channel", "selective state space, each state with its own decay",
              lambda d: SelectiveSSM(d, state=4, decay="channel")),
    LayerKind("mamba-head", "selective state space, one decay a head",
              lambda d: SelectiveSSM(d, state=4, decay="head")),
)
