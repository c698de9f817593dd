"""What may happen to a run between two commands: others start beside it, files rot, machines differ."""

import hashlib
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from regard import storage
from regard.errors import DataError, RunError
from regard.run_folder import RunFolder
from regard.run_lock import hold_lock
from regard.tasks import TASKS
from regard.trained import load
from regard.training.request import claim_folder
from regard.training.run import TrainRequest, run_training


def order(tmp_path, **options):
    return TrainRequest((str(tmp_path / "text.txt"),), family="ngram", quiet=True, **options)


# --------------------------------------------------------------------------------------- others beside it


def test_trainings_that_start_together_each_get_a_folder(tmp_path):
    together = threading.Barrier(8)

    def claim(_):
        together.wait()
        return claim_folder(order(tmp_path))

    with ThreadPoolExecutor(8) as pool:
        claimed = list(pool.map(claim, range(8)))
    assert len({path for path, _ in claimed}) == 8 and all(made and path.is_dir() for path, made in claimed)


def test_a_name_is_taken_before_the_text_is_read(train, tmp_path, monkeypatch):
    """What used to happen: both ask for a free name, read for minutes, and make the same folder."""
    inner = []

    def slow(*arguments, **options):
        if not inner:
            inner.append(None)
            inner[0] = run_training(order(tmp_path)).path
        return untouched(*arguments, **options)

    untouched = TASKS["lm"].prepare
    monkeypatch.setattr("regard.tasks.lm.task.TASK", replace(TASKS["lm"], prepare=slow))
    outer = run_training(order(tmp_path)).path
    assert [str(inner[0]), str(outer)] == ["runs/text-ngram-2", "runs/text-ngram"]


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_that_is_trained_in_is_refused(train, tmp_path, resume):
    if resume:
        train()
    (tmp_path / "run").mkdir(exist_ok=True)
    before = sorted((tmp_path / "run").iterdir())
    with hold_lock(tmp_path / "run"), pytest.raises(RunError, match=r"run is in use by process \d+ on "):
        train(resume=resume)
    assert sorted((tmp_path / "run").iterdir()) == before


def test_a_training_that_never_began_leaves_no_folder(tmp_path, train):
    with pytest.raises(DataError):
        run_training(TrainRequest(("nothing.txt",), quiet=True))
    with pytest.raises(DataError):
        run_training(TrainRequest(("nothing.txt",), quiet=True, out="mine/run"))
    assert not (tmp_path / "runs").exists() and not (tmp_path / "mine").exists()


# --------------------------------------------------------------------------------------------- files rot


def flip(path, at=-9):
    raw = bytearray(path.read_bytes())
    raw[at] ^= 4
    path.write_bytes(raw)


def test_without_a_good_checkpoint_nothing_starts_over_beside_the_best_weights(train, tmp_path, capsys):
    train()
    folder = RunFolder(tmp_path / "run")
    weights = folder.weights_path.read_bytes()
    for path in folder.checkpoints():
        flip(path / "training.safetensors")
    for _ in range(2):                                       # the second time they are set aside already
        with pytest.raises(RunError, match=r"no checkpoint that can be used: .* --from .* or .* --resume --start-over"):
            train(resume=True)
    assert folder.weights_path.read_bytes() == weights
    again = run_training(TrainRequest((str(tmp_path / "text.txt"),), out=str(folder.path), resume=True, start_over=True,
                                      device="cpu", quiet=True))
    assert [path.name for path in folder.checkpoints()] == ["00000003", "00000006"]
    assert again.path == folder.path and len(list(folder.checkpoints_path.glob("damaged-*"))) == 2


def test_removed_checkpoints_are_no_reason_to_start_over_either(train, tmp_path):
    train()
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(RunError, match="no checkpoint that can be used"):
        train(resume=True)


def test_a_lost_run_toml_is_no_reason_to_begin_a_new_run_over_the_old_one(train, tmp_path):
    train()
    (tmp_path / "run" / "run.toml").unlink()
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    for resume in (True, False):
        with pytest.raises(RunError, match=r"holds model.safetensors, .* of a run, but its run.toml is lost: put that"):
            train(resume=resume)
    (tmp_path / "run" / "manifest.json").unlink()
    with pytest.raises(RunError, match=r"run.toml is lost"):
        train(resume=True)
    del before[tmp_path / "run" / "manifest.json"]
    assert before == {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}


def test_a_damaged_tokenizer_does_not_pass_into_a_resumed_run(train, tmp_path):
    train()
    flip(tmp_path / "run" / "tokenizer.json", 200)
    with pytest.raises(RunError, match=r"tokenizer.json is not as it was written"):
        train(resume=True, training=dict(steps=9))


