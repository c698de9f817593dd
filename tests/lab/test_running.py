"""Running: code that changes on the way, how long it may still take, times measured alone, and what an arm may give."""

import json
import os
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from typing import ClassVar

import numpy as np
import pytest
import torch

from regard.errors import RunError
from regard.lab import runner
from regard.lab.experiment import Arm, Experiment, Flip, Rule
from regard.lab.find import experiment
from regard.lab.results import open_results

CHANGING = '''"""Changes its own file when an arm is run with seed 1, as somebody might who edits during a run."""
from pathlib import Path
from regard.lab.experiment import Arm, Experiment, Flip, Rule

def run(setting):
    if setting.seed == 1:
        Path(__file__).write_text(Path(__file__).read_text() + "EDITED = True\\n")
    return {"x": 1.0}

EXPERIMENT = Experiment("changing", 97, "t", "c", "s", "e", "r", [Flip("f", "f")], (Arm("a", run),),
                        (Rule("x", lambda s: s["a"]["x"], above=0),), lambda seeds: [])
'''


def toy(name="toy", run=lambda setting: {"x": 1.0}, **more):
    return Experiment(name, 96, "t", "c.", "s", "e", "r", [Flip("f", "f")], (Arm("a", run), Arm("b", run)),
                      (Rule("x", lambda seed: seed["a"]["x"], above=0),), lambda seeds: [], **more)


# ------------------------------------------------------------------------------------------- code that changes


def leaves_what_changed(folder, workers):
    (folder / "changing.py").write_text(CHANGING)
    one, said = experiment("changing", folder), []
    plan = runner.RunPlan(4, workers=workers, folder=str(folder))
    version = open_results(folder / "out", one, "cpu").version
    assert runner.run_arms([one], plan, folder / "out", said.append) == [one]
    told = [line.strip() for line in said if "changed" in line]
    assert told == ["changing: its code changed during the run, so it has no verdict and what ran since is not kept: "
                    "the same command measures it anew"]
    kept = json.loads((folder / "out" / "cpu" / "changing.json").read_text())
    assert kept["version"] == version and list(kept["arms"]) == ["a · seed 0 · full"]


def test_code_that_changes_during_a_run_is_told_and_what_it_measured_is_not_kept(tmp_path):
    leaves_what_changed(tmp_path, workers=1)


def test_a_runner_that_does_not_look_at_the_code_would_be_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "has_changed", lambda experiment, version: False)
    with pytest.raises(AssertionError):
        leaves_what_changed(tmp_path, workers=1)


def test_a_file_that_goes_away_has_changed_and_the_others_go_on(tmp_path):
    removing = CHANGING.replace("Path(__file__).write_text", "Path(__file__).unlink()\n        print")
    (tmp_path / "changing.py").write_text(removing)
    gone, other, said = experiment("changing", tmp_path), toy(), []
    plan = runner.RunPlan(2, workers=1, folder=str(tmp_path))
    assert runner.run_arms([gone, other], plan, tmp_path / "out", said.append) == [gone]
    assert sum("changed during the run" in line for line in said) == 1


def test_what_an_experiment_imports_from_its_own_folder_counts_as_its_code(tmp_path):
    (tmp_path / "_shared_here.py").write_text("X = 1.0\n")
    (tmp_path / "mine.py").write_text(CHANGING.replace('"changing"', '"mine"').replace(
        "from pathlib", "from _shared_here import X\nfrom pathlib"))
    before = open_results(tmp_path, experiment("mine", tmp_path), "cpu").version
    (tmp_path / "_shared_here.py").write_text("X = 2.0\n")
    assert open_results(tmp_path, experiment("mine", tmp_path), "cpu").version != before


# ------------------------------------------------------------------------------------------------- progress


def estimates(folder):
    """Of 2 arms and 3 seeds, a takes 300 s and b 60; on two cores. Times are measured alone."""
    said = []
    beside, alone = toy("beside"), toy("alone", timing=True)
    progress = runner.Progress([beside, alone], runner.RunPlan(3, workers=2), folder, said.append)
    for task in [task for task in progress.open if task.experiment.name == "beside"][:2]:
        progress.keep(task, lambda task=task: ({"x": 1.0}, 300.0 if task.arm.name == "a" else 60.0))
    # after the first: 5 beside in pairs and 6 alone, 300 s each; then 2 of 300 and 2 of 60 in pairs, and 6 of 180
    assert [line.split("   ")[-1] for line in said] == ["about 42 min left", "about 24 min left"]
    assert said[0].startswith("   1 of 12   beside: a · seed 0 · full   300.0 s")


