"""Translators: every combination of encoder and decoder obeys the laws of a language model with a source."""

import pytest
import torch

from regard.contract import Source
from regard.decoding.beam import BeamOptions, beam_search
from regard.errors import SettingError
from regard.families.family import randomised
from regard.families.translate import PrefixSettings, Vocabularies, build_prefix
from regard.laws import check_model
from regard.layers.attentive import AttentiveRecurrence
from regard.layers.cross_attention import CrossAttention
from regard.layers.feedforward import FeedForward
from regard.layers.gated import GRU
from regard.layers.linear_recurrence import GatedRecurrence
from regard.layers.self_attention import SelfAttention
from regard.layers.stack import Block, Stack, make_norm
from regard.layers.state_space import SelectiveSSM
from regard.models.encoders import RecurrentEncoder, TransformerEncoder
from regard.models.seq2seq import Prefix, Seq2Seq, Unread, join

V, D = 11, 8


def encoder(kind):
    if kind == "rnn":
        return RecurrentEncoder(GRU, vocab=V, width=D, hidden=4)
    return TransformerEncoder(vocab=V, width=D, heads=2, layers=1, context=32)


def decoder(mixer):
    """What a Transformer's decoder is made of, around any mixer."""
    return Stack([Block(mixer, None), Block(CrossAttention(D, D, heads=2), FeedForward(D))])


MODELS = {
    "rnn to rnn": lambda: Seq2Seq(
        encoder("rnn"), AttentiveRecurrence(D, 6, d_memory=D, d_summary=D, reader="none"), vocab=V),
    "rnn to rnn with attention": lambda: Seq2Seq(
        encoder("rnn"), AttentiveRecurrence(D, 6, d_memory=D, d_summary=D), vocab=V),
    "rnn to rnn that looks first": lambda: Seq2Seq(
        encoder("rnn"), AttentiveRecurrence(D, 6, d_memory=D, d_summary=D, when="before", cell="lstm"), vocab=V),
    "transformer": lambda: Seq2Seq(
        encoder("transformer"), decoder(SelfAttention(D, heads=2)), vocab=V, norm=make_norm("layer", D), shared=True),
    "transformer to mamba": lambda: Seq2Seq(encoder("transformer"), decoder(SelectiveSSM(D, state=4)), vocab=V),
    "rnn to linear-rnn": lambda: Seq2Seq(encoder("rnn"), decoder(GatedRecurrence(D, D)), vocab=V),
    "prefix": lambda: Prefix(Stack([Block(SelfAttention(D, heads=2), FeedForward(D))]), vocab=V, context=64),
}
SOURCE = Source(torch.tensor([[4, 5, 6, 7, 2], [8, 9, 2, 0, 0]]), torch.tensor([5, 3]))


def made(name):
    torch.manual_seed(0)
    return randomised(MODELS[name]()).double().eval()


@pytest.mark.parametrize("name", MODELS)
def test_every_translator_obeys_the_laws(name):
    report = check_model(made(name), source=SOURCE)
    assert report.ok, report.text()


@pytest.mark.parametrize("name", MODELS)
def test_another_source_gives_other_scores_and_none_is_refused(name):
    model = made(name)
    tokens, targets = torch.tensor([[1, 4, 5]]), torch.tensor([[4, 5, 2]])
    one, two = (model.score(tokens, targets, model.start(1, None, Source(torch.tensor([items]), None)))[0]
                for items in ([4, 5, 2], [6, 7, 2]))
    assert not torch.allclose(one, two)
    for unread in (lambda: model.start(1), lambda: model.score(tokens, targets)):
        with pytest.raises(SettingError) as caught:
            unread()
        assert str(caught.value) == "this model needs something to read, a text or a picture: start it with a source"


@pytest.mark.parametrize("name", MODELS)
def test_gradients_reach_every_weight(name):
    model = made(name)
    state = model.start(2, None, SOURCE)
    model.score(torch.tensor([[1, 4, 5], [1, 6, 7]]), torch.tensor([[4, 5, 2], [6, 7, 2]]), state)[0].sum().backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None] == []


def test_a_shared_embedding_is_one_and_is_saved_once():
    model = made("transformer")
    assert model.encoder.embedding.weight is model.embedding.weight
    assert [name for name in model.saved_tensors() if "embedding" in name] == ["embedding.weight"]


def test_source_and_target_are_joined_without_a_gap():
    source = Unread(SOURCE.items, SOURCE.lengths)
    joined, sides, began = join(source, torch.tensor([[1, 10], [1, 4]]))
    assert joined[0].tolist() == [4, 5, 6, 7, 2, 1, 10]
    assert joined[1, :5].tolist() == [8, 9, 2, 1, 4] and sides[1, :5].tolist() == [0, 0, 0, 1, 1]
    assert began.tolist() == [5, 3]


def test_a_prefix_model_has_room_behind_the_longest_source_for_what_fits_there():
    """Limits are each source's own: what fits behind the shortest may be more than is left behind the longest."""
    def search(model, rows, limits):
        items = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
        source = Source(items, torch.tensor([len(row) for row in rows]))
        return beam_search(model, source, limits=limits, begin=1, end=2, options=BeamOptions(2), banned=(2,))

    rows = [[4, 5, 2], [4, 6, 7, 8, 9, 5, 6, 7, 2]]
    for positions in ("learned", "rotary", "none"):
        torch.manual_seed(0)
        model = build_prefix(PrefixSettings(layers=1, width=8, heads=2, context=6, positions=positions, dropout=0.0),
                             Vocabularies(11, 11)).double().eval()
        assert model.context == 12
        limits = [12 - len(row) for row in rows]                                    # 9 and 3: 9 + 9 is more than 12
        together = search(model, rows, limits)
        for row, limit, found in zip(rows, limits, together, strict=True):
            ((alone,),) = search(model, [row], [limit])
            assert found[0].tokens == alone.tokens and len(alone.tokens) == limit
            torch.testing.assert_close(found[0].log_prob, alone.log_prob)
    with pytest.raises(SettingError, match="learned positions"):                    # a source that does not fit at all
        too_long = build_prefix(PrefixSettings(layers=1, width=8, heads=2, context=6, positions="learned"),
                                Vocabularies(11, 11)).eval()
        search(too_long, [list(range(4, 11)) * 2], [1])
