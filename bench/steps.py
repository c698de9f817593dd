"""Training steps as our own loop takes them, timed: what the benches of GPU training share."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from regard.contract import Learner
from regard.data.batching.text_batches import Batch
from regard.training.report import Figures
from regard.training.settings import TrainingSettings
from regard.training.step import TrainingStep, make_forward_backward

REPEATS = 3


class RandomTokens:
    """The same few batches again and again, on the host as real ones are."""

    def __init__(self, rows: int, context: int, vocab: int):
        self.kept = [Batch(*torch.randint(vocab, (2, rows, context)).unbind(0)) for _ in range(4)]
        self.context = context

    def batch(self, step: int) -> Batch:
        return self.kept[step % len(self.kept)]


def timed(
    model: Learner, rows: int, context: int, vocab: int, *, micro: int = 0, compiled: str = "yes", steps: int = 20,
    recompute: str = "no", optimizer: str = "adamw",
) -> dict[str, Any]:
    """Tokens a second, milliseconds a step, and the most memory: forward, backward, clipping and update."""
    device = model.device
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    settings = TrainingSettings(steps=1000, batch=rows, micro_batch=micro, learning_rate=6e-4,
                                compile=compiled if device.type == "cuda" else "no", reading="windows",
                                recompute=recompute, optimizer=optimizer)
    batches = RandomTokens(rows, context, vocab)
    one = TrainingStep(model, batches, settings, make_forward_backward(model, settings, quiet), quiet)
    began = time.perf_counter()
    for number in range(3):
        figures = take_step(one, number, micro)
    figures.read()
    before = time.perf_counter() - began
    times = []
    for _ in range(REPEATS):                      # whole rounds: the loop is a step ahead of the GPU
        began = time.perf_counter()
        for number in range(steps):
            figures = take_step(one, number, micro)
        loss, _ = figures.read()
        wait(device)
        times.append((time.perf_counter() - began) / steps)
    taken = statistics.median(times)
    told = {"rows": rows, "micro": micro, "compiled": compiled, "recompute": recompute,
            "tokens_a_second": round(rows * context / taken), "ms_a_step": round(1e3 * taken, 2),
            "seconds_before": round(before, 1), "loss": round(loss, 4),
            "parameters": sum(weight.numel() for weight in model.parameters())}
    if device.type == "cuda":
        told["peak_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 1)
    return told


def take_step(step: TrainingStep, number: int, micro: int) -> Figures:
    """As `training.loop.fit` takes it."""
    step.set_rate(1.0)
    loss, _, _ = step.backward(number, micro)
    figures = Figures(number, loss, step.clip_gradients())
    step.update_weights()
    return figures


def quiet(text: str) -> None:
    """Say nothing."""


def calibration(device: torch.device, size: int) -> dict[str, float]:
    """What this machine does today: a bfloat16 product, and a copy."""
    a = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    x = torch.empty(size * size * 16, device=device, dtype=torch.uint8)
    y = torch.empty_like(x)
    return {"tflops": round(2 * size**3 / seconds(lambda: a @ a, device) / 1e12, 1),
            "copy_tb_s": round(2 * x.numel() / seconds(lambda: y.copy_(x), device) / 1e12, 3)}


def sustained(device: torch.device, size: int, long: float = 3.0) -> float:
    """TFLOP/s of the same product when it goes on for seconds: a GPU at its limit of power lowers its clock, and some
    have to lower it more than others."""
    a = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    began, taken = time.perf_counter(), 0.0
    while time.perf_counter() - began < long:
        taken = seconds(lambda: a @ a, device, times=200 if size > 256 else 2)
    return round(2 * size**3 / taken / 1e12, 1)


def seconds(work: Callable[[], Any], device: torch.device, times: int = 20) -> float:
    for _ in range(3):
        work()
    wait(device)
    began = time.perf_counter()
    for _ in range(times):
        work()
    wait(device)
    return (time.perf_counter() - began) / times


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def machine(device: torch.device) -> dict[str, str]:
    name = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
    return {"device": name, "torch": torch.__version__}
