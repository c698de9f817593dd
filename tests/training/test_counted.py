"""Counting the n-gram that is mixed in: before the steps are timed on a CPU, beside the compiler for a GPU."""

import threading
from dataclasses import replace

import pytest
import torch

from regard.errors import RunError
from regard.run_folder import RunFolder
from regard.training.counted import count_beside
from regard.training.request import TrainRequest, plan_new

PATIENCE = 30.0             # seconds that one side waits for the other


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat and the dog sat on the cat\n" * 40)
    settings = {"tokenizer": {"kind": "char"}, "training": {"steps": 2}, "data": {"valid_share": 0.2}}
    request = TrainRequest((str(path),), settings=settings, device="cpu", out=str(tmp_path / "run"))
    return plan_new(request, lambda _: None)


def with_count(plan, count):
    return replace(plan, task=replace(plan.task, mixing=replace(plan.task.mixing, count=count)))


def test_for_a_gpu_it_is_counted_while_the_block_works(plan, tmp_path):
    count, working, said = plan.task.mixing.count, threading.Event(), []

    def wait_and_count(*given):
        assert working.wait(PATIENCE), "the block never began"
        return count(*given)

    folder = RunFolder(tmp_path / "run")
    folder.create()
    with count_beside(replace(with_count(plan, wait_and_count), device=torch.device("cuda")), folder, said.append):
        working.set()
        assert not said
    assert len(said) == 1 and "the line to beat" in said[0] and folder.read_ngram()


def test_on_a_cpu_it_is_counted_before_the_steps_are_timed(plan, tmp_path):
    said, folder = [], RunFolder(tmp_path / "run")
    folder.create()
    with count_beside(plan, folder, said.append):
        assert len(said) == 1 and folder.read_ngram()
    assert len(said) == 1


def test_what_goes_wrong_while_counting_ends_the_run(plan, tmp_path):
    def refuse(*_):
        raise RunError("the disk is full")

    folder = RunFolder(tmp_path / "run")
    for device in ("cpu", "cuda"):
        with pytest.raises(RunError, match="the disk is full"), count_beside(
                replace(with_count(plan, refuse), device=torch.device(device)), folder, lambda _: None):
            pass
