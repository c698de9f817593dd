"""Mamba on a GPU: the selective scan by itself, and training a 24-layer language model of width 768.

    python bench/mamba.py --json bench/results/mamba.json
    python bench/mamba.py --small                                  a smoke test, on any machine

The scan is timed at (8, T, 1536) with 16 states, through Triton and through plain torch, and held against the loop.
Training is AdamW in bfloat16 at 32 x 1024 tokens a step over a vocabulary of 50,280, forward, backward, clipping and
update by our own loop; both kinds of decay, as written and compiled. For comparison: transformers 4.x without
its optional kernels trains the same sizes at 188 tokens/s on an H200.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from steps import calibration, timed
from torch import Tensor

from regard.families.mamba import MambaSettings, build_mamba
from regard.kernels.selective_scan import choose_backend, selective_scan, selective_scan_loop

PEER = 188                                  # tokens a second: transformers without its optional kernels
FULL: dict[str, Any] = dict(
    rows=32, batch=8, times=(1024, 2048), width=1536, loop_time=256, layers=24, model=768, context=1024, vocab=50_280)
SMALL: dict[str, Any] = dict(
    rows=2, batch=2, times=(64,), width=32, loop_time=64, layers=2, model=32, context=64, vocab=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="Tiny sizes, for a smoke test.")
    parser.add_argument("--only", choices=("scan", "train"))
    parser.add_argument("--decays", nargs="*", default=["channel", "head"])
    parser.add_argument("--rows", type=int, help="Rows of a training step.")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--no-compile", action="store_true", help="Compiling takes a minute or more for each decay.")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sizes = SMALL if arguments.small or device.type == "cpu" else FULL
    sizes = sizes | {"rows": arguments.rows} if arguments.rows else sizes
    kinds = (False,) if arguments.no_compile else (True,) if arguments.compile_only else (False, True)
    torch.set_float32_matmul_precision("high")
    result: dict[str, Any] = {
        "machine": machine(device), "torch": torch.__version__, "triton": triton_version(), "sizes": sizes,
        "calibration": calibration(device, 256 if sizes is SMALL else 8192)}
    if arguments.only != "train":
        result["scan"] = [attempt(scan_figures, device, sizes, time_, path) for time_ in sizes["times"]
                          for path in (("triton", "torch") if device.type == "cuda" else ("torch",))]
    if arguments.only != "scan":
        result["train"] = [attempt(train_figures, device, sizes, decay, compiled) for decay in arguments.decays
                           for compiled in kinds]
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


def attempt(measure: Callable[..., dict[str, Any]], *settings: Any) -> dict[str, Any]:
    """The figures, printed; or what went wrong, so that one failure does not cost the others."""
    try:
        figures = measure(*settings)
    except Exception as error:
        told = " ".join(str(error).split())[:300]
        figures = {"settings": [str(each) for each in settings[2:]], "failed": f"{type(error).__name__}: {told}"}
    print(json.dumps(figures), flush=True)
    return figures


# ------------------------------------------------------------------------------------------------------------- the scan


def scan_figures(device: torch.device, sizes: dict[str, Any], time_: int, path: str) -> dict[str, Any]:
    """Milliseconds of one scan with inputs in bfloat16, and how far it is from the loop in float32."""
    inputs = scan_inputs(device, sizes["batch"], time_, sizes["width"], torch.bfloat16)
    y, _ = selective_scan(*inputs, path=path)
    pull = torch.randn_like(y)

    def forward() -> None:
        with torch.no_grad():
            selective_scan(*inputs, path=path)

    def both() -> None:
        torch.autograd.grad(selective_scan(*inputs, path=path)[0], inputs, pull)

    figures = {"scan": path, "shape": [sizes["batch"], time_, sizes["width"], inputs[2].shape[1]],
               "forward_ms": milliseconds(forward, device), "forward_backward_ms": milliseconds(both, device)}
    return figures | error_against_loop(device, sizes, path)


def scan_inputs(device: torch.device, batch: int, time_: int, width: int, dtype: torch.dtype) -> list[Tensor]:
    torch.manual_seed(0)
    x, b, c = (torch.randn(batch, time_, size, device=device).to(dtype) for size in (width, 16, 16))
    delta = torch.rand(batch, time_, width, device=device) * 0.1
    a = -torch.arange(1.0, 17, device=device).repeat(width, 1)
    return [each.requires_grad_() for each in (x, delta, a, b, c)]


def error_against_loop(device: torch.device, sizes: dict[str, Any], path: str) -> dict[str, float]:
    """The largest difference, of outputs and of gradients, as a share of the largest number compared."""
    inputs = scan_inputs(device, 2, sizes["loop_time"], sizes["width"], torch.float32)
    ours, theirs = selective_scan(*inputs, path=path)[0], selective_scan_loop(*inputs)[0]
    pull = torch.randn_like(ours)
    gradients = zip(*(torch.autograd.grad(y, inputs, pull) for y in (ours, theirs)), strict=True)
    return {"error": apart(ours, theirs), "gradient_error": max(apart(*pair) for pair in gradients)}


def apart(ours: Tensor, theirs: Tensor) -> float:
    return float(((ours - theirs).abs().max() / theirs.abs().max()).detach())


# --------------------------------------------------------------------------------------------------------- the training


def train_figures(device: torch.device, sizes: dict[str, Any], decay: str, compiled: bool) -> dict[str, Any]:
    """Tokens a second of our own training loop, once it is warm."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    settings = MambaSettings(layers=sizes["layers"], width=sizes["model"], decay=decay, context=sizes["context"],
                             norm="rms", tied=True)
    model = build_mamba(settings, sizes["vocab"]).to(device)
    figures = timed(model, sizes["rows"], sizes["context"], sizes["vocab"], compiled="yes" if compiled else "no",
                    steps=8)
    path = choose_backend(device, torch.float32).name if decay == "channel" else "torch (products of matrices)"
    figures |= {"train": decay, "path": path}
    return figures | ({"times transformers": round(figures["tokens_a_second"] / PEER)} if sizes is not SMALL else {})


# ------------------------------------------------------------------------------------------------------------ measuring


def milliseconds(work: Callable[[], None], device: torch.device, seconds: float = 1.0) -> float:
    """The median of single runs, for about so many seconds after three to warm up."""
    for _ in range(3):
        work()
    synchronize(device)
    times: list[float] = []
    began = time.monotonic()
    while len(times) < 3 or (time.monotonic() - began < seconds and len(times) < 50):
        start = time.perf_counter()
        work()
        synchronize(device)
        times.append(time.perf_counter() - start)
    return round(sorted(times)[len(times) // 2] * 1000, 3)


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def machine(device: torch.device) -> str:
    return torch.cuda.get_device_name() if device.type == "cuda" else f"{platform.machine()} CPU"


def triton_version() -> str:
    try:
        import triton
    except ImportError:
        return "none"
    return triton.__version__


if __name__ == "__main__":
    main()
