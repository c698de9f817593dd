"""An LSTM language model of ours beside one written directly on torch.nn.LSTM: tokens a second, trained in turns.

    python bench/lstm.py --json bench/results/lstm.json          two layers of 1,024, 64 x 256 tokens, 10,000 words
    python bench/lstm.py --small                                 a smoke test for any machine

Both train on the same random tokens with AdamW, as our loop trains: clipped gradients, and autocast where it is
bfloat16. `eager` runs them as they are written, `compiled` through torch.compile; float32 uses TF32 for both. Rounds
of ours and of theirs alternate, and the median of each counts. Ours must not be slower.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.families import FAMILIES

SIZES = dict(layers=2, width=1024, hidden=1024, vocab=10_000, rows=64, time=256)
SMALL = dict(layers=2, width=32, hidden=32, vocab=100, rows=4, time=16)
Step = Callable[[], Tensor]


class Direct(nn.Module):
    """What one writes without us."""

    def __init__(self, vocab: int, width: int, hidden: int, layers: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.lstm = nn.LSTM(width, hidden, layers, batch_first=True)
        self.out = nn.Linear(hidden, vocab, bias=False)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        logits = self.out(self.lstm(self.embedding(tokens))[0])
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class Ours(nn.Module):
    """The family's model, as our loop asks it."""

    def __init__(self, vocab: int, width: int, hidden: int, layers: int):
        super().__init__()
        family = FAMILIES["lstm"]
        assert family.build is not None
        self.model = family.build(family.settings(layers=layers, width=width, hidden=hidden, tied=False), vocab)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        return -self.model.score(tokens, targets)[0].mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="tiny sizes, for a machine without a GPU")
    parser.add_argument("--seconds", type=float, default=15.0, help="of measuring for each configuration")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if not (arguments.small or torch.cuda.is_available()):
        parser.error("there is no GPU here: --small runs anywhere")
    result = machine() | {"sizes": SMALL if arguments.small else SIZES, "configurations": []}
    for precision in ("float32",) if arguments.small else ("bfloat16", "float32"):
        for compiled in (False,) if arguments.small else (False, True):
            figures = guarded(result["sizes"], precision, compiled, 0.5 if arguments.small else arguments.seconds)
            result["configurations"].append(figures)
            print(line(figures), flush=True)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


def guarded(sizes: dict[str, int], precision: str, compiled: bool, seconds: float) -> dict[str, Any]:
    """The figures of one configuration, or what went wrong: one that fails does not cost us the others."""
    about = {"precision": precision, "how": "compiled" if compiled else "eager"}
    try:
        return about | measure(sizes, precision, compiled, seconds)
    except (RuntimeError, torch.OutOfMemoryError) as error:
        return about | {"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}


def measure(sizes: dict[str, int], precision: str, compiled: bool, seconds: float) -> dict[str, Any]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = True
    tokens = sizes["rows"] * sizes["time"]
    steps = {name: trainer(kind, sizes, precision, compiled, device) for name, kind in (("ours", Ours),
                                                                                      ("direct", Direct))}
    for step in steps.values():
        for _ in range(3):                                            # compiling, choosing kernels, allocating
            step()
    speeds: dict[str, list[float]] = {name: [] for name in steps}
    began = time.monotonic()
    while time.monotonic() - began < seconds or len(speeds["ours"]) < 3:
        turn = list(steps) if len(speeds["ours"]) % 2 else list(steps)[::-1]      # who goes first is a little slower
        for name in turn:
            speeds[name].append(tokens / timed(steps[name]))
    ours, direct = (statistics.median(speeds[name]) for name in ("ours", "direct"))
    ratios = [a / b for a, b in zip(speeds["ours"], speeds["direct"], strict=True)]
    return {"ours": round(ours), "direct": round(direct), "ratio": round(ours / direct, 4),
            "ratio_of_rounds": [round(statistics.quantiles(ratios, n=10)[which], 4) for which in (0, -1)],
            "rounds": len(ratios)}


def trainer(
    kind: type[Ours] | type[Direct], sizes: dict[str, int], precision: str, compiled: bool, device: torch.device
) -> Step:
    """A training step of a fresh model on fixed random tokens."""
    torch.manual_seed(0)
    torch.compiler.reset()
    model = kind(sizes["vocab"], sizes["width"], sizes["hidden"], sizes["layers"]).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    tokens, targets = torch.randint(sizes["vocab"], (2, sizes["rows"], sizes["time"]), device=device)
    loss_of = torch.compile(model, dynamic=False) if compiled else model

    def step() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
            loss = loss_of(tokens, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return step


def timed(step: Step, times: int = 4) -> float:
    """Seconds a step; the loss is looked at once, at the end, so that the machine need not wait between steps."""
    began = time.perf_counter()
    for _ in range(times):
        loss = step()
    if not torch.isfinite(loss):
        raise RuntimeError(f"the loss became {loss.item()}")
    return (time.perf_counter() - began) / times


def machine() -> dict[str, Any]:
    gpu = torch.cuda.is_available()
    return {"device": torch.cuda.get_device_name() if gpu else platform.processor() or platform.machine(),
            "torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
            "python": platform.python_version()}


def line(figures: dict[str, Any]) -> str:
    name = f"{figures['precision']:8s} {figures['how']:8s}"
    if "error" in figures:
        return f"{name} {figures['error']}"
    return (f"{name} ours {figures['ours']:>9,} tokens/s   torch.nn.LSTM {figures['direct']:>9,}   "
            f"ratio {figures['ratio']:.3f} ({figures['rounds']} rounds)")


if __name__ == "__main__":
    main()
