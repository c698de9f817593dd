"""The families of the task `masked`: encoders that read in both directions, with a head that tells what is hidden.

Their vocabulary has one entry more than the tokenizer's: <mask>, the last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from regard.config import one_of
from regard.contract import SequenceLayer
from regard.families.blocks import embedding_scale, encoder_of, older
from regard.families.family import Family, initialise, tiny
from regard.families.setting_groups import HiddenSettings, TiedSettings
from regard.families.sizes import masked_transformer_sizes, sizes_of
from regard.families.transformer import AttentionDropoutSettings, resize_transformer
from regard.layers.gated import GRU, LSTM
from regard.layers.recurrent import Elman
from regard.models.encoders import RecurrentEncoder, TransformerEncoder
from regard.models.masked import MaskedModel

CELLS: dict[str, type[SequenceLayer]] = {"rnn": Elman, "gru": GRU, "lstm": LSTM}


@dataclass(frozen=True)
class MaskedTransformerSettings(AttentionDropoutSettings):
    """A stack of blocks that read in both directions."""


@dataclass(frozen=True)
class MaskedRecurrentSettings(HiddenSettings, TiedSettings):
    cell: str = "lstm"                     # rnn · gru · lstm
    hidden: int = 128                      # of the state, in each direction
    context: int = 64                      # tokens read at once in training
    tied: bool = True

    def __post_init__(self) -> None:
        one_of("model.cell", self.cell, CELLS)
        super().__post_init__()


def transformer_encoder(s: MaskedTransformerSettings, vocab: int) -> TransformerEncoder:
    """As the settings say, ready to be trained."""
    encoder = TransformerEncoder(
        vocab=vocab, width=s.width, **encoder_of(s), context=s.context, embedding_std=0.02 if s.tied else 0.1,
        embedding_scale=embedding_scale(s))
    initialise(encoder)
    return encoder


def build_transformer(s: MaskedTransformerSettings, vocab: int) -> MaskedModel:
    return MaskedModel(transformer_encoder(s, vocab), vocab=vocab, tied=s.tied, logit_bias=s.logit_bias,
                       context=s.context)


def build_recurrent(s: MaskedRecurrentSettings, vocab: int) -> MaskedModel:
    def cell(d_in: int, d_hidden: int) -> SequenceLayer:
        return CELLS[s.cell](d_in, d_hidden, dropout=s.dropout)

    encoder = RecurrentEncoder(cell, vocab=vocab, width=s.width, hidden=s.hidden, layers=s.layers, dropout=s.dropout)
    return MaskedModel(encoder, vocab=vocab, tied=s.tied, logit_bias=s.logit_bias)


MASKED: dict[str, Family] = {family.name: family for family in (
    Family(
        "transformer", "Transformer encoder: every position reads all others, earlier and later",
        MaskedTransformerSettings, sizes=masked_transformer_sizes, build=build_transformer, resize=resize_transformer,
        older=older,
        example=tiny(build_transformer, MaskedTransformerSettings(layers=2, width=8, heads=2, context=32))),
    Family(
        "rnn", "recurrences from the left and from the right",
        MaskedRecurrentSettings, sizes=sizes_of("masked-rnn"), build=build_recurrent,
        resize=lambda s, size: replace(s, hidden=size),
        example=tiny(build_recurrent, MaskedRecurrentSettings(layers=2, width=6, hidden=4))),
)}
