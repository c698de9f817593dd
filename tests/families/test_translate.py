"""Translators: every choice builds, obeys the laws that choices could break, and is refused when it does not exist."""

import pytest
import torch

from regard.errors import SettingError
from regard.families.family import randomised
from regard.families.hybrid import MIXERS
from regard.families.sizes import Scale
from regard.families.translate import (
    TRANSLATE,
    AttentionSettings,
    BottleneckSettings,
    PairTransformerSettings,
    PrefixSettings,
    Vocabularies,
    build_prefix,
    build_recurrent,
    build_transformer,
    example_source,
)
from regard.laws import ModelReader
from regard.laws.model_laws import MODEL_LAWS
from regard.layers.scores import ALL_SCORES, SCORES

RECURRENT = dict(width=6, hidden=8, dropout=0.0, context=32)
ATTENTIVE = dict(layers=1, width=8, heads=2, context=32, dropout=0.0)
CHOICES = [
    *((build_recurrent, AttentionSettings(**RECURRENT, cell=cell)) for cell in ("rnn", "relu", "lstm")),
    *((build_recurrent, AttentionSettings(**RECURRENT, score=score)) for score in SCORES),
    *((build_recurrent, AttentionSettings(**RECURRENT, score=score, projections=projections))
      for score in ALL_SCORES for projections in ("both", "none")),
    *((build_recurrent, AttentionSettings(**RECURRENT, score=score, heads=2, projections="none"))
      for score in ("dot", "bilinear", "location")),
    *((build_recurrent, AttentionSettings(**RECURRENT, score=score, heads=3, f="tanh", head_width=3, value_width=5))
      for score in ("scaled-dot", "additive", "location")),
    (build_recurrent, AttentionSettings(**RECURRENT, when="before", score="location")),
    (build_recurrent, AttentionSettings(**RECURRENT, when="before")),
    (build_recurrent, AttentionSettings(**RECURRENT, feeding=True, heads=2)),
    (build_recurrent, AttentionSettings(**RECURRENT, reader="mean")),
    (build_recurrent, AttentionSettings(**RECURRENT, both=False, layers=2)),
    (build_recurrent, BottleneckSettings(**RECURRENT, cell="lstm", both=False)),
    *((build_transformer, PairTransformerSettings(**ATTENTIVE, score=score)) for score in SCORES),
    *((build_transformer, PairTransformerSettings(**ATTENTIVE, score=score, projections=projections))
      for score in ("dot", "scaled-dot", "bilinear", "location") for projections in ("both", "none")),
    *((build, settings(**ATTENTIVE | dict(heads=3), score=score, f="tanh", head_width=4, value_width=5))
      for build, settings in ((build_transformer, PairTransformerSettings), (build_prefix, PrefixSettings))
      for score in ("scaled-dot", "location")),
    (build_prefix, PrefixSettings(**ATTENTIVE, score="location")),
    *((build_transformer, PairTransformerSettings(**ATTENTIVE, positions=positions))
      for positions in ("learned", "sinusoidal", "alibi", "none")),
    *((build_transformer, PairTransformerSettings(**ATTENTIVE, mixer=mixer)) for mixer in MIXERS),
    (build_transformer, PairTransformerSettings(**ATTENTIVE, placement="post", norm="rms", activation="swiglu")),
]


@pytest.mark.parametrize("build, settings", CHOICES, ids=lambda each: getattr(each, "__name__", str(each)))
@pytest.mark.parametrize("law", ["cuts", "causality", "padding", "source", "parameters"])
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
    (dict(when="during"), "model.when"), (dict(reader="nobody"), "model.reader"),
    (dict(projections="non"), "did you mean none"), (dict(f="than"), "did you mean tanh"),
    (dict(score="dot", projections="none", when="before"), "the decoder asks with 320 channels a source of 192"),
    (dict(score="dot", projections="none", hidden=9), "the decoder asks with 9 channels a source of 8"),
    (dict(projections="none", f="tanh"), "model.f = tanh is about W c"),
    (dict(projections="none", head_width=4), "model.head_width = 4 is about W c"),
    (dict(heads=3, hidden=9), "model.heads = 3 does not divide the 8 channels of the source's vectors"),
    (dict(head_width=-1), "model.head_width = -1")])
