"""The contract proved on its hardest customers: each is small, complete, and keeps every law."""

import pytest
import torch

from regard.contract import Source
from regard.errors import SettingError
from regard.laws import MODEL_LAWS, LawSkipped, ModelReader, check_model

from .attention_before_cell import AttentionBeforeCell
from .counted_ngram import CountedNgram
from .prefix_translator import PrefixTranslator
from .static_decoder import StaticDecoder

CUSTOMERS = {
    "attention before the cell": AttentionBeforeCell,
    "prefix translator": PrefixTranslator,
    "static decoder": StaticDecoder,
    "bigram": lambda: CountedNgram.example(order=2),
    "trigram": lambda: CountedNgram.example(order=3),
}


def source_for(model):
    """Two sources of different lengths, so that one is padded."""
    return Source(torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]]), torch.tensor([4, 2])) if model.needs_source else None


def build(name, dtype):
    torch.manual_seed(0)
    model = CUSTOMERS[name]()
    return model.to(dtype) if isinstance(model, torch.nn.Module) else model


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("law", MODEL_LAWS.values(), ids=MODEL_LAWS)
@pytest.mark.parametrize("name", CUSTOMERS)
def test_a_hard_customer_keeps_the_law(name, law, dtype):
    model = build(name, dtype)
    try:
        law.check(ModelReader(model, source_for(model)))
    except LawSkipped as reason:
        pytest.skip(str(reason))


def test_a_hard_customer_gets_a_good_report():
    report = check_model(build("prefix translator", torch.float64), source=source_for(PrefixTranslator))
    assert report.ok, report.text()


def test_many_sources_and_many_beams_share_one_projected_source():
    model = build("attention before the cell", torch.float64)
    source = source_for(model)
    state = model.start(6, 4, source)
    assert state.keys.shape[0] == 2 and state.h.shape[0] == 6
    wide = state.select(torch.tensor([0, 0, 0, 5, 4, 3]))
    assert wide.keys is state.keys, "what belongs to the source is not copied when beams are reordered"
    assert state.clone().keys is not state.keys


def test_translators_refuse_to_read_without_a_source():
    tokens = torch.zeros(2, 3, dtype=torch.long)
    for name in ("attention before the cell", "prefix translator"):
        model = build(name, torch.float64)
        with pytest.raises(SettingError, match="source"):
            model.start(2, 3)
        with pytest.raises(SettingError, match="source"):
            model.score(tokens, tokens)


def test_a_prefix_translator_stands_at_a_different_position_in_each_row():
    model = build("prefix translator", torch.float64)
    state = model.start(4, 3, source_for(model))
    assert state.count.tolist() == [4, 4, 2, 2]


def test_a_trigram_counts_what_it_was_given():
    texts = torch.tensor([[0, 1, 2, 0, 1, 2]])
    model = CountedNgram(texts, vocab=3, order=3)
    following, state = model.step(texts[:, :2], model.start(1, 8))
    assert following.exp().tolist()[0] == pytest.approx([1 / 5, 1 / 5, 3 / 5])  # 2 followed twice: (2 + 1) / (2 + 3)
    assert state.tokens.tolist() == [[0, 1]]
