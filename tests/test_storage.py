import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from regard import storage
from regard.errors import StorageError
from regard.run_folder import RunFolder
from regard.run_lock import hold_lock


@pytest.fixture
def failing(monkeypatch):
    """Let operation number `at` fail with an error of the operating system."""

    def arrange(at, code=errno.ENOSPC):
        done = []

        def before(operation, path):
            done.append(operation)
            if len(done) == at:
                raise OSError(code, os.strerror(code))

        monkeypatch.setattr(storage, "before_operation", before)
        return done

    return arrange


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_file_is_the_old_one_or_the_new_one_whatever_fails(tmp_path, failing, at):
    path = tmp_path / "file"
    storage.write_file(path, b"old")
    failing(at)
    with pytest.raises(StorageError):
        storage.write_file(path, b"new")
    assert path.read_bytes() == (b"old" if at < 3 else b"new")


def test_a_full_disk_says_what_to_do(tmp_path, failing):
    failing(1)
    with pytest.raises(StorageError, match=r"the disk is full .* free some space \(`regard data cache --clear` removes "
                                           r"what can be made again\), or give another folder with --out"):
        storage.write_file(tmp_path / "file", b"x")


def test_a_full_disk_under_the_cache_says_where_else_it_can_lie(tmp_path, failing, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    failing(1)
    with pytest.raises(StorageError, match=r"or set REGARD_CACHE to a folder on another disk\. What was saved before"):
        storage.write_file(tmp_path / "file", b"x")
    failing(1, errno.EACCES)
    with pytest.raises(StorageError, match=r"no permission to write .*: set REGARD_CACHE to a folder you may"):
        storage.write_file(tmp_path / "file", b"x")


@pytest.mark.skipif(os.name != "posix", reason="locks are POSIX's")
def test_a_disk_that_refuses_to_clean_up_hides_no_message(tmp_path, failing, monkeypatch):
    """What used to happen: removing the half file, or the lock, failed too, and that was the traceback."""
    def refused(path):
        raise OSError(errno.EIO, "Input/output error")

    failing(2)
    with pytest.raises(StorageError, match="the disk is full"), hold_lock(tmp_path / "run"):
        monkeypatch.setattr(os, "unlink", refused)
        storage.write_file(tmp_path / "file", b"x")
    monkeypatch.undo()
    with hold_lock(tmp_path / "run"):
        pass


def test_a_full_disk_says_how_much_is_free(tmp_path, failing, monkeypatch):
    failing(1)
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda path: SimpleNamespace(free=7 * 2**20 + 5))
    with pytest.raises(StorageError, match=r"the disk is full \(7 MB free\)"):
        storage.write_file(tmp_path / "file", b"x")


