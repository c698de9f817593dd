"""What it costs to train as a rank: a plain training step beside the same step of a rank that torchrun started.

    python bench/ranks.py --json bench/results/ranks.json         on one GPU, some 3 minutes
    python bench/ranks.py                                          a smoke test, on a machine without a GPU

One process, started by `torchrun --nproc-per-node=1`, trains a model of GPT-2's size on random tokens, as bench/gpt2.py
does (12 layers of 768, 1,024 tokens, bfloat16, AdamW, compiled), in turns: some steps by itself, as `regard train`
takes them, some as the only rank of a group, with all messages of data parallel training (by NCCL, or gloo on a CPU),
and some with its weights dealt out by FSDP (`--parallel fsdp`), as if there were others. Ratios are those of neighbours
in a round, so that a clock that slows down slows both. What is done is written after each round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from gpt2 import FULL, SMALL
from steps import RandomTokens, calibration, machine, quiet, wait

from regard.families.transformer import TransformerSettings, build_transformer
from regard.ranks import ALONE, Ranks
from regard.training.joining import check_members, leave
from regard.training.meeting import meet
from regard.training.report import Figures
from regard.training.settings import TrainingSettings
from regard.training.sharded_step import ShardedStep, make_sharded_passes
from regard.training.sharding import Shards
from regard.training.step import TrainingStep, make_forward_backward, to_bfloat16

PLAIN, DATA, SHARDED = "plain", "data parallel", "fsdp"
WARM = 5                       # steps of each, before any is timed: code is compiled, and graphs are recorded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--steps", type=int, default=15, help="In a turn.")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)         # torchrun gave it
    arguments = parser.parse_args()
    if arguments.rank:
        measure(arguments)
    else:
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1"]
        raise SystemExit(subprocess.run([*launch, __file__, *sys.argv[1:], "--rank"], check=False).returncode)


def measure(arguments: argparse.Namespace) -> None:
    """Time all in turns, as the rank that torchrun started."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    small = arguments.small or device.type == "cpu"
    group = meet(device.type, lambda: None)
    check_members(group, device.type)
    result: dict[str, Any] = machine(device) | {"calibration": calibration(device, 256 if small else 8192)}
    rows, steps = (2, 3) if small else (arguments.rows, arguments.steps)
    began = time.perf_counter()
    turns = make_turns(group, device, rows, small)
    result |= {"rows": rows, "steps": steps, "parameters": count_weights(turns[PLAIN].model), "losses": {}}
    for name in list(turns):
        try:
            result["losses"][name] = take(turns[name], WARM)
        except Exception as error:                             # one that fails says why and costs the others nothing
            if name == PLAIN:
                raise
            del turns[name]
            result |= {f"{name} failed": " ".join(f"{type(error).__name__}: {error}".split())[:500]}
            print(result[f"{name} failed"], flush=True)
        result["seconds_before"] = round(time.perf_counter() - began, 1)
        print(f"{name}: warm after {result['seconds_before']} s", flush=True)
    rounds: list[dict[str, float]] = []
    for number in range(arguments.rounds):
        order = list(turns) if number % 2 == 0 else list(reversed(turns))
        rounds.append({name: speed(turns[name], steps, rows * turns[name].batches.context) for name in order})
        result |= {"rounds": rounds, "runs": summarise(turns, rounds)}
        if arguments.json:
            arguments.json.parent.mkdir(parents=True, exist_ok=True)
            arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    for figures in result["runs"]:
        print(json.dumps(figures), flush=True)
    leave(group)


def make_turns(group: Any, device: torch.device, rows: int, small: bool) -> dict[str, TrainingStep]:
    """Return the steps to compare; plain and data parallel ones share the model, and all that is compiled for it."""
    sizes, vocab = (SMALL, 100) if small else (FULL, 50_304)
    torch.manual_seed(0)
    model = build_transformer(TransformerSettings(**sizes), vocab).to(device)
    settings = TrainingSettings(steps=1000, batch=rows, learning_rate=6e-4, reading="windows",
                                compile="auto" if device.type == "cuda" else "no")
    passes, batches = make_forward_backward(model, settings, quiet), RandomTokens(rows, sizes["context"], vocab)

    def step_of(ranks: Ranks) -> TrainingStep:
        return TrainingStep(model, batches, settings, passes, quiet, ranks=ranks)

    def sharded() -> TrainingStep:
        torch.manual_seed(0)
        shards = Shards(build_transformer(TransformerSettings(**sizes), vocab), group, device,
                        bfloat16=to_bfloat16(device, settings), carries=False)
        shards.initial = {}
        return ShardedStep(shards.whole, batches, settings, make_sharded_passes(shards, settings), quiet, ranks=group,
                           shards=shards)

    group.agree_to_stop(lambda: False)                         # as training does
    return {PLAIN: step_of(ALONE), DATA: step_of(group), SHARDED: sharded()}


def take(step: TrainingStep, steps: int) -> float:
    """Take so many steps as `training.loop.fit` does, each read one step later; return the last loss."""
    step.ranks.expect(step.forward_backward.compiled)          # another step had the message to itself before
    before: Figures | None = None
    for number in range(steps):
        step.set_rate(1.0)
        loss, _, _ = step.backward(number, 0)
        figures = Figures(number, loss, step.clip_gradients(), step.ranks)
        step.update_weights()
        if before is not None:
            before.read()
        before = figures
    assert before is not None
    return before.read()[0]


def speed(step: TrainingStep, steps: int, tokens: int) -> float:
    """Return the tokens a second of so many steps."""
    wait(step.model.device)
    began = time.perf_counter()
    take(step, steps)
    wait(step.model.device)
    return round(steps * tokens / (time.perf_counter() - began), 1)


def summarise(turns: dict[str, TrainingStep], rounds: list[dict[str, float]]) -> list[dict[str, Any]]:
    """Return the median speed of each, and the median and extremes of its ratio to the plain step in the same round."""
    found = []
    for name in turns:
        ratios = [each[name] / each[PLAIN] for each in rounds]
        found.append({"step": name, "tokens_a_second": round(statistics.median(each[name] for each in rounds)),
                      "ratio": round(statistics.median(ratios), 4),
                      "ratios": [round(min(ratios), 4), round(max(ratios), 4)]})
    return found


def count_weights(model: Any) -> int:
    return sum(weight.numel() for weight in model.parameters())


if __name__ == "__main__":
    main()
