"""A step of attention: the definition against attention in general, and the kernel against the definition."""

import importlib.util
from contextlib import nullcontext

import pytest
import torch

from regard.kernels import attend_next as kernel
from regard.kernels.attend_next import attend_next, by_definition
from regard.layers.self_attention import SelfAttention
from regard.watching import watch
from tests.kernels.interpreter import interpret

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU tries the kernels themselves")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@needs_triton
@without_gpu
@pytest.mark.parametrize("trial", ["plain", "parted", "grouped", "sloped", "turned", "halves"])
def test_it_equals_torch_in_the_interpreter(trial):
    interpret("attend_next_interpreted.py", trial)


@pytest.mark.parametrize("positions", ["rotary", "alibi", "none"])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_a_layer_gives_by_it_what_it_gives_in_general(positions, kv_heads, monkeypatch):
    torch.manual_seed(0)
    layer = SelfAttention(16, heads=4, kv_heads=kv_heads, positions=positions).double().eval()
    x = torch.randn(3, 9, 16, dtype=torch.float64)
    with torch.no_grad():
        general, _ = layer(x, layer.start(3, 9))
        used = []
        monkeypatch.setattr(kernel, "attend_next", lambda *a: used.append(1) or by_definition(*a))
        first, state = layer(x[:, :4], layer.start(3, 9))
        outputs = [first]
        for t in range(4, 9):
            y, state = layer(x[:, t:t + 1], state)
            outputs.append(y)
    torch.testing.assert_close(torch.cat(outputs, 1), general)
    assert len(used) == 5 and state.count.tolist() == [9] * 3


def test_watching_changes_no_number_and_shows_what_attention_in_general_shows(monkeypatch):
    torch.manual_seed(0)
    layer, x = SelfAttention(16, heads=4).double().eval(), torch.randn(2, 3, 16, dtype=torch.float64)

    def last(watched):
        _, state = layer(x[:, :2], layer.start(2, 6))
        with watch() if watched else nullcontext() as seen:
            y, _ = layer(x[:, 2:], state)
        return y, seen.of("weights")[0].values if watched else None

    with torch.no_grad():
        _, expected = last(watched=True)
        monkeypatch.setattr(kernel, "attend_next", by_definition)
        (alone, _), (seen, weights) = last(watched=False), last(watched=True)
    assert torch.equal(alone, seen)
    torch.testing.assert_close(weights[..., :3], expected[..., :3])
    assert not weights[..., 3:].any()


def test_what_it_cannot_do_goes_the_general_way(monkeypatch):
    monkeypatch.setattr(kernel, "attend_next", lambda *a: pytest.fail("not asked for"))
    x = torch.randn(2, 1, 16)
    for settings in (dict(window=2), dict(score="additive"), dict(softcap=5.0)):
        layer = SelfAttention(16, heads=4, **settings).eval()
        layer(x, layer.start(2, 8))
    layer = SelfAttention(16, heads=4).eval()
    layer(x, layer.start(2, 8), torch.tensor([1, 0]))                                # a row that reads nothing


@needs_triton
@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch, slots", [(1, 1025), (1, 40), (64, 300)])
@pytest.mark.parametrize("turning", [False, True])
def test_it_equals_the_definition_on_the_gpu(batch, slots, dtype, turning):
    torch.manual_seed(0)
    q, k, v = (torch.randn(batch, 12, 64, device="cuda", dtype=dtype) for _ in range(3))
    caches = [torch.randn(batch, slots, 12, 64, device="cuda", dtype=dtype) for _ in range(2)]
    count = torch.randint(slots, (batch,), device="cuda")
    ours, theirs = ([each.clone() for each in caches] for _ in range(2))
    rates = 10000.0 ** -torch.linspace(0, 1, 32, device="cuda") if turning else None
    near = 1e-5 if dtype == torch.float32 else 2e-2
    with torch.no_grad():
        (y, after), (expected, _) = attend_next(q, k, v, *ours, count, None, rates), by_definition(
            q, k, v, *theirs, count, None, rates)
    torch.testing.assert_close(y, expected, rtol=near, atol=near)
    for own, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own, other, rtol=near, atol=near)
    assert torch.equal(after, count + 1)
