"""What training says of the fast ways it takes on a GPU; the GPU here is one in name only."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from regard.kernels.cuda import products
from regard.layers.norms import make_norm
from regard.training.report import describe_kernels


class OnAGPU(nn.Module):
    """Without a head, whose figures are those of a real GPU."""

    device = torch.device("cuda")

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def loss(self):
        raise NotImplementedError


def told(*layers, compiled, bfloat16):
    model, lines = OnAGPU(*layers), []
    step = SimpleNamespace(model=model, forward_backward=SimpleNamespace(compiled=compiled), bfloat16=bfloat16)
    describe_kernels(step, SimpleNamespace(compile="yes" if compiled else "no"), lines.append)
    (line,) = lines
    return line


@pytest.mark.parametrize("compiled, bfloat16, expected", [
    (True, True, "norms keep only what they give"), (False, True, "norms as torch has them: training is not compiled"),
    (True, False, "norms as torch has them: training is in float32")])
def test_what_norms_keep_is_said_and_why_not(compiled, bfloat16, expected, monkeypatch):
    monkeypatch.setattr(products, "why_not", lambda device, bfloat16: "")
    for kind in ("layer", "rms"):
        line = told(make_norm(kind, 4), compiled=compiled, bfloat16=bfloat16)
        assert expected in line and "large products the quickest way of cuBLAS" in line


def test_without_norms_nothing_is_said_of_them():
    line = told(nn.Linear(2, 2), compiled=True, bfloat16=False)
    assert "norms" not in line and "products as torch takes them: training is in float32" in line


def test_on_a_cpu_there_is_nothing_to_say():
    lines = []
    describe_kernels(SimpleNamespace(model=SimpleNamespace(device=torch.device("cpu"))), None, lines.append)
    assert not lines
