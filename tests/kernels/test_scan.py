"""The scan: every way of computing it is the loop, forward and backward."""

import subprocess
import sys
from functools import partial

import pytest
import torch

from regard import kernels
from regard.errors import SettingError
from regard.kernels.exported import export_model, exporting
from regard.kernels.scan import SHORT, WIDE, piece, scan, scan_loop, state_after

NEAR = {torch.float64: 1e-12, torch.float32: 1e-5}
in_torch = partial(scan, path="torch")


def drawn(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype)


def with_gradients(way, *inputs):
    inputs = [x.detach().requires_grad_() for x in inputs]
    y = way(*inputs)
    pull = torch.arange(y.numel(), dtype=torch.float64).cos().view_as(y).to(y.dtype)
    return [y, *torch.autograd.grad(y, inputs, pull)]


def held_equal(*inputs, way=in_torch):
    for ours, theirs in zip(with_gradients(way, *inputs), with_gradients(scan_loop, *inputs), strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        near = NEAR[ours.dtype] * (1 + theirs.abs().max().item())
        torch.testing.assert_close(ours, theirs, rtol=0, atol=near)


@pytest.mark.parametrize("dtype", NEAR, ids=str)
@pytest.mark.parametrize("state", [True, False])
@pytest.mark.parametrize("time", [1, 2, SHORT, SHORT + 1, 64, 100, 257])
def test_the_parallel_scan_and_its_gradients_equal_the_loop(time, state, dtype):
    a, b = drawn(3, time, 5, dtype=dtype).tanh(), drawn(3, time, 5, dtype=dtype)
    held_equal(a, b, *([drawn(3, 5, dtype=dtype)] if state else []))


def test_many_channels_take_the_plain_way_and_give_the_same():
    held_equal(drawn(2, 40, WIDE // 2), drawn(2, 40, WIDE // 2), drawn(2, WIDE // 2))


@pytest.mark.parametrize("shape", [(5,), (3, 1, 5), (3, 40, 1), (1, 40, 5)], ids=str)
def test_a_decay_of_fewer_dimensions_is_broadcast_and_its_gradient_summed(shape):
    held_equal(torch.rand(shape, dtype=torch.float64), drawn(3, 40, 5), drawn(3, 5))


def test_slices_of_a_wider_tensor_will_do():
    a, b, _ = drawn(2, 50, 12).chunk(3, -1)
    held_equal(a, b)


@pytest.mark.parametrize("a", [0.0, 1.0, -1.0, 1e-300, -1.01])
def test_decays_that_a_division_or_a_logarithm_would_not_survive(a):
    held_equal(torch.full((1, 200, 3), a, dtype=torch.float64), drawn(1, 200, 3))


def test_a_zero_forgets_everything_before_it_even_what_was_very_large():
    a, b = torch.ones(1, 100, 2, dtype=torch.float64), drawn(1, 100, 2)
    b[:, :50], a[:, 50] = 1e300, 0.0
    assert torch.equal(scan(a, b)[:, 50], b[:, 50])


@pytest.mark.parametrize("cut", [1, 17, 50, 99])
def test_cut_anywhere_with_the_state_carried_it_is_the_same(cut):
    a, b = drawn(2, 100, 4).tanh(), drawn(2, 100, 4)
    whole, head = scan(a, b), scan(a[:, :cut], b[:, :cut])
    tail = scan(a[:, cut:], b[:, cut:], head[:, -1])
    torch.testing.assert_close(torch.cat([head, tail], 1), whole, rtol=1e-12, atol=1e-12)


def test_what_comes_later_changes_no_bit_of_what_was_before():
    a, b = drawn(2, 100, 4), drawn(2, 100, 4)
    before = scan(a, b)
    for t in range(100):
        a[:, t:], b[:, t:] = 1e4 * drawn(2, 100 - t, 4), 1e4 * drawn(2, 100 - t, 4)
        assert torch.equal(scan(a, b)[:, :t], before[:, :t])
        a, b = a.clone(), b.clone()
        before = scan(a, b)


def test_sums_of_half_precision_are_kept_in_float32():
    a = torch.full((1, 1000, 1), 1.0, dtype=torch.bfloat16)
    b = torch.full((1, 1000, 1), 1.0, dtype=torch.bfloat16)
    h = scan(a, b)
    assert h.dtype == torch.bfloat16 and h[0, -1].item() == torch.tensor(1000.0).bfloat16().item()
    mixed = with_gradients(scan, a.float(), b)
    assert [x.dtype for x in mixed] == [torch.float32, torch.float32, torch.bfloat16]


def test_the_gradient_is_that_of_finite_differences():
    inputs = [drawn(2, 20, 2).requires_grad_(), drawn(2, 20, 2).requires_grad_(), drawn(2, 2).requires_grad_()]
    assert torch.autograd.gradcheck(scan, inputs, fast_mode=True)


def test_it_compiles_as_one_graph_at_any_length():
    torch._dynamo.reset()
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    a, b = drawn(2, 3000, 2).tanh(), drawn(2, 3000, 2)
    compiled = torch.compile(lambda a, b: scan(a * 1, b) + 1, fullgraph=True, backend=count)
    torch.testing.assert_close(compiled(a, b), scan_loop(a, b) + 1, rtol=1e-12, atol=1e-12)
    assert len(graphs) == 1 and len(graphs[0].graph.nodes) < 20


def test_it_takes_part_in_compiled_training():
    """As on a GPU: forward and backward are traced with tensors that have no numbers."""
    torch._dynamo.reset()
    a, b, h0 = drawn(2, 30, 2).tanh(), drawn(2, 30, 2), drawn(2, 2)
    compiled = torch.compile(lambda a, b, h0: scan(a, b, h0).sin(), fullgraph=True, backend="aot_eager")
    plain = with_gradients(lambda a, b, h0: scan_loop(a, b, h0).sin(), a, b, h0)
    for ours, theirs in zip(with_gradients(compiled, a, b, h0), plain, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_the_state_is_that_after_the_last_real_position():
    h, before = drawn(3, 6, 2), drawn(3, 2)
    after = state_after(before, h, torch.tensor([6, 2, 0]))
    assert torch.equal(after, torch.stack([h[0, 5], h[1, 1], before[2]]))
    assert torch.equal(state_after(before, h, None), h[:, -1])


def test_a_planted_bug_in_the_backward_pass_is_heard(monkeypatch):
    from regard.kernels import scan as module

    monkeypatch.setattr(module, "_first_of_next", lambda first, after: first)      # forgets that pieces meet
    with pytest.raises(AssertionError):
        held_equal(drawn(1, 64, 2), drawn(1, 64, 2))


# --------------------------------------------------------------------------------------------- which path


def test_the_path_and_the_reason_for_it_can_be_asked():
    x = torch.zeros(1)
    assert kernels.path(x) == "torch"
    assert kernels.reason(x) == "the tensors are on cpu, and Triton is for CUDA"


def test_without_triton_a_gpu_says_so_once_and_names_the_cure(monkeypatch):
    cuda = torch.device("cuda")
    monkeypatch.delenv(kernels.VARIABLE, raising=False)
    monkeypatch.setattr(kernels.importlib.util, "find_spec", lambda name: None)
    kernels._why_no_triton.cache_clear()
    with pytest.warns(RuntimeWarning, match="plain torch.*pip install triton"):
        assert kernels.reason_on(cuda) == "Triton is not installed: pip install triton"
    monkeypatch.setattr(kernels.importlib.util, "find_spec", lambda name: object())
    kernels._why_no_triton.cache_clear()
    assert kernels.reason_on(cuda) == ""
    kernels._why_no_triton.cache_clear()


def test_triton_can_be_kept_out(monkeypatch):
    monkeypatch.setenv(kernels.VARIABLE, "torch")
    assert kernels.reason_on(torch.device("cuda")) == "REGARD_KERNELS = torch says so"
    monkeypatch.setenv(kernels.VARIABLE, "tritan")
    with pytest.raises(SettingError, match=r"REGARD_KERNELS = 'tritan': did you mean triton\?"):
        kernels.reason_on(torch.device("cuda"))


def test_importing_kernels_and_families_does_not_import_triton_or_the_compiler():
    code = ("import sys, regard.kernels.scan, regard.families.table, regard.trained, regard.training.run; "
            "assert not {'triton', 'torch._dynamo'} & set(sys.modules)")
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("length, size", [(32, 4), (128, 8), (512, 16), (2048, 32), (8192, 64), (8192 + 700, 64)])
def test_a_piece_is_the_power_of_two_nearest_to_the_root_of_half_the_length(length, size):
    assert piece(length) == size


def test_a_model_that_is_compiled_is_not_read_as_one_that_is_exported(monkeypatch):
    """torch 2.11 compiles torch.compiler.is_exporting() to True: every loop would become an exporter's."""
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True)
    assert not exporting()
    with export_model():
        assert exporting()
    assert not exporting()
