"""What torch's compiler keeps: in a folder of this user alone, and used only as it was written."""

import getpass
import os
import subprocess
import sys
import tempfile

import pytest

from regard.kernels.cpu import compiled_code, private

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX's")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(compiled_code.VARIABLE, "")                     # so that it is put back
    monkeypatch.delenv(compiled_code.VARIABLE)
    monkeypatch.setattr(compiled_code.atexit, "register", lambda *_, **__: None)
    return tmp_path / "cache"


@pytest.mark.parametrize("before", ["", f"{tempfile.gettempdir()}/torchinductor_{getpass.getuser()}"])
def test_the_compiler_keeps_its_code_in_the_cache_and_not_where_anybody_can_be_first(cache, monkeypatch, before):
    monkeypatch.setenv(compiled_code.VARIABLE, before)                       # as torch sets it, when it is imported
    compiled_code.keep()
    assert os.environ[compiled_code.VARIABLE] == str(private.folder_of("compiled"))
    assert private.folder_of("compiled").stat().st_mode & 0o777 == 0o700
    compiled_code.keep()
    assert os.environ[compiled_code.VARIABLE] == str(private.folder_of("compiled"))


def test_torch_takes_the_folder_from_that_variable(cache, monkeypatch):
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    monkeypatch.setenv(compiled_code.VARIABLE, "")
    compiled_code.keep()
    assert cache_dir() == str(private.folder_of("compiled"))


def test_the_compiler_keeps_nothing_where_everybody_may_write(cache):
    cache.mkdir()
    cache.chmod(0o777)
    told = subprocess.run([sys.executable, "-c", "import os; from regard.kernels.cpu import compiled_code\n"
                           "compiled_code.keep(); compiled_code.keep()\n"
                           "path = os.environ[compiled_code.VARIABLE]; print(path, oct(os.stat(path).st_mode))"],
                          capture_output=True, text=True, check=True)
    folder, mode = told.stdout.split()
    assert not folder.startswith(str(cache)) and mode == "0o40700" and not os.path.exists(folder)
    assert told.stderr.startswith("(compiled code is kept for this process alone: everybody may write to ")
    assert told.stderr.count("\n") == 1


@pytest.mark.parametrize("named", ["/somewhere", f"{tempfile.gettempdir()}/mine", "/somewhere/torchinductor_mine"])
def test_a_folder_named_in_the_environment_is_the_compilers(cache, monkeypatch, named):
    monkeypatch.setenv(compiled_code.VARIABLE, named)
    compiled_code.keep()
    assert os.environ[compiled_code.VARIABLE] == named and not cache.exists()


# ------------------------------------------------------------------------------------------------ damage


@pytest.fixture
def kept(cache):
    """A folder as a process leaves it."""
    folder = private.folder_of("compiled")
    with private.open_folder(folder) as lock:
        for name in ("ab/code.so", "ab/code.cpp", "graphs/one"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(name.encode() * 100)
        (folder / "ab" / "code.lock").touch()
        compiled_code.record(folder, lock)
    return folder


def checked(folder):
    with private.open_folder(folder) as lock:
        return compiled_code.verify(folder, lock)


def test_what_is_as_it_was_written_stays(kept):
    before = sorted(kept.rglob("*"))
    assert checked(kept) == 0 and sorted(kept.rglob("*")) == before


@pytest.mark.parametrize("position", [0, 500, -1])
@pytest.mark.parametrize("name", ["ab/code.so", "ab/code.cpp", "graphs/one"])
def test_a_file_with_another_bit_is_removed_and_no_other(kept, name, position):
    data = bytearray((kept / name).read_bytes())
    data[position] ^= 4
    (kept / name).write_bytes(data)
    assert checked(kept) == 1 and not (kept / name).exists()
    assert len(list(compiled_code._files(kept))) == 2


def test_what_a_killed_process_left_is_removed_but_not_what_one_that_runs_is_making(kept):
    (kept / "ab" / "half.so").write_bytes(b"half")
    with private.open_folder(kept) as other:
        compiled_code._alone(other)                                    # another process at work
        assert checked(kept) == 0
    assert checked(kept) == 1 and not (kept / "ab" / "half.so").exists()


def test_a_damaged_list_removes_and_never_fails(kept):
    path = kept / compiled_code.SUMS
    whole = path.read_bytes()
    files = {file: file.read_bytes() for _, file in compiled_code._files(kept)}
    for position in range(0, len(whole), 7):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 16]) + whole[position + 1:])
        path.chmod(0o600)
        assert checked(kept) <= len(files)
        for file, data in files.items():
            assert not file.exists() or file.read_bytes() == data
            file.write_bytes(data)
    for bad in (b"", b"\xff\n\n", whole[:50]):
        path.write_bytes(bad)
        assert checked(kept) in (2, 3)
        for file, data in files.items():
            file.write_bytes(data)


def test_removal_is_said_in_one_line(kept, capfd):
    (kept / "graphs" / "one").write_bytes(b"")
    compiled_code.keep()
    assert capfd.readouterr().err == f"(compiled code in {kept} was damaged or half made: 1 files are compiled again)\n"
    assert os.environ[compiled_code.VARIABLE] == str(kept)