@pytest.mark.parametrize("lost", [True, False])
def test_damaged_best_weights_are_made_again_from_the_checkpoint(train, tmp_path, capsys, lost):
    train()
    weights = tmp_path / "run" / "model.safetensors"
    if lost:
        weights.unlink()
    else:
        flip(weights)
    with pytest.raises(RunError, match="missing, though" if lost else "--resume, which takes the weights of the"):
        load(tmp_path / "run", device="cpu")
    resumed = train(resume=True, quiet=False)
    assert "the weights of step 6 take their place until better ones come" in capsys.readouterr().err
    checkpoint = RunFolder(tmp_path / "run").newest_checkpoint()[0]
    assert storage.digest(weights.read_bytes()) == storage.digest(checkpoint["model.safetensors"])
    assert resumed.parameters > 0


def test_damaged_lines_of_the_metrics_are_counted_and_changed_ones_seen(train, tmp_path, capsys):
    train()
    log = tmp_path / "run" / "metrics.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([lines[0], b"?" + lines[1], lines[2], *lines[3:], b'{"step": 6, "tok']))
    train(resume=True, training=dict(steps=9), quiet=False)
    said = capsys.readouterr().err
    assert "2 lines of metrics.jsonl could not be read, and left out" in said
    assert "metrics.jsonl was changed or damaged before step 6" in said
    log.write_bytes(log.read_bytes().replace(b'"tokens": ', b'"tokens": 1', 1))
    train(resume=True, training=dict(steps=10), quiet=False)
    assert "metrics.jsonl was changed or damaged before step 9" in capsys.readouterr().err
    train(resume=True, training=dict(steps=11), quiet=False)
    said = capsys.readouterr().err
    assert "metrics.jsonl" not in said and "could not be read" not in said


def test_logs_are_synced_before_every_checkpoint_and_a_new_folder_into_its_parent(train, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(storage, "before_operation", lambda operation, path: seen.append((operation, str(path))))
    train("some/where/run")
    run = str(tmp_path / "some" / "where" / "run")
    for folder in (tmp_path, tmp_path / "some", tmp_path / "some" / "where", run):
        assert ("sync", str(folder)) in seen
    checkpoints = [at for at, (operation, path) in enumerate(seen)
                   if operation == "rename" and "/checkpoints/0" in path]
    for log in ("metrics.jsonl", "samples.jsonl"):
        written = [at for at, (operation, path) in enumerate(seen) if operation == "append to" and path.endswith(log)]
        synced = [at for at, (operation, path) in enumerate(seen) if operation == "sync" and path.endswith(log)]
        assert written and checkpoints
        for at in checkpoints:
            last = max(each for each in written if each < at)
            assert any(last < each < at for each in synced), (log, at)


# ----------------------------------------------------------------------------------------- other machines


def hashed(folder):
    newest = folder.newest_checkpoint()[0]
    return [hashlib.sha256(newest[name]).hexdigest() for name in ("model.safetensors", "training.safetensors")]


@pytest.fixture
def threads():
    """Let torch take another number of threads, as it would on another machine."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_a_run_resumed_on_another_number_of_threads_takes_its_own_number(train, tmp_path, threads):
    def train_wide(out, steps, resume):
        train(out, resume=resume, model=dict(width=64, context=32),
              training=dict(steps=steps, batch=32, valid_every=4, samples=False))

    here, there = RunFolder(tmp_path / "here"), RunFolder(tmp_path / "there")
    threads(2)
    train_wide("here", 1, False)
    shutil.copytree(here.path, there.path)
    train_wide("here", 3, True)
    threads(1)
    train_wide("there", 3, True)
    assert hashed(here) == hashed(there)
    assert here.read_settings()["training"]["threads"] == 2 and torch.get_num_threads() == 1


def test_what_may_differ_on_another_machine_is_said(train, tmp_path, capsys, monkeypatch, threads):
    threads(1)
    train()
    monkeypatch.setattr("regard.training.checkpoint.cpu", lambda: "Another CPU")
    train(resume=True, training=dict(steps=7), quiet=False)
    said = capsys.readouterr().err
    assert "the last bits may differ from a run that was never stopped: processor Another CPU, was " in said
    train(resume=True, training=dict(steps=8), quiet=False)
    assert "last bits" not in capsys.readouterr().err
    train(resume=True, training=dict(steps=9, threads=3), quiet=False)
    said = capsys.readouterr().err
    assert "training.threads 1 -> 3" in said and "never stopped: threads 3, was 1" in said


def test_compiled_training_on_several_threads_is_the_same_twice(train, tmp_path, threads):
    threads(2)
    for out in ("one", "two"):
        train(out, family="average", model=dict(width=32, context=32, dropout=0.0),
              training=dict(steps=12, batch=16, valid_every=12, compile="yes", samples=False))
    assert hashed(RunFolder(tmp_path / "one")) == hashed(RunFolder(tmp_path / "two"))
    assert not torch.are_deterministic_algorithms_enabled()
