"""The loss that works its gradients out on the way forward, against its definition."""

import pytest
import torch

from regard.kernels import cross_entropy
from regard.kernels.cross_entropy import by_definition, linear_cross_entropy, rows_at_once


def drawn(positions=7, width=5, vocab=11, dtype=torch.float64):
    h = torch.randn(positions, width, dtype=dtype, requires_grad=True)
    weight = torch.randn(vocab, width, dtype=dtype, requires_grad=True)
    return h, weight, torch.randint(vocab, (positions,)), torch.rand(positions, dtype=dtype)


def found(way, h, weight, *rest, **options):
    loss = way(h, weight, *rest, **options)
    return [loss, *torch.autograd.grad(3 * loss, [h, weight])]


@pytest.mark.parametrize("options", [{}, {"smoothing": 0.1}, {"softcap": 2.0}, {"smoothing": 0.2, "softcap": 1.5}],
                         ids=str)
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_loss_and_gradients_are_those_of_the_definition(options, rows, monkeypatch):
    inputs = drawn()
    monkeypatch.setattr(cross_entropy, "CPU_BYTES", rows * 11 * 8)
    for ours, theirs in zip(found(linear_cross_entropy, *inputs, **options), found(by_definition, *inputs, **options),
                            strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_a_share_of_nothing_counts_for_nothing_even_where_h_is_wild():
    h, weight, targets, shares = drawn()
    shares[2] = 0
    wild = h.detach().clone()
    wild[2] = 1e3
    wild.requires_grad_()
    loss, dh, dw = found(linear_cross_entropy, h, weight, targets, shares)
    other, other_dh, other_dw = found(linear_cross_entropy, wild, weight, targets, shares)
    assert loss == other and (other_dh[2] == 0).all() and torch.equal(dw, other_dw)
    assert torch.equal(dh[[0, 1, 3]], other_dh[[0, 1, 3]])


def test_under_autocast_the_gradient_of_the_weights_stays_in_float32():
    h, weight, targets, shares = drawn(64, 16, 50, torch.float32)
    expected = found(by_definition, h, weight, targets, shares)
    with torch.autocast("cpu", torch.bfloat16):
        loss = linear_cross_entropy(h, weight, targets, shares)
    dh, dw = torch.autograd.grad(3 * loss, [h, weight])
    assert loss.dtype == dh.dtype == dw.dtype == torch.float32
    for ours, theirs in zip((loss, dh, dw), expected, strict=True):
        assert (ours - theirs).norm() < 0.02 * theirs.norm()


def test_it_compiles_as_one_operation():
    h, weight, targets, shares = drawn(dtype=torch.float32)
    compiled = torch.compile(lambda *inputs: linear_cross_entropy(*inputs), fullgraph=True, backend="aot_eager")
    rest = (weight, targets, shares)
    for ours, theirs in zip(found(compiled, h, *rest), found(by_definition, h, *rest), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_chunks_are_about_alike_and_none_is_too_large():
    for positions in (1, 16_777, 16_778, 40_000):
        rows = rows_at_once(positions, 4000, cross_entropy.CPU_BYTES, gpu=False)
        assert rows * 4000 <= cross_entropy.CPU_BYTES and rows * -(-positions // rows) - positions < rows


def test_on_a_gpu_chunks_are_whole_tiles_and_large_batches_come_out_even():
    each = 50_304 * 2                                          # of GPT-2's vocabulary, in half precision
    assert [rows_at_once(65_536, each, room, gpu=True) for room in cross_entropy.GPU_BYTES] == [8192, 16_384]
    for positions in (1, 100, 5000, 10_000, 70_000):
        rows = rows_at_once(positions, each, 2**30, gpu=True)
        assert rows % cross_entropy.TILE == 0 and rows * each <= 2**30


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_one_share_for_all_gives_what_as_many_shares_give(smoothing):
    h, weight, targets, _ = drawn()
    shares = torch.full((7,), 0.3, dtype=torch.float64)
    for ours, theirs in zip(found(linear_cross_entropy, h, weight, targets, shares, smoothing=smoothing),
                            found(by_definition, h, weight, targets, shares, smoothing=smoothing), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shares", [torch.ones(3), torch.tensor([1.0, 2.0, 0.5])], ids=["one", "many"])
def test_the_loss_of_a_target_without_a_chance_is_finite_and_right(shares):
    weight = torch.tensor([[90.0], [0.0], [-90.0]], requires_grad=True)                # chances of 1, 1e-39 and 1e-78
    h, targets = torch.ones(3, 1, requires_grad=True), torch.tensor([0, 1, 2])
    for ours, theirs in zip(found(linear_cross_entropy, h, weight, targets, shares),
                            found(by_definition, h, weight, targets, shares), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
        assert torch.isfinite(ours).all()


def test_no_positions_have_no_loss_and_no_gradients():
    h, weight, targets, shares = (each[:0] if len(each) == 7 else each for each in drawn())
    loss, dh, dw = found(linear_cross_entropy, h, weight, targets, shares)
    assert loss == 0 and dh.shape == (0, 5) and not dw.any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_of_logits_in_half_precision_is_worked_out_in_float32(dtype, smoothing):
    logits, targets, shares = 3 * torch.randn(6, 40), torch.randint(40, (6,)), torch.rand(6)
    given = logits.to(dtype)
    exact = given.double()
    log_probs = exact - exact.exp().sum(-1, keepdim=True).log()
    wanted = log_probs[torch.arange(6), targets]
    expected = -(shares * ((1 - smoothing) * wanted + smoothing * log_probs.mean(-1))).sum()
    loss = cross_entropy.softmax_gradient_torch(given, targets, shares, smoothing, 0.0, logits.__getitem__)
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    gradient = log_probs.exp() - (1 - smoothing) * torch.eye(40)[targets] - smoothing / 40
    torch.testing.assert_close(given.double(), gradient, rtol=1e-5 if dtype == torch.float32 else 1e-2, atol=1e-6)