def test_what_is_left_goes_by_how_long_arms_took_and_how_many_run_side_by_side(tmp_path):
    estimates(tmp_path)


def test_an_estimate_that_forgets_what_runs_alone_would_be_seen(tmp_path, monkeypatch):
    own = runner.Progress.expected
    monkeypatch.setattr(runner.Progress, "expected", lambda self, tasks: own(
        self, [task for task in tasks if not task.experiment.timing]))
    with pytest.raises(AssertionError):
        estimates(tmp_path)


def test_less_than_a_minute_is_not_worth_a_word_and_hours_are_hours(tmp_path):
    said = []
    runner.run_arms([toy()], runner.RunPlan(2, workers=1), tmp_path, said.append)
    assert len(said) == 4 and not any("left" in line for line in said)
    assert runner.tell_time(100 * 60) == "about 100 min" and runner.tell_time(9000) == "about 2.5 h"


def test_experiments_that_measure_times_come_last_alone_and_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "measure_others_load", lambda: 0.0)
    order, said = [], []
    timed = toy("times", lambda setting: order.append("times") or {"x": 1.0}, timing=True)
    other = toy("other", lambda setting: order.append("other") or {"x": 1.0})
    runner.run_arms([timed, other], runner.RunPlan(1, workers=1), tmp_path, said.append)
    assert order == ["other", "other", "times", "times"]
    assert [line.strip() for line in said if "alone" in line] == [
        "these measure times, and run alone, one arm after another: times"]
    monkeypatch.setattr(runner, "measure_others_load", lambda: 1.5)
    runner.run_arms([timed], runner.RunPlan(2, workers=1), tmp_path, said.append)
    assert sum("1.5 cores busy: the times of times may be off" in line for line in said) == 2


# ------------------------------------------------------------------------------------------------ what can go wrong


@pytest.mark.parametrize("given, why", [(np.float32(1), "float32 is not JSON serializable"), ({1}, "set is not JSON")])
def test_an_arm_that_gives_no_plain_numbers_is_told(tmp_path, given, why):
    said = []
    assert runner.run_arms([toy(run=lambda setting: {"x": given})], runner.RunPlan(1, workers=1), tmp_path, said.append)
    assert all(why in line and "give plain numbers, lists of them or strings" in line for line in said) and said


class Broken:
    """A pool in which a worker was killed: it takes no more work."""

    def __init__(self, *arguments, **options): ...

    def __enter__(self):
        return self

    def __exit__(self, *error): ...

    def submit(self, *arguments):
        raise BrokenProcessPool


def test_a_worker_that_is_killed_is_told_in_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "ProcessPoolExecutor", Broken)
    with pytest.raises(RunError, match="a process that measured was ended, perhaps for want of memory"):
        runner.run_arms([toy()], runner.RunPlan(4, workers=2), tmp_path, lambda text: None)


class Placed:
    """Stands for a pool of processes: notes the environment in which each would begin, and runs arms here."""

    begun: ClassVar = []

    def __init__(self, workers, context, initializer, initargs):
        for _ in range(workers):
            initializer(*initargs)
            self.begun.append(os.environ["CUDA_VISIBLE_DEVICES"])

    def __enter__(self):
        return self

    def __exit__(self, *error): ...

    def submit(self, function, *arguments):
        future = Future()
        future.set_result(({"x": 1.0}, 0.1))
        return future


def test_arms_take_a_gpu_each_where_there_are_several(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "list_gpus", lambda device: ["3", "5"])
    monkeypatch.setattr(runner, "ProcessPoolExecutor", Placed)
    monkeypatch.setattr(Placed, "begun", [])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    threads = torch.get_num_threads()
    assert [runner.RunPlan(device="cuda", workers=number).side_by_side for number in (0, 1)] == [2, 1]
    try:
        assert runner.run_arms([toy()], runner.RunPlan(4, workers=3), tmp_path, lambda text: None) == []
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(False)
    assert Placed.begun == ["3", "5", "3"]
