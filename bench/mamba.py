"""Mamba and Mamba-2 on a GPU: their scans by themselves, and training a 24-layer language model of width 768.

    python bench/mamba.py --json bench/results/mamba.json
    python bench/mamba.py --device cuda --compile-only --blocks channel mamba2 --json bench/results/mamba2.json
    python bench/mamba.py --small                                  a smoke test, on any machine

Mamba's scan is timed at (8, T, 1536) with 16 states, Mamba-2's at 24 heads of 64 with 128 states, through Triton and
through torch, and held against the loops. Training is AdamW in bfloat16 at 32 x 1024 tokens a step over a vocabulary
of 50,280, forward, backward, clipping and update by our own loop, as written and compiled. The blocks: `channel` and
`head`, the decays of `mamba`; `mamba2`; and `mamba2-torch`, the same by torch's products. For comparison: transformers
4.x without its optional kernels trains Mamba at the same sizes at 188 tokens/s on an H200.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from steps import calibration, timed
from torch import Tensor

from regard.families.mamba import MambaSettings, build_mamba
from regard.families.mamba2 import Mamba2Settings, build_mamba2
from regard.kernels import grouped_dual as dual
from regard.kernels.selective_scan import choose_backend, selective_scan, selective_scan_loop
from regard.layers import state_space_heads

PEER = 188                                  # tokens a second: transformers without its optional kernels
BLOCKS = ("channel", "head", "mamba2", "mamba2-torch")
FULL: dict[str, Any] = dict(
    rows=32, batch=8, times=(1024, 2048), width=1536, loop_time=256, heads=24, states=128, layers=24, model=768,
    context=1024, vocab=50_280)
SMALL: dict[str, Any] = dict(
    rows=2, batch=2, times=(64,), width=32, loop_time=64, heads=2, states=8, layers=2, model=32, context=64,
    vocab=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="Tiny sizes, for a smoke test.")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="A GPU if there is one; on a CPU, a smoke test.")
    parser.add_argument("--only", choices=("scan", "train"))
    parser.add_argument("--blocks", nargs="*", choices=BLOCKS, default=BLOCKS)
    parser.add_argument("--rows", type=int, help="Rows of a training step.")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--no-compile", action="store_true", help="Compiling takes a minute or more for each block.")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = torch.device(arguments.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    sizes = SMALL if arguments.small or device.type == "cpu" else FULL
    sizes = sizes | {"rows": arguments.rows} if arguments.rows else sizes
    kinds = (False,) if arguments.no_compile else (True,) if arguments.compile_only else (False, True)
    torch.set_float32_matmul_precision("high")
    result: dict[str, Any] = {
        "machine": machine(device), "torch": torch.__version__, "triton": triton_version(), "sizes": sizes,
        "calibration": calibration(device, 256 if sizes is SMALL else 8192)}
    if arguments.only != "train":
        result["scan"] = [attempt(measure, device, sizes, time_, path) for measure in (scan_figures, dual_figures)
                          for time_ in sizes["times"]
                          for path in (("triton", "torch") if device.type == "cuda" else ("torch",))]
    if arguments.only != "scan":
        result["train"] = [attempt(train_figures, device, sizes, block, compiled) for block in arguments.blocks
                           for compiled in kinds]
        result["times mamba"] = times_mamba(result["train"])
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
    figures = {"scan": path, "shape": [sizes["batch"], time_, sizes["width"], inputs[2].shape[1]]}
    return figures | times(partial(selective_scan, path=path), inputs, device) | error_against_loop(device, sizes, path)


def dual_figures(device: torch.device, sizes: dict[str, Any], time_: int, path: str) -> dict[str, Any]:
    """The same of Mamba-2's: in bfloat16, which its kernels are for, beside the loop in float64."""
    inputs = dual_inputs(device, sizes["batch"], time_, sizes)
    short = dual_inputs(device, 2, sizes["loop_time"], sizes)
    scan = partial(dual.grouped_dual, path=path)
    exact = [each.detach().double().requires_grad_() for each in short]
    ours, theirs = scan(*short)[0], dual.grouped_dual_loop(*exact)[0]
    pull = torch.randn_like(ours)
    right = torch.autograd.grad(theirs, exact, pull.double())
    gradients = zip(torch.autograd.grad(ours, short, pull), right, strict=True)
    return {"dual": path, "shape": [*inputs[0].shape, inputs[2].shape[3]]} | times(scan, inputs, device) | {
        "error": apart(ours, theirs), "gradient_error": max(apart(*pair) for pair in gradients)}


def dual_inputs(device: torch.device, batch: int, time_: int, sizes: dict[str, Any]) -> list[Tensor]:
    torch.manual_seed(0)
    heads, options = sizes["heads"], dict(device=device, dtype=torch.bfloat16)
    x = torch.randn(batch, time_, heads, sizes["width"] // heads, **options)
    b, c = (torch.randn(batch, time_, 1, sizes["states"], **options) for _ in "bc")
    fades = -torch.rand(batch, time_, heads, device=device)
    return [each.requires_grad_() for each in (x, fades, b, c)]


def times(scan: Callable[..., tuple[Tensor, Tensor]], inputs: list[Tensor], device: torch.device) -> dict[str, float]:
    """Milliseconds of a scan, and of it with its gradients."""
    pull = torch.randn_like(scan(*inputs)[0])

    def forward() -> None:
        with torch.no_grad():
            scan(*inputs)

    def both() -> None:
        torch.autograd.grad(scan(*inputs)[0], inputs, pull)

    return {"forward_ms": milliseconds(forward, device), "forward_backward_ms": milliseconds(both, device)}


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


def train_figures(device: torch.device, sizes: dict[str, Any], block: str, compiled: bool) -> dict[str, Any]:
    """Tokens a second of our own training loop, once it is warm."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    same: dict[str, Any] = dict(layers=sizes["layers"], width=sizes["model"], context=sizes["context"], norm="rms",
                                tied=True)
    if block.startswith("mamba2"):
        model: Any = build_mamba2(Mamba2Settings(state=sizes["states"], **same), sizes["vocab"])
        path = "torch" if block == "mamba2-torch" else str(model.to(device).stack.layers[0].mixer.backend)
    else:
        model = build_mamba(MambaSettings(decay=block, **same), sizes["vocab"])
        path = choose_backend(device, torch.float32).name if block == "channel" else "torch (products of matrices)"
    state_space_heads.grouped_dual = partial(dual.grouped_dual, path="torch") if path == "torch" else dual.grouped_dual
    figures = timed(model.to(device), sizes["rows"], sizes["context"], sizes["vocab"],
                    compiled="yes" if compiled else "no", steps=8)
    figures |= {"train": block, "path": path}
    against = sizes is not SMALL and not block.startswith("mamba2")
    return figures | ({"times transformers": round(figures["tokens_a_second"] / PEER)} if against else {})


def times_mamba(runs: list[dict[str, Any]]) -> float | None:
    """How many times as fast as `mamba` at its fastest `mamba2` trains."""
    fastest: dict[bool, int] = {}
    for run in runs:
        of_mamba2 = run.get("train") == "mamba2"
        if "tokens_a_second" in run and run["train"] != "mamba2-torch":
            fastest[of_mamba2] = max(fastest.get(of_mamba2, 0), run["tokens_a_second"])
    return round(fastest[True] / fastest[False], 3) if len(fastest) == 2 else None


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
