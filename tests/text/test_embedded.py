import re

import pytest

from regard.text import ab, embedded, stories
from regard.text.story_world import ANIMALS, BOYS, GIRLS, many

LINES = list(stories.generate(3000, seed=3))


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


def test_the_last_symbol_follows_the_rule():
    lines = list(ab.generate(500))
    for line in lines:
        *symbols, last = line.split(" ")
        assert last == ("B" if "B" in symbols else "A") and 1 <= len(symbols) < 16
    assert 100 < sum("B" in line for line in lines) < 400


@pytest.mark.parametrize("name", embedded.CORPORA)
def test_what_is_held_out_is_never_learned_from(name):
    train, valid = list(embedded.lines(name)), list(embedded.lines(name, "valid"))
    assert len(train) == embedded.CORPORA[name].count == 10 * len(valid)
    assert not set(train) & set(valid)


def test_a_corpus_is_written_once(tmp_path):
    path = embedded.write("ab", "valid", tmp_path)
    before = path.stat().st_mtime_ns
    assert embedded.write("ab", "valid", tmp_path) == path and path.stat().st_mtime_ns == before
    assert path.read_text().splitlines() == list(embedded.lines("ab", "valid"))
