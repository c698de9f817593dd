"""Products that are taken over in training: against the ordinary operations that define them.

What cuBLAS does is tried on a GPU by REGARD_TEST_DEVICE=cuda; everywhere the operations around it are."""

import os

import pytest
import torch
import torch.nn.functional as F

from regard.kernels.cuda import products
from regard.kernels.linear import Linear
from regard.layers.feedforward import FeedForward
from regard.layers.self_attention import SelfAttention

DEVICE = os.environ.get("REGARD_TEST_DEVICE", "cpu")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture
def taken_over(monkeypatch):
    """Products of any size, on any device, in any precision; and how many there were."""
    calls = []
    monkeypatch.setattr(products, "can", lambda x, weight: not calls.append(x.shape))
    return calls


def feed_forward_by_definition(x, up, down):
    return F.linear(F.gelu(F.linear(x, up), approximate="tanh"), down)


def found(way, *inputs):
    y = way(*inputs)
    return [y, *torch.autograd.grad((y * torch.linspace(-1, 1, y.numel()).view_as(y)).sum(), inputs)]


def drawn(*shapes):
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def test_a_product_and_its_gradients_are_those_of_torch():
    inputs = drawn((3, 4, 5), (7, 5))
    for ours, theirs in zip(found(products.linear, *inputs), found(F.linear, *inputs), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_bias_is_added():
    inputs = drawn((3, 4, 5), (7, 5), (7,))
    for ours, theirs in zip(found(products.linear, *inputs), found(F.linear, *inputs), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "worked out again"])
def test_a_feed_forward_layer_and_its_gradients_are_those_of_the_definition(keep):
    inputs = drawn((3, 4, 5), (12, 5), (6, 12))
    ours = found(lambda *each: products.feed_forward(*each, keep), *inputs)
    for one, other in zip(ours, found(feed_forward_by_definition, *inputs), strict=True):
        torch.testing.assert_close(one, other)


def weighed(parts):
    return torch.cat([number * part for number, part in enumerate(parts, 1)], -1)


def test_parts_and_their_gradients_are_those_of_one_product():
    inputs, sizes = drawn((3, 4, 5), (14, 5)), [6, 4, 4]
    ours = found(lambda *each: weighed(products.parts(*each, sizes)), *inputs)
    theirs = found(lambda *each: weighed(F.linear(*each).split(sizes, -1)), *inputs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("options", "compiled"), [
    ({}, False), ({"kv_heads": 1}, False), ({"positions": "none", "f": "tanh"}, False), ({"qk_norm": True}, False),
    ({"kv_heads": 1, "qk_norm": True}, True), ({"positions": "none", "f": "tanh"}, True)], ids=str)
def test_attention_reads_the_same_of_parts(taken_over, options, compiled, monkeypatch):
    layer, x = SelfAttention(8, heads=2, **options), torch.randn(2, 5, 8, requires_grad=True)
    weights, results = [x, *layer.parameters()], []
    for way in (lambda x, weight: not taken_over.append(x.shape), lambda x, weight: False):
        monkeypatch.setattr(products, "can", way)
        run = torch.compile(layer, backend="aot_eager", fullgraph=True) if compiled else layer
        y, _ = run(x)
        results.append([y, *torch.autograd.grad(y.square().sum(), weights)])
        torch.compiler.reset()
    assert len(taken_over) == 2                                # queries, keys and values; and what is made of all heads
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def test_the_slope_is_the_gradient_of_gelu():
    x = torch.linspace(-6, 6, 101, dtype=torch.float64, requires_grad=True)
    expected = F.gelu(x, approximate="tanh")
    torch.testing.assert_close(products.gelu(x), expected)
    (expected,) = torch.autograd.grad(expected.sum(), x)
    torch.testing.assert_close(products.slope(x.detach()), expected)


