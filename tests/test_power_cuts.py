"""What must survive a power cut is synced, and in this order: a file before it takes its name, its folder after that.

The real calls of the operating system are recorded, not our own operations.
"""

import os
from pathlib import Path

import pytest

from regard import storage

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names of open files are Linux's")


@pytest.fixture
def calls(monkeypatch):
    """(what, name) of every sync and every rename; of a sync also how many bytes were there by then."""
    seen, sync, rename = [], os.fsync, os.replace

    def record_sync(handle):
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        seen.append(("sync", path.name, None if path.is_dir() else path.stat().st_size))
        sync(handle)

    def record_rename(source, target):
        seen.append(("rename", Path(source).name, Path(target).name))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "replace", record_rename)
    return seen


def test_a_file_is_synced_whole_before_it_takes_its_name_and_its_folder_after(tmp_path, calls):
    storage.write_file(tmp_path / "file", b"12345")
    part = calls[0][1]
    assert part.startswith(storage.TEMPORARY)
    assert calls == [("sync", part, 5), ("rename", part, "file"), ("sync", tmp_path.name, None)]


def test_a_folder_is_synced_before_it_takes_its_name_and_the_one_above_after(tmp_path, calls):
    (tmp_path / "part").mkdir()
    storage.write_part(tmp_path / "part" / "file", "12345")
    storage.move_folder(tmp_path / "part", tmp_path / "final")
    assert calls == [("sync", "file", 5), ("sync", "part", None), ("rename", "part", "final"),
                     ("sync", tmp_path.name, None)]
    assert (tmp_path / "final" / "file").read_text() == "12345"


def test_new_folders_are_synced_into_those_that_hold_them(tmp_path, calls):
    storage.make_folder(tmp_path / "a" / "b")
    assert calls == [("sync", tmp_path.name, None), ("sync", "a", None)]
    assert storage.claim_folder(tmp_path / "c") and calls[2:] == [("sync", tmp_path.name, None)]
    assert not storage.claim_folder(tmp_path / "c") and len(calls) == 3


def test_a_log_is_synced_with_its_folder_and_one_that_is_not_there_is_left_so(tmp_path, calls):
    storage.append_line(tmp_path / "log", "one")
    storage.sync_file(tmp_path / "log")
    storage.sync_file(tmp_path / "none")
    assert calls == [("sync", "log", 4), ("sync", tmp_path.name, None)] and not (tmp_path / "none").exists()
