"""Head roles and layer norm: tasks have the answers they say, and the measures find what was planted."""

import math

import pytest
import torch

from regard.lab.claims import head_roles, layer_norm
from regard.lab.claims.head_roles import FORM, HEAD, LENGTH, NAME, NAMES, NOUN, STEMS, VERB, WORD
from regard.lab.experiment import Setting
from regard.lab.verdict import FAILS, HOLDS, UNCLEAR, judge
from regard.layers.self_attention import SelfAttention

# -------------------------------------------------------------------------------------------- head roles


def test_a_verbs_form_says_the_name_and_the_number_of_the_head_noun():
    batch, places = head_roles.sentences(200, 0, 0)
    for row, form, name_at in zip(batch.tokens.tolist(), batch.targets[:, -1].tolist(), places["entity"].tolist(),
                                  strict=True):
        names = [word - NAME for word in row if NAME <= word < NOUN]
        nouns = [at for at, word in enumerate(row) if NOUN <= word < WORD]
        assert names == [row[name_at] - NAME] and len(nouns) == 3 and {HEAD, LENGTH - 2} < set(nouns)
        assert form - FORM == 2 * names[0] + (row[HEAD] - NOUN) % 2 and row[-1] == VERB
    assert (places["syntax"] == HEAD).all() and batch.counts.sum() == 200 and batch.counts[:, -1].all()
    assert set(batch.targets[:, -1].tolist()) == set(range(FORM, FORM + 2 * NAMES))
    assert {(word - NOUN) // 2 for word in batch.tokens[:, HEAD].tolist()} == set(range(STEMS))


@pytest.mark.parametrize("lots, entity, syntax", [("entity", 1 / NAMES, 1.0), ("syntax", 1.0, 0.5)])
def test_an_answer_that_is_drawn_by_lot_is_told_by_nothing(lots, entity, syntax):
    told, drawn = (head_roles.sentences(2000, 0, 0, each)[0].targets[:, -1] - FORM for each in ("", lots))
    assert abs(float((told // 2 == drawn // 2).float().mean()) - entity) < 0.04
    assert abs(float((told % 2 == drawn % 2).float().mean()) - syntax) < 0.04


class Says:
    """A model that says the same form whatever it reads."""

    device = "cpu"

    def __init__(self, form):
        self.form = form

    def eval(self):
        pass

    def encode(self, tokens):
        return tokens, None

    def head(self, vectors):
        return torch.nn.functional.one_hot(torch.full_like(vectors, self.form), head_roles.VOCAB).float()


def test_names_and_numbers_are_counted_each_for_itself():
    batch, _ = head_roles.sentences(1000, 0, 0)
    right = batch.targets[:, -1] - FORM
    found = head_roles.shares_right(Says(FORM + 5), batch)                # the third name, the second number
    assert found["entity"] == pytest.approx(float((right // 2 == 2).float().mean()))
    assert found["syntax"] == pytest.approx(float((right % 2 == 1).float().mean()))
    assert head_roles.shares_right(Says(VERB), batch) == {"entity": 0, "syntax": 0}


def test_an_erased_head_tells_no_text_from_another_and_the_other_head_still_does():
    torch.manual_seed(0)
    layer, x = SelfAttention(8, heads=2), torch.randn(5, 6, 8)
    whole = layer(x)[0]
    parts = []
    for head in (0, 1):
        with head_roles.erased(layer, head):
            parts.append(layer(x)[0] - layer(x)[0].mean(0))               # what the other head tells
    torch.testing.assert_close(parts[0] + parts[1], whole - whole.mean(0), rtol=1e-4, atol=1e-5)
    assert min(part.abs().max() for part in parts) > 1e-3
    torch.testing.assert_close(layer(x)[0], whole)                        # afterwards it is as it was
    with head_roles.erased(layer, 0), head_roles.erased(layer, 1):
        assert (layer(x)[0] - layer(x)[0].mean(0)).abs().max() < 1e-6
    with torch.no_grad():
        layer.out.weight[:, :4] = 0                                       # nobody reads head 0: it is the one erased
    whole = layer(x)[0]
    with head_roles.erased(layer, 0):
        torch.testing.assert_close(layer(x)[0], whole)


def test_a_lost_share_is_of_what_was_right_beyond_chance():
    lost = head_roles.lost_shares({"entity": 1.0, "syntax": 0.9}, {"entity": 1 / NAMES, "syntax": 0.7})
    assert lost == {"entity": pytest.approx(1), "syntax": pytest.approx(0.5)}
    assert head_roles.lost_shares({"entity": 0.2, "syntax": 0.5}, {"entity": 0.1, "syntax": 0.4}) == {
        "entity": 0, "syntax": 0}                                         # not learned: nothing to lose


def test_weights_are_those_on_the_name_and_on_the_head_noun():
    torch.manual_seed(0)
    model = head_roles.language_model("transformer", head_roles.VOCAB, layers=1, width=32, heads=2, context=LENGTH)
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, SelfAttention):
                layer.qkv.weight[:64] = 0                                 # queries and keys: every word alike
    found = head_roles.weights_on(model, *head_roles.sentences(20, 0, 0))
    assert found == {task: [pytest.approx(1 / LENGTH)] * 2 for task in head_roles.EXERCISES}


def heads(entity, syntax, weights=((0.9, 0.1), (0.1, 0.9)), right=1.0):
    """A seed in which erasing head 0 and head 1 costs these shares of the names and of the numbers."""
    return {"two heads": {"lost, entity": entity, "lost, syntax": syntax, "weight, entity": weights[0],
                          "weight, syntax": weights[1], "right, entity": 1.0, "right, syntax": right}}


@pytest.mark.parametrize("seed, verdict", [
    (heads([0.9, 0.0], [0.1, 1.0]), HOLDS),
    (heads([0.0, 0.9], [1.0, 0.1], ((0.1, 0.9), (0.9, 0.1))), HOLDS),     # the other way round
    (heads([1.0], [1.0], ([0.5], [0.5])), FAILS),                         # one head that both need
    (heads([1.0], [0.0], ([0.9], [0.0])), FAILS),                         # one head that does one thing
    (heads([0.6, 0.6], [0.6, 0.6]), FAILS),                               # two that both do both
    (heads([0.9, 0.0], [0.1, 1.0], ((0.2, 0.1), (0.1, 0.9))), FAILS),     # an entity head that looks elsewhere
    (heads([0.9, 0.0], [0.1, 1.0], right=0.6), UNCLEAR)])                 # not trained
def test_the_verdict_follows_what_the_heads_do(seed, verdict):
    assert judge(head_roles.EXPERIMENT, [seed] * 3)[0] == verdict


def test_two_heads_and_one_have_equally_many_parameters(monkeypatch):
    monkeypatch.setattr(head_roles, "fit", lambda *args, **more: None)
    two, one = (head_roles.trained(Setting(quick=True), each) for each in (2, 1))
    assert two["parameters"] == one["parameters"] and len(two["lost, entity"]) == 2 and len(one["lost, entity"]) == 1
    assert len(head_roles.trained(Setting(quick=True, flipped="heads"), 2)["lost, entity"]) == 1


# -------------------------------------------------------------------------------------------- layer norm


def test_every_class_has_four_places_and_new_points_lie_around_the_same():
    x, y = layer_norm.points(4000, 0, 3)
    assert x.shape == (4000, layer_norm.INPUTS) and set(y.tolist()) == set(range(layer_norm.CLASSES))
    assert torch.equal(x, layer_norm.points(4000, 0, 3)[0]) and not torch.equal(x, layer_norm.points(4000, 0, 4)[0])
    apart = torch.cdist(x[:200], layer_norm.points(4000, 0, -1)[0])
    near = layer_norm.points(4000, 0, -1)[1][apart.argmin(1)]
    assert (near == y[:200]).float().mean() > 0.99                        # a neighbour of another batch says the class


def test_torchs_start_shrinks_each_layer_by_the_root_of_six_and_the_other_keeps_sizes():
    torch.manual_seed(0)
    x, y = layer_norm.points(500, 0, 0)

    def shrinks(norm, std):
        found = layer_norm.sizes(layer_norm.network(norm, std), x)
        assert len(found) == layer_norm.LAYERS
        return (found[-1] / found[0]) ** (1 / (layer_norm.LAYERS - 1))

    assert shrinks(False, math.sqrt(1 / 3)) == pytest.approx(math.sqrt(1 / 6), rel=0.15)
    assert shrinks(False, math.sqrt(2)) == pytest.approx(1, rel=0.15)
    assert shrinks(True, math.sqrt(1 / 3)) == pytest.approx(1, rel=0.02)
    model = layer_norm.network(False, math.sqrt(1 / 3))
    assert len(layer_norm.gradients(model, x, y)) == layer_norm.LAYERS
    assert all(weight.grad is None for weight in model.parameters())


def test_the_start_is_torchs_own_in_size():
    own = torch.nn.Linear(layer_norm.WIDTH, layer_norm.WIDTH).weight.detach().std()
    torch.manual_seed(0)
    ours = layer_norm.layers_of(layer_norm.network(False, math.sqrt(1 / 3)))[-1].linear.weight.detach().std()
    assert float(ours) == pytest.approx(float(own), rel=0.1)


def nets(top=1.0, gradient=1.0, best=1.0, plain_best=0.2, plain_top=1e-4, plain_gradient=1e-5):
    def of(top, gradient, best):
        return {"sizes": [1.0, top], "gradients": [gradient, 1.0], "best": best}

    return {"normed": of(top, gradient, best), "plain": of(plain_top, plain_gradient, plain_best)}


@pytest.mark.parametrize("seed, verdict", [
    (nets(), HOLDS), (nets(top=0.1), FAILS), (nets(top=10.0), FAILS), (nets(plain_gradient=0.1), FAILS),
    (nets(plain_best=0.95), FAILS), (nets(plain_top=0.5), UNCLEAR), (nets(best=0.5), UNCLEAR)])
def test_the_verdict_follows_sizes_gradients_and_what_is_right(seed, verdict):
    assert judge(layer_norm.EXPERIMENT, [seed] * 3)[0] == verdict
