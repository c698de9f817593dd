"""The families of the task `caption`: language models of the caption that read a picture, patch by patch.

    transformer      blocks over the patches, and a decoder that reads them by cross-attention
    rnn-attention    a recurrent decoder; every step of it reads the patches
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from regard.config import at_least
from regard.contract import Source
from regard.families.blocks import embedding_scale, final_norm, heads_of
from regard.families.family import Family, initialise, tiny
from regard.families.setting_groups import LARGEST
from regard.families.sizes import sizes_of
from regard.families.transformer import resize_transformer
from regard.families.translate import (
    CrossSettings,
    RecurrentDecoderSettings,
    older,
    older_pair,
    recurrent_decoder,
    transformer_decoder,
)
from regard.layers.projections import check_heads
from regard.models.seq2seq import Seq2Seq
from regard.models.vision import PatchEncoder, check_choices, grid_of

LARGEST_IMAGE = 4096           # pixels


@dataclass(frozen=True)
class PictureSettings:
    """The settings of every reader of pictures."""

    image: int = 48                        # pixels: pictures are brought to a square of this side
    patch: int = 8                         # pixels: the side of a patch
    stem: str = "conv"                     # linear · conv: how a patch becomes a vector
    grid: str = "learned"                  # where a patch stands: learned · sinusoidal · none
    encoder_layers: int = 0                # blocks over the patches; 0: each goes to the decoder as it is

    def check_picture(self, width: int) -> None:
        at_least("model", self, 1, "image", "patch", most=LARGEST_IMAGE)
        at_least("model", self, 0, "encoder_layers", most=LARGEST)
        grid_of((self.image, self.image), self.patch)
        check_choices(self.stem, self.grid, patch=self.patch, width=width)


# ------------------------------------------------------------------------------------------- transformer


@dataclass(frozen=True)
class CaptionTransformerSettings(CrossSettings, PictureSettings):
    encoder_layers: int = 1
    layers: int = 1                        # of the decoder
    width: int = 96
    heads: int = 2
    context: int = 64                      # the most tokens of a caption

    def __post_init__(self) -> None:
        self.check_picture(self.width)
        super().__post_init__()


def build_transformer(s: CaptionTransformerSettings, vocab: int) -> Seq2Seq:
    encoder = PatchEncoder(
        size=(s.image, s.image), patch=s.patch, width=s.width, **heads_of(s), layers=s.encoder_layers, stem=s.stem,
        positions=s.grid, activation=s.activation, expand=s.expand, norm=s.norm, eps=s.eps, bias=s.bias,
        placement=s.placement, score=s.score, unread_keys=s.projections == "all", dropout=s.dropout,
        attention_dropout=s.attention_dropout)
    decoder = transformer_decoder(s, s.width, layers=s.layers, places=math.prod(encoder.grid))
    model = Seq2Seq(
        encoder, decoder, vocab=vocab, tied=s.tied, logit_bias=s.logit_bias, dropout=s.dropout, norm=final_norm(s),
        context=s.context, embedding_scale=embedding_scale(s))
    for side in (encoder, model):
        if side.stack is not None:
            initialise(side)
    return model


# --------------------------------------------------------------------------------------------- recurrent


@dataclass(frozen=True)
class CaptionAttentionSettings(RecurrentDecoderSettings, PictureSettings):
    width: int = 96                        # of patches and embeddings
    hidden: int = 128                      # of the decoder's state
    score: str = "scaled-dot"
    context: int = 64                      # the most tokens of a caption
    dropout: float = 0.0

    def __post_init__(self) -> None:
        self.check_picture(self.width)
        super().__post_init__()
        self.check_reader(self.width)
        if self.encoder_layers:
            check_heads(self.width, self.heads)


def build_recurrent(s: CaptionAttentionSettings, vocab: int) -> Seq2Seq:
    encoder = PatchEncoder(
        size=(s.image, s.image), patch=s.patch, width=s.width, heads=s.heads, layers=s.encoder_layers, stem=s.stem,
        positions=s.grid, dropout=s.dropout)
    if encoder.stack is not None:
        initialise(encoder)
    decoder = recurrent_decoder(s, encoder.d_out, places=math.prod(encoder.grid))
    return Seq2Seq(encoder, decoder, vocab=vocab, tied=s.tied, logit_bias=s.logit_bias, dropout=s.dropout)


def resize_recurrent(s: CaptionAttentionSettings, size: int) -> CaptionAttentionSettings:
    return replace(s, hidden=s.heads * size)


# ------------------------------------------------------------------------------------------------- table


def example_source() -> Source:
    """Two small pictures in bytes."""
    random = torch.Generator().manual_seed(0)
    return Source(torch.randint(0, 256, (2, 3, 8, 8), generator=random, dtype=torch.uint8))


PICTURE: dict[str, Any] = dict(image=8, patch=4, context=32, dropout=0.0)
CAPTION: dict[str, Family] = {family.name: family for family in (
    Family(
        "rnn-attention", "recurrent decoder; every step of it reads all patches of the picture",
        CaptionAttentionSettings, sizes=sizes_of("caption-rnn"), build=build_recurrent, resize=resize_recurrent,
        example_source=example_source, older=older,
        example=tiny(build_recurrent, CaptionAttentionSettings(**PICTURE, width=6, hidden=8))),
    Family(
        "transformer", "Transformer: blocks over the patches, and a decoder that reads them by cross-attention",
        CaptionTransformerSettings, sizes=sizes_of("caption-transformer"), build=build_transformer,
        resize=resize_transformer, example_source=example_source, older=older_pair,
        example=tiny(build_transformer, CaptionTransformerSettings(
            **PICTURE, encoder_layers=1, layers=1, width=8, heads=2))),
)}
