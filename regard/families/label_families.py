"""The families of the tasks `classify` and `tag`: encoders of every kind; the head labels a text, or each token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

from regard.config import at_least, shares
from regard.contract import SequenceLayer
from regard.families.blocks import older
from regard.families.family import Family, tiny
from regard.families.masked_encoders import CELLS, MaskedTransformerSettings, transformer_encoder
from regard.families.setting_groups import LARGEST, HiddenSettings, PerceptronSettings, resize_hidden
from regard.families.sizes import sizes_of
from regard.families.transformer import resize_transformer
from regard.layers.average import WordDropout
from regard.layers.bidirectional import Bidirectional
from regard.layers.perceptron import Perceptron
from regard.layers.window import Window
from regard.models.encoders import MeanEncoder, RecurrentEncoder, TokenEncoder
from regard.models.label_models import LabelModel, TextLabelModel, TokenLabelModel

CONTEXT = 256                  # tokens of a text that are read


class LabelVocabularies(NamedTuple):
    """The number of tokens that a label model reads, and of labels that it gives."""

    tokens: int
    labels: int


class MakeModel(Protocol):
    """Put a head on an encoder: TextLabelModel, or TokenLabelModel."""

    def __call__(self, encoder: TokenEncoder, *, vocab: int, labels: int, context: int | None = None) -> LabelModel: ...


@dataclass(frozen=True)
class RecurrentLabelSettings(HiddenSettings):
    width: int = 96                        # of the embedding
    hidden: int = 96                       # of the state, in each direction
    context: int = CONTEXT                 # tokens of a text that are read
    least_hidden: ClassVar[int] = 2


@dataclass(frozen=True)
class NetworkLabelSettings(RecurrentLabelSettings, PerceptronSettings):
    """A mean or a window, and the layers of a network that reads it."""


@dataclass(frozen=True)
class AverageLabelSettings(NetworkLabelSettings):
    word_dropout: float = 0.1              # share of the words left out of the mean in training

    def __post_init__(self) -> None:
        super().__post_init__()
        shares("model", self, "word_dropout")


@dataclass(frozen=True)
class WindowLabelSettings(NetworkLabelSettings):
    words: int = 3                         # of a window to either side, the word itself included

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("model", self, 1, "words", most=LARGEST)


@dataclass(frozen=True)
class TransformerLabelSettings(MaskedTransformerSettings):
    context: int = CONTEXT


def build_average(s: AverageLabelSettings, vocab: LabelVocabularies) -> LabelModel:
    encoder = MeanEncoder([WordDropout(s.width, dropout=s.word_dropout)], vocab=vocab.tokens, dropout=s.dropout,
                          embedding_std=0.1)
    readout = Perceptron(s.width, s.hidden, layers=s.layers, activation=s.activation, dropout=s.dropout)
    return TextLabelModel(encoder, vocab=vocab.tokens, labels=vocab.labels, readout=readout)


def build_window(make: MakeModel, s: WindowLabelSettings, vocab: LabelVocabularies) -> LabelModel:
    left, right = (Window(s.width, width, words=s.words, activation=s.activation, dropout=s.dropout)
                   for width in (s.hidden // 2, s.hidden - s.hidden // 2))
    layers: list[SequenceLayer] = [Bidirectional(left, right)]
    if s.layers > 1:
        layers.append(Perceptron(
            s.hidden, s.hidden, layers=s.layers - 1, activation=s.activation, dropout=s.dropout))
    encoder = MeanEncoder(layers, vocab=vocab.tokens, dropout=s.dropout, embedding_std=0.1)
    return make(encoder, vocab=vocab.tokens, labels=vocab.labels)


def build_recurrent(make: MakeModel, cell: str, s: RecurrentLabelSettings, vocab: LabelVocabularies) -> LabelModel:
    encoder = RecurrentEncoder(partial(CELLS[cell], dropout=s.dropout), vocab=vocab.tokens, width=s.width,
                               hidden=s.hidden, layers=s.layers, dropout=s.dropout, embedding_std=0.1)
    return make(encoder, vocab=vocab.tokens, labels=vocab.labels)


def build_transformer(
    make: MakeModel, s: MaskedTransformerSettings, vocab: LabelVocabularies, more_tokens: int = 0
) -> LabelModel:
    tokens = vocab.tokens + more_tokens
    return make(transformer_encoder(s, tokens), vocab=tokens, labels=vocab.labels, context=s.context)


EXAMPLE = LabelVocabularies(tokens=11, labels=4)
SMALL = TransformerLabelSettings(layers=2, width=8, heads=2, context=32)


def average_family() -> Family:
    """Return the deep averaging network, which labels texts alone."""
    return Family(
        "average", "the mean of a text's words through a feed-forward network: no order (DAN)",
        AverageLabelSettings, sizes=sizes_of("label-average"), build=build_average, resize=resize_hidden,
        example=tiny(build_average, AverageLabelSettings(width=6, hidden=8, word_dropout=0.0), EXAMPLE))


def window_family(make: MakeModel) -> Family:
    build = partial(build_window, make)
    return Family(
        "window", "a network over the words to either side, each place with its own weights",
        WindowLabelSettings, sizes=sizes_of("label-window"), build=build, resize=resize_hidden,
        example=tiny(build, WindowLabelSettings(layers=2, width=6, hidden=9), EXAMPLE))


def recurrent_family(make: MakeModel, cell: str, about: str) -> Family:
    build = partial(build_recurrent, make, cell)
    return Family(
        cell, about, RecurrentLabelSettings, sizes=sizes_of("label-rnn"), build=build, resize=resize_hidden,
        example=tiny(build, RecurrentLabelSettings(layers=2, width=6, hidden=4), EXAMPLE))


def transformer_family(make: MakeModel, name: str, about: str, **changes: Any) -> Family:
    build: Callable[[Any, Any], LabelModel] = partial(build_transformer, make, **changes)
    return Family(
        name, about, TransformerLabelSettings, sizes=sizes_of("label-transformer"), build=build,
        resize=resize_transformer, older=older, example=tiny(build, SMALL, EXAMPLE),
        begins_with=("masked", "transformer") if changes else None)


def label_families(make: MakeModel, *more: Family) -> dict[str, Family]:
    """Return the families of a task whose models `make` builds on an encoder, behind those of its own."""
    families: Sequence[Family] = (
        *more,
        window_family(make),
        recurrent_family(make, "rnn", "recurrences from the left and from the right"),
        recurrent_family(make, "gru", "gated recurrent units from the left and from the right"),
        recurrent_family(make, "lstm", "long short-term memories from the left and from the right"),
        transformer_family(make, "transformer", "Transformer encoder: every position reads all others"),
        transformer_family(make, "masked", "the Transformer encoder of a masked model: --from RUN begins with its "
                           "weights", more_tokens=1))
    return {family.name: family for family in families}


CLASSIFY = label_families(TextLabelModel, average_family())
TAG = label_families(TokenLabelModel)
