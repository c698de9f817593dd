"""The laws over every encoder there is, and the bugs that each law is there for."""

import os

import pytest
import torch
from torch import nn

from regard.contract import Memory, Source
from regard.families.family import randomised
from regard.families.masked_encoders import CELLS, MASKED
from regard.laws.encoder_laws import ENCODER_LAWS, EncoderReader, check_encoder
from regard.laws.law import LawBroken, same
from regard.layers.bidirectional import Bidirectional
from regard.layers.full_attention import FullAttention
from regard.layers.recurrent import Elman
from regard.layers.stack import Block
from regard.layers.whole import WholeLayer
from regard.models.encoders import RecurrentEncoder, TokenEncoder, TransformerEncoder
from regard.watching import watching

DEVICE = torch.device(os.environ.get("REGARD_TEST_DEVICE", "cpu"))
DTYPES = {"float64": torch.float64, "float32": torch.float32}
VOCAB = 11


def transformer(**changes):
    sizes = dict(vocab=VOCAB, width=8, heads=2, layers=2, context=32) | changes
    return lambda: TransformerEncoder(**sizes)


def recurrent(cell):
    return lambda: RecurrentEncoder(CELLS[cell], vocab=VOCAB, width=6, hidden=4, layers=2)


ENCODERS = {
    **{f"transformer-{positions}": transformer(positions=positions)
       for positions in ("rotary", "learned", "sinusoidal", "none")},
    "transformer-scaled": transformer(positions="sinusoidal", embedding_scale=8**0.5),
    "transformer-wide-values": transformer(heads=3, head_width=2, value_width=5, f="tanh"),
    "transformer-biased": transformer(bias="all", rotary_share=0.5, rotary_base=50.0, activation="silu", eps=1e-3),
    "transformer-location": transformer(score="location"),
    "transformer-post-norm": transformer(placement="post", norm="rms", activation="swiglu"),
    **{f"both-ways-{cell}": recurrent(cell) for cell in CELLS},
    **{f"masked-{name}": lambda family=family: family.example(torch.float64).encoder
       for name, family in MASKED.items()},
}


def reader_of(make, dtype="float64"):
    torch.manual_seed(0)
    return EncoderReader(randomised(make()).to(DEVICE, DTYPES[dtype]).eval(), vocab=VOCAB)


@pytest.mark.parametrize(("law", "dtype"), [(law, dtype) for law in ENCODER_LAWS for dtype in DTYPES
                                            if law != "gradients" or dtype == "float64"])
@pytest.mark.parametrize("name", ENCODERS)
def test_the_encoder_keeps_the_law(name, law, dtype):
    ENCODER_LAWS[law].check(reader_of(ENCODERS[name], dtype))


@pytest.mark.parametrize("name", ["transformer-rotary", "both-ways-rnn"])
def test_compiled_it_gives_the_same(name):
    torch._dynamo.reset()
    reader = reader_of(ENCODERS[name])
    items, lengths = reader.draw(3, 6), reader.lengths([6, 2, 4])
    compiled = torch.compile(reader.thing, backend="aot_eager")
    with reader.mode(training=True):
        found, expected = (encoder(Source(items, lengths)).vectors for encoder in (compiled, reader.thing))
    same("compiled", found, expected, "compiled, in train mode")


# ----------------------------------------------------------------------------------------- planted bugs


class Honest(TokenEncoder):
    """Small enough to plant one bug at a time in it."""

    def __init__(self, *layers):
        super().__init__(layers or [Bidirectional(Elman(3, 2), Elman(3, 2))], vocab=VOCAB)

    def summary(self, vectors, lengths):
        real = torch.ones(vectors.shape[:2], device=vectors.device)
        if lengths is not None:
            real = (torch.arange(vectors.shape[1], device=vectors.device) < lengths[:, None]).float()
        return (vectors * real[..., None]).sum(1)


class SaysTheWrongWidth(Honest):
    def __init__(self):
        super().__init__()
        self.d_out += 1


class ForgetsTheLengths(Honest):
    def forward(self, source):
        memory = super().forward(source)
        return Memory(memory.vectors, torch.full_like(memory.lengths, source.items.shape[1]), memory.summary)


