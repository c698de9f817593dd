"""Mamba-2: a selective state space of heads in every layer, which products of matrices compute."""

from __future__ import annotations

from dataclasses import dataclass

from regard.config import at_least
from regard.errors import SettingError
from regard.families.family import Family, LayerKind, initialise, tiny
from regard.families.mamba import resize_mamba
from regard.families.setting_groups import StateSpaceSettings
from regard.families.sizes import sizes_of
from regard.layers.stack import Block, Stack, make_norm
from regard.layers.state_space_heads import Mamba2
from regard.models.neural import NeuralLM


@dataclass(frozen=True)
class Mamba2Settings(StateSpaceSettings):
    norm: str = "rms"                      # rms · layer
    state: int = 128                       # numbers each channel remembers
    head_width: int = 64                   # channels of a head, about: heads are of one width
    groups: int = 1                        # of heads that share what they write with, and what they read with
    least_step: float = 0.0                # of the state, after the softplus
    most_step: float = 0.0                 # 0: no limit

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("model", self, 1, "head_width", "groups", most=1024)
        at_least("model", self, 0, "least_step", "most_step", most=100)
        if self.most_step and self.most_step <= self.least_step:
            raise SettingError(f"model.most_step = {self.most_step:g}: choose more than model.least_step = "
                               f"{self.least_step:g}, or 0 for no limit")


def build_mamba2(s: Mamba2Settings, vocab: int) -> NeuralLM:
    blocks = []
    for _ in range(s.layers):
        mixer = Mamba2(s.width, expand=s.expand, state=s.state, conv=s.conv, head_width=s.head_width, groups=s.groups,
                       least_step=s.least_step, most_step=s.most_step, eps=s.eps)
        blocks.append(Block(mixer, None, norm=s.norm, eps=s.eps, dropout=s.dropout))
    model = NeuralLM(Stack(blocks), vocab=vocab, norm=make_norm(s.norm, s.width, eps=s.eps), tied=s.tied,
                     logit_bias=s.logit_bias, dropout=s.dropout)
    initialise(model)
    return model


FAMILY = Family(
    "mamba2", "selective state space of heads, by products of matrices, with a gated norm",
    Mamba2Settings, sizes=sizes_of("mamba2"), build=build_mamba2, resize=resize_mamba,
    example=tiny(build_mamba2, Mamba2Settings(layers=2, width=8, state=4, head_width=4, groups=2)))

LAYERS = (
    LayerKind("mamba2", "selective state space of heads, with a gated norm",
              lambda d: Mamba2(d, state=4, head_width=4)),
    LayerKind("mamba2-groups", "the same, with groups of heads and limited steps",
              lambda d: Mamba2(d, state=3, head_width=4, groups=2, least_step=0.2, most_step=1.0)),
)
