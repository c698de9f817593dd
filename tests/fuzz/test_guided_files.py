"""Chains that are guided by coverage reach what single changes do not; a short one of some kinds holds in CI."""

import sys

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("limits of memory are Linux's", allow_module_level=True)

from tests.fuzz.guided import find_fault
from tests.fuzz.kinds import KINDS, Kind, writer
from tests.fuzz.running import use


@pytest.mark.parametrize("name", list(KINDS)[::3])
def test_no_file_of_a_chain_shows_a_fault(name, tmp_path, monkeypatch):
    kind = KINDS[name]
    if kind.needs:
        pytest.importorskip(kind.needs)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    wrong, raw, _ = find_fault(kind, kind.prepare(tmp_path / "files"), 0, rounds=6)
    assert not wrong, (wrong, raw[:200])


DEEP = '''
def read(raw):
    if len(raw) != 160:
        return
    if raw[:40].strip(b"a"):
        if raw[40:80].strip(b"a"):
            if raw[80:120].strip(b"a"):
                if raw[120:].strip(b"a"):
                    raise KeyError("four changes deep")
'''


def test_a_fault_that_is_four_changes_deep_is_found(tmp_path, monkeypatch):
    """A file is changed in three places at most: without parents that reached a new line nobody gets there."""
    import tests.fuzz.guided as guided

    place, space = tmp_path / "package" / "deep.py", {}
    exec(compile(DEEP, str(place), "exec"), space)
    monkeypatch.setattr(guided, "PACKAGE", str(place.parent))
    kind = Kind("deep", writer("a.txt", b"a" * 160), lambda path: space["read"](path.read_bytes()))
    kind.prepare(tmp_path / "files")
    found = [find_fault(kind, tmp_path / "files", seed, 200) for seed in range(4)]
    deep = [raw for wrong, raw, _ in found if "four changes deep" in wrong]
    assert len(deep) >= 2
    for raw in deep:
        assert use(kind, kind.place(tmp_path / "files", raw)).startswith("traceback")
    assert find_fault(kind, tmp_path / "files", 0, 200)[1] == found[0][1]            # any chain can be made again
    monkeypatch.setattr(guided, "LARGEST", -1)               # nothing is kept
    assert not any(find_fault(kind, tmp_path / "files", seed, 200)[0] for seed in range(4))
