"""Muon: ours, batched by shape, against torch's own and against what it promises."""

import copy

import pytest
import torch

from regard.training.muon import Muon, by_definition, by_squares, orthogonal


def test_our_steps_are_those_of_torch_to_the_rounding_of_its_bfloat16():
    torch.manual_seed(0)
    ours = [torch.nn.Parameter(torch.randn(shape)) for shape in ((24, 8), (8, 24), (24, 8), (8, 8))]
    theirs = copy.deepcopy(ours)
    options = dict(lr=0.02, weight_decay=0.1)
    optimizers = Muon(dict.fromkeys(ours, 1), **options), torch.optim.Muon(theirs, **options)
    for _ in range(3):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=2e-3)


@pytest.mark.parametrize("spread", [0.0, 4.0])
def test_following_only_the_squares_gives_the_same(spread):
    torch.manual_seed(0)
    x = torch.randn(3, 16, 48) * torch.logspace(0, -spread, 48)
    x = x / x.norm(dim=(-2, -1), keepdim=True)
    torch.testing.assert_close(by_squares(x.double()), by_definition(x.double()), rtol=0, atol=1e-9)
    torch.testing.assert_close(by_squares(x), by_definition(x), rtol=0, atol=2e-3)


@pytest.mark.parametrize("shape", [(2, 8, 32), (2, 32, 8), (2, 16, 16)])
def test_an_update_has_singular_values_near_one(shape):
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonal(torch.randn(shape)))
    assert (values > 0.5).all() and (values < 1.3).all()


def test_a_gradient_of_zero_changes_nothing_and_is_no_number_trouble():
    weight = torch.nn.Parameter(torch.ones(4, 8))
    weight.grad = torch.zeros_like(weight)
    Muon({weight: 1}, lr=0.1).step()
    assert torch.equal(weight, torch.ones(4, 8))


@pytest.mark.parametrize("parts, rows", [((6, 6, 2, 5), (6, 6, 2, 5)), (3, (4, 4, 4))], ids=str)
def test_matrices_in_one_tensor_are_stepped_as_if_they_were_apart(parts, rows):
    torch.manual_seed(0)
    together = [torch.nn.Parameter(torch.randn(sum(rows), 4, dtype=torch.float64)) for _ in range(2)]
    apart = [[torch.nn.Parameter(each.clone()) for each in tensor.detach().split(rows)] for tensor in together]
    one = Muon(dict.fromkeys(together, parts), 0.1, weight_decay=0.2)
    other = Muon({each: 1 for tensor in apart for each in tensor}, 0.1, weight_decay=0.2)
    for _ in range(3):
        for tensor, own in zip(together, apart, strict=True):
            tensor.grad = torch.randn_like(tensor)
            for each, gradient in zip(own, tensor.grad.split(rows), strict=True):
                each.grad = gradient.clone()
        one.step()
        other.step()
    for tensor, own in zip(together, apart, strict=True):
        torch.testing.assert_close(tensor.detach(), torch.cat([each.detach() for each in own]), rtol=0, atol=1e-12)
