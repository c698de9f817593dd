import pytest
import torch
from torch import nn

from regard.data.tokens.vocabulary import PAD
from regard.errors import RunError
from regard.families.fit import fit_parameters, parameters
from regard.families.masked_encoders import MASKED, MaskedRecurrentSettings, MaskedTransformerSettings

B, T, V = 3, 6, 11
LENGTHS = torch.tensor([T, 2, 4])


@pytest.fixture(params=MASKED)
def model(request):
    return MASKED[request.param].example(torch.float64)


@pytest.fixture
def rows():
    random = torch.Generator().manual_seed(1)
    tokens = torch.randint(4, V, (B, T), generator=random)
    targets = torch.randint(4, V, (B, T), generator=random)
    targets[:, ::2] = PAD
    return tokens, targets


def test_a_score_is_the_probability_of_the_token_in_its_place_and_zero_where_nothing_is_asked(model, rows):
    tokens, targets = rows
    scores, state = model.score(tokens, targets, None, LENGTHS)
    everywhere = model.predict(tokens, torch.arange(T).expand(B, T), LENGTHS)                # (B, T, V)
    assert state is None and everywhere.shape == (B, T, V)
    torch.testing.assert_close(everywhere.exp().sum(-1), torch.ones(B, T, dtype=torch.float64))
    wanted = torch.where(targets != PAD, everywhere.gather(-1, targets[..., None])[..., 0], 0.0)
    torch.testing.assert_close(scores, wanted, rtol=0, atol=1e-12)


def test_asking_for_one_target_more_changes_no_other_score(model, rows):
    tokens, targets = rows
    more = targets.clone()
    more[:, 0] = 5
    torch.testing.assert_close(model.score(tokens, more)[0][:, 1:], model.score(tokens, targets)[0][:, 1:])


def test_nothing_asked_at_all_is_zero_with_zero_gradients(model, rows):
    tokens, targets = rows
    scores, _ = model.train().score(tokens, torch.full_like(targets, PAD))
    assert (scores == 0).all()
    scores.sum().backward()
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


def test_compiled_every_position_goes_through_the_head_and_the_scores_are_the_same(model, rows):
    torch._dynamo.reset()
    tokens, targets = rows
    compiled = torch.compile(model.train().score, backend="aot_eager")
    found, expected = (score(tokens, targets, None, LENGTHS)[0] for score in (compiled, model.score))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_both_directions_are_read(model):
    tokens = torch.randint(4, V, (1, T), generator=torch.Generator().manual_seed(0))
    before = model.encode(tokens).vectors[0, T // 2]
    for place in (0, T - 1):
        changed = tokens.clone()
        changed[0, place] = 4 + (tokens[0, place] - 3) % (V - 4)
        assert not torch.allclose(model.encode(changed).vectors[0, T // 2], before)


def test_what_is_saved_is_taken_up_again_and_must_fit(model):
    saved = {name: tensor.clone() for name, tensor in model.saved_tensors().items()}
    tokens = torch.randint(4, V, (1, T))
    before = model.encode(tokens).vectors
    for weight in model.parameters():
        nn.init.normal_(weight)
    model.load_tensors(saved)
    assert torch.equal(model.encode(tokens).vectors, before)
    saved.popitem()
    with pytest.raises(RunError, match="the weights do not fit the model"):
        model.load_tensors(saved)


def test_mask_is_the_last_entry_of_the_vocabulary(model):
    assert model.mask == V - 1 == model.encoder.embedding.num_embeddings - 1


@pytest.mark.parametrize(("name", "settings"), [
    ("transformer", MaskedTransformerSettings()), ("rnn", MaskedRecurrentSettings(cell="gru"))])
def test_a_model_of_a_wanted_number_of_parameters_can_be_had(name, settings):
    fitted = fit_parameters(MASKED[name], settings, 500, 300_000)
    assert parameters(MASKED[name], fitted, 500) == pytest.approx(300_000, rel=0.05)
