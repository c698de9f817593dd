"""One rank is killed, hangs or fails: all end soon, one line says which it was, and the newest checkpoint is whole.

One death is tested at every change, all others by `make ranks`.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from regard.run_folder import RunFolder
from tests.training.ranks import ROOT, end_ranks, free_port, run_ranks, start_ranks
from tests.training.test_ranks import LINES, difference

ALL = pytest.mark.skipif("REGARD_RANKS" not in os.environ, reason="make ranks runs it")
HERE = socket.gethostname()
SOON = 60.0
SETTINGS = dict(layers=1, width=16, heads=2, context=24)


def command(folder, out="run", *more, family="transformer", steps=10, batch=6):
    (folder / "lines.txt").write_text(LINES)
    model = [f"--set=model.{name}={value}" for name, value in SETTINGS.items()] if family == "transformer" else []
    training = dict(valid_every=4, checkpoint_every=2, samples="false") if family == "transformer" else {}
    return ["train", "lm", folder / "lines.txt", "--family", family, "--tokenizer", "char", "--device", "cpu", *model,
            *(["--steps", steps, "--batch", batch] if family == "transformer" else []), "--out", folder / out,
            *(f"--set=training.{name}={value}" for name, value in training.items()), *more]


def fault(folder, name, rank, *more, count=2, **environment):
    """Train with a fault in a rank; return the exit codes, everything said on stderr by rank, and the seconds."""
    began = time.monotonic()
    ended = run_ranks(count, ["-m", "tests.training.rank_faults", name, rank, *command(folder, "run", *more)],
                      deadline=90, REGARD_CACHE=str(folder / "cache"), **environment)
    took = time.monotonic() - began
    assert took < SOON + 20                                  # to start and to come to the fault takes some seconds, too
    return [code for code, _, _ in ended], [err for _, _, err in ended], took


def mistakes(err):
    return [line for line in err.splitlines() if line.startswith("regard:")]


def check_newest(folder, least=4):
    files, damaged = RunFolder(folder / "run").newest_checkpoint()
    assert files and not damaged and json.loads(files["at.json"])["step"] >= least


def test_a_rank_that_is_killed_ends_all_with_one_line_and_a_whole_checkpoint(tmp_path):
    codes, errs, _ = fault(tmp_path, "forward", 1)
    assert codes == [1, -signal.SIGKILL]
    assert mistakes(errs[0]) == [f"regard: rank 1 on {HERE} is gone, killed or cut off; the newest checkpoint is "
                                 "whole: go on with --resume"]
    assert errs[1] == ""
    check_newest(tmp_path)


@ALL
@pytest.mark.parametrize("where, rank, count", [
    ("forward", 0, 2), ("all-reduce", 1, 2), ("all-reduce", 0, 3), ("save", 0, 2), ("barrier", 1, 2), ("barrier", 0, 3),
    ("forward", 2, 4)])
def test_wherever_a_rank_is_killed_all_end(tmp_path, where, rank, count):
    codes, errs, _ = fault(tmp_path, where, rank, count=count)
    assert codes == [-signal.SIGKILL if each == rank else 1 for each in range(count)]
    said = [line for err in errs for line in mistakes(err)]
    assert len(said) == 1 and f"rank {rank} on {HERE} is gone, killed or cut off" in said[0]
    assert mistakes(errs[1 if rank == 0 else 0]) == said
    check_newest(tmp_path, least=2)


@ALL
@pytest.mark.parametrize("where, rank, count", [
    ("forward", 1, 2), ("all-reduce", 0, 3), ("save", 0, 2), ("barrier", 1, 3)])
def test_wherever_a_rank_with_a_share_of_the_weights_is_killed_all_end(tmp_path, where, rank, count):
    codes, errs, _ = fault(tmp_path, where, rank, "--parallel", "fsdp", count=count)
    assert codes == [-signal.SIGKILL if each == rank else 1 for each in range(count)]
    said = [line for err in errs for line in mistakes(err)]
    assert len(said) == 1 and f"rank {rank} on {HERE} is gone, killed or cut off" in said[0]
    check_newest(tmp_path, least=2)


@ALL
@pytest.mark.parametrize("name, line", [
    ("hang", "did not come on for 45 seconds"), ("memory", ": out of memory with 3 rows"), ("nan", "")])
def test_a_rank_with_a_share_of_the_weights_that_hangs_or_fails_ends_all(tmp_path, name, line):
    ended = run_ranks(2, ["-m", "tests.training.rank_faults", name, 1, *command(tmp_path), "--parallel", "fsdp"],
                      deadline=120, REGARD_CACHE=str(tmp_path / "cache"))
    assert [code for code, _, _ in ended] == [1, 1]
    said = [each for _, _, err in ended for each in mistakes(err)]
    assert len(said) == 1 and f"rank 1 on {HERE}{' ' * line.startswith('did')}{line}" in said[0]
    check_newest(tmp_path)


@ALL
@pytest.mark.parametrize("name, line", [
    ("hang", "rank 1 on {} did not come on for 45 seconds"), ("frozen", "rank 1 on {} is gone, killed or cut off"),
    ("memory", "rank 1 on {}: out of memory with a single row at once"), ("bug", "rank 1 on {}: ValueError: a bug"),
    ("nan", "the loss became nan at step 5 on rank 1 on {}; nothing of it is saved")])
def test_a_rank_that_hangs_or_fails_ends_all_and_is_named(tmp_path, name, line):
    processes = start_ranks(2, ["-m", "tests.training.rank_faults", name, 1, *command(tmp_path)],
                            REGARD_CACHE=str(tmp_path / "cache"))
    code, _, err = end_ranks(processes[:1], deadline=90)[0]
    if name == "frozen":                                     # torchrun would kill it; one that hangs ends by itself
        processes[1].kill()
    other = end_ranks(processes[1:], deadline=30)[0]
    assert code == 1 and other[0] == (-signal.SIGKILL if name == "frozen" else 1)
    assert len(mistakes(err)) == 1 and mistakes(err)[0].startswith(f"regard: {line.format(HERE)}")
    assert not mistakes(other[2]) and ("Traceback" in other[2]) == (name == "bug")
    check_newest(tmp_path)


@ALL
@pytest.mark.parametrize("name, codes, line", [
    ("forward", [1, -signal.SIGKILL], " is gone, killed or cut off"),
    ("memory in backward", [1, 1], ": out of memory with 3 rows at once, after some gradients had been sent")])
def test_a_rank_that_is_lost_while_gradients_travel_in_buckets_ends_all(tmp_path, name, codes, line):
    found, errs, _ = fault(tmp_path, name, 1, "--parallel", "buckets", TEST_BUCKET="4096")
    said = [each for err in errs for each in mistakes(err)]
    assert found == codes and len(said) == 1 and f"rank 1 on {HERE}{line}" in said[0]
    check_newest(tmp_path)


@ALL
def test_a_rank_that_hangs_while_it_saves_ends_all_in_time(tmp_path):
    processes = start_ranks(2, ["-m", "tests.training.rank_faults", "hang in save", 0, *command(tmp_path)],
                            REGARD_CACHE=str(tmp_path / "cache"))
    (hung, _, said), (code, _, err) = end_ranks(processes, deadline=100)           # it ends by itself, too
    assert hung == code == 1 and mistakes(err) == [f"regard: rank 0 on {HERE} did not come on for 45 seconds"]
    assert not mistakes(said)
    check_newest(tmp_path, least=2)


@ALL
def test_a_disk_that_is_slow_but_gets_on_is_waited_for(tmp_path):
    codes, errs, _ = fault(tmp_path, "slow save", 0, TEST_SHORT="2.5")
    assert codes == [0, 0] and not [line for err in errs for line in mistakes(err)]


@ALL
def test_a_rank_that_never_comes_is_named_in_time(tmp_path):
    began = time.monotonic()
    processes = start_ranks(3, ["-m", "regard", *command(tmp_path)], REGARD_CACHE=str(tmp_path / "cache"))
    processes[2].kill()
    ended = end_ranks(processes, deadline=90)
    assert [code for code, _, _ in ended] == [1, 1, -signal.SIGKILL] and time.monotonic() - began < SOON + 30
    assert len(mistakes(ended[0][2])) == 1 and not mistakes(ended[1][2])


@ALL
def test_a_signal_to_one_rank_stops_all_at_one_step_saved(tmp_path):
    codes, errs, _ = fault(tmp_path, "signal", 1)
    assert codes == [130, 130]
    assert mistakes(errs[0]) == ["regard: stopped at step 6 of 10; everything is saved: go on with --resume"]
    check_newest(tmp_path, least=6)


@ALL
def test_a_rank_short_of_memory_goes_on_with_fewer_rows_at_once(tmp_path):
    codes, errs, _ = fault(tmp_path, "little memory", 1)
    assert codes == [0, 0] and f"rank 1 on {HERE}: out of memory with 3 rows at once: going on with 1" in errs[1]


def torchrun(folder, name, rank, out, *flags, more=()):
    shared = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "REGARD_CACHE": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=0", *flags, "-m",
         "tests.training.rank_faults", name, str(rank), *map(str, command(folder, out, *more))],
        env=os.environ | shared, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)


@ALL
@pytest.mark.parametrize("where, rank, parallel", [
    ("forward", 1, "data"), ("all-reduce", 0, "data"), ("save", 0, "data"), ("forward", 0, "fsdp"),
    ("save", 0, "fsdp")])
def test_torchrun_starts_again_and_the_run_ends_with_the_undisturbed_bits(tmp_path, where, rank, parallel):
    more = ("--parallel", parallel)
    assert torchrun(tmp_path, "none", 0, "undisturbed", "--standalone", more=more).returncode == 0
    done = torchrun(tmp_path, where, rank, "run", "--standalone", "--max-restarts=1", more=more)
    assert done.returncode == 0, done.stderr
    assert f"rank {rank} on {HERE} is gone" in done.stderr and "resuming" in done.stderr
    assert difference(tmp_path / "run", tmp_path / "undisturbed") == 0.0


@ALL
def test_torchrun_without_restarts_fails_soon_and_the_line_is_there(tmp_path):
    began = time.monotonic()
    done = torchrun(tmp_path, "forward", 1, "run", "--standalone")
    assert done.returncode == 1 and time.monotonic() - began < SOON
    assert [line for line in done.stderr.splitlines() if "regard: rank 1 on" in line and "is gone" in line]
    check_newest(tmp_path)


# ----------------------------------------------------------------------------------------------------- wrong use


def refused(tmp_path, arguments, count=2, environments=None, code=1):
    """Return the one line that rank 0 said, of ranks that all ended with code 1 in time."""
    began, processes = time.monotonic(), []
    shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    port = str(free_port())
    for rank in range(count):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(count), "MASTER_PORT": port,
               "REGARD_CACHE": str(tmp_path / "cache"), **(environments or [{}] * count)[rank]}
        processes.append(subprocess.Popen(
            [sys.executable, "-m", "regard", *map(str, arguments)], env=os.environ | shared | own,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=own.get("HOME")))
    ended = end_ranks(processes, deadline=90)
    assert [each[0] for each in ended] == [code] * count and time.monotonic() - began < SOON
    assert not [line for _, _, err in ended[1:] for line in mistakes(err)]
    return mistakes(ended[0][2])


@ALL
def test_wrong_use_is_one_line_of_rank_0(tmp_path):
    uneven = refused(tmp_path, command(tmp_path), environments=[{}, {"LOCAL_WORLD_SIZE": "1"}])
    assert uneven == [f"regard: rank 1 on {HERE} has ranks on its machine 1, and rank 0 on {HERE} 2: start as many on "
                      "each (torchrun --nproc-per-node)"]
    for name, text in (("one", LINES), ("two", LINES + "more\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "text.txt").write_text(text)
    arguments = [*command(tmp_path)]
    arguments[2] = "text.txt"
    other = refused(tmp_path, arguments, environments=[{"HOME": str(tmp_path / name)} for name in ("one", "two")])
    assert other == [f"regard: rank 1 on {HERE}: the text here is not that of rank 0: give every machine the "
                     "same files"]
    assert "gpu" in refused(tmp_path, [*command(tmp_path), "--device", "gpu"])[0]
    assert "-: 2 ranks cannot all read the standard input" in refused(tmp_path, ["train", "lm", "-"])[0]
    streams = ["--family", "gru", "--set=training.reading=streams", "--steps", "2", "--batch", "1", "--device", "cpu"]
    counted = refused(tmp_path, command(tmp_path, "counted", "--parallel", "fsdp", family="ngram"))
    assert counted == ["regard: --parallel fsdp: a ngram is counted, by one process: leave it out"]
    timed = [*command(tmp_path, "timed", "--parallel", "fsdp", "--minutes", "1")]
    del timed[timed.index("--steps"):timed.index("--steps") + 2]
    assert "give --steps or --tokens" in refused(tmp_path, timed)[0]
    few = refused(tmp_path, ["train", "lm", tmp_path / "lines.txt", *streams, "--out", tmp_path / "few"])
    assert "--batch 1: each of 2 ranks reads a row of every batch" in few[0] and not (tmp_path / "few").exists()


@ALL
def test_a_folder_that_another_job_holds_is_refused_by_rank_0(tmp_path):
    from regard.run_lock import hold_lock

    (tmp_path / "run").mkdir()
    with hold_lock(tmp_path / "run"):
        assert f"is in use by process {os.getpid()} on {HERE}" in refused(tmp_path, command(tmp_path))[0]


@ALL
def test_a_family_that_is_counted_is_counted_by_rank_0(tmp_path):
    assert refused(tmp_path, command(tmp_path, family="ngram"), code=0) == []
    assert (tmp_path / "run" / "model.safetensors").exists()

