"""Norms that keep what they give rather than what they were given, against torch's."""

import pytest
import torch

from regard.families.transformer import TransformerSettings, build_transformer
from regard.kernels import norm as norms
from regard.kernels.norm import normed
from regard.lab.stopwatch import kept_bytes
from regard.layers.norms import NORMS, make_norm


def both(layer, x, kind):
    """What torch gives, and what ours does: values, and gradients of x and of the scales."""
    pull = torch.randn_like(x)
    ours = normed(x, layer.weight, layer.eps, centred=kind == "layer", dtype=torch.float32)
    return [[y, *torch.autograd.grad(y, [x, layer.weight], pull)] for y in (layer(x), ours)]


@pytest.mark.parametrize("kind", NORMS)
def test_values_and_gradients_are_torchs(kind):
    layer = make_norm(kind, 12)
    torch.nn.init.normal_(layer.weight)
    for theirs, ours in zip(*both(layer, (3 * torch.randn(4, 5, 12) + 1).requires_grad_(), kind), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("kind", NORMS)
def test_a_scale_of_zero_has_a_gradient_too(kind):
    layer = make_norm(kind, 8)
    with torch.no_grad():
        layer.weight[3] = 0
    theirs, ours = both(layer, torch.randn(6, 8, requires_grad=True), kind)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=16 * norms.LEAST, rtol=1e-3)
    torch.testing.assert_close(ours[2][3], theirs[2][3])


@pytest.mark.parametrize("kind", NORMS)
def test_a_compiled_model_keeps_less_and_learns_the_same(kind, monkeypatch):
    torch.manual_seed(0)
    model = build_transformer(TransformerSettings(layers=1, width=64, heads=2, context=32, norm=kind), 20)
    tokens = torch.randint(20, (4, 32))
    rest = tokens.roll(-1, 1), torch.ones(4, 32)
    kept, found = {}, {}
    for name, way in (("torch's", lambda x: False), ("ours", norms.sparing)):
        monkeypatch.setattr(norms, "sparing", way)
        torch.compiler.reset()
        run = torch.compile(model.loss, backend="aot_eager_decomp_partition")

        def loss(run=run):
            with torch.autocast("cpu", torch.bfloat16):
                return run(tokens, *rest)[0]

        kept[name] = kept_bytes(loss, "cpu")
        model.zero_grad(set_to_none=True)
        loss().backward()
        found[name] = torch.cat([weight.grad.flatten() for weight in model.parameters()])
    torch.compiler.reset()
    assert (found["ours"] - found["torch's"]).norm() < 0.02 * found["torch's"].norm()
    stream = 4 * 32 * 64 * 2                                   # bytes of what runs between two layers
    assert kept["torch's"] - kept["ours"] >= 2 * stream        # two norms, and one at the end
