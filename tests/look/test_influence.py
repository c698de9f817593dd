"""Influence: what matters is what the model can have read, in the amount that it matters."""

import numpy as np
import pytest
import torch

from regard.errors import DataError, RunError, SettingError
from regard.families import FAMILIES
from regard.families.family import randomised
from regard.families.perceptrons import WindowSettings, build_window
from regard.look.influence import WAYS, influence, leaf_outputs
from regard.models.ngram import NGram
from regard.watching import watch

T, V = 9, 11
NEURAL = [name for name, family in FAMILIES.items() if family.build is not None]


@pytest.fixture
def text():
    torch.manual_seed(1)
    words = torch.randint(4, V, (T + 1,))
    return words[:-1], words[1:]


def window(order):
    torch.manual_seed(0)
    return randomised(build_window(WindowSettings(order=order, width=6, hidden=8, activation="tanh"), V)).double()


def ngram(order, smoothing="kneser-ney"):
    words = np.random.default_rng(0).integers(4, V, 300)
    return NGram.fit(words, None, vocab=V, order=order, smoothing=smoothing, dtype=torch.float64)


def reach(values):
    """How far back anything matters: the number of diagonals that are not all zero."""
    return max(back + 1 for back in range(T) if values.diagonal(-back).abs().max() > 0)


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("name", NEURAL)
def test_nothing_later_matters_and_everything_earlier_can(name, how, text):
    values = influence(FAMILIES[name].example(torch.float64), *text, how=how)
    assert values.shape == (T, T) and values.isfinite().all()
    assert (values.triu(1) == 0).all()
    assert (values.diagonal() != 0).all()


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("order", [2, 3, 6])
def test_a_window_of_order_n_reads_the_last_n_less_one_words(order, how, text):
    values = influence(window(order), *text, how=how)
    assert reach(values) == order - 1
    assert (values[order:, -1] == 0).sum() >= T - order - 1


@pytest.mark.parametrize("order", [1, 2, 4])
def test_an_ngram_is_probed_by_occlusion_and_reads_as_far(order, text):
    values = influence(ngram(order), *text, how="occlusion")
    if order == 1:
        assert (values == 0).all()
    else:
        assert reach(values) == order - 1


def test_a_word_that_makes_the_target_impossible_matters_without_end(text):
    """Counts without smoothing say -inf; where both say it, nothing was lost."""
    values = influence(ngram(3, "none"), *text, how="occlusion")
    assert not values.isnan().any() and (values.triu(1) == 0).all()
    assert values.isinf().any()


def test_occlusion_is_the_loss_of_log_probability(text):
    """Of the running mean by hand: one embedding in the mean replaced by that of <unk>."""
    tokens, targets = text
    model = FAMILIES["average"].example(torch.float64)
    values = influence(model, tokens, targets, how="occlusion")
    network = model.stack.layers[1]

    def log_probability(words, t):
        mean = model.embedding(words[: t + 1]).mean(0)
        return model.head(network(mean[None, None])[0])[0, 0, targets[t]]

    for t in range(T):
        for s in range(t + 1):
            other = tokens.clone()
            other[s] = 3
            expected = log_probability(tokens, t) - log_probability(other, t)
            torch.testing.assert_close(values[t, s], expected, rtol=0, atol=1e-12)


def test_several_replacements_give_their_mean(text):
    model = window(4)
    each = [influence(model, *text, how="occlusion", instead=word) for word in (5, 6, 9)]
    several = influence(model, *text, how="occlusion", instead=(5, 6, 9))
    torch.testing.assert_close(several, sum(each) / 3, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["transformer", "lstm", "average"])
def test_the_gradient_is_that_of_finite_differences(name, text):
    """g . x is how fast the log-probability changes as one embedding is made longer."""
    model, small = FAMILIES[name].example(torch.float64), 1e-6
    values = influence(model, *text)
    for s in (0, 4, T - 1):
        def scores(factor, s=s):
            scale = torch.ones(T, 1, dtype=torch.float64)
            scale[s] = factor
            handle = model.embedding.register_forward_hook(lambda module, inputs, output: output * scale)
            try:
                return model.score(text[0][None], text[1][None])[0][0].detach()
            finally:
                handle.remove()

        slope = (scores(1 + small) - scores(1 - small)) / (2 * small)
        torch.testing.assert_close(values[:, s], slope, rtol=1e-6, atol=1e-8)


def test_sensitivity_is_the_length_of_the_gradient(text):
    model = window(4)
    values = influence(model, *text, how="sensitivity")
    with leaf_outputs(model.embedding) as read:
        scores = model.score(text[0][None], text[1][None])[0]
    (g,) = torch.autograd.grad(scores[0, 5], read[0])
    torch.testing.assert_close(values[5], g[0].norm(dim=-1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("how", WAYS)
def test_one_row_or_few_rows_at_a_time_are_those_of_all(how, text, monkeypatch):
    model = FAMILIES["gru"].example(torch.float64)
    whole = influence(model, *text, how=how)
    monkeypatch.setattr("regard.look.influence.MOST_TOKENS", 2 * T)
    torch.testing.assert_close(influence(model, *text, how=how), whole, rtol=0, atol=1e-12)
    for at in (0, 4, -1):
        torch.testing.assert_close(influence(model, *text, how=how, at=at), whole[at], rtol=0, atol=1e-12)


def test_a_watcher_gets_the_influence_and_none_of_the_reads_behind_it(text):
    model = FAMILIES["transformer"].example(torch.float64)
    with watch() as seen:
        values = influence(model, *text, how="occlusion")
    assert [reading.kind for reading in seen.readings] == ["influence"]
    reading = seen.of("influence")[0]
    assert reading.layer is model and torch.equal(reading.values, values) and reading.about["how"] == "occlusion"


@pytest.mark.parametrize("how", WAYS)
def test_asking_leaves_the_model_as_it_was(how, text):
    model = window(3).train()
    influence(model, *text, how=how)
    assert model.training and all(module.training for module in model.modules())
    assert all(weight.grad is None for weight in model.parameters()) and not model.embedding._forward_hooks


def test_mistakes_are_named(text):
    tokens, targets = text
    with pytest.raises(RunError, match="NGram has no embeddings to take a gradient of: use how='occlusion'"):
        influence(ngram(2), tokens, targets)
    with pytest.raises(SettingError, match=r"how = 'gradients': did you mean gradient\?"):
        influence(window(3), tokens, targets, how="gradients")
    with pytest.raises(DataError, match="tokens and targets of one length"):
        influence(window(3), tokens[None], targets[None])
    with pytest.raises(DataError, match="at = 9: the text has positions 0 to 8"):
        influence(window(3), tokens, targets, at=9)
    with pytest.raises(DataError, match="9 tokens, but the model reads at most 4"):
        model = window(3)
        model.context = 4
        influence(model, tokens, targets)
