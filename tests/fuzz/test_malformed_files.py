"""Malformed files: whatever becomes of a file, it is read, or refused in one line, soon and with little memory."""

import os
import sys
from pathlib import Path

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("limits of memory are Linux's", allow_module_level=True)

from tests.fuzz.kinds import KINDS, Kind, writer
from tests.fuzz.running import run_cases, use

COUNT, SEED = 70, 0
# What is damaged of these is told in a note, or is not needed, and the run or the text is used.
NOTED = ("manifest.json", "metrics.jsonl", "dataset_info.json of a saved dataset")


@pytest.mark.parametrize("name", list(KINDS))
def test_a_malformed_file_is_read_or_refused_in_one_line(name, tmp_path, monkeypatch):
    kind = KINDS[name]
    if kind.needs:
        pytest.importorskip(kind.needs)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    found = run_cases(kind, kind.prepare(tmp_path / "files"), range(COUNT), SEED)
    assert not found.faults, "\n".join(f"{number}: {how} {why}" for number, (how, why) in found.faults.items())
    assert found.counts.total() == COUNT and (found.counts["refused"] or name in NOTED)


FOUND = sorted((Path(__file__).parent / "found").iterdir())


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.name)
def test_what_was_found_once_stays_mended(path, tmp_path):
    """Each file is called by its kind, and by what it showed."""
    kind = KINDS[path.name.partition(" - ")[0]]
    folder = kind.prepare(tmp_path / "files")
    assert use(kind, kind.place(folder, path.read_bytes())) in ("done", "refused")


def forever(path):
    while True:
        pass


def hungry(path):
    assert bytearray(2**30)


def clumsy(path):
    raise KeyError("x")


def gone(path):
    os._exit(3)


@pytest.mark.parametrize(("bad", "how"), [
    (forever, "ended"), (hungry, "traceback"), (clumsy, "traceback"), (gone, "ended")])
def test_a_planted_fault_is_found(bad, how, tmp_path):
    """One file hangs, takes a gigabyte, shows a traceback or ends the process; the other cases go on."""

    def changes(path):
        raw = path.read_bytes()
        if raw != b"good" and sum(raw) % 3 == 0:
            bad(path)

    kind = Kind("planted", writer("a.txt", b"good"), changes)
    kind.prepare(tmp_path / "files")
    planted = [number for number in range(12) if sum(kind.changed(b"good", number, 0)) % 3 == 0
               and kind.changed(b"good", number, 0) != b"good"][:1]
    found = run_cases(kind, tmp_path / "files", [number for number in range(12) if number in planted or sum(
        kind.changed(b"good", number, 0)) % 3], 0)
    assert list(found.faults) == planted and found.faults[planted[0]][0] == how
