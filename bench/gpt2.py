"""Training a Transformer of GPT-2's size on a GPU, by the steps of our own training loop.

    python bench/gpt2.py --json bench/results/gpt2.json
    python bench/gpt2.py --small                                   a smoke test, on any machine

12 layers of 768 in 12 heads, 1,024 tokens, a vocabulary of 50,304, bfloat16, AdamW, compiled: forward, backward,
clipping and update, on random tokens. nanoGPT on one H200 with torch 2.11: 523,000 tokens a second with 32 rows,
537,000 with 64 (15.1 and 28.9 GB). Beside it a large product and a large copy, measured in the same run: a slower day
shows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from regard.families.transformer import TransformerSettings, build_transformer
from regard.run_folder import RunFolder
from regard.text.batches import Batch
from regard.training.figures import Figures
from regard.training.job import Job
from regard.training.log import Progress
from regard.training.settings import TrainingSettings

REPEATS = 3
PEER = {32: 523_000, 64: 537_000}          # nanoGPT, tokens a second
FULL: dict[str, Any] = dict(layers=12, width=768, heads=12, context=1024, positions="learned", tied=True)
SMALL: dict[str, Any] = dict(layers=2, width=32, heads=2, context=32, positions="learned", tied=True)


class RandomTokens:
    """The same few batches again and again, on the host as real ones are."""

    def __init__(self, rows: int, context: int, vocab: int):
        self.kept = [Batch(*torch.randint(vocab, (2, rows, context)).unbind(0)) for _ in range(4)]
        self.context = context

    def batch(self, step: int) -> Batch:
        return self.kept[step % len(self.kept)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="*", default=[32, 64])
    parser.add_argument("--micro", type=int, default=0, help="Rows at once; 0: all.")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--compile", default="yes")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    small = arguments.small or device.type == "cpu"
    result: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu", "torch": torch.__version__,
        "calibration": calibration(device, 256 if small else 8192), "runs": []}
    for rows in [2] if small else arguments.rows:
        figures = trained(device, SMALL if small else FULL, 100 if small else 50_304, rows, arguments)
        print(json.dumps(figures), flush=True)
        result["runs"].append(figures)
    print(json.dumps(result["calibration"]))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


def trained(device: torch.device, sizes: dict[str, Any], vocab: int, rows: int, arguments: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    model = build_transformer(TransformerSettings(**sizes), vocab).to(device)
    settings = TrainingSettings(steps=1000, batch=rows, micro_batch=arguments.micro, learning_rate=6e-4,
                                compile=arguments.compile if device.type == "cuda" else "no", reading="windows")
    batches = RandomTokens(rows, sizes["context"], vocab)
    with tempfile.TemporaryDirectory() as folder:
        job = Job(model, batches, batches, settings, RunFolder(folder), Progress(1000, quiet=True))
        began = time.perf_counter()
        for number in range(3):
            step(job, number)
        compiled = time.perf_counter() - began
        times = []
        for _ in range(REPEATS):                  # whole rounds: the loop is a step ahead of the GPU
            began = time.perf_counter()
            for number in range(arguments.steps):
                figures = step(job, number)
            loss, _ = figures.read()
            wait(device)
            times.append((time.perf_counter() - began) / arguments.steps)
    tokens = rows * sizes["context"]
    speed = tokens / statistics.median(times)
    told: dict[str, Any] = {"rows": rows, "micro": arguments.micro, "tokens_a_second": round(speed),
               "ms_a_step": round(1e3 * statistics.median(times), 2), "seconds_before": round(compiled, 1),
               "loss": round(loss, 4), "parameters": sum(w.numel() for w in model.parameters())}
    if device.type == "cuda":
        told["peak_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 1)
    if rows in PEER:
        told |= {"nanogpt": PEER[rows], "ratio": round(speed / PEER[rows], 3)}
    return told


def step(job: Job, number: int) -> Figures:
    """As `training.loop.fit` takes it."""
    job.optimizers.set_rate(1.0)
    loss, _, _ = job.backward(number, job.settings.micro_batch)
    figures = Figures(number, loss, job.clip_gradients())
    job.update()
    return figures


def calibration(device: torch.device, size: int) -> dict[str, float]:
    """What this machine does today: a bfloat16 product, and a copy."""
    a = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    x = torch.empty(size * size * 16, device=device, dtype=torch.uint8)
    y = torch.empty_like(x)
    return {"tflops": round(2 * size**3 / seconds(lambda: a @ a, device) / 1e12, 1),
            "copy_tb_s": round(2 * x.numel() / seconds(lambda: y.copy_(x), device) / 1e12, 3)}


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


if __name__ == "__main__":
    main()
