"""The families of the task `caption`: language models of the caption that read a picture, patch by patch.

    transformer      blocks over the patches, and a decoder that reads them by cross-attention
    rnn-attention    a recurrent decoder; every step of it reads the patches
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from regard.config import at_least, one_of, shares
from regard.contract import Source
from regard.families.family import LARGEST, Family, initialise, tiny
from regard.families.hybrid import MIXERS
from regard.families.transformer import check_blocks, embedding_scale, final_norm, heads_of, resize_transformer
from regard.families.translate import (
    check_cross,
    check_reader,
    older,
    older_pair,
    recurrent_decoder,
    transformer_decoder,
)
from regard.layers.attentive import CELLS, READERS, WHEN
from regard.layers.projections import check_heads
from regard.models.seq2seq import Seq2Seq
from regard.models.vision import PatchEncoder, check_choices, grid_of
from regard.sizes import Scale, Sizes, Tables, given

LARGEST_IMAGE = 4096           # pixels
LONG = 20.0                    # minutes on a CPU, above which a larger model has the time to learn


def check_picture(s: Any) -> None:
    """What every reader of pictures has settings for."""
    at_least("model", s, 1, "image", "patch", most=LARGEST_IMAGE)
    at_least("model", s, 0, "encoder_layers", most=LARGEST)
    grid_of((s.image, s.image), s.patch)
    check_choices(s.stem, s.grid, patch=s.patch, width=s.width)


# ------------------------------------------------------------------------------------------- transformer


@dataclass(frozen=True)
class CaptionTransformerSettings:
    image: int = 48                        # pixels: pictures are brought to a square of this side
    patch: int = 8                         # pixels: the side of a patch
    stem: str = "conv"                     # linear · conv: how a patch becomes a vector
    grid: str = "learned"                  # where a patch stands: learned · sinusoidal · none
    encoder_layers: int = 1                # blocks over the patches; 0: each goes to the decoder as it is
    layers: int = 1                        # of the decoder
    width: int = 96
    heads: int = 2
    head_width: int = 0                    # of a head's queries and keys; 0: width / heads
    value_width: int = 0                   # of a head's values; 0: as its keys
    mixer: str = "attention"               # of the decoder's positions: attention, or any layer of a hybrid
    context: int = 64                      # the most tokens of a caption
    positions: str = "rotary"              # of the caption: learned · sinusoidal · rotary · alibi · none
    embedding_scale: str = "auto"          # width: embeddings times its root · none · auto: width with sinusoids
    score: str = "scaled-dot"              # dot · scaled-dot · bilinear · low-rank · additive · location
    projections: str = "auto"              # q and k of the source: auto · both · none, the states as they are
    f: str = "none"                        # none · tanh · relu · gelu: q, k, v = f(W c)
    activation: str = "gelu"               # gelu · gelu-tanh · relu · relu2 · swiglu
    expand: float = 4.0
    norm: str = "layer"                    # layer · rms
    placement: str = "pre"                 # pre · post
    tied: bool = True
    dropout: float = 0.0
    attention_dropout: float = 0.0

    def __post_init__(self) -> None:
        check_picture(self)
        check_blocks(self)
        check_cross(self)
        one_of("model.mixer", self.mixer, MIXERS)
        shares("model", self, "attention_dropout")


def build_transformer(s: CaptionTransformerSettings, vocab: int) -> Seq2Seq:
    encoder = PatchEncoder(
        size=(s.image, s.image), patch=s.patch, width=s.width, **heads_of(s), layers=s.encoder_layers, stem=s.stem,
        positions=s.grid, activation=s.activation, expand=s.expand, norm=s.norm, placement=s.placement, score=s.score,
        unread_keys=s.projections == "all", dropout=s.dropout, attention_dropout=s.attention_dropout)
    model = Seq2Seq(
        encoder, transformer_decoder(s, s.width, places=math.prod(encoder.grid)), vocab=vocab, tied=s.tied,
        dropout=s.dropout, norm=final_norm(s.norm, s.placement, s.width), context=s.context,
        embedding_scale=embedding_scale(s))
    for side in (encoder, model):
        if side.stack is not None:
            initialise(side)
    return model


# --------------------------------------------------------------------------------------------- recurrent


@dataclass(frozen=True)
class CaptionAttentionSettings:
    image: int = 48                        # pixels: pictures are brought to a square of this side
    patch: int = 8                         # pixels: the side of a patch
    stem: str = "conv"                     # linear · conv: how a patch becomes a vector
    grid: str = "learned"                  # where a patch stands: learned · sinusoidal · none
    encoder_layers: int = 0                # blocks over the patches; 0: each goes to the decoder as it is
    cell: str = "gru"                      # rnn · relu · gru · lstm
    layers: int = 1                        # of the decoder
    width: int = 96                        # of patches and embeddings
    hidden: int = 128                      # of the decoder's state
    reader: str = "attention"              # attention · mean · none
    when: str = "after"                    # before · after the cell
    feeding: bool = False                  # what was read is an input of the next step
    score: str = "scaled-dot"              # dot · scaled-dot · bilinear · low-rank · additive · location
    projections: str = "auto"              # q and k of the source: auto · both · none, the states as they are
    f: str = "none"                        # none · tanh · relu · gelu: f in what is projected, f(W c)
    heads: int = 1
    head_width: int = 0                    # of a head's queries and keys; 0: hidden / heads
    value_width: int = 0                   # of a head's values; 0: they are the patches' vectors
    context: int = 64                      # the most tokens of a caption
    tied: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_picture(self)
        one_of("model.cell", self.cell, CELLS)
        one_of("model.reader", self.reader, READERS)
        one_of("model.when", self.when, WHEN)
        at_least("model", self, 1, "layers", "width", "hidden", "heads", "context", most=LARGEST)
        shares("model", self, "dropout")
        check_reader(self, self.width)
        if self.encoder_layers:
            check_heads(self.width, self.heads)


def build_recurrent(s: CaptionAttentionSettings, vocab: int) -> Seq2Seq:
    encoder = PatchEncoder(
        size=(s.image, s.image), patch=s.patch, width=s.width, heads=s.heads, layers=s.encoder_layers, stem=s.stem,
        positions=s.grid, dropout=s.dropout)
    if encoder.stack is not None:
        initialise(encoder)
    decoder = recurrent_decoder(s, encoder.d_out, places=math.prod(encoder.grid))
    return Seq2Seq(encoder, decoder, vocab=vocab, tied=s.tied, dropout=s.dropout)


def resize_recurrent(s: CaptionAttentionSettings, size: int) -> CaptionAttentionSettings:
    return replace(s, hidden=s.heads * size)


# ------------------------------------------------------------------------------------------------- sizes


def transformer_sizes(scale: Scale, wanted: Tables) -> Sizes:
    """Few layers, narrow, where time is short: to see many pictures counts for more."""
    layers, width, heads = (3, 256, 4) if scale.gpu else (2, 192, 4) if scale.minutes > LONG else (1, 96, 2)
    if "width" in wanted.get("model", {}):
        width = given(wanted, "model", "width", width)
        heads = next(n for n in range(max(1, width // 48), 0, -1) if width % n == 0)
    model = dict(encoder_layers=layers, layers=layers, width=width, heads=heads, dropout=dropout(scale))
    return Sizes(model, trained(scale) | dict(weight_decay=0.1 if scale.gpu else 0.5))


def recurrent_sizes(scale: Scale, wanted: Tables) -> Sizes:
    width, hidden = (256, 512) if scale.gpu else (192, 256) if scale.minutes > LONG else (96, 128)
    return Sizes(dict(width=width, hidden=hidden, dropout=dropout(scale)), trained(scale))


def dropout(scale: Scale) -> float:
    """A narrow model with little time learns more slowly with it, and has no time to learn pictures by heart."""
    return 0.1 if scale.gpu or scale.minutes > LONG else 0.0


def trained(scale: Scale) -> dict[str, Any]:
    """Steps of about 130 or 32 pictures, in tokens of captions; Muon takes the convolutions too, which learn several
    times faster by it."""
    how: dict[str, Any] = dict(batch=1536, compile="capture", widths=8) if scale.gpu else dict(batch=384, compile="no")
    return dict(optimizer="muon", learning_rate=3e-3, muon_rate=0.02, weight_decay=0.1, ema=0.995, **how)


# ------------------------------------------------------------------------------------------------- table


def example_source() -> Source:
    """Two small pictures in bytes."""
    random = torch.Generator().manual_seed(0)
    return Source(torch.randint(0, 256, (2, 3, 8, 8), generator=random, dtype=torch.uint8))


PICTURE: dict[str, Any] = dict(image=8, patch=4, context=32, dropout=0.0)
CAPTION: dict[str, Family] = {family.name: family for family in (
    Family(
        "transformer", "Transformer: blocks over the patches, and a decoder that reads them by cross-attention",
        CaptionTransformerSettings, sizes=transformer_sizes, build=build_transformer, resize=resize_transformer,
        example_source=example_source, older=older_pair,
        example=tiny(build_transformer, CaptionTransformerSettings(
            **PICTURE, encoder_layers=1, layers=1, width=8, heads=2))),
    Family(
        "rnn-attention", "recurrent decoder; every step of it reads all patches of the picture",
        CaptionAttentionSettings, sizes=recurrent_sizes, build=build_recurrent, resize=resize_recurrent,
        example_source=example_source, older=older,
        example=tiny(build_recurrent, CaptionAttentionSettings(**PICTURE, width=6, hidden=8))),
)}
