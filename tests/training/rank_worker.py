"""Runs cases of training on all ranks that were started, one after another, and then each in one process.

`python -m tests.training.rank_worker FOLDER`: FOLDER/cases.json lists the cases. Runs of the ranks are kept under
FOLDER/together, those of one process under FOLDER/alone. rows-RANK.json has the rows that a rank read at each step,
errors.json what a case was stopped by, and bytes.json how many bytes of large tensors all messages of a case carried,
beside those that were foretold for a step. A case may plant a bug, be stopped by a signal to one rank at a step, or be
taken up by one process.
"""

import hashlib
import json
import os
import signal
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import torch
import torch.distributed as dist

from regard.contract import Role
from regard.errors import Interrupted, TrainingStopped
from regard.ranks import ALONE
from regard.tasks.classify import task as classify
from regard.training import buckets, optim, parallel, sharded_step, sharding, step, traffic
from regard.training.joining import join_ranks
from regard.training.request import TrainRequest
from regard.training.together import run_as_rank

NAMES = {"float32": torch.float32, "float64": torch.float64}
ROWS = {}                                                    # case -> step -> the rows that were read
BYTES = {}                                                   # case -> kind of message -> bytes
MANY = 1000                                                  # numbers


def plants(rank):
    """Bugs that must be seen: each replaces one function by a wrong one."""
    total, own, roles, norm = parallel.RankGroup.sum, parallel.RankShare.own_rows, optim.find_roles, step.gradient_norm
    update = step.update_weights

    def mean(self, tensor, quick=False):
        total(self, tensor, quick)
        if quick:
            tensor /= self.count

    def first_rows(self, tensor):
        return own(parallel.RankShare(0, self.count), tensor)

    def lose_parts(model):
        return {name: Role(role.kind) for name, role in roles(model).items()}

    def drift(optimizers, average):
        update(optimizers, average)
        if rank == 1:
            with torch.no_grad():
                next(each for each in optimizers.names if each.ndim == 1).mul_(1 + 1e-6)

    arrive = buckets.BucketedExchange.arrive

    def too_soon(self, number, weight):
        if self.left[number]:
            self.left[number] = 1
            arrive(self, number, weight)

    scatter, halved = sharding.ReduceScatter.__call__, sharded_step.ShardedStep.norm

    def scatter_mean(self, output_tensor, *given, **options):
        scatter(self, output_tensor, *given, **options)
        output_tensor /= self.group.count

    def own_norm(self):
        with patch.object(parallel.RankGroup, "sum", lambda self, tensor, quick=False: None):
            return halved(self)

    return {"sharded mean": (sharding.ReduceScatter, "__call__", scatter_mean),
            "sharded parts": (sharding, "find_roles", lose_parts),
            "sharded norm": (sharded_step.ShardedStep, "norm", own_norm),
            "mean": (parallel.RankGroup, "sum", mean), "rows of another": (parallel.RankShare, "own_rows", first_rows),
            "lost parts": (optim, "find_roles", lose_parts),
            "partial norm": (step, "gradient_norm", lambda gradients: norm(gradients[::2])),
            "buckets too soon": (buckets.BucketedExchange, "arrive", too_soon),
            "drift": (step, "update_weights", drift)}


@contextmanager
def recorded_rows(case):
    """Note every row that goes forward and backward, by the tokens in it."""
    backward, forward = step.TrainingStep.backward, step.ForwardBackward.__call__
    seen = ROWS.setdefault(case, {})
    now = []

    def at_step(self, number, micro_batch):
        now[:] = [str(number)]
        return backward(self, number, micro_batch)

    def noted(self, batch, state, share):
        if share:
            lengths = [batch.tokens.shape[1]] * len(batch.tokens) if batch.lengths is None else batch.lengths.tolist()
            rows = [hashlib.sha256(row[:length].contiguous().numpy().tobytes()).hexdigest()[:16]
                    for row, length in zip(batch.tokens, lengths, strict=True)]
            seen.setdefault(now[0], []).extend(rows)
        return forward(self, batch, state, share)

    with patch.object(step.TrainingStep, "backward", at_step), patch.object(step.ForwardBackward, "__call__", noted):
        yield


