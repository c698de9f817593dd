"""Ranks meet: again after a restart of which the machines know different things, and again in one script."""

import os
import subprocess
import sys
import threading
import time

import pytest
from torch.distributed import HashStore, PrefixStore

from regard.errors import EndedTogether, SettingError
from regard.training import meeting
from tests.training.ranks import ROOT, end_ranks, free_port, run_ranks
from tests.training.test_lost_ranks import ALL, HERE, check_newest, command, mistakes

TWICE = """
import time
from regard.training import meeting
from regard.training.joining import join_ranks
for seconds in (14, 0):
    with join_ranks("cpu") as ranks:
        meeting.MEET = 10.0
        if ranks.first:
            time.sleep(seconds)                              # it measures, when the others are done
"""
FRAMES = """
import sys
import pyarrow, regard
lines = [f"the cat sat on mat {number}" for number in range(60)]
trained = regard.train(pyarrow.table({"text": lines}), steps=2, family="gru", out=sys.argv[1], device="cpu", quiet=True,
                       settings={"model": {"width": 8, "hidden": 8}, "training": {"samples": False}})
print("none" if trained is None else trained.family)
"""


STUCK = """
import time
import torch.distributed as dist
from regard.errors import SettingError
from regard.training import joining
joining.PART = 1.0
dist.destroy_process_group = lambda: time.sleep(1000)        # as NCCL does while another rank is in a message
with joining.join_ranks("cpu") as ranks:
    if ranks.first:
        ranks.wait()
    raise ERROR
"""


def test_a_rank_that_is_done_waits_for_the_first_before_it_meets_again():
    assert [(code, err) for code, _, err in run_ranks(2, ["-c", TWICE])] == [(0, ""), (0, "")]


def attempts(store, count):
    """Return what each rank finds to be the name of the attempt."""
    found = {}

    def find(rank):
        found[rank] = meeting.find_attempt(store, rank, count, time.monotonic() + 20)
        store.set(f"regard/{found[rank]}/here/{rank}", "1")

    threads = [threading.Thread(target=find, args=(rank,)) for rank in reversed(range(count))]
    for thread in threads:
        thread.start()
        time.sleep(0.1)
    for thread in threads:
        thread.join()
    return found


def test_all_ranks_find_one_attempt_in_a_store_that_remembers_others():
    store, seen = HashStore(), set()
    for _ in range(3):
        found = attempts(store, 3)
        assert len(set(found.values())) == 1 and set(found) == {0, 1, 2}
        seen.update(found.values())
    assert len(seen) == 3


def test_where_the_first_rank_does_not_come_the_next_one_says_so(monkeypatch):
    monkeypatch.setattr(meeting, "MISSED", 0.0)
    store = HashStore()
    with pytest.raises(EndedTogether):                         # rank 0 has the store, and waits for others there
        meeting.find_attempt(store, 1, 3, time.monotonic())
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    with pytest.raises(SettingError, match="rank 0 did not come within 45 seconds"):
        meeting.find_attempt(store, 1, 3, time.monotonic())
    with pytest.raises(EndedTogether):
        meeting.find_attempt(store, 2, 3, time.monotonic())


def test_the_first_rank_names_those_that_do_not_come_in_time(monkeypatch):
    monkeypatch.setattr(meeting, "MISSED", 0.0)
    store, began = HashStore(), time.monotonic()
    until = began + 1.0
    attempt = meeting.find_attempt(store, 0, 3, until)
    with pytest.raises(SettingError, match="rank 1 and rank 2 did not come within 45 seconds"):
        meeting.wait_for_all(PrefixStore(f"regard/{attempt}", store), 0, 3, until)
    assert time.monotonic() - began < 5


def test_a_frame_is_trained_on_by_all_ranks(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    ended = run_ranks(2, ["-c", FRAMES, tmp_path / "run"], REGARD_CACHE=str(tmp_path / "cache"))
    assert [(code, out.split()) for code, out, _ in ended] == [(0, ["gru"]), (0, ["none"])], ended


@pytest.mark.parametrize("error, line", [("SettingError('a mistake')", f"regard: rank 1 on {HERE}: a mistake"),
                                         ("KeyError('a bug')", "KeyError: 'a bug'")])
def test_a_rank_that_cannot_part_from_the_others_ends_all_the_same(error, line):
    began, script = time.monotonic(), STUCK.replace("ERROR", error)
    ended = run_ranks(2, ["-c", script])
    assert [code for code, _, _ in ended] == [1, 1] and time.monotonic() - began < 40
    assert line in ended[1][2].splitlines() + ended[0][2].splitlines()
    assert ("Traceback" in ended[1][2]) == ("bug" in line)


# ------------------------------------------------------------------------------------------------- started again


def torchrun(*arguments, cache):
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *map(str, arguments)], cwd=ROOT, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "REGARD_CACHE": str(cache)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@ALL
def test_machines_that_count_restarts_differently_go_on_together(tmp_path):
    """torchrun counts a restart on the machine whose rank was lost, and not on the other, which it makes restart."""
    port = free_port()
    flags = ["--nnodes=2", "--nproc-per-node=1", "--max-restarts=1", "--rdzv-backend=c10d", "--rdzv-id=two",
             f"--rdzv-endpoint=localhost:{port}", "-m", "tests.training.rank_faults", "forward", 1]
    machines = []
    for _ in range(2):
        machines.append(torchrun(*flags, *command(tmp_path), cache=tmp_path / "cache"))
        time.sleep(2)
    ended = end_ranks(machines, deadline=150)
    assert [code for code, _, _ in ended] == [0, 0], ended
    said = "".join(err for _, _, err in ended)
    assert f"rank 1 on {HERE} is gone" in said and "resuming" in said and "did not meet" not in said
    check_newest(tmp_path, least=10)


@ALL
def test_a_run_that_was_refused_is_not_taken_up_by_a_restart(tmp_path):
    shared = {"REGARD_CACHE": str(tmp_path / "cache")}
    for code, _, err in run_ranks(2, ["-m", "regard", *command(tmp_path)], **shared):
        assert code == 0, err
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    flags = ["--standalone", "--nproc-per-node=2", "--max-restarts=1", "-m", "regard"]
    (ended,) = end_ranks([torchrun(*flags, *command(tmp_path, steps=14), cache=tmp_path / "cache")])
    assert ended[0] == 1 and len(mistakes(ended[2])) == 2
    assert all("already holds a run" in line for line in mistakes(ended[2])) and "resuming" not in ended[2]
    assert before == {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}


@ALL
def test_torchrun_ends_with_the_line_in_its_report(tmp_path):
    flags = ["--standalone", "--nproc-per-node=2", "-m", "regard"]
    arguments = command(tmp_path)
    arguments[2] = tmp_path / "none.txt"
    (ended,) = end_ranks([torchrun(*flags, *arguments, cache=tmp_path / "cache")])
    assert ended[0] == 1 and len(mistakes(ended[2])) == 1
    assert "none.txt does not exist" in ended[2].rpartition("Root Cause")[2]
