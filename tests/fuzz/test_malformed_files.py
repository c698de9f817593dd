"""Malformed files: whatever becomes of a file, it is read, or refused in one line, soon and with little memory."""

import sys
from pathlib import Path

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("limits of memory are Linux's", allow_module_level=True)

from tests.fuzz.kinds import KINDS
from tests.fuzz.running import run_cases, use

COUNT, SEED = 100, 0
NOTED = ("manifest.json", "metrics.jsonl")       # what is damaged of these is told in a note, and the run is used


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
