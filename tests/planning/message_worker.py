"""Trains on all ranks that were started, and counts the bytes of every message that torch is given inside its steps.

`python -m tests.planning.message_worker FOLDER`: each case of FOLDER/cases.json is trained into FOLDER/NAME, and
FOLDER/counted.json has the bytes of each kind of message, of all steps together. A case `sharded` is no run: its model
goes forward and backward under FSDP, with weights in bfloat16 on their way. A case may plant a message too many.
"""

import json
import os
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import torch
import torch.distributed as dist

from regard.families import FAMILIES
from regard.training import parallel, sharded_step, sharding, step
from regard.training.joining import join_ranks
from regard.training.request import TrainRequest
from regard.training.sharding import Shards
from regard.training.together import run_as_rank

KINDS = {"all_reduce": "all-reduce", "broadcast": "broadcast", "all_gather_into_tensor": "all-gather",
         "all_gather_single": "all-gather", "reduce_scatter_tensor": "reduce-scatter",
         "reduce_scatter_single": "reduce-scatter", "all_to_all_single": "all-to-all"}


@contextmanager
def counting(counted, inside):
    """Count the whole of each message, as often as `inside` is true; one torch function may call another."""
    depth = []

    def count(kind, send):
        def sent(*given, **options):
            sizes = [each.numel() * each.element_size() for each in (*given, *options.values())
                     if isinstance(each, torch.Tensor)]
            if inside and not depth:                 # of an all-to-all what this rank gives; else the whole
                counted[kind] = counted.get(kind, 0) + (sizes[1] if kind == "all-to-all" else max(sizes))
            depth.append(kind)
            try:
                return send(*given, **options)
            finally:
                depth.pop()
        return sent

    with ExitStack() as stack:
        for name, kind in KINDS.items():
            if hasattr(dist, name):
                stack.enter_context(patch.object(dist, name, count(kind, getattr(dist, name))))
        yield


def within(inside, work):
    def marked(*given, **options):
        inside.append(1)
        try:
            return work(*given, **options)
        finally:
            inside.pop()
    return marked


def send_twice(total):
    def sent(self, tensor, quick=False):
        if quick:
            total(self, tensor.clone(), quick)
        total(self, tensor, quick)
    return sent


def run_case(case, folder, ranks):
    counted, inside = {}, []
    with ExitStack() as stack:
        stack.enter_context(counting(counted, inside))
        for owner, name in ((step.TrainingStep, "backward"), (sharded_step.ShardedStep, "backward"),
                            (sharded_step.ShardedStep, "clip"), (step, "update_weights")):
            stack.enter_context(patch.object(owner, name, within(inside, getattr(owner, name))))
        if case.get("plant"):
            stack.enter_context(patch.object(parallel.RankGroup, "sum", send_twice(parallel.RankGroup.sum)))
        run_as_rank(TrainRequest((str(folder / "lines.txt"),), family=case["family"], settings=case["settings"],
                                 out=str(folder / case["name"]), device="cpu", quiet=True,
                                 parallel=case.get("parallel", "data")), None, ranks)
    if "all-to-all" in counted:
        counted["all-to-all"] = sum(ranks.everyone(counted["all-to-all"]))
    return counted


def run_sharded(case, ranks):
    """Go forward and backward, with weights in bfloat16 and gradients in float32 on their way."""
    kind = FAMILIES[case["family"]]
    with (patch.object(sharding, "UNIT_BYTES", case.get("unit", sharding.UNIT_BYTES)),
          patch.object(sharding, "KEPT_BYTES", case.get("kept", sharding.KEPT_BYTES))):
        shards = Shards(kind.build(kind.settings(**case["model"]), case["vocab"]), ranks, torch.device("cpu"),
                        bfloat16=True, carries=False)
    tokens = torch.randint(case["vocab"], (2, 8))
    counted = {}
    with counting(counted, [1]):
        for _ in range(case["passes"]):
            with torch.autocast("cpu", torch.bfloat16):
                loss = shards.sharded.loss(tokens, tokens, torch.ones(2, 8))[0]
            loss.backward()
    return counted


def main(folder):
    os.environ["REGARD_CACHE"] = str(folder / "cache")
    os.fsync = os.fstat
    torch.set_num_threads(1)
    cases = json.loads((folder / "cases.json").read_text())
    with join_ranks("cpu") as ranks:
        counted = {case["name"]: run_sharded(case, ranks) if case.get("sharded") else run_case(case, folder, ranks)
                   for case in cases}
    if ranks.first:
        (folder / "counted.json").write_text(json.dumps(counted))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
