"""The families of the task `translate`: language models of the target that read a source.

    rnn              recurrent encoder to recurrent decoder; the source passes through one vector alone
    rnn-attention    the same, and the decoder reads every position of the source
    transformer      encoder, decoder and cross-attention; any layer may mix the decoder's positions
    prefix           decoder-only: source and target are one text, and one stack reads both
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import torch

from regard.config import at_least, one_of
from regard.contract import SequenceLayer, Source
from regard.errors import SettingError
from regard.families import blocks
from regard.families.blocks import (
    block_options,
    embedding_scale,
    encoder_of,
    feed_forward,
    final_norm,
    heads_of,
    position_layers,
    self_attention_of,
)
from regard.families.family import Family, initialise, tiny
from regard.families.hybrid import MIXERS
from regard.families.setting_groups import LARGEST, HiddenSettings, SourceSettings, TiedSettings
from regard.families.sizes import sizes_of
from regard.families.transformer import AttentionDropoutSettings, BlockSettings, resize_transformer
from regard.layers.attentive import CELLS, READERS, WHEN, AttentiveRecurrence, make_cell
from regard.layers.cross_attention import CrossAttention
from regard.layers.projections import compared, head_widths, nearest
from regard.layers.self_attention import SelfAttention
from regard.layers.stack import Block, Stack
from regard.models.encoders import RecurrentEncoder, TransformerEncoder
from regard.models.seq2seq import Prefix, Seq2Seq


class Vocabularies(NamedTuple):
    """The number of tokens of each side; shared: both are one tokenizer's, and one embedding serves both."""

    source: int
    target: int
    shared: bool = False

    def __str__(self) -> str:
        return f"{self.source:,}" if self.shared else f"{self.source:,} and one of {self.target:,}"


# --------------------------------------------------------------------------------------------- recurrent


@dataclass(frozen=True)
class RecurrentDecoderSettings(SourceSettings, HiddenSettings, TiedSettings):
    """The settings of every recurrent decoder, whatever it reads."""

    cell: str = "gru"                      # rnn · relu · gru · lstm
    layers: int = 1
    hidden: int = 192                      # of the decoder's state
    reader: str = "attention"              # attention · mean · none
    when: str = "after"                    # before · after the cell
    feeding: bool = False                  # what was read is an input of the next step
    score: str = "additive"                # dot · scaled-dot · bilinear · low-rank · additive · location
    heads: int = 1
    tied: bool = True
    dropout: float = 0.1

    def __post_init__(self) -> None:
        one_of("model.cell", self.cell, CELLS)
        one_of("model.reader", self.reader, READERS)
        one_of("model.when", self.when, WHEN)
        super().__post_init__()

    def check_reader(self, d_memory: int) -> None:
        """Refuse what cannot read a source of vectors as wide as this."""
        head_widths(self.hidden, self.heads, self.head_width, self.value_width)
        if self.reader != "attention":
            return
        compared(self.projections, self.score, f=self.f, head_width=self.head_width, heads=self.heads,
                 d_memory=d_memory, states=True, d_query=self.hidden + self.width * (self.when == "before"))
        if not self.value_width and d_memory % self.heads:
            raise SettingError(
                f"model.heads = {self.heads} does not divide the {d_memory} channels of the source's vectors: "
                f"try model.heads = {nearest(d_memory, self.heads)}, or set model.value_width")


