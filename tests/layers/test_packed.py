"""Packed products: equal to plain ones, whatever changes between two of them."""

import gc
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from regard.decoding.beam import BeamOptions, beam_search
from regard.families.translate import PairTransformerSettings, Vocabularies, build_transformer, example_source
from regard.kernels.cpu import onednn
from regard.kernels.cpu import packing as packed
from regard.kernels.cpu.packing import PACKS, packing, why_not
from regard.kernels.linear import Linear, linear
from regard.layers.feedforward import FeedForward

ROWS, WIDTH, WIDER = 24, 96, 600
LIBRARIES = {each.name: each for each in (packed.MKL, packed.ONEDNN)}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=LIBRARIES)
def where_packed(request, monkeypatch):
    """Each library that is there, whichever is the quicker one here."""
    monkeypatch.setattr(packed, "library", lambda: LIBRARIES[request.param])
    why_not.cache_clear()
    PACKS.kept.clear()
    if (why := why_not(torch.get_num_threads())) is not None:
        pytest.skip(why)
    yield
    why_not.cache_clear()
    PACKS.kept.clear()


def made(bias=True):
    torch.manual_seed(0)
    return Linear(WIDTH, WIDER, bias=bias)


@torch.no_grad()
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1,), (4,), (ROWS,), (ROWS, 3), (700,), (0,), (2, 1, 5)])
def test_a_packed_product_is_the_plain_one(shape, bias, where_packed):
    layer, x = made(bias), torch.randn(*shape, WIDTH)
    with packing():
        y = layer(x)
    torch.testing.assert_close(y, F.linear(x, layer.weight, layer.bias), rtol=1e-5, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("activation", ["gelu", "gelu-tanh", "relu", "relu2", "swiglu"])
def test_activations_on_the_way_out_are_those_after_it(activation, where_packed, monkeypatch):
    torch.manual_seed(0)
    feed, x = FeedForward(WIDTH, expand=8, activation=activation, bias=True), torch.randn(ROWS, 5, WIDTH)
    wanted = feed(x)
    with packing():
        torch.testing.assert_close(feed(x), wanted, rtol=1e-5, atol=1e-5)
    if activation in packed.library().activations:             # and one that is not applied would be seen
        monkeypatch.setitem(onednn.ACTIVATIONS, activation, ("none", ""))
        with packing(), pytest.raises(AssertionError):
            torch.testing.assert_close(feed(x), wanted, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_autocast_is_obeyed_where_outputs_are_wide(monkeypatch):
    monkeypatch.setattr(onednn, "preferred", onednn.there)
    x, weight = torch.randn(ROWS, WIDTH), torch.randn(onednn.WIDE, WIDTH)
    assert onednn.better(x, weight) == onednn.there()
    torch.testing.assert_close(linear(x, weight), F.linear(x, weight), rtol=1e-5, atol=1e-4)
    with torch.autocast("cpu", torch.bfloat16):
        assert not onednn.better(x, weight) and linear(x, weight).dtype == torch.bfloat16


def test_a_cpu_of_amd_multiplies_by_onednn(monkeypatch):
    for says, taken in (("vendor_id : AuthenticAMD", packed.ONEDNN), ("vendor_id : GenuineIntel", packed.MKL),
                        ("", packed.MKL)):
        monkeypatch.setattr(onednn, "cpu", lambda says=says: says)
        onednn.preferred.cache_clear()
        assert packed.library() is (taken if taken.there() else packed.MKL)
    onednn.preferred.cache_clear()


@torch.no_grad()
def test_a_weight_is_packed_once(where_packed, monkeypatch):
    layer, x = made(), torch.randn(ROWS, WIDTH)
    with packing():
        layer(x)
        first = PACKS.kept[layer.weight]
        layer(torch.cat((x, x)))
    assert PACKS.kept[layer.weight] is first


@torch.no_grad()
@pytest.mark.parametrize("change", [
    lambda layer: layer.weight.mul_(2.0),
    lambda layer: layer.weight.copy_(torch.ones_like(layer.weight)),
    lambda layer: layer.load_state_dict({name: 3 * value for name, value in layer.state_dict().items()}),
    lambda layer: setattr(layer, "weight", torch.nn.Parameter(torch.randn(WIDER, WIDTH))),
    lambda layer: setattr(layer.weight, "data", torch.randn(WIDER, WIDTH)),
    lambda layer: torch.set_num_threads(2),
])
def test_a_weight_that_has_changed_is_packed_anew(change, where_packed):
    layer, x = made(), torch.randn(ROWS, WIDTH)
    with packing():
        layer(x)
        change(layer)
        torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_pack_that_does_not_look_at_its_weight_is_caught(where_packed, monkeypatch):
    first = {}
    monkeypatch.setattr(packed.Packs, "of", lambda self, weight: first.setdefault(
        "pack", packed.library().pack(weight.detach().clone())))
    with pytest.raises(AssertionError):
        test_a_weight_that_has_changed_is_packed_anew.__wrapped__(lambda layer: layer.weight.mul_(2.0), None)


def test_nothing_is_packed_outside_of_a_search_nor_under_a_gradient(where_packed, monkeypatch):
    monkeypatch.setattr(packed.Packs, "of", lambda *_: pytest.fail("packed"))
    layer, x = made(), torch.randn(ROWS, WIDTH)
    with torch.no_grad():
        layer(x)
    with packing():
        layer(x).sum().backward()
        with torch.no_grad():
            layer.double()(x.double())
            linear(x[:2], torch.randn(WIDTH, WIDTH))
    assert layer.weight.grad is not None


@torch.no_grad()
def test_packed_weights_go_with_their_model(where_packed):
    layer = made()
    with packing():
        layer(torch.randn(ROWS, WIDTH))
    before = PACKS.nbytes()
    own = 4 * layer.weight.numel()                           # of float32
    del layer
    gc.collect()
    assert PACKS.nbytes() == before - own


@torch.no_grad()
def test_where_there_is_no_room_products_are_plain(where_packed, monkeypatch):
    monkeypatch.setattr(packed, "MOST_BYTES", 0)
    layer, x = made(), torch.randn(ROWS, WIDTH)
    with packing():
        assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))
    assert layer.weight not in PACKS.kept


def test_a_search_finds_the_same_with_packed_weights_and_without(where_packed, monkeypatch):
    torch.manual_seed(0)
    settings = PairTransformerSettings(layers=1, width=128, heads=2, context=32, dropout=0.0)
    model = build_transformer(settings, Vocabularies(40, 40)).eval()
    eager = replace(packed.library(), is_faster=lambda rows, weights: rows > 1)
    monkeypatch.setattr(packed, "library", lambda: eager)
    options = dict(limits=[8, 8], options=BeamOptions(4, n_best=3), begin=1, end=2, banned=(0, 1, 3))
    used = []
    of = packed.Packs.of
    monkeypatch.setattr(packed.Packs, "of", lambda self, weight: used.append(weight) or of(self, weight))
    found = beam_search(model, example_source(), **options)
    assert used
    monkeypatch.setattr(packed, "packable", lambda *_: False)
    for own, plain in zip(found, beam_search(model, example_source(), **options), strict=True):
        assert [each.tokens for each in own] == [each.tokens for each in plain]
        assert [each.log_prob for each in own] == pytest.approx([each.log_prob for each in plain], abs=1e-4)
