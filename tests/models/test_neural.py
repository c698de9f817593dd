import pytest
import torch

from regard.errors import RunError
from regard.families import FAMILIES, randomised
from regard.families.recurrent_networks import RecurrentSettings, build_rnn
from regard.families.transformer import TransformerSettings, build_transformer
from regard.run_folder import pack, unpack

V = 11


def rnn(**settings):
    torch.manual_seed(0)
    return randomised(build_rnn(RecurrentSettings(layers=2, width=6, hidden=8, **settings), V)).eval()


def transformer(**settings):
    torch.manual_seed(0)
    sizes = TransformerSettings(layers=2, width=8, heads=2, context=16, **settings)
    return randomised(build_transformer(sizes, V)).eval()


@pytest.mark.parametrize("model, width", [(transformer(), 8), (rnn(), 8)], ids=["transformer", "rnn"])
def test_encode_gives_a_vector_of_each_position_in_its_context(model, width):
    tokens = torch.randint(V, (3, 7))
    vectors, state = model.encode(tokens)
    assert vectors.shape == (3, 7, width) and state is None
    scores, _ = model.score(tokens, tokens)
    torch.testing.assert_close(model.head.score(vectors, tokens), scores)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "none"])
def test_score_and_step_agree_with_every_kind_of_position(positions):
    model = transformer(positions=positions).double()
    tokens = torch.randint(V, (2, 6))
    scores, _ = model.score(tokens[:, :-1], tokens[:, 1:])
    state = model.start(2, 6)
    for t in range(5):
        log_probs, state = model.step(tokens[:, t:t + 1], state)
        torch.testing.assert_close(log_probs.gather(1, tokens[:, t + 1:t + 2])[:, 0], scores[:, t], rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", [transformer, rnn])
def test_a_tied_matrix_is_saved_once_and_loaded_back(make):
    model, other = make(tied=True), make(tied=True)
    randomised(other)
    saved = model.saved_tensors()
    assert sum(t.numel() for t in saved.values()) == sum(p.numel() for p in model.parameters())
    assert [name for name in saved if saved[name].shape[0] == V] == ["embedding.weight"]
    other.load_tensors(unpack(pack(saved), "here"))
    assert other.head.weight is other.embedding.weight
    tokens = torch.randint(V, (2, 5))
    assert torch.equal(model.score(tokens, tokens)[0], other.score(tokens, tokens)[0])


@pytest.mark.parametrize("make", [transformer, rnn])
def test_an_untied_model_has_a_matrix_of_its_own(make):
    model = make(tied=False)
    assert model.head.weight is not model.embedding.weight
    assert {"embedding.weight", "head.weight"} <= set(model.saved_tensors())


def test_weights_of_another_model_are_refused_by_name():
    model, tensors = transformer(), transformer().saved_tensors()
    for changed in ({**tensors, "extra": torch.zeros(1)}, {n: t for n, t in tensors.items() if n != "norm.weight"},
                    {**tensors, "norm.weight": torch.zeros(3)}):
        with pytest.raises(RunError, match=r"the weights do not fit the model: (extra|norm.weight) is missing"):
            model.load_tensors(changed)


def test_a_fresh_transformer_begins_as_a_guess_among_all_tokens():
    torch.manual_seed(0)
    model = build_transformer(TransformerSettings(), 100)
    tokens = torch.randint(100, (4, 32))
    loss = -model.score(tokens, tokens.roll(-1, 1))[0].mean()
    assert loss.item() == pytest.approx(torch.tensor(100.0).log().item(), abs=0.3)


@pytest.mark.parametrize("name", FAMILIES)
def test_an_unbounded_family_says_so_and_a_bounded_one_says_its_context(name):
    model = FAMILIES[name].example(torch.float64)
    assert model.context == (32 if name in ("transformer", "hybrid") else None)
