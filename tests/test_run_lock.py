"""One process a folder: a second one is refused with the first one's process and host; the dead hold nothing."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from multiprocessing import get_context

import pytest

from regard import run_lock, storage
from regard.errors import RunError
from regard.run_lock import LOCK, hold_lock, use_folder

HOLD = """
import sys, time
from pathlib import Path
from regard.run_lock import hold_lock
with hold_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def other(tmp_path):
    """Another process that holds the folder's lock."""
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "held\n"
        yield child
        child.kill()


def test_a_second_process_is_refused_with_the_process_and_the_host_of_the_first(tmp_path, other):
    with pytest.raises(RunError, match=f"in use by process {other.pid} on {socket.gethostname()}: wait"), \
         hold_lock(tmp_path):
        raise AssertionError("two hold it")


def test_a_killed_process_holds_nothing(tmp_path, other):
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert (tmp_path / LOCK).exists()                        # what it left says nothing
    with hold_lock(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
    assert list(tmp_path.iterdir()) == []


def test_the_same_process_is_refused_twice(tmp_path):
    with hold_lock(tmp_path), pytest.raises(RunError, match=f"process {os.getpid()}"), hold_lock(tmp_path):
        pass


@pytest.mark.parametrize("age, taken", [(run_lock.STALE_SECONDS / 2, False), (2 * run_lock.STALE_SECONDS, True)])
def test_a_lock_of_another_host_is_believed_as_long_as_it_is_touched(tmp_path, age, taken):
    """`flock` may not reach across hosts that share a disk."""
    lock = tmp_path / LOCK
    lock.write_text(json.dumps({"pid": 7, "host": "elsewhere"}))
    os.utime(lock, (time.time() - age,) * 2)
    if taken:
        with hold_lock(tmp_path):
            assert json.loads(lock.read_text())["host"] == socket.gethostname()
        return
    with pytest.raises(RunError, match=r"process 7 on elsewhere: .*; if that has ended, remove .* or wait 5 minutes"), \
         hold_lock(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]


def test_whoever_holds_the_lock_touches_it(tmp_path, monkeypatch):
    monkeypatch.setattr(run_lock, "TOUCH_SECONDS", 0.01)
    with hold_lock(tmp_path):
        os.utime(tmp_path / LOCK, (0, 0))
        deadline = time.monotonic() + 60
        while (tmp_path / LOCK).stat().st_mtime == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert (tmp_path / LOCK).stat().st_mtime > 0


def test_a_lock_that_is_a_link_is_refused_and_what_it_points_to_is_left(tmp_path):
    other = tmp_path / "other"
    other.write_text("mine")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / LOCK).symlink_to(other)
    with pytest.raises(RunError, match="lock is a link, and a lock is written only where it lies: remove the link"), \
            hold_lock(folder):
        pass
    assert other.read_text() == "mine"


def test_a_torn_lock_is_taken(tmp_path):
    (tmp_path / LOCK).write_text('{"pid": 1')
    with hold_lock(tmp_path):
        pass


def count_alone(folder, seen):
    """Hold the lock again and again; write down when somebody else is inside, too."""
    for _ in range(200):
        try:
            with hold_lock(folder):
                inside = folder / "inside"
                try:
                    os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    seen.put("two at once")
                    return
                inside.unlink()
        except RunError:
            continue
    seen.put("alone")


def test_many_that_ask_at_once_are_never_inside_together(tmp_path):
    context = get_context("fork")
    seen = context.SimpleQueue()
    children = [context.Process(target=count_alone, args=(tmp_path, seen)) for _ in range(6)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [seen.get() for _ in children] == ["alone"] * 6


def test_whoever_is_refused_leaves_the_folder_that_it_made_to_the_one_that_was_quicker(tmp_path):
    folder = tmp_path / "run"
    made = storage.claim_folder(folder)
    with hold_lock(folder):                                  # another one locks it before its maker does
        (folder / "tokenizer.json").write_text("of the other")
        with pytest.raises(RunError, match="in use"), use_folder(folder, made, folder / "run.toml"):
            pass
        assert (folder / "tokenizer.json").exists()


def test_a_folder_that_was_made_goes_while_it_is_held(tmp_path, monkeypatch):
    """Removed after the lock is let go, it may be another's already."""
    folder, held = tmp_path / "runs" / "run", []

    def ask(operation, path):
        if operation == "rename" and path == folder:
            with pytest.raises(RunError, match="in use"), hold_lock(folder):
                pass
            held.append(path)

    made = storage.claim_folder(folder)
    with use_folder(folder, made, folder / "run.toml"):
        monkeypatch.setattr(storage, "before_operation", ask)
    assert held == [folder]
    assert not folder.parent.exists()


def test_of_the_folders_above_only_those_that_were_made_go_again(tmp_path):
    (tmp_path / "mine").mkdir()
    folder = tmp_path / "mine" / "new" / "run"
    with use_folder(folder, storage.claim_folder(folder), folder / "run.toml"):
        pass
    assert list(tmp_path.iterdir()) == [tmp_path / "mine"] and not list((tmp_path / "mine").iterdir())


def test_the_lock_of_a_folder_that_was_made_again_is_left_to_its_holder(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    with hold_lock(folder):
        storage.remove(folder)
        folder.mkdir()
        (folder / LOCK).write_text("of another")
    assert (folder / LOCK).read_text() == "of another"
