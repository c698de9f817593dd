"""Drawing the next token by one kernel: what is drawn is what sampling.py defines."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.decoding.sampling import Sampling, choose_by, choose_next, row_noise, uniform
from regard.kernels import draw

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU tries the kernels themselves")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@needs_triton
@without_gpu
@pytest.mark.parametrize("trial", ["likeliest", "everything"])
def test_they_draw_the_same_in_the_interpreter(trial):
    script = Path(__file__).with_name("draw_interpreted.py")
    ran = subprocess.run([sys.executable, script, trial], capture_output=True, text=True,
                         env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert ran.returncode == 0, ran.stderr[-3000:]


def test_there_is_room_for_every_candidate_or_the_kernel_is_not_asked():
    assert draw.room(50_304, 200) == 200 * 14                  # 13 to a group, and as many equal to the bound
    assert draw.room(100, 0) == draw.room(100, 100) == 0       # everything is kept
    assert draw.room(50_304, 5000) > draw.MOST
    assert not draw.can(torch.zeros(1, 10), 0, 1.0)            # on a CPU


@needs_triton
@needs_gpu
@pytest.mark.parametrize("vocab, top_k",
                         [(50_304, 200), (50_257, 40), (50_304, 0), (1000, 999), (65, 5), (300_000, 50)])
@pytest.mark.parametrize("temperature", [1.0, 0.8])
def test_they_draw_the_same_on_the_gpu(vocab, top_k, temperature):
    torch.manual_seed(0)
    values = (3 * torch.randn(64, vocab, device="cuda")).log_softmax(-1)
    values[::2] = values[::2].bfloat16().float()               # with ties
    values[3, 10:] = -torch.inf
    how, noise = Sampling(temperature, top_k), row_noise(1, torch.arange(64, device="cuda"))
    assert draw.can(values, top_k, 1.0)
    for position in range(20):
        positions = torch.full((64,), position, device="cuda")
        expected = choose_by(values, how, uniform(noise, positions))
        assert torch.equal(choose_next(values, how, noise, positions), expected)


@needs_triton
@needs_gpu
@pytest.mark.parametrize("options", [dict(top_k=3, top_p=0.5), dict(top_k=4000)], ids=str)
def test_what_they_cannot_do_is_left_to_torch(options):
    values = torch.randn(2, 50_000, device="cuda").log_softmax(-1)
    assert not draw.can(values, Sampling(**options).top_k, Sampling(**options).top_p)
    chosen = choose_next(values, Sampling(**options), *torch.zeros(2, 2, dtype=torch.long, device="cuda"))
    assert chosen.shape == (2,)