@dataclass(frozen=True)
class AttentionSettings(RecurrentDecoderSettings):
    both: bool = True                      # the encoder reads in both directions, with half of `hidden` in each
    least_hidden: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_reader(2 * (self.hidden // 2) if self.both else self.hidden)


def older(table: Mapping[str, Any]) -> dict[str, Any]:
    """A [model] table, with what runs meant by saying nothing before there was a choice: everything is projected, and
    a low-rank score is divided by the root of its rank."""
    if "projections" in table:
        return dict(table)
    return {**table, "projections": "all",
            **({"score": "scaled-low-rank"} if table.get("score") == "low-rank" else {})}


@dataclass(frozen=True)
class BottleneckSettings(AttentionSettings):
    reader: str = "none"


def build_recurrent(s: AttentionSettings, vocab: Vocabularies) -> Seq2Seq:
    half = s.hidden // 2 if s.both else s.hidden
    encoder = RecurrentEncoder(
        partial(make_cell, s.cell, dropout=s.dropout), vocab=vocab.source, width=s.width, hidden=half, layers=s.layers,
        both=s.both, dropout=s.dropout)
    decoder = recurrent_decoder(s, encoder.d_out, places=s.context)
    return Seq2Seq(encoder, decoder, vocab=vocab.target, shared=vocab.shared, tied=s.tied, logit_bias=s.logit_bias,
                   dropout=s.dropout)


def recurrent_decoder(s: Any, d_memory: int, *, places: int) -> AttentiveRecurrence:
    """As the settings say, over a memory of at most `places` vectors."""
    return AttentiveRecurrence(
        s.width, s.hidden, d_memory=d_memory, d_summary=d_memory, cell=s.cell, layers=s.layers, reader=s.reader,
        when=s.when, feeding=s.feeding, score=s.score, places=places, projections=s.projections, **heads_of(s),
        dropout=s.dropout)


def resize_recurrent(s: AttentionSettings, size: int) -> AttentionSettings:
    return replace(s, hidden=2 * size)                     # even: the encoder has half of it in each direction


# ------------------------------------------------------------------------------------------- transformer


@dataclass(frozen=True)
class CrossSettings(AttentionDropoutSettings, SourceSettings):
    """The settings of every stack that reads a source by cross-attention."""

    mixer: str = "attention"               # of the decoder's positions: attention, or any layer of a hybrid
    tied: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        compared(self.projections, self.score, f=self.f, head_width=self.head_width, heads=self.heads,
                 d_query=self.width, d_memory=self.width, states=False)
        one_of("model.mixer", self.mixer, MIXERS)


@dataclass(frozen=True)
class PairStackSettings(CrossSettings):
    """A translator of residual blocks."""

    layers: int = 3
    width: int = 256
    dropout: float = 0.1


@dataclass(frozen=True)
class PairTransformerSettings(PairStackSettings):
    layers: int = 3                        # of the encoder
    decoder_layers: int = 0                # 0: as many as of the encoder

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("model", self, 0, "decoder_layers", most=LARGEST)


def older_pair(table: Mapping[str, Any]) -> dict[str, Any]:
    return blocks.older(older(table))


def build_transformer(s: PairTransformerSettings, vocab: Vocabularies) -> Seq2Seq:
    encoder = TransformerEncoder(
        vocab=vocab.source, width=s.width, **encoder_of(s), context=s.context, score=s.score,
        unread_keys=s.projections == "all", embedding_scale=embedding_scale(s))
    decoder = transformer_decoder(s, s.width, layers=s.decoder_layers or s.layers, places=s.context)
    model = Seq2Seq(
        encoder, decoder, vocab=vocab.target, shared=vocab.shared, tied=s.tied, logit_bias=s.logit_bias,
        dropout=s.dropout, norm=final_norm(s), context=s.context, embedding_scale=embedding_scale(s))
    for side in (encoder, model):
        initialise(side)
    return model


def transformer_decoder(s: Any, d_memory: int, *, layers: int, places: int) -> Stack:
    """As the settings say, over a memory of at most `places` vectors."""
    stack = position_layers(s.positions, s.width, s.context)
    for _ in range(layers):
        cross = CrossAttention(s.width, d_memory, **heads_of(s), score=s.score, places=places, bias=s.bias,
                               projections=s.projections, dropout=s.attention_dropout)
        stack += [Block(decoder_mixer(s), None, **block_options(s)), Block(cross, feed_forward(s), **block_options(s))]
    return Stack(stack)


def decoder_mixer(s: Any) -> SequenceLayer:
    if s.mixer == "attention":
        return SelfAttention(
            s.width, **self_attention_of(s), score=s.score, places=s.context, unread_keys=s.projections == "all",
            dropout=s.attention_dropout)
    return MIXERS[s.mixer](BlockSettings(width=s.width, **heads_of(s)))


# ------------------------------------------------------------------------------------------------ prefix


@dataclass(frozen=True)
class PrefixSettings(PairStackSettings):
    layers: int = 6                        # of the one stack


def build_prefix(s: PrefixSettings, vocab: Vocabularies) -> Prefix:
    room = 2 * s.context                   # a source and a target
    layers = position_layers(s.positions, s.width, room)
    for _ in range(s.layers):
        layers.append(Block(decoder_mixer(replace(s, context=room)), feed_forward(s), **block_options(s)))
    model = Prefix(
        Stack(layers), vocab=max(vocab.source, vocab.target), tied=s.tied, logit_bias=s.logit_bias,
        dropout=s.dropout, context=room, norm=final_norm(s), embedding_scale=embedding_scale(s))
    initialise(model)
    return model


# ------------------------------------------------------------------------------------------------- table


def example_source() -> Source:
    return Source(torch.tensor([[4, 5, 6, 7, 2], [8, 9, 2, 0, 0]]), torch.tensor([5, 3]))


SMALL: dict[str, Any] = dict(layers=1, width=8, heads=2, context=32, dropout=0.0)
EXAMPLE = Vocabularies(11, 11)
TRANSLATE: dict[str, Family] = {family.name: family for family in (
    Family(
        "transformer", "Transformer: an encoder, and a decoder that reads it by cross-attention",
        PairTransformerSettings, sizes=sizes_of("translate-transformer"), build=build_transformer,
        resize=resize_transformer, example_source=example_source, older=older_pair,
        example=tiny(build_transformer, PairTransformerSettings(**SMALL), EXAMPLE)),
    Family(
        "rnn-attention", "recurrent encoder and decoder; every step of the decoder reads the whole source",
        AttentionSettings, sizes=sizes_of("translate-rnn"), build=build_recurrent, resize=resize_recurrent,
        example_source=example_source, older=older,
        example=tiny(build_recurrent, AttentionSettings(width=6, hidden=8, dropout=0.0), EXAMPLE)),
    Family(
        "rnn", "recurrent encoder and decoder; the source passes through one vector alone",
        BottleneckSettings, sizes=sizes_of("translate-rnn"), build=build_recurrent, resize=resize_recurrent,
        example_source=example_source, older=older,
        example=tiny(build_recurrent, BottleneckSettings(width=6, hidden=8, dropout=0.0), EXAMPLE)),
    Family(
        "prefix", "decoder-only: source and target are one text",
        PrefixSettings, sizes=sizes_of("prefix"), build=build_prefix, resize=resize_transformer,
        example_source=example_source, older=older_pair,
        example=tiny(build_prefix, PrefixSettings(**SMALL), EXAMPLE)),
)}
