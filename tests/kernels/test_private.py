"""Code is kept only where nobody else can write."""

import os

import pytest

from regard.errors import StorageError
from regard.kernels.cpu import private

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX's")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_file_comes_back_as_it_was_written(cache):
    path = private.folder_of("code")
    with private.open_folder(path) as folder:
        assert private.load_file(folder, "a") is None
        private.write_file(folder, "a", b"one")
        private.write_file(folder, "a", b"two")
        assert private.load_file(folder, "a") == b"two"
    assert [each.name for each in path.iterdir()] == ["a"]


def test_what_is_written_is_private_whatever_the_umask(cache):
    before = os.umask(0)
    try:
        path = private.folder_of("code")
        path.parent.mkdir(parents=True)
        path.parent.chmod(0o755)
        cache.chmod(0o775)                                             # as umask 002 makes it
        with private.open_folder(path) as folder:
            private.write_file(folder, "a", b"one")
            assert private.load_file(folder, "a") == b"one"
    finally:
        os.umask(before)
    assert (path.stat().st_mode & 0o777, (path / "a").stat().st_mode & 0o777) == (0o700, 0o600)


def test_a_failed_write_leaves_nothing(cache, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    with private.open_folder(private.folder_of("code")) as folder:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            private.write_file(folder, "a", b"one")
    assert not list(private.folder_of("code").iterdir())


def test_a_file_that_is_too_large_is_refused(cache, monkeypatch):
    with private.open_folder(private.folder_of("code")) as folder:
        private.write_file(folder, "a", b"12345")
        monkeypatch.setattr(private, "LARGEST", 4)
        with pytest.raises(private.NotPrivate, match="at most 4 bytes"):
            private.load_file(folder, "a")


def test_a_folder_exchanged_after_it_was_opened_changes_nothing(cache):
    path = private.folder_of("code")
    with private.open_folder(path) as folder:
        private.write_file(folder, "a", b"ours")
        path.rename(path.with_name("moved"))
        path.mkdir()
        (path / "a").write_bytes(b"theirs")
        assert private.load_file(folder, "a") == b"ours"


@pytest.mark.parametrize("place", ["link", "file"])
def test_a_link_or_a_file_in_the_place_of_the_folder_is_refused(cache, tmp_path, place):
    path = private.folder_of("code")
    path.parent.mkdir(parents=True)
    if place == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.write_text("in the way")
    with pytest.raises(private.NotPrivate, match="is no folder, or a link to one"), private.open_folder(path):
        pass


def test_a_file_in_the_way_of_the_cache_is_one_clear_line(cache):
    cache.write_text("in the way")
    with pytest.raises(StorageError, match="could not make"), private.open_folder(private.folder_of("code")):
        pass