@pytest.mark.parametrize("recompute", [False, True], ids=["kept", "worked out again"])
@pytest.mark.parametrize("compiled", [False, True], ids=["as it is", "compiled"])
def test_the_layers_give_the_same_either_way(taken_over, recompute, compiled):
    layer, x = FeedForward(8, activation="gelu-tanh"), torch.randn(2, 3, 8, requires_grad=True)
    layer.recompute = recompute
    run = torch.compile(layer, backend="aot_eager", fullgraph=True) if compiled else layer
    weights = [x, *layer.parameters()]
    y = run(x)
    ours = [y, *torch.autograd.grad(y.square().sum(), weights)]
    assert taken_over == [x.shape]                             # the layer as one
    y = feed_forward_by_definition(x, layer.up.weight, layer.down.weight)
    for one, other in zip(ours, [y, *torch.autograd.grad(y.square().sum(), weights)], strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("options", [{"activation": "gelu"}, {"activation": "swiglu"},
                                     {"activation": "gelu-tanh", "bias": True}], ids=str)
def test_other_layers_have_their_products_taken_over_one_by_one(taken_over, options, monkeypatch):
    layer, x = FeedForward(8, **options), torch.randn(2, 3, 8)
    y = layer(x)
    assert len(taken_over) == 2
    monkeypatch.setattr(products, "can", lambda x, weight: False)
    torch.testing.assert_close(y, layer(x))


def test_on_a_cpu_nothing_is_taken_over():
    products.prepare(torch.device("cpu"), True)
    assert not products.can(torch.empty(2**14, 2**10, device="meta"), torch.empty(2**10, 2**10, device="meta"))
    assert products.why_not(torch.device("cpu"), True) == "the tensors are on cpu"
    assert products.why_not(torch.device("cuda"), False) == "training is in float32"


@needs_gpu
def test_the_environment_keeps_products_with_torch(monkeypatch):
    monkeypatch.setenv("REGARD_KERNELS", "torch")
    assert "REGARD_KERNELS" in products.why_not(torch.device("cuda:0"), True)


@needs_gpu
@pytest.mark.parametrize("sizes", [(4096, 768, 3072), (1024, 136, 264), (72, 8, 16)], ids=str)
@pytest.mark.parametrize("keep", [True, False], ids=["kept", "worked out again"])
def test_cublas_multiplies_as_the_definition_does(sizes, keep):
    rows, width, inner = sizes
    assert not products.why_not(torch.device("cuda:0"), True)
    inputs = [(scale * torch.randn(shape, device="cuda")).bfloat16().requires_grad_()
              for shape, scale in (((2, rows // 2, width), 1.0), ((inner, width), width**-0.5),
                                   ((width, inner), inner**-0.5))]
    ours, theirs = (way(*inputs) for way in (lambda *each: products.feed_forward(*each, keep),
                                             feed_forward_by_definition))
    pull = torch.randn_like(ours)
    results = [[y, *torch.autograd.grad(y, inputs, pull)] for y in (ours, theirs)]
    for one, other in zip(*results, strict=True):
        assert (one.float() - other.float()).norm() < 0.02 * other.float().norm()


@needs_gpu
def test_cublas_multiplies_parts_as_one_product():
    x, w = torch.randn(1024, 256, device="cuda").bfloat16(), torch.randn(768, 256, device="cuda").bfloat16() / 16
    pull, sizes = torch.randn(1024, 768, device="cuda").bfloat16(), [512, 128, 128]
    results = []
    for way in (lambda x, w: torch.cat(products.parts(x, w, sizes), 1), F.linear):
        each = [x.detach().requires_grad_(), w.detach().requires_grad_()]
        y = way(*each)
        results.append([y, *torch.autograd.grad(y, each, pull)])
    for one, other in zip(*results, strict=True):
        assert (one.float() - other.float()).norm() < 0.01 * other.float().norm()


@needs_gpu
def test_a_product_is_written_where_it_is_asked_for():
    products.prepare(torch.device("cuda:0"), True)
    a, b = torch.randn(2048, 512, device="cuda").bfloat16(), torch.randn(8192, 512, device="cuda").bfloat16()
    room = torch.zeros(2049, 8192, device="cuda", dtype=torch.bfloat16)
    products.into(room[:2048], a, b.t())
    torch.testing.assert_close(room[:2048], a @ b.t(), rtol=0.02, atol=0.5)
    assert not room[2048:].any()


@needs_gpu
def test_any_layout_will_do():
    a, b = (torch.randn(320, 320, device="cuda").bfloat16() for _ in range(2))
    for left in (a, a.t(), a[:, :160].contiguous().repeat(1, 2), a[::2, ::2].repeat(2, 2), a[8:].repeat(2, 1)[:320]):
        for right in (b, b.t(), b[:, 3:163], b[5:], b.unfold(0, 320, 1)[0].t()):
            deep = min(left.shape[1], right.shape[0])
            one, other = products.product(left[:, :deep], right[:deep]), left[:, :deep] @ right[:deep]
            torch.testing.assert_close(one.float(), other.float(), rtol=0.02, atol=0.3)


@needs_gpu
def test_a_layer_in_training_takes_cublas_and_learns_the_same(monkeypatch):
    monkeypatch.setattr(products, "LEAST", 1)
    products.prepare(torch.device("cuda:0"), True)
    layer, x = Linear(64, 128, bias=False).cuda(), torch.randn(4, 32, 64, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        assert products.can(x, layer.weight)
        ours, theirs = layer(x), F.linear(x, layer.weight)
    gradients = [torch.autograd.grad(y.float().square().sum(), layer.weight)[0] for y in (ours, theirs)]
    assert ours.dtype == theirs.dtype == torch.bfloat16 and gradients[0].dtype == torch.float32
    torch.testing.assert_close(*gradients, rtol=0.03, atol=0.3)