def test_a_choice_that_does_not_exist_is_refused(wrong, message):
    with pytest.raises(SettingError, match=message):
        AttentionSettings(**wrong)


def test_by_default_dot_is_the_product_of_the_states_and_bilinear_has_one_matrix_between_them():
    """Of projected states dot would be bilinear under another name: (W_q s) · (W_k h) = s · (W_qᵀ W_k) h."""
    def weights(**choice):
        model = build_recurrent(AttentionSettings(**RECURRENT, **choice), Vocabularies(11, 11))
        return [name.split(".")[2] for name, _ in model.named_parameters() if ".reader." in name]

    assert weights(score="dot") == [] and weights(score="bilinear") == ["score"]
    assert weights(score="scaled-dot") == ["query", "key"]
    assert weights(score="dot", when="before") == ["query", "key"]            # a query of another width than the source


def test_a_run_from_before_there_was_a_choice_keeps_its_equations():
    """Everything is projected, keys that a location score never reads too; a low-rank score is divided by sqrt R."""
    for family in TRANSLATE.values():
        older = family.settings_of_run({"score": "low-rank"})
        assert (older.projections, older.score) == ("all", "scaled-low-rank")
        assert family.settings_of_run({"score": "low-rank", "projections": "auto"}).score == "low-rank"
    names = [name for name, _ in build_recurrent(
        TRANSLATE["rnn-attention"].settings_of_run(dict(RECURRENT, score="location")), Vocabularies(11, 11)
    ).named_parameters() if "reader" in name]
    assert names == ["stack.reader.query.weight", "stack.reader.key.weight", "stack.reader.score.weight",
                     "stack.reader.score.bias"]


@pytest.mark.parametrize("score, matrices", [("dot", 0), ("scaled-dot", 0), ("bilinear", 1), ("low-rank", 2),
                                             ("additive", 3), ("location", 2)])
def test_states_as_they_are_leave_only_the_matrices_of_the_score(score, matrices):
    model = build_recurrent(AttentionSettings(**RECURRENT, score=score, projections="none"), Vocabularies(11, 11))
    assert len(list(model.stack.reader.parameters())) == matrices


UNEVEN = [
    (build_transformer, PairTransformerSettings(**ATTENTIVE | dict(heads=3), head_width=4, value_width=5)),
    (build_transformer, PairTransformerSettings(**ATTENTIVE, f="relu", head_width=16)),
    (build_transformer, PairTransformerSettings(**ATTENTIVE, score="location")),
    (build_transformer, PairTransformerSettings(**ATTENTIVE, projections="none")),
    (build_prefix, PrefixSettings(**ATTENTIVE, value_width=3)),
    (build_prefix, PrefixSettings(**ATTENTIVE, score="location")),
    (build_recurrent, AttentionSettings(**RECURRENT, score="scaled-dot", value_width=5)),
    (build_recurrent, AttentionSettings(**RECURRENT, score="bilinear", heads=2)),
]


@pytest.mark.parametrize("build, settings", UNEVEN, ids=lambda each: getattr(each, "__name__", str(each)))
@pytest.mark.parametrize("law", ["steps", "reorder", "static shapes", "watching"])
def test_steps_in_float32_by_whatever_kernel_obey_the_laws(build, settings, law):
    """In float32 and without gradients a CPU steps by kernels in C; what they cannot do they leave to torch."""
    torch.manual_seed(0)
    model = randomised(build(settings, Vocabularies(11, 11))).eval()
    MODEL_LAWS[law].check(ModelReader(model, example_source()))


def test_a_simple_rnn_learns_at_a_quarter_of_the_rate_of_gated_cells():
    scale = Scale(tokens=10**6, vocab=1000, minutes=2.0, gpu=False)
    rates = {cell: TRANSLATE["rnn-attention"].sizes(scale, {"model": {"cell": cell}}).training["learning_rate"]
             for cell in ("rnn", "relu", "gru", "lstm")}
    assert rates["gru"] == rates["lstm"] == 4 * rates["rnn"] == 4 * rates["relu"] == 6e-3
