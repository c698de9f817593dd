"""Kills training at enumerated operations on the disk, resumes it, and compares with a run that was left alone.

A program of its own: it imports everything and builds the kernels in C once, and forks a child for every life of a run,
so that fifty deaths take seconds. `python killer.py FOLDER POINTS` prints one JSON object.
"""

import gc
import hashlib
import json
import os
import signal
import sys
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import numpy.ctypeslib
import numpy.ma
import safetensors.torch
import torch
import torch._dynamo

from regard import storage
from regard.kernels.cpu import native
from regard.tasks import TASKS
from regard.tasks.lm import sample
from regard.training.report import SampleLog
from regard.training.run import TrainRequest, run_training

assert numpy.ctypeslib and numpy.ma and safetensors.torch          # every child would import them anew
torch.set_num_threads(1)
os.fsync = os.fstat                                    # what a killed process wrote is there without the disk's help
sample.NEW = 3                                         # tokens
SampleLog.due = lambda self, seconds: True             # not by the clock, which differs from life to life

VARIANTS = {
    "transformer": dict(
        family="transformer",
        settings={"model": dict(layers=1, width=16, heads=2, context=16, dropout=0.2),
                  "training": dict(steps=8, batch=4, valid_every=5, checkpoint_every=3, optimizer="muon", ema=0.9),
                  "tokenizer": dict(kind="char")}),
    "rnn": dict(
        family="rnn",
        settings={"model": dict(width=8, hidden=12, context=8),
                  "training": dict(steps=8, batch=4, valid_every=3, checkpoint_every=5, reading="streams"),
                  "tokenizer": dict(kind="char")}),
}


def life(out, text, variant, kill_at=None):
    """One life of a run in a child process; says how many operations it took, or that it was killed."""
    report = Path(f"{out}.operations")
    child = os.fork()
    if child == 0:
        done = 0
        os.environ["REGARD_CACHE"] = f"{out}.cache"            # its own, so that kills while it is written count too

        def before(operation, path):
            nonlocal done
            done += 1
            if done == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        storage.before_operation = before
        try:
            run_training(TrainRequest((str(text),), out=str(out), resume=True, quiet=True, device="cpu",
                                      **VARIANTS[variant]))
            report.write_text(str(done))
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return None
    assert os.WEXITSTATUS(status) == 0, f"the run at {out} failed"
    return int(report.read_text())


def outcome(out):
    """Everything that must be equal: kept weights, the last checkpoint, metrics and samples but for the seconds."""
    last = sorted((out / "checkpoints").iterdir())[-1]
    files = [out / "run.toml", out / "tokenizer.json", out / "model.safetensors",
             last / "model.safetensors", last / "training.safetensors"]
    hashes = {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    samples = [json.loads(line) for line in (out / "samples.jsonl").read_text().splitlines()]
    for row in [*rows, *samples]:
        del row["seconds"]
        row.pop("took", None)
    return {"files": hashes, "step": last.name, "metrics": rows, "samples": samples}


def main(folder, points):
    text = folder / "text.txt"
    text.write_text("".join(f"the cat number {i * 7 % 13} sat on mat {i * 5 % 11}\n" for i in range(80)))
    native.why_not()                                         # asked once: built, and known to every child
    assert TASKS["lm"].name == "lm"                          # imported
    gc.freeze()                                              # collecting would copy the pages that a child shares
    result = {"killed": 0, "survived": 0, "different": []}
    for variant in VARIANTS:
        undisturbed = folder / f"{variant}-undisturbed"
        operations = life(undisturbed, text, variant)
        expected = outcome(undisturbed)
        each = points // len(VARIANTS)
        for number in range(each):
            kill_at = 1 + number * operations // each
            out = folder / f"{variant}-{kill_at}-{number}"
            if life(out, text, variant, kill_at) is not None:
                result["survived"] += 1
                continue
            result["killed"] += 1
            # The second life is killed too, every other time: recovery must survive as well.
            if number % 2:
                life(out, text, variant, 1 + kill_at // 3)
            life(out, text, variant)
            if outcome(out) != expected:
                result["different"].append([variant, kill_at])
    print(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
