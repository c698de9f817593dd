"""What the campaigns of durability must find is planted, and found."""

import gc
import os
import shutil
from functools import partial

import pytest
import torch

from regard import storage
from regard.tasks.lm import sample
from regard.training.report import SampleLog
from tests.soak.campaigns import (
    bit_flips,
    disk_errors,
    kills,
    non_finite,
    power_loss,
    same_bits,
    two_processes,
)
from tests.soak.cases import own_places
from tests.soak.lives import FIRST


@pytest.fixture(autouse=True)
def own_environment(tmp_path, monkeypatch):
    for name, value in own_places(tmp_path / "own").items():
        monkeypatch.setenv(name, value)


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch):
    """A campaign steadies the fork that it runs in. Here it is this process, which other tests go on in."""
    for owner, name in ((os, "fsync"), (sample, "NEW"), (SampleLog, "due")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    gc.enable()
    gc.unfreeze()


@pytest.fixture
def failures(tmp_path):
    """Run some cases of a campaign on runs that were undisturbed before the fault was planted."""
    def run(campaign, seeds, plant):
        campaign.warm()
        campaign.prepare(tmp_path / "prepared")
        for variant in FIRST:
            campaign.UNDISTURBED(variant)
        plant()
        found = []
        for seed in seeds:
            own = tmp_path / str(seed)
            own.mkdir()
            found.append(campaign.run(seed, own))
        return [each.why for each in found if each is not None]

    (tmp_path / "prepared").mkdir()
    return run


def write_in_place(path, data):
    storage.perform("write", path, lambda: path.write_bytes(data.encode() if isinstance(data, str) else data))


def test_an_optimizer_that_is_not_restored_is_found(failures, monkeypatch):
    plant = partial(monkeypatch.setattr, "regard.training.optim.Optimizers.load", lambda self, tensors: None)
    assert any("other bits in checkpoints/" in why for why in failures(kills, (30, 33), plant))


def test_files_that_are_written_in_place_are_found(failures, monkeypatch):
    plant = partial(monkeypatch.setattr, storage, "write_file", write_in_place)
    assert failures(kills, (16, 22, 28, 31), plant)


def test_a_cleanup_that_raises_is_found(failures, monkeypatch):
    def write_file(path, data):
        part = storage.own_part(path)
        try:
            storage.write_part(part, data)
            storage.perform("rename", path, lambda: os.replace(part, path))
        finally:
            part.unlink(missing_ok=True)
        storage.sync_folder(path.parent)

    plant = partial(monkeypatch.setattr, storage, "write_file", write_file)
    assert any(": broken" in why for why in failures(disk_errors, range(8, 16), plant))


def test_names_that_are_not_synced_are_found(failures, monkeypatch):
    plant = partial(monkeypatch.setattr, storage, "sync_folder", lambda path: None)
    assert any("is gone" in why or "neither" in why for why in failures(power_loss, (38, 40, 45, 47), plant))


def test_contents_that_are_not_synced_are_found(failures, monkeypatch):
    def write_part(path, data):
        storage.perform("write", path, lambda: path.write_bytes(data.encode() if isinstance(data, str) else data))

    assert failures(power_loss, (38, 40, 45, 47), partial(monkeypatch.setattr, storage, "write_part", write_part))


def test_numbers_that_are_none_and_are_saved_are_found(failures, monkeypatch):
    def plant():
        monkeypatch.setattr("regard.training.checkpoint.find_spoilt", lambda weights, tensors: "")
        monkeypatch.setattr("regard.training.checkpoint.find_extreme", lambda tensors, largest=0.0: "")

    found = failures(non_finite, (6, 14), plant)
    assert len(found) == 2 and all("not finite" in why or "should be refused" in why for why in found)


def test_memory_that_runs_out_in_a_traceback_is_found(failures, monkeypatch):
    plant = partial(monkeypatch.setattr, "regard.training.memory.out_of_memory", lambda error: False)
    assert any("it should be refused in one line" in why for why in failures(non_finite, (5,), plant))


def test_bits_that_a_past_changes_are_found(tmp_path, monkeypatch):
    from regard.training import step

    update = step.update_weights

    def update_by_the_past(optimizers, average):             # only here: the twin is another interpreter
        update(optimizers, average)
        with torch.no_grad():
            next(iter(optimizers.names)).mul_(1 + 1e-6)

    monkeypatch.setattr(step, "update_weights", update_by_the_past)
    same_bits.warm()
    same_bits.prepare(tmp_path)
    found = same_bits.run(0, tmp_path)
    same_bits.TWIN.close()
    assert found is not None and "other bits in checkpoints/" in found.why


def test_hashes_that_nobody_compares_are_found(failures, monkeypatch):
    plant = partial(monkeypatch.setattr, "regard.manifest.Manifest.matches", lambda self, name, found: True)
    assert any("another answer, and nothing was said" in why for why in failures(bit_flips, range(2, 42), plant))


def test_a_lock_that_locks_nothing_is_found(failures, monkeypatch):
    def plant():
        monkeypatch.setattr("regard.run_lock.ask_system", lambda file: None)
        monkeypatch.setattr("regard.run_lock.read_holder", lambda file: None)

    assert failures(two_processes, (0, 1, 6, 7), plant)


def test_an_export_that_takes_the_place_of_another_is_found(failures, monkeypatch):
    plant = partial(monkeypatch.setattr, "regard.interop.export.refuse_taken", lambda path: None)
    assert any("both say that they wrote it" in why for why in failures(two_processes, (15,), plant))


@pytest.mark.parametrize("variant", FIRST, ids=lambda each: each.name)
def test_the_calls_that_were_seen_make_the_folder_as_it_is(variant, tmp_path):
    """The shim between Regard and the disk misses nothing."""
    from tests.soak.power import read_state

    power_loss.warm()
    power_loss.prepare(tmp_path)
    power_loss.RECORDED.clear()
    root, calls = power_loss.recorded(variant)
    assert len(calls) > 100 and power_loss.disk_after(calls, root).now() == read_state(root)
    shutil.rmtree(root)
    assert os.path.exists(tmp_path)
