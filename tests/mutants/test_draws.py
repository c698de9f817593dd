"""A seed draws the same mutants each time, spread over parts and operators."""

from collections import Counter

import pytest

from mutants import draw as drawing
from mutants.draw import draw, find_mutants

SOURCE = "def f(x, y):\n    return g(x, y) + x[0] * y\n\n\ndef h(x, y):\n    return x < y\n"


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(drawing, "PARTS", {"one": ["one/*.py"], "two": ["two.py"]})
    (tmp_path / "one").mkdir()
    for name in ("one/a.py", "one/b.py", "two.py"):
        (tmp_path / name).write_text(SOURCE)
    return tmp_path


def ids(mutants):
    return [mutant.id for mutant in mutants]


def test_one_seed_draws_the_same_and_a_larger_count_adds_to_a_smaller(root):
    assert ids(draw(8, 1, root)) == ids(draw(8, 1, root)) == ids(draw(15, 1, root))[:8]
    assert ids(draw(15, 1, root)) != ids(draw(15, 2, root))
    assert sorted(ids(draw(99, 1, root))) == sorted(ids(draw(99, 2, root)))


def test_no_mutant_is_drawn_twice_and_parts_and_operators_take_turns(root):
    every = draw(99, 1, root)
    assert len(set(ids(every))) == len(every) == sum(len(find_mutants(part, root)) for part in ("one", "two"))
    assert [each.part for each in every[:6]] == ["one", "two"] * 3
    first = Counter(each.change.operator for each in every[:10] if each.part == "one")
    assert set(first.values()) == {1}


def test_an_id_stays_when_lines_move_and_another_file_changes(root):
    before = ids(find_mutants("two", root))
    (root / "two.py").write_text("import os\n\n\n" + SOURCE)
    (root / "one" / "a.py").write_text("")
    assert ids(find_mutants("two", root)) == before


def test_the_parts_of_the_project_have_files_and_mutants_that_change_them():
    for part in ("metrics", "checkpoints", "security"):
        found = find_mutants(part)
        assert len(found) > 100
        for mutant in found[:20]:
            source = (drawing.ROOT / mutant.path).read_text("utf-8")
            assert mutant.change.apply(source) != source
