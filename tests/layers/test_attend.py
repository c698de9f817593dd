import math

import pytest
import torch

from regard.families import FAMILIES
from regard.kernels.attention import causal_mask
from regard.layers.attend import CAUSAL, as_edited, attend, attend_by_definition, weights
from regard.layers.self_attention import SelfAttention
from regard.layers.stack import Block, Stack
from regard.watching import Edit, watch

B, H, T, S, K = 2, 3, 5, 5, 4
EXACT = {torch.float64: 1e-12, torch.float32: 1e-5}


def drawn(dtype, keys=S):
    return [torch.randn(B, H, length, K, dtype=dtype, requires_grad=True) for length in (T, keys, keys)]


def masks():
    some = torch.rand(B, 1, T, S, generator=torch.Generator().manual_seed(1)) < 0.6
    some[..., 0] = True
    nothing = some.clone()
    nothing[0, 0, 2] = False
    return {"causal": CAUSAL, "none": None, "some": some, "a row that may read nothing": nothing}


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize("mask", masks().values(), ids=masks())
def test_the_kernel_equals_the_definition_and_so_does_its_gradient(dtype, mask):
    q, k, v = drawn(dtype)
    kernel, definition = attend(q, k, v, mask=mask), attend_by_definition(q, k, v, mask=mask)
    close = {"rtol": 0, "atol": EXACT[dtype]}
    torch.testing.assert_close(kernel, definition, **close)
    pull = torch.randn_like(kernel)
    for ours, theirs in zip(*(torch.autograd.grad(y, (q, k, v), pull) for y in (kernel, definition)), strict=True):
        assert torch.isfinite(ours).all()
        torch.testing.assert_close(ours, theirs, **close)


def test_a_row_that_may_read_nothing_gives_zeros():
    mask = masks()["a row that may read nothing"]
    q, k, v = drawn(torch.float64)
    assert (attend(q, k, v, mask=mask)[0, :, 2] == 0).all()
    assert (weights(q, k, mask)[0, :, 2] == 0).all()


def test_more_keys_than_queries_are_read_without_a_mask():
    q, k, v = drawn(torch.float64, keys=S + 2)
    torch.testing.assert_close(attend(q, k, v), attend_by_definition(q, k, v), rtol=0, atol=1e-12)


def test_the_numbers_of_the_lecture():
    """Reading A A B A for a B, with scores 1 for B and 0 for A and a softmax to the base 3: 1/6 1/6 1/2 1/6."""
    a, b = [1.0, 0.0], [0.0, 1.0]
    keys = torch.tensor([[[a, a, b, a]]], dtype=torch.float64)
    query = torch.tensor([[[b]]], dtype=torch.float64) * math.log(3) * math.sqrt(2)
    expected = torch.tensor([[[[1 / 6, 1 / 6, 1 / 2, 1 / 6]]]], dtype=torch.float64)
    torch.testing.assert_close(weights(query, keys), expected)
    torch.testing.assert_close(attend(query, keys, torch.eye(4, dtype=torch.float64)[None, None]), expected)


def test_watching_records_the_very_weights_of_each_layer_in_order_and_changes_nothing():
    width, layers = 8, [SelfAttention(8, heads=2), SelfAttention(8, heads=4, positions="none")]
    stack = Stack([Block(layer, None) for layer in layers]).double()
    x = torch.randn(B, T, width, dtype=torch.float64)
    plain, _ = stack(x)
    with watch() as seen:
        watched, _ = stack(x)
    assert torch.equal(plain, watched)
    assert [reading.layer for reading in seen.of("weights")] == layers
    for layer, reading in zip(layers, seen.of("weights"), strict=True):
        assert reading.values.shape == (B, layer.heads, T, T)
        torch.testing.assert_close(reading.values.sum(-1), torch.ones(B, layer.heads, T, dtype=torch.float64))
        assert (reading.values.triu(1) == 0).all()


def test_the_watched_weights_give_the_output():
    q, k, v = drawn(torch.float64)
    with watch() as seen:
        y = attend(q, k, v, mask=CAUSAL)
    torch.testing.assert_close(seen.of("weights")[0].values @ v, y, rtol=0, atol=1e-12)


def test_a_cached_step_is_watched_too_and_reads_only_what_was_read():
    model = FAMILIES["transformer"].example(torch.float64)
    state = model.start(1, 6)
    with watch() as seen:
        model.step(torch.tensor([[4, 5, 6]]), state)
    for reading in seen.of("weights"):
        assert reading.values.shape[-2] == 3
        assert (reading.values[..., 3:] == 0).all()
        torch.testing.assert_close(reading.values.sum(-1), torch.ones(reading.values.shape[:-1], dtype=torch.float64))


def test_nobody_is_told_when_nobody_watches():
    with watch() as seen:
        pass
    attend(*drawn(torch.float64))
    assert seen.readings == []


def test_the_causal_mask_is_on_and_below_the_diagonal():
    assert causal_mask(2, 3, torch.device("cpu")).tolist() == [[True, False, False], [True, True, False]]


def test_an_edit_finds_its_row_whatever_pieces_the_layer_reads_in():
    """Row 3 of a text that comes as two rows and then three: the second row of the second piece."""
    layer, scores = object(), torch.tensor([0.0, 1.0, 2.0, -torch.inf, 0.5])
    edit = Edit(layer, head=1, row=3, scores=scores)
    for rows in (2, 3):
        e, v = torch.randn(1, 2, rows, 5), torch.randn(1, 2, 5, K)
        alpha = e.softmax(-1)
        y = alpha @ v
        new_alpha, new_y = as_edited(edit, layer, e, alpha, y, v)
        changed = (new_alpha != alpha).any(-1).nonzero().tolist()
        assert changed == ([] if rows == 2 else [[0, 1, 1]]) == (new_y != y).any(-1).nonzero().tolist()
    torch.testing.assert_close(new_alpha[0, 1, 1], scores.exp() / scores.exp().sum())
    torch.testing.assert_close(new_y[0, 1, 1], new_alpha[0, 1, 1] @ v[0, 1])
    assert edit.passed == 5 and as_edited(edit, object(), e, alpha, y, v)[0] is alpha