class WritesIntoTheSource(Honest):
    def forward(self, source):
        memory = super().forward(source)
        source.items.fill_(0)
        return memory


class GivesASummaryForEachPosition(Honest):
    def summary(self, vectors, lengths):
        return vectors


class ReadsThePads(FullAttention):
    def forward(self, x, state=None, lengths=None):
        return super().forward(x, state, None)


class AttendsToPads(Honest):
    def __init__(self):
        super().__init__(Block(ReadsThePads(4, heads=2), None))


class TurnsPadsRoundToo(Bidirectional):
    def forward(self, x, state=None, lengths=None):
        return super().forward(x, state, None)


class StartsAtThePads(Honest):
    def __init__(self):
        super().__init__(TurnsPadsRoundToo(Elman(3, 2), Elman(3, 2)))


class SumsThePads(Honest):
    def summary(self, vectors, lengths):
        return vectors.sum(1)


class SaysSomethingOfNothing(Honest):
    """The end of an empty source is whatever stands at its first pad."""

    def summary(self, vectors, lengths):
        last = lengths if lengths is not None else torch.full((len(vectors),), vectors.shape[1])
        return vectors[torch.arange(len(vectors)), (last - 1).clamp(min=0)]


class DividesByNothing(Honest):
    def summary(self, vectors, lengths):
        if lengths is None:
            return vectors.mean(1)
        return super().summary(vectors, lengths) / lengths[:, None]


class NumbersItsRows(Honest):
    def forward(self, source):
        memory = super().forward(source)
        shift = 1e-6 * torch.arange(len(memory.vectors))[:, None, None]
        return Memory(memory.vectors + shift, memory.lengths, memory.summary)


class LooksAtTheFirstRow(WholeLayer):
    d_in = d_out = 3

    def forward(self, x, state=None, lengths=None):
        return x + 1e-6 * x[:1, :1], None


class ComparesWithTheFirst(Honest):
    def __init__(self):
        super().__init__(LooksAtTheFirstRow())


class ActsForTheWatcher(Honest):
    def forward(self, source):
        memory = super().forward(source)
        return memory if watching() is None else Memory(memory.vectors * 1.0001, memory.lengths, memory.summary)


class NormalisesOverTheBatch(Honest):
    def __init__(self):
        super().__init__()
        self.batch_norm = nn.BatchNorm1d(3)

    def forward(self, source):
        vectors = self.batch_norm(self.embedding(source.items).transpose(1, 2)).transpose(1, 2)
        vectors, _ = self.stack(vectors, None, source.lengths)
        return Memory(vectors, super().forward(source).lengths)


class CutsTheGradient(Honest):
    def forward(self, source):
        memory = super().forward(source)
        half = memory.vectors.detach() * 0.5 + memory.vectors * 0.5
        return Memory(half, memory.lengths, memory.summary)


class KeepsAMatrixNobodyReads(Honest):
    def __init__(self):
        super().__init__()
        self.spare = nn.Linear(3, 3)


PLANTED = {
    "shapes": [SaysTheWrongWidth, ForgetsTheLengths, WritesIntoTheSource, GivesASummaryForEachPosition],
    "padding": [AttendsToPads, StartsAtThePads, SumsThePads, SaysSomethingOfNothing, DividesByNothing],
    "order": [NumbersItsRows, ComparesWithTheFirst],
    "watching": [ActsForTheWatcher],
    "train is eval": [NormalisesOverTheBatch],
    "gradients": [CutsTheGradient],
    "parameters": [KeepsAMatrixNobodyReads],
}


@pytest.mark.parametrize(("law", "bug"), [pytest.param(law, bug, id=f"{law}-{bug.__name__}")
                                          for law, bugs in PLANTED.items() for bug in bugs])
def test_the_law_catches_the_encoder(law, bug):
    torch.manual_seed(0)
    with pytest.raises(LawBroken) as caught:
        ENCODER_LAWS[law].check(EncoderReader(bug().double(), vocab=VOCAB))
    assert caught.value.law == law


def test_every_law_has_a_planted_bug_and_the_honest_one_passes():
    assert set(PLANTED) == set(ENCODER_LAWS)
    report = check_encoder(Honest, vocab=VOCAB)
    assert report.ok and len(report) == len(ENCODER_LAWS), report.text()
