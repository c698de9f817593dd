"""Every sentence of SECURITY.md stands in the table, and every test of the table exists."""

import ast
from functools import cache

import pytest

from tests.security.sentences import ADVICE, PAGE, ROOT, read_table, sentences_of


@cache
def names_in(path):
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_table_has_every_sentence_in_order_and_no_other():
    assert [says for says, _ in read_table()] == sentences_of(PAGE.read_text("utf-8"))


def test_every_promise_has_a_test_and_every_test_exists():
    promises, _, _ = PAGE.read_text("utf-8").partition(ADVICE)
    for says, named in read_table():
        assert named or says not in sentences_of(promises), f"nothing holds: {says}"
        for each in named:
            path, _, name = each.partition("::")
            assert name.startswith("test_") and name in names_in(path), f"{each} does not exist: {says}"


@pytest.mark.parametrize("text, found", [
    ("# T\n\nOne. Two `a.b`\nof it! `Three` too.", ["One.", "Two `a.b` of it!", "`Three` too."]),
    ("**Bold.** Then (one\ntwo) 2.12.1 has. (In it.) Out.\n\n- A.\n- B. C.",
     ["**Bold.**", "Then (one two) 2.12.1 has.", "(In it.)", "Out.", "A.", "B.", "C."])])
def test_sentences_are_told_apart(text, found):
    assert sentences_of(text) == found


def test_a_sentence_that_changes_is_seen(monkeypatch):
    changed = PAGE.read_text("utf-8").replace("at most 1 MB", "at most 2 MB")
    assert [says for says, _ in read_table()] != sentences_of(changed)
