import pytest
import torch

from regard.errors import SettingError
from regard.families.family import randomised
from regard.layers.attend import CAUSAL, attend
from regard.layers.cache import KeyValueCache
from regard.layers.feedforward import FeedForward
from regard.layers.self_attention import SelfAttention

B, T, D, H = 2, 6, 12, 3


def test_several_heads_are_single_heads_side_by_side():
    layer = SelfAttention(D, heads=H, positions="none").double()
    x = torch.randn(B, T, D, dtype=torch.float64)
    y, _ = layer(x)
    q, k, v = (x @ w.T for w in layer.qkv.weight.chunk(3))
    heads = [attend(*(part[:, None, :, h * D // H:(h + 1) * D // H] for part in (q, k, v)), mask=CAUSAL)[:, 0]
             for h in range(H)]
    torch.testing.assert_close(torch.cat(heads, -1) @ layer.out.weight.T, y, rtol=0, atol=1e-12)


def test_without_positions_the_order_of_the_past_does_not_matter_and_with_rotary_it_does():
    x = torch.randn(1, T, D, dtype=torch.float64)
    shuffled = torch.cat([x[:, [2, 0, 4, 1, 3]], x[:, 5:]], 1)
    for positions in ("none", "rotary"):
        layer = SelfAttention(D, heads=H, positions=positions).double()
        last, other = layer(x)[0][:, -1], layer(shuffled)[0][:, -1]
        assert torch.allclose(last, other, rtol=0, atol=1e-12) == (positions == "none")


@pytest.mark.parametrize("heads, cure", [(5, 4), (7, 6), (100, 12)])
def test_heads_that_do_not_divide_the_width_are_refused_with_a_number_that_does(heads, cure):
    message = rf"^model.heads = {heads} does not divide model.width = 12: try model.heads = {cure}$"
    with pytest.raises(SettingError, match=message):
        SelfAttention(12, heads=heads)


@pytest.mark.parametrize("width", [64, 96, 128, 384])
def test_swiglu_has_about_as_many_weights_as_the_plain_network(width):
    networks = [FeedForward(width, activation=name) for name in ("gelu", "swiglu")]
    plain, gated = (sum(p.numel() for p in network.parameters()) for network in networks)
    assert abs(plain - gated) < 0.01 * plain


@pytest.mark.parametrize("activation", ["gelu", "relu", "relu2", "swiglu"])
def test_every_position_passes_through_the_same_network(activation):
    feed = FeedForward(D, activation=activation).double()
    x = torch.randn(B, T, D, dtype=torch.float64)
    torch.testing.assert_close(feed(x)[:, 3], feed(x[:, 3]), rtol=0, atol=1e-12)


def test_swiglu_is_its_equation():
    feed = FeedForward(D, activation="swiglu").double()
    x = torch.randn(T, D, dtype=torch.float64)
    gate, up = feed.up.weight.chunk(2)
    z = x @ gate.T
    torch.testing.assert_close(feed(x), (z * z.sigmoid() * (x @ up.T)) @ feed.down.weight.T, rtol=0, atol=1e-12)


def test_an_unknown_activation_is_refused_with_the_choices():
    choices = "gelu, gelu-tanh, relu, relu2, silu, swiglu"
    with pytest.raises(SettingError, match=f"model.activation = 'gleu': choose one of {choices}"):
        FeedForward(D, activation="gleu")


def test_a_location_score_reads_to_the_last_place_where_all_slots_are_given_at_once(monkeypatch):
    """As on a device, where nobody waits to know how many slots were written: the bin for pads is no place."""
    torch.manual_seed(0)
    layer = randomised(SelfAttention(8, heads=2, score="location", places=6)).double().eval()
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    whole, _ = layer(x)
    monkeypatch.setattr(KeyValueCache, "written", lambda self: self.keys.shape[1])
    monkeypatch.setattr(KeyValueCache, "together", lambda self: None)
    state, found = layer.start(2, capacity=6), []
    with torch.no_grad():
        for now in x.split(1, 1):
            y, state = layer(now, state)
            found.append(y)
    torch.testing.assert_close(torch.cat(found, 1), whole, rtol=0, atol=1e-12)
