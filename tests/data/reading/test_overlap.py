"""Held-out lines that stand in the training part too: all that were planted are found, and no others."""

import json
import random

import pytest

from regard.cli import main
from regard.data.reading.corpus import DataSettings
from regard.data.reading.overlap import check_overlap, lines_of

WORDS = [f"{a}{b}" for a in "bdfgklmnprst" for b in ("an", "el", "io", "ur", "ash", "em")]


def a_line(draw, words=12):
    return " ".join(draw.choice(WORDS) for _ in range(words))


@pytest.fixture
def files(tmp_path):
    """300 lines to learn from; of 40 held-out ones 6 are the same, 5 differ in a word at the end, 3 are short."""
    draw = random.Random(1)
    train, new = [a_line(draw) for _ in range(300)], [a_line(draw) for _ in range(26)]
    same, near = train[10:16], [f"{line.rsplit(' ', 1)[0]} novel" for line in train[50:55]]
    (tmp_path / "train.txt").write_text("\n".join(train) + "\n")
    (tmp_path / "valid.txt").write_text("\n".join([*new, *same, *near, "a b", "a b", train[0].split()[0]]) + "\n")
    return tmp_path


def test_what_was_planted_is_found_and_nothing_else(files):
    lines, (found,) = check_overlap(DataSettings((str(files / "train.txt"),), valid=(str(files / "valid.txt"),)))
    assert lines == 300 and len(found.lines) == 37 and found.short == 3
    assert sorted(found.same) == list(range(26, 32)) and sorted(found.near) == list(range(32, 37))
    assert sum(found.shared) == 11 and all(line != other for line, other in found.examples()[3:])


def test_case_and_white_space_do_not_hide_a_line(files):
    train = (files / "train.txt").read_text().splitlines()
    (files / "valid.txt").write_text(f"{train[3].upper()}\n  {train[4].replace(' ', '   ')}  \n")
    _, (found,) = check_overlap(DataSettings((str(files / "train.txt"),), valid=(str(files / "valid.txt"),)))
    assert found.same == {1} and set(found.near) == {0}


def test_without_held_out_files_the_split_is_that_of_training(files):
    train = (files / "train.txt").read_text()
    (files / "train.txt").write_text(train + "\n".join(train.splitlines()[:20]) + "\n")
    lines, (found,) = check_overlap(DataSettings((str(files / "train.txt"),)))
    assert found.part == "valid" and len(found.same) == 20 and lines + len(found.lines) in (320, 321)


def test_lines_are_whole_wherever_the_text_was_cut():
    assert list(lines_of(["one two", " three\n\nfour", "\n", " five"])) == ["one two three", "four", "five"]


def test_the_command_counts_and_shows_what_it_does_to_the_score(files, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["train", "lm", "train.txt", "--valid", "valid.txt", "--family", "ngram", "--tokenizer", "word", "--out",
          "run", "--quiet"])
    capsys.readouterr()
    main(["data", "check", "train.txt", "--valid", "valid.txt", "--run", "run", "--json"])
    (part,) = json.loads(capsys.readouterr().out)["parts"]
    assert (part["same"], part["near"]) == (6, 5)
    bits = part["bits_per_byte"]
    assert bits["in train too"] < bits["all"] < bits["others"]
    main(["data", "check", "train.txt", "--valid", "valid.txt", "--run", "run"])
    told = capsys.readouterr().out
    assert "37 lines of 5 words or more: 6 (16.2%) stand in train word for word, 5 (13.5%) nearly" in told
    assert "bits per byte: all" in told
