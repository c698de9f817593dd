import hashlib
import re
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from regard.corpora import stories
from regard.corpora.story_world import ANIMALS, BOYS, GIRLS, many
from regard.data import embedded
from regard.errors import SettingError
from tests.made_later import MadeLater

LINES = MadeLater(lambda: list(stories.generate(3000, seed=3)))


def test_stories_are_the_same_for_the_same_seed():
    assert list(stories.generate(20, 1)) == list(stories.generate(20, 1)) != list(stories.generate(20, 2))


def test_stories_have_four_to_nine_sentences_on_one_line():
    for line in LINES:
        assert "\n" not in line and "  " not in line
        assert 4 <= len(re.findall(r'[.?!]"?(?= [A-Z"]|$)', line)) <= 9, line


def test_articles_agree_with_the_word_that_follows():
    for line in LINES:
        assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]", line), line


def test_verbs_agree_with_their_noun_across_a_clause():
    clause = re.compile(r"[Tt]he (\w+) (?:that \w+|behind|near|that lived near) the \w+ (was|were)\b")
    for line in LINES:
        for noun, verb in clause.findall(line):
            assert verb == ("was" if noun in ANIMALS else "were"), line


def test_pronouns_agree_with_the_only_name_in_sight():
    for line in LINES:
        names = [name for name in GIRLS + BOYS if re.search(rf"\b{name}\b", line)]
        if all(name in GIRLS for name in names):
            assert not re.search(r"\b(he|He|him|his|His)\b", line), line
        if all(name in BOYS for name in names):
            assert not re.search(r"\b(she|She|her|Her)\b", line), line


def test_the_vocabulary_is_small_and_the_stories_many():
    words = {word for line in LINES for word in re.findall(r"[a-z]+", line.lower())}
    assert 300 < len(words) < 500
    assert len(set(LINES)) == len(LINES)


def test_what_is_told_early_decides_the_end():
    for line in LINES:
        had = re.match(r"(\w+) had an? \w+ \w+, and \w+ had an? (\w+) (\w+)\.", line)
        now = re.search(r" Now (\w+) has the (\w+) (\w+),", line)
        if had and now:
            assert had.groups() == now.groups()
        key = re.search(r"found an? (\w+) key .* (?:into|But) the (\w+) door", line)
        if key:
            assert key[1] == key[2]


def test_plurals():
    assert [many(noun) for noun in ("dog", "scarf", "sandwich")] == ["dogs", "scarves", "sandwiches"]


# ---------------------------------------------------------------------------------------------------- parts


LINES_OF = MadeLater(lambda: {(name, part): list(embedded.lines(name, part))
                              for name in embedded.CORPORA for part in embedded.PARTS})


@pytest.mark.parametrize("name", embedded.CORPORA)
def test_lines_have_three_parts_of_the_sizes_that_are_told(name):
    for part in embedded.PARTS:
        assert len(LINES_OF[name, part]) == embedded.size(name, part) == embedded.CORPORA[name].count // (
            1 if part == "train" else 10)
        assert list(islice(embedded.lines(name, part), 500)) == LINES_OF[name, part][:500]   # whenever it is asked for


@pytest.mark.parametrize("name", embedded.CORPORA)
@pytest.mark.parametrize("one, other", [("train", "valid"), ("train", "test"), ("valid", "test")])
def test_parts_share_no_line(name, one, other):
    shared = set(LINES_OF[name, one]) & set(LINES_OF[name, other])
    if name == "ab":                                     # one row of each length has no B: all parts have it
        assert shared == {" ".join("A" * length) + " -> A" for length in range(4, 24)}
    else:
        assert not shared


def content(lines):
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()[:16]


def test_what_old_runs_learned_from_is_as_it_was():
    """A run on `stories` made before there was a test part can go on: both of its texts are the same to the byte."""
    assert content(LINES_OF["stories", "train"]) == "12ab1a9e6464cf49"
    assert content(LINES_OF["stories", "valid"]) == "c65e96ac32af72c6"


@pytest.mark.parametrize("name, number", [("phrasebook", 300), ("gists", 100)])
def test_pairs_have_a_test_part_that_goes_on_after_the_valid_one(name, number, monkeypatch):
    monkeypatch.setitem(embedded.PAIRED, name, replace(embedded.PAIRED[name], count=10 * number))
    parts = {part: [pair.source for pair in embedded.pairs(name, part)] for part in embedded.PAIRED[name].parts}
    assert {part: len(found) for part, found in parts.items()} == {
        "train": 10 * number, "valid": number, "test": number, "unseen": number}
    every = [source for found in parts.values() for source in found]
    assert len(set(every)) == len(every)
    assert parts["valid"] == [pair.source for pair in embedded.PAIRED[name].draw(number, 0, "valid")]


def test_a_part_that_a_corpus_lacks_is_refused_with_those_it_has():
    with pytest.raises(SettingError, match="ab has no part unseen: it has train, valid, test"):
        embedded.lines("ab", "unseen")
    with pytest.raises(SettingError, match="gists has no part tset: it has train, valid, test, unseen"):
        embedded.pairs("gists", "tset")


@pytest.mark.parametrize(("modules", "words"), [
    (embedded.CORPORA["stories"].modules, ["stories.toml", "story_world.toml"]),
    (embedded.PAIRED["gists"].modules, ["gist_plots.toml", "stories.toml", "story_world.toml"]),
    (embedded.PAIRED["phrasebook"].modules, ["phrasebook_verbs.tsv", "phrasebook_words.toml"])])
def test_word_lists_are_part_of_a_corpus_version(modules, words):
    assert sorted(Path(each).name for each in modules if not each.endswith(".py")) == words
    others = [each for each in modules if not each.endswith(words[-1])]
    assert embedded._version(modules) != embedded._version(others)


def test_a_corpus_is_written_once(tmp_path):
    (path,) = embedded.write("ab", "valid", tmp_path)
    before = path.stat().st_mtime_ns
    assert embedded.write("ab", "valid", tmp_path) == [path] and path.stat().st_mtime_ns == before
    assert path.read_text().splitlines() == list(embedded.lines("ab", "valid"))
