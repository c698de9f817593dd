"""From the settings of a stack of residual blocks to its parts, and to the keywords of its layers.

Whoever builds such a stack, a Transformer, a hybrid, a translator or an encoder, takes them from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from regard.contract import SequenceLayer
from regard.layers.feedforward import FeedForward
from regard.layers.positions import EVEN_ALIBI, RELATIVE, LearnedPositions, SinusoidalPositions
from regard.layers.stack import make_norm


def older(table: Mapping[str, Any]) -> dict[str, Any]:
    """A [model] table, with what runs meant by saying nothing before there was a scale, and slopes as published."""
    even = {"positions": EVEN_ALIBI} if "eps" not in table and table.get("positions") == "alibi" else {}
    return {"embedding_scale": "none", **table, **even}


def older_decoder(table: Mapping[str, Any]) -> dict[str, Any]:
    """A Transformer's, likewise: before norms had one eps, those of queries and keys had this."""
    return {**({} if "eps" in table else {"qk_eps": 1e-6}), **older(table)}


def position_layers(positions: str, width: int, context: int) -> list[SequenceLayer]:
    """The layer that adds a vector for each position, for the kinds that are added."""
    if positions == "learned":
        return [LearnedPositions(width, context)]
    return [SinusoidalPositions(width)] if positions == "sinusoidal" else []


def embedding_scale(s: Any) -> float:
    """The factor of embeddings: with sinusoids, by default, the square root of the width.

    A sinusoid has the length sqrt(width / 2) and never changes. An embedding starts seven times shorter or more, and is
    hardly seen beside it. Learned positions start no longer than embeddings and are learned with them.
    """
    scaled = s.embedding_scale == "width" or (s.embedding_scale == "auto" and s.positions == "sinusoidal")
    return float(s.width**0.5) if scaled else 1.0


def heads_of(s: Any) -> dict[str, Any]:
    """The settings that every attention takes, a recurrent decoder's too."""
    return dict(heads=s.heads, f=s.f, head_width=s.head_width, value_width=s.value_width)


def self_attention_of(s: Any) -> dict[str, Any]:
    """The settings of attention in a stack to the stack's own positions."""
    return dict(**heads_of(s), positions=s.positions if s.positions in RELATIVE else "none",
                rotary_base=s.rotary_base, rotary_share=s.rotary_share, bias=s.bias)


def encoder_of(s: Any) -> dict[str, Any]:
    """The settings of an encoder of residual blocks."""
    return dict(**heads_of(s), layers=s.layers, positions=s.positions, rotary_base=s.rotary_base,
                rotary_share=s.rotary_share, bias=s.bias, activation=s.activation, expand=s.expand, norm=s.norm,
                eps=s.eps, placement=s.placement, dropout=s.dropout, attention_dropout=s.attention_dropout)


def feed_forward(s: Any) -> FeedForward:
    return FeedForward(s.width, expand=s.expand, activation=s.activation, bias=s.bias == "all")


def norm_options(s: Any) -> dict[str, Any]:
    return dict(eps=s.eps, bias=s.bias == "all")


def block_options(s: Any) -> dict[str, Any]:
    """The settings of a residual block, whatever stands in it."""
    return dict(norm=s.norm, **norm_options(s), placement=s.placement, dropout=s.dropout,
                parallel=getattr(s, "parallel", False))


def final_norm(s: Any) -> nn.Module | None:
    """Pre-norm leaves the sum of all blocks as it is, so that it wants a norm at the end; post-norm has had its own."""
    return make_norm(s.norm, s.width, **norm_options(s)) if s.placement == "pre" else None
