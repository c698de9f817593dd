"""The scan h[t] = a[t] * h[t-1] + b[t]: how fast is each path, and is it right?

    python bench/scan.py --json bench/results/scan.json         # on a GPU: every path, and a sweep of the knobs

Times are in float32, and medians: `forward_ms` and `both_ms` of one call that finds an idle GPU, and so waits for the
host and for the thread in which torch goes backward; `in_a_row_ms` of one among many, asked for one after another;
`recorded_ms` of both as a CUDA graph, which is how a small model is trained: the GPU's own time. `floor` is what the
bytes alone would take at the speed of a large copy in the same run: three tensors forward, five more backward. The peer
is flash-linear-attention's chunk_hgrn, forward and backward, on an H200: 2.80 ms at 8 x 16384 x 1024, 0.95 ms at
8 x 2048 x 1024. `off` is the largest difference from the loop in float64, of h and of the gradients, relative to the
largest number.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import kernels
from regard.kernels.scan import scan, scan_loop

PEER_MS = {(8, 16384, 1024): 2.80, (8, 2048, 1024): 0.95}            # forward and backward
ON_GPU = "8x2048x1024,8x16384x1024,1x16384x256"                      # the last: few channels, a long text
ON_CPU = "16x128x96,16x128x384,1x1024x128"
PATHS: dict[str, Callable[..., Tensor]] = {
    "loop": scan_loop, "torch": partial(scan, path="torch"), "triton": partial(scan, path="triton"), "scan": scan}
LONGEST_LOOP = 4096           # steps that are worth timing one by one
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default=ON_GPU if DEVICE.type == "cuda" else ON_CPU, help="BxTxD,BxTxD,...")
    parser.add_argument("--sweep", choices=("no", "short", "full"), default="full", help="of the knobs")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    shapes = [tuple(int(size) for size in each.split("x")) for each in arguments.shapes.split(",")]
    result: dict[str, Any] = {"device": device_name(), "torch": torch.__version__, "copy_gb_s": round(copy_speed(), 1)}
    print(result, flush=True)
    x = torch.zeros(1, device=DEVICE)
    result["path"], result["reason"] = kernels.path(x), kernels.reason(x)
    print(f"scan takes the path {result['path']} {result['reason']}", flush=True)
    result["paths"] = [row for shape in shapes for row in measure_paths(shape, result["copy_gb_s"])]
    if DEVICE.type == "cuda" and arguments.sweep != "no":
        result["sweep"] = {"x".join(map(str, shape)): sweep(shape, arguments.sweep == "short") for shape in shapes}
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


def device_name() -> str:
    return torch.cuda.get_device_name() if DEVICE.type == "cuda" else "cpu"


def copy_speed() -> float:
    """GB/s read and written by a large copy: what this machine can do at all."""
    x = torch.empty(2**28 if DEVICE.type == "cuda" else 2**24, device=DEVICE)
    y = torch.empty_like(x)
    return 2 * x.nbytes / ms(lambda: y.copy_(x)) / 1e6


def ms(work: Callable[[], Any], most: float = 2.0) -> float:
    """The median of up to 20 calls, in milliseconds, or of as many as fit into `most` seconds."""
    for _ in range(2):
        began = time.perf_counter()
        work()
        wait()
        once = time.perf_counter() - began
    calls = max(1, min(20, int(most / max(once, 1e-9))))
    return statistics.median(timed(work) for _ in range(calls))


def timed(work: Callable[[], Any]) -> float:
    if DEVICE.type != "cuda":
        began = time.perf_counter()
        work()
        return (time.perf_counter() - began) * 1e3
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def wait() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def inputs_of(shape: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    a = torch.rand(shape, device=DEVICE).requires_grad_()
    b = torch.randn(shape, device=DEVICE).requires_grad_()
    return a, b, torch.randn(shape, device=DEVICE)


# --------------------------------------------------------------------------------------------- the paths


def measure_paths(shape: tuple[int, ...], copy_gb_s: float) -> list[dict[str, Any]]:
    a, b, pull = inputs_of(shape)
    exact = outcome(scan_loop, *(x.detach().double() for x in (a, b, pull)))
    floor = 8 * a.nbytes / copy_gb_s / 1e6
    rows = []
    for name, way in PATHS.items():
        if name == "loop" and shape[1] > LONGEST_LOOP:
            continue
        row: dict[str, Any] = {"shape": shape, "path": name}
        try:
            row |= measure_path(way, a, b, pull, exact)
            row |= {"floor_ms": round(floor, 3), "of_floor": round(row["both_ms"] / floor, 2)}
            if shape in PEER_MS:
                row |= {"peer_ms": PEER_MS[shape], "of_peer": round(row["both_ms"] / PEER_MS[shape], 3)}
        except Exception as error:               # one path that does not run must not hide the others
            row["failed"] = f"{type(error).__name__}: {str(error)[:300]}"
        print(row, flush=True)
        rows.append(row)
    return rows


def measure_path(
    way: Callable[..., Tensor], a: Tensor, b: Tensor, pull: Tensor, exact: list[Tensor]
) -> dict[str, float]:
    off = max(
        ((ours.double() - theirs).abs().max() / theirs.abs().max()).item()
        for ours, theirs in zip(outcome(way, a, b, pull), exact, strict=True))
    with torch.no_grad():
        forward = ms(lambda: way(a, b))
    both = ms(lambda: torch.autograd.grad(way(a, b), (a, b), pull))
    row = in_a_row(lambda: torch.autograd.grad(way(a, b), (a, b), pull), calls=20 if both < 10 else 2)
    told = {"forward_ms": round(forward, 3), "both_ms": round(both, 3), "in_a_row_ms": round(row, 3), "off": off}
    return told | ({"recorded_ms": round(recorded(way, a, b, pull), 3)} if a.is_cuda and both < 10 else {})


def recorded(way: Callable[..., Tensor], a: Tensor, b: Tensor, pull: Tensor) -> float:
    graph = torch.cuda.CUDAGraph()
    a, b = a.detach().requires_grad_(), b.detach().requires_grad_()       # nothing ties them to another stream
    with torch.cuda.graph(graph):
        torch.autograd.grad(way(a, b), (a, b), pull)
    return ms(graph.replay)


def in_a_row(work: Callable[[], Any], calls: int) -> float:
    """Milliseconds of a call among so many."""
    def several() -> None:
        for _ in range(calls):
            work()

    return statistics.median(timed(several) for _ in range(7)) / calls


def outcome(way: Callable[..., Tensor], a: Tensor, b: Tensor, pull: Tensor) -> list[Tensor]:
    """h, da and db."""
    a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
    h = way(a, b)
    return [h.detach(), *torch.autograd.grad(h, (a, b), pull)]


# --------------------------------------------------------------------------------------------- the knobs


def candidates(shape: tuple[int, ...], short: bool) -> list[Any]:
    """Tiles from small to large; each thread of a warp with 16 bytes of a row, so that runs stay within threads."""
    from regard.kernels.cuda.scan import Knobs

    tiles = [  # positions, run, channels, warps
        (64, 4, 32, 4), (64, 8, 32, 2), (64, 16, 32, 1), (128, 8, 32, 4), (128, 16, 32, 2), (128, 4, 32, 8),
        (256, 16, 32, 4), (128, 16, 16, 1), (128, 8, 16, 2), (256, 16, 16, 2), (128, 16, 64, 4), (64, 8, 64, 4)]
    found = [Knobs(*tile, stages=stages) for tile, stages in itertools.product(tiles, (3,) if short else (2, 3, 4))]
    if shape[0] * shape[2] <= 2048 and not short:
        found += [Knobs(segments=segments) for segments in (1, 2, 4, 8, 16, 32, 64)]
    return found


def sweep(shape: tuple[int, ...], short: bool) -> dict[str, Any]:
    """Forward and backward apart, for each setting of the knobs; the best of each last."""
    from regard.kernels.cuda.scan import backward, forward

    a, b, pull = (x.detach() for x in inputs_of(shape))
    h = forward(a, b, None)
    tried = []
    for knobs in candidates(shape, short):
        row: dict[str, Any] = {"knobs": vars(knobs)}
        for name, work in (("forward_ms", lambda k=knobs: forward(a, b, None, k)),
                           ("backward_ms", lambda k=knobs: backward(a, h, None, pull, k))):
            try:
                row[name] = round(ms(work, most=0.2), 4)
            except Exception as error:           # a tile too large for this GPU, say
                row[name], row[f"{name}_failed"] = None, f"{type(error).__name__}: {str(error)[:200]}"
        print(shape, row, flush=True)
        tried.append(row)
    best = {}
    for name in ("forward_ms", "backward_ms"):
        ran = [row for row in tried if row[name] is not None]
        best[name] = min(ran, key=lambda row: row[name]) if ran else None
    print(f"best at {shape}: {best}", flush=True)
    return {"best": best, "tried": tried}


if __name__ == "__main__":
    main()
