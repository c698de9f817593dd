"""Translators: every choice builds, obeys the laws that choices could break, and is refused when it does not exist."""

import pytest
import torch

from regard.errors import SettingError
from regard.families.family import randomised
from regard.families.hybrid import MIXERS
from regard.families.translate import (
    TRANSLATE,
    AttentionSettings,
    BottleneckSettings,
    PairTransformerSettings,
    Vocabularies,
    build_recurrent,
    build_transformer,
    example_source,
)
from regard.laws import ModelReader
from regard.laws.model_laws import MODEL_LAWS
from regard.layers.scores import SCORES

RECURRENT = dict(width=6, hidden=8, dropout=0.0, context=32)
ATTENTIVE = dict(layers=1, width=8, heads=2, context=32, dropout=0.0)
CHOICES = [
    *((build_recurrent, AttentionSettings(**RECURRENT, cell=cell)) for cell in ("rnn", "relu", "lstm")),
    *((build_recurrent, AttentionSettings(**RECURRENT, score=score)) for score in SCORES),
    (build_recurrent, AttentionSettings(**RECURRENT, when="before")),
    (build_recurrent, AttentionSettings(**RECURRENT, feeding=True, heads=2)),
    (build_recurrent, AttentionSettings(**RECURRENT, reader="mean")),
    (build_recurrent, AttentionSettings(**RECURRENT, both=False, layers=2)),
    (build_recurrent, BottleneckSettings(**RECURRENT, cell="lstm", both=False)),
    *((build_transformer, PairTransformerSettings(**ATTENTIVE, score=score)) for score in SCORES),
    *((build_transformer, PairTransformerSettings(**ATTENTIVE, positions=positions))
      for positions in ("learned", "sinusoidal", "alibi", "none")),
    *((build_transformer, PairTransformerSettings(**ATTENTIVE, mixer=mixer)) for mixer in MIXERS),
    (build_transformer, PairTransformerSettings(**ATTENTIVE, placement="post", norm="rms", activation="swiglu")),
]


@pytest.mark.parametrize("build, settings", CHOICES, ids=lambda each: getattr(each, "__name__", str(each)))
@pytest.mark.parametrize("law", ["cuts", "causality", "padding", "source"])
def test_every_choice_obeys_the_laws(build, settings, law):
    torch.manual_seed(0)
    model = randomised(build(settings, Vocabularies(11, 11))).double().eval()
    MODEL_LAWS[law].check(ModelReader(model, example_source()))


@pytest.mark.parametrize("name", TRANSLATE)
def test_vocabularies_may_differ_or_be_one(name):
    family = TRANSLATE[name]
    for vocab in (Vocabularies(20, 11), Vocabularies(11, 11, shared=True)):
        model = family.build(family.settings(), vocab)
        assert model.vocab in (11, 20)
    assert "no attention" not in family.about


@pytest.mark.parametrize("wrong, message", [
    (dict(score="aditive"), "did you mean additive"), (dict(cell="gro"), "did you mean gru"),
    (dict(when="during"), "model.when"), (dict(reader="nobody"), "model.reader")])
def test_a_choice_that_does_not_exist_is_refused(wrong, message):
    with pytest.raises(SettingError, match=message):
        AttentionSettings(**wrong)
