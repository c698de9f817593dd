"""On a machine with several GPUs trials run side by side, one a GPU, but for those that measure times."""

import threading
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard.compare import comparison
from regard.compare.comparison import on_each_gpu, run_trials, runs_alone
from regard.compare.plan import Trial
from regard.errors import Interrupted
from regard.manifest import write_sealed

PLAN = SimpleNamespace(budget={"steps": 3}, seeds=3, device="auto", save=lambda folder: None)


class Machine:
    """Stands for the processes of trials: notes which ran on which GPU, and how many at once."""

    def __init__(self):
        self.lock, self.running, self.most, self.gpus, self.order = threading.Lock(), [], 0, {}, []

    def run(self, folder, plan, trial, stop, environment=None):
        with self.lock:
            gpu = (environment or {}).get("CUDA_VISIBLE_DEVICES")
            assert gpu is None or gpu not in self.running, "two trials on one GPU"
            assert gpu is not None or not self.running, "it does not run alone"
            self.running.append(gpu)
            self.order.append(trial.name)
            self.most = max(self.most, len(self.running))
            self.gpus[trial.name] = gpu
        time.sleep(0.05)
        write_sealed(comparison.trial_file(folder, trial), {"name": trial.name, "status": "done", "cost": {}})
        with self.lock:
            self.running.remove(gpu)


@pytest.fixture
def machine(monkeypatch, tmp_path):
    machine = Machine()
    monkeypatch.setattr(comparison, "in_a_process", machine.run)
    monkeypatch.setattr(comparison, "list_gpus", lambda device: ["0", "4"])
    monkeypatch.setattr(comparison, "tell_outcome", lambda plan, trial, record: trial.name)
    monkeypatch.setattr(comparison, "finish",
                        lambda folder, plan: SimpleNamespace(records=[{"status": "done"}]))
    (tmp_path / "trials").mkdir()
    return machine


TRIALS = [Trial("ngram", order=2), *(Trial(family, seed=seed) for seed in range(3) for family in ("rnn", "gru"))]


def run_all(folder: Path, **changes):
    said: list[str] = []
    run_trials(SimpleNamespace(**{**vars(PLAN), "trials": lambda: TRIALS, **changes}), folder, said.append, None)
    return said


def test_trials_take_a_gpu_each_after_those_that_measure_costs_ran_alone(machine, tmp_path):
    said = run_all(tmp_path)
    assert machine.order[:3] == [trial.name for trial in TRIALS[:3]]              # the n-gram, and each first seed
    assert [machine.gpus[name] for name in machine.order[:3]] == [None] * 3
    assert sorted(machine.gpus[name] for name in machine.order[3:]) == ["0", "0", "4", "4"]
    assert machine.most == 2 and len(said) == len(TRIALS) == len(set(machine.order))
    assert [line.split()[0] for line in said] == [f"{n}/7" for n in range(1, 8)]


def test_trials_of_so_many_minutes_all_run_alone_and_it_is_said(machine, tmp_path):
    said = run_all(tmp_path, budget={"minutes": 1})
    assert machine.most == 1 and set(machine.gpus.values()) == {None}
    assert "trials of so many minutes measure time, and ran alone: --steps or --tokens uses all 2 GPUs" in said


def test_with_one_gpu_or_none_nothing_changes(machine, tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "list_gpus", lambda device: ["0"])
    run_all(tmp_path)
    assert machine.order == [trial.name for trial in TRIALS] and set(machine.gpus.values()) == {None}


def test_what_was_measured_before_need_not_run_alone_again(machine, tmp_path):
    write_sealed(comparison.trial_file(tmp_path, Trial("rnn", seed=0)), {"cost": {}})
    plan = SimpleNamespace(**vars(PLAN))
    assert not runs_alone(tmp_path, plan, Trial("rnn", seed=1)) and runs_alone(tmp_path, plan, Trial("gru", seed=1))


def test_a_stop_ends_all_and_starts_no_more(machine, tmp_path, monkeypatch):
    asked = count()
    ended = list(on_each_gpu(tmp_path, PLAN, TRIALS[3:], lambda: next(asked) > 0, ["0", "4"], None))
    assert len(ended) == 4 and len(machine.order) == 1                            # the others were not begun
    progress = comparison.TrialProgress(PLAN, tmp_path, 7, TRIALS, lambda text: None)
    with pytest.raises(Interrupted, match="stopped during"):
        progress.add(TRIALS[-1], 1.0, lambda: True)