def test_a_folder_is_renamed_before_it_is_emptied(tmp_path, monkeypatch):
    """Whoever looks finds it whole or not at all, even where its removal breaks off."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "file").write_text("x")

    def breaks_off(path):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch, pytest.raises(StorageError, match="Input/output error"):
        patch.setattr(storage.shutil, "rmtree", breaks_off)
        storage.remove(tmp_path / "run")
    left, = tmp_path.iterdir()
    assert left.name.startswith(storage.TEMPORARY) and (left / "file").exists()
    storage.remove(left)                                   # what has such a name already is removed in its place
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="locks are POSIX's")
def test_a_locked_folder_is_locked_to_everybody_else_until_the_end(tmp_path):
    import fcntl

    other = os.open(tmp_path, os.O_RDONLY)
    with storage.locked(tmp_path), pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)


def test_a_read_only_folder_says_so(tmp_path, failing):
    failing(1, errno.EROFS)
    with pytest.raises(StorageError, match="no permission"):
        storage.write_file(tmp_path / "file", b"x")


def checkpoint(folder, step, keep=2):
    folder.save_checkpoint(step, {"model.safetensors": b"weights %d" % step, "at.json": b"{}"}, keep)
    return folder.checkpoints_path / f"{step:08d}"


def test_rotation_keeps_the_newest_and_never_the_last_good_one_alone(tmp_path):
    folder = RunFolder(tmp_path)
    folder.create()
    for step in (1, 2, 3):
        checkpoint(folder, step)
    assert [path.name for path in folder.checkpoints()] == ["00000002", "00000003"]


@pytest.mark.parametrize("name", ["model.safetensors", "at.json", "manifest.json"])
def test_every_damaged_byte_of_a_checkpoint_is_seen_and_the_one_before_is_used(tmp_path, name):
    folder = RunFolder(tmp_path)
    folder.create()
    checkpoint(folder, 1)
    path = checkpoint(folder, 2) / name
    good = path.read_bytes()
    for damaged in [good[:-1], good[:-1] + b"?", b""]:
        path.write_bytes(damaged)
        files, passed_over = folder.newest_checkpoint()
        assert files is not None and files["model.safetensors"] == b"weights 1"
        assert passed_over == ["00000002"]


def test_a_failed_save_leaves_the_checkpoint_before_it(tmp_path, failing, monkeypatch):
    for at in range(1, 20):
        monkeypatch.setattr(storage, "before_operation", None)
        folder = RunFolder(tmp_path / str(at))
        folder.create()
        checkpoint(folder, 1, keep=1)
        operations = failing(at)
        try:
            checkpoint(folder, 2, keep=1)
        except StorageError:
            pass
        else:
            assert len(operations) < at, "every operation has had its turn to fail"
            return
        files, _ = folder.newest_checkpoint()
        assert files is not None and files["model.safetensors"] in (b"weights 1", b"weights 2"), at
    raise AssertionError("a checkpoint takes fewer than 20 operations")


def test_what_an_interrupted_process_left_is_swept_up(tmp_path):
    (tmp_path / f"{storage.TEMPORARY}file").write_text("half")
    (tmp_path / f"{storage.TEMPORARY}folder").mkdir()
    storage.remove_unfinished(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_many_write_one_file_at_once_and_all_succeed(tmp_path):
    """Runs that start together on one text make the same entries of the cache."""
    path = tmp_path / "entry.json"
    together = threading.Barrier(8)

    def write(number):
        together.wait()
        for _ in range(20):
            storage.write_file(path, str(number) * 1000)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))                                # raises what a thread raised
    assert path.read_text() in [str(number) * 1000 for number in range(8)]
    assert list(tmp_path.iterdir()) == [path]


def test_many_make_one_folder_at_once_and_the_first_stays(tmp_path):
    final, together = tmp_path / "shard", threading.Barrier(8)

    def settle(number):
        part = storage.own_part(final)
        storage.make_folder(part)
        storage.write_part(part / "about", str(number))
        together.wait()
        storage.settle_folder(part, final, lambda there: (there / "about").exists())
        return (final / "about").read_text()

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(settle, range(8)))
    assert len(found) == 1 and list(tmp_path.iterdir()) == [final]


def test_a_bad_folder_is_replaced(tmp_path):
    final = tmp_path / "shard"
    final.mkdir()
    (final / "half").write_text("")
    part = storage.own_part(final)
    storage.make_folder(part)
    storage.write_part(part / "about", "whole")
    storage.settle_folder(part, final, lambda there: (there / "about").exists())
    assert [path.name for path in final.iterdir()] == ["about"] and list(tmp_path.iterdir()) == [final]


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_disk_that_refuses_a_folder_is_told(tmp_path, failing, at):
    part = storage.own_part(tmp_path / "shard")
    storage.make_folder(part)
    failing(at)
    with pytest.raises(StorageError):
        storage.settle_folder(part, tmp_path / "shard", lambda there: True)


def test_folders_above_are_removed_again_unless_something_came_into_them(tmp_path):
    (tmp_path / "mine").mkdir()
    path = tmp_path / "mine" / "a" / "b" / "file"
    with pytest.raises(ZeroDivisionError), storage.folders_above(path):
        assert path.parent.is_dir()
        raise ZeroDivisionError
    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]
    with storage.folders_above(path):
        (tmp_path / "mine" / "a" / "kept").touch()
    assert {each.name for each in tmp_path.rglob("*")} == {"mine", "a", "kept"}
