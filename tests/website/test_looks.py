"""A look is made by its commands, kept, and made anew where they or our code changed; one that fails is told."""

import pytest

from docs.site import looks
from docs.site.looks import LOOKS, LookOf, Model, NotDrawn, hash_of_code, make_model

FEW = "regard data get stories --lines 60 --out notes.txt"


@pytest.fixture
def one(monkeypatch):
    """A model that is counted, with one look; the folder is where they are kept."""
    monkeypatch.setenv("REGARD_CACHE", "")               # make_model sets it, and it is put back
    monkeypatch.setattr(looks, "STORIES", FEW)
    monkeypatch.setattr(looks, "MODELS", {"few": Model("few", FEW, "--family ngram --order 2")})
    monkeypatch.setattr(looks, "LOOKS", {"first": LookOf("first", "few", "Mia had a kite.", "what is to be seen")})


def test_a_look_is_drawn_once_and_again_when_the_code_changed(one, tmp_path):
    files = make_model("few", tmp_path, "code")
    assert [file.name for file in files] == ["first.svg", "first.html"]
    assert "<svg" in files[0].read_text("utf-8") and "Mia" in files[1].read_text("utf-8")
    drawn = files[0].stat().st_mtime_ns
    assert make_model("few", tmp_path, "code") == files and files[0].stat().st_mtime_ns == drawn
    again = make_model("few", tmp_path, "other code")
    assert again != files and again[0].is_file() and not files[0].exists()


def test_a_command_that_fails_is_told_and_nothing_is_kept(one, tmp_path, monkeypatch):
    monkeypatch.setitem(looks.MODELS, "few", Model("few", FEW, "--family ngram --ordre 2"))
    with pytest.raises(NotDrawn, match="--ordre"):
        make_model("few", tmp_path, "code")
    assert not list(tmp_path.glob("few-*"))


def test_the_hash_follows_the_code(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    before = hash_of_code(tmp_path)
    assert before == hash_of_code(tmp_path)
    (tmp_path / "a.py").write_text("x = 2\n")
    assert hash_of_code(tmp_path) != before


def test_the_command_of_a_look_names_its_run():
    assert LOOKS["masks"].command.startswith("regard show runs/transformer 'Mia had")
