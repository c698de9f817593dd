"""The laws at sizes that Hypothesis draws and shrinks, for every family and task; and the bugs that only these find."""

import inspect
from dataclasses import fields
from random import Random

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st

from regard.families.label_families import CLASSIFY, EXAMPLE, TransformerLabelSettings
from regard.laws import LawBroken
from regard.laws.answer_laws import ANSWER_LAWS, LabelReader
from regard.layers.feedforward import FeedForward
from regard.layers.gated import GRU
from tests.laws.drawn_models import FAMILIES_BY_TASK, draw_case, hold
from tests.laws.drawn_settings import NEVER, OWN_VALUES, VALUES, Unsuited, values_of

FEW = settings(max_examples=30, derandomize=True, database=None, deadline=None, phases=[Phase.generate, Phase.shrink],
               suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", FAMILIES_BY_TASK)
def test_the_laws_hold_at_any_size(name):
    @FEW
    @given(st.data())
    def try_one(data):
        try:
            case = draw_case(name, lambda values: data.draw(st.sampled_from(values)))
        except Unsuited:
            reject()
        try:
            hold(case)
        except LawBroken as broken:
            raise AssertionError(f"{broken}: {case.told}") from None

    try_one()


def test_every_setting_of_every_family_is_drawn():
    kinds = {family.settings for family in FAMILIES_BY_TASK.values()}
    for kind in kinds:
        for each in fields(kind):
            assert each.name in NEVER or len(set(values_of(kind, each.name))) > 1, f"{kind.__name__}.{each.name}"
    assert {name for kind in kinds for name in (each.name for each in fields(kind))} >= {*VALUES, *NEVER} - {"kv_heads"}
    assert set(OWN_VALUES) <= {kind.__name__ for kind in kinds}


# ----------------------------------------------------------------- planted bugs, of which fixed sizes see nothing


def broken_laws(name, cases=60):
    """The laws that are broken in the first cases of a family."""
    found = set()
    for seed in range(cases):
        case = draw_case(name, Random(f"{name} {seed}").choice)
        try:
            hold(case)
        except LawBroken as broken:
            found.add(broken.law)
    return found


@pytest.fixture
def plant(monkeypatch):
    """Replace a class's forward by one that may do what it wants with the arguments, by their names."""
    def put(kind, change):
        honest = kind.forward
        names = inspect.signature(honest)

        def forward(self, *given, **named):
            bound = names.bind(self, *given, **named)
            bound.apply_defaults()
            change(self, bound.arguments)
            return honest(*bound.args, **bound.kwargs)

        monkeypatch.setattr(kind, "forward", forward)

    return put


def test_a_state_that_is_lost_at_odd_widths_is_found(plant):
    def lose(layer, given):
        if layer.d_out % 2 and given["state"] is not None:
            given["state"] = given["state"].map(torch.zeros_like)

    plant(GRU, lose)
    assert "cuts" in broken_laws("lm-gru")


def test_lengths_that_are_lost_in_a_batch_of_two_are_found(plant):
    def lose(layer, given):
        if given["x"].shape[0] == 2:
            given["lengths"] = None

    plant(GRU, lose)
    assert broken_laws("lm-gru") & {"padding", "cuts", "reorder"}


def test_a_future_that_is_seen_with_a_small_vocabulary_is_found(monkeypatch):
    from regard.models.neural import NeuralLM

    score = NeuralLM.score

    def peek(self, tokens, targets, state=None, lengths=None):
        return score(self, tokens.roll(-1, 1) if self.vocab == 3 else tokens, targets, state, lengths)

    monkeypatch.setattr(NeuralLM, "score", peek)
    assert broken_laws("lm-average") & {"causality", "cuts", "padding"}


# ------------------------------------------------------------------------------------------ what drawing found


@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_a_feed_forward_layer_has_one_number_inside_at_least(activation):
    layer = FeedForward(1, expand=0.2, activation=activation)
    assert layer.down.in_features == 1 and layer(torch.ones(1, 1)).shape == (1, 1)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_learned_initial_state_is_a_copy(batch):
    layer = GRU(2, 3, initial="learned")
    (state,) = layer.start(batch, 4).tensors().values()
    assert state.shape[0] == batch and state.data_ptr() not in {each.data_ptr() for each in layer.parameters()}


def test_slopes_that_follow_from_the_settings_are_not_taken_for_something_learned():
    model = CLASSIFY["transformer"].build(TransformerLabelSettings(width=8, heads=2, positions="alibi"), EXAMPLE)
    ANSWER_LAWS["saved tensors"].check(LabelReader(model.double().eval()))