@contextmanager
def counted_bytes(case):
    """Count the bytes of every message that torch is given, where they are many."""
    counted = BYTES.setdefault(case, {"all-reduce": 0, "all-gather": 0})
    gather = "all_gather_single" if hasattr(dist, "all_gather_single") else "all_gather_into_tensor"
    describe = parallel.RankGroup.describe

    def count(kind, send):
        def sent(tensor, *given, **options):
            if tensor.numel() > MANY:
                counted[kind] += tensor.numel() * tensor.element_size()
            return send(tensor, *given, **options)
        return sent

    def foretell(self, say, model, settings):
        counted["foretold"] = [traffic.gradient_bytes(model, self.count), traffic.update_bytes(model, self.count)]
        describe(self, say, model, settings)

    with (patch.object(dist, "all_reduce", count("all-reduce", dist.all_reduce)),
          patch.object(dist, gather, count("all-gather", getattr(dist, gather))),
          patch.object(parallel.RankGroup, "describe", foretell)):
        yield


@contextmanager
def stopped_at(stop, rank):
    """Send this process the signal to end in the middle of a step, if the stop is meant for this rank."""
    forward, begin, now = step.ForwardBackward.__call__, step.TrainingStep.backward, []

    def at_step(self, number, micro_batch):
        now[:] = [number]
        return begin(self, number, micro_batch)

    def asked(self, *given):
        if now == [stop[1]] and rank == stop[0]:
            os.kill(os.getpid(), signal.SIGTERM)
        return forward(self, *given)

    with patch.object(step.TrainingStep, "backward", at_step), patch.object(step.ForwardBackward, "__call__", asked):
        yield


def in_float32(work):
    """The baseline of labels knows no other numbers."""
    def run(*given, **options):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        try:
            return work(*given, **options)
        finally:
            torch.set_default_dtype(before)
    return run


def run_case(case, out, ranks=ALONE):
    """Train one case; return what stopped it, or nothing."""
    torch.set_default_dtype(NAMES[case.get("dtype", "float64")])
    with ExitStack() as stack:
        stack.enter_context(patch.object(sharding, "UNIT_BYTES", case.get("unit", 1)))
        stack.enter_context(patch.object(sharding, "KEPT_BYTES", case.get("kept", 0)))
        stack.enter_context(patch.object(buckets, "BUCKET_BYTES", case.get("bucket", buckets.BUCKET_BYTES)))
        stack.enter_context(recorded_rows(case["name"]))
        stack.enter_context(patch.object(classify, "fit_bag", in_float32(classify.fit_bag)))
        if ranks is not ALONE:
            stack.enter_context(counted_bytes(case["name"]))
        if "stop" in case and out.name == "together":
            stack.enter_context(stopped_at(case["stop"], ranks.number))
        if case.get("plant") and ranks is not ALONE:
            stack.enter_context(patch.object(*plants(ranks.number)[case["plant"]]))
        try:
            run_as_rank(TrainRequest(
                tuple(case["files"]), task=case.get("task", "lm"), family=case["family"], settings=case["settings"],
                out=str(out / case.get("run", case["name"])), device="cpu", quiet=True,
                resume=case.get("resume", False), parallel=case.get("parallel", "auto")), None, ranks)
        except (TrainingStopped, Interrupted) as error:      # on all ranks alike
            return str(error)
    return ""


def main(folder):
    os.environ["REGARD_CACHE"] = str(folder / "cache")
    os.fsync = os.fstat
    torch.set_num_threads(1)
    cases = json.loads((folder / "cases.json").read_text())
    with join_ranks("cpu") as ranks:
        errors = {case["name"]: run_case(case, folder / "together", ALONE if "taken up" in case else ranks)
                  for case in cases if ranks.first or "taken up" not in case}
    (folder / f"rows-{ranks.number}.json").write_text(json.dumps(ROWS))
    if ranks.first:
        (folder / "errors.json").write_text(json.dumps(errors))
        (folder / "bytes.json").write_text(json.dumps(BYTES))
        ROWS.clear()
        done = {path.name for path in (folder / "alone").glob("*")}
        for case in cases:
            if case.get("alone", True) and case["name"] not in done:
                assert not run_case(case, folder / "alone")
        (folder / "rows-alone.json").write_text(json.dumps(ROWS))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
