"""Gists follow from their documents, from several sentences of them, and no part sees what another has."""

import random
import re
from bisect import bisect_right
from collections import Counter
from dataclasses import replace
from itertools import accumulate, combinations

import pytest

from regard.corpora import gists
from regard.corpora.gist_plots import CAUGHT, FOUND, GEAR, MISHAPS, PLOTS
from regard.corpora.gists import OPEN, PARTS, Gist, draw, finish, key_words, pairs, part_of, show, unseen
from regard.corpora.story_world import BOYS, GIRLS, World, many
from regard.data import embedded
from regard.data.reading.sentences import split as sentences
from regard.data.tokens.words import WordTokenizer, train_words
from regard.errors import SettingError
from regard.metrics.alignment_error import read_pharaoh
from tests.made_later import MadeLater

SPLIT = WordTokenizer([]).split
TRAIN = MadeLater(lambda: list(pairs(1500)))
VALID = MadeLater(lambda: list(pairs(300, part="valid")))
UNSEEN = MadeLater(lambda: list(pairs(300, part="unseen")))
EVERY = MadeLater(lambda: [*TRAIN, *VALID, *UNSEEN])


def stories(number, seed=3):
    """Plots as they are told, marked, with the words that were drawn for them."""
    chance = random.Random(seed)
    for turn in range(number):
        world = World(chance)
        yield PLOTS[turn % len(PLOTS)](world), world.used


# ------------------------------------------------------------------------------------------------ documents


def test_gists_are_the_same_for_the_same_seed():
    assert TRAIN[:30] == list(pairs(30)) != list(pairs(30, seed=1))


def test_documents_and_gists_have_their_sizes():
    for pair in EVERY:
        assert 50 <= len(pair.source.split()) <= 120 and 6 <= len(pair.target.split()) <= 14, show(pair)
        assert pair.length == len(SPLIT(pair.source)) <= 120                 # fits a context of 128 with <eos>
        assert 5 <= len(sentences(pair.source)) <= 10 and len(sentences(pair.target)) == 1, show(pair)
        assert not re.search(r"[\[\]{}\n]|  ", pair.source + pair.target)


def test_the_vocabulary_is_small_and_the_stories_are_many():
    assert 300 < len({word for pair in TRAIN for word in SPLIT(pair.source)}) < 500
    assert 120 < len({word for pair in TRAIN for word in SPLIT(pair.target)}) < 220
    assert len({pair.source for pair in EVERY}) == len(EVERY)
    told = Counter(pair.target for pair in TRAIN)
    assert len(told) > 0.98 * len(TRAIN)                                     # hardly a gist twice: millions of them


def test_words_put_together_again_give_the_line():
    tokenizer = train_words("word", (text for pair in EVERY for text in (pair.source, pair.target)), None)
    for pair in EVERY[::7]:
        for text in (pair.source, pair.target):
            assert tokenizer.decode(tokenizer.encode(text)) == text


def test_articles_and_pronouns_agree():
    for pair in EVERY:
        for text in (pair.source, pair.target):
            assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]", text), text
        names = {word for word in SPLIT(pair.source) if word in GIRLS + BOYS}
        if names <= set(GIRLS):
            assert not re.search(r"\b([Hh]e|him|[Hh]is)\b", pair.source), pair.source
        if names <= set(BOYS):
            assert not re.search(r"\b([Ss]he|[Hh]er)\b", pair.source), pair.source


def test_what_could_be_drawn_is_only_there_when_it_was():
    """So that every mention of a word speaks of the same thing, and links to mentions are right."""
    for (told, _), used in stories(1200):
        drawn = {word for each in used for word in each.split()}
        drawn |= {many(word) for word in drawn}
        assert {word for word in SPLIT(" ".join(told)) if word in OPEN} <= drawn, told


# ------------------------------------------------------------------------------ what a gist needs and says


def test_no_sentence_says_it_all_and_neither_the_first_nor_the_last_says_much():
    edges = []
    for pair in EVERY:
        words = [SPLIT(piece.text) for piece in sentences(pair.source)]
        ends = list(accumulate(map(len, words)))
        keys = key_words(pair)
        telling = {bisect_right(ends, i) for i, _ in pair.alignment}         # sentences
        assert len(keys) in (4, 5) and len(telling) >= 3, show(pair)
        assert all(len(keys & set(sentence)) <= 3 for sentence in words), show(pair)
        edges += [len(keys & set(words[0])), len(keys & set(words[-1]))]
    assert max(edges) <= 3 and sum(edges) / len(edges) < 1.2


def test_distractors_are_of_the_same_kinds():
    for pair in TRAIN[:500]:
        names = {word for word in SPLIT(pair.source) if word in GIRLS + BOYS}
        assert len(names) >= 3 and len(names - key_words(pair)) >= 1, show(pair)


def one(pattern, document):
    """What the groups that matched hold."""
    return [group for group in re.search(pattern, document).groups() if group is not None]


def ending(table, document):
    (end,) = {end for end, cues in table.items() for cue in cues
              if re.search(re.sub(r"\\{\w+\\}", r"\\w+", re.escape(cue)), document)}
    return end


def read(document):
    """The gist, by a reader of its own who knows the phrases and not the draws."""
    if "grandmother" in document or "best thing" in document:
        (owner,) = one(r"(\w+) (?:lived near|came from)", document)
        colour, thing = one(r"(?:She|He) had an? (\w+) (\w+) from|had was an? (\w+) (\w+)\.", document)
        found = re.search(r"in the (?P<p>\w+), and there (?P<f>\w+) saw", document) or re.search(
            r"day (?P<f>\w+) went to the (?P<p>\w+), and", document)
        return f"{found['f']} found {owner}'s {colour} {thing} in the {found['p']} and {ending(FOUND, document)}."
    if "present" in document:
        (maker,) = one(r"(\w+) (?:worked|sat) in the", document)
        colour, thing = one(r"(?:Friday|What came of it was) an? (\w+) (\w+)", document)
        (holder,) = one(r"gave it to (\w+)|agreed that (\w+)|But (\w+) would not|make (\w+) give", document)
        (room,) = one(r"in the (\w+)\.$", document)
        return f"The {colour} {thing} that {maker} made ended up with {holder} in the {room}."
    if " race " in document:
        (winner,) = one(r"in front of (\w+)|it was (\w+) who ran", document)
        colour, thing = one(r"first would get an? (\w+) (\w+)|and an? (\w+) (\w+) for the first", document)
        (place,) = one(r"race (?:from the \w+ )?to the (\w+)", document)
        (leader,) = one(r"Soon (\w+) was far|but (\w+) flew", document)
        return f"{winner} won the {colour} {thing} at the {place} because {leader} {ending(MISHAPS, document)}."
    if "gate" in document:
        (animal,) = one(r"the (\w+) was gone", document)
        (keeper,) = one(rf"(\w+) had an? \w+ {animal}", document)
        met = re.search(r"in the (?P<p>\w+) and ate.* where (?P<c>\w+) met", document) or re.search(
            r"(?P<c>\w+) came through the (?P<p>\w+) with", document)
        return f"The {animal} of {keeper} ran to the {met['p']}, and {met['c']} {ending(CAUGHT, document)}."
    if "halfway" in document or "out of sight" in document:
        (weather,) = one(r"began to (\w+)|grew (\w+)|a strong (\w+)", document)
        names = re.search(r"(\w+) and (\w+) (?:were expected|set out)", document).groups()
        gear = GEAR[weather][0]
        (arrives,) = one(rf"(\w+) had an? {gear}", document)
        (place,) = one(r"(?:expected at|set out for) the (\w+)", document)
        (turns,) = set(names) - {arrives}
        article = "an" if gear[0] in "aeiou" else "a"
        return f"With {article} {gear} {arrives} reached the {place} in the {weather}, but {turns} turned back."
    (owner,) = one(r"(\w+) (?:lived all alone|was poor)", document)
    (broken,) = one(r"ruined \w+ (\w+)|that \w+ (\w+) was in pieces", document)
    (helper,) = one(r"done by (\w+)|It took (\w+) all", document)
    (tool,) = one(rf"(?:{helper} had an? \w+ and a|had a good) (\w+)", document)
    (reward,) = one(r"given the (\w+)|nothing but an? (\w+)", document)
    article = "an" if reward[0] in "aeiou" else "a"
    return f"{helper} mended {owner}'s {broken} with a {tool} and got {article} {reward}."


def test_a_reader_who_never_saw_the_draws_comes_to_the_same_gist():
    for pair in EVERY:
        assert read(pair.source) == pair.target, show(pair)
    assert {plot.__name__ for plot in PLOTS} == {"found", "passed_on", "race", "mended", "runaway", "journey"}


def test_the_reader_would_see_a_gist_of_another_story():
    """Planted: two people, or two places, change roles in the document."""
    seen = 0
    for pair in TRAIN[:300]:
        for kind in (GIRLS + BOYS, gists.PLACES):
            there = sorted({word for word in SPLIT(pair.source) if word in kind})
            if len(there) > 1 and set(there) & key_words(pair):
                a, b = next((a, b) for a in there for b in there if a in key_words(pair) and a != b)
                turned = re.sub(rf"\b({a}|{b})\b", lambda m, a=a, b=b: b if m[0] == a else a, pair.source)
                assert read(turned) != pair.target
                seen += 1
    assert seen > 300


# ------------------------------------------------------------------------------------------------ alignments


def well_aligned(pair):
    document, gist, keys = SPLIT(pair.source), SPLIT(pair.target), key_words(pair)
    if not set(pair.alignment) <= set(pair.mentions) or len({j for _, j in pair.alignment}) != len(pair.alignment):
        return False
    same = {(i, j) for j, said in enumerate(gist) if said.removesuffix("'s") in keys
            for i, word in enumerate(document) if word == said.removesuffix("'s")}
    return set(pair.mentions) == same and list(pair.alignment) == sorted(pair.alignment)


def test_each_key_word_is_linked_to_its_mentions():
    assert all(map(well_aligned, EVERY))
    assert all(len(pair.alignment) == len(key_words(pair)) for pair in EVERY)


def test_a_wrong_link_would_be_seen():
    pair = finish(["[Mia] had [a] kite.", "[Tom] and Mia saw it."], "[Tom] saw [Mia's] kite.")
    assert pair.alignment == ((0, 2), (5, 0)) and pair.mentions == ((0, 2), (5, 0), (7, 2))
    assert well_aligned(pair) and pair.source == "Mia had a kite. Tom and Mia saw it."
    for links in (((0, 0), (5, 2)), ((1, 2), (5, 0))):
        assert not well_aligned(replace(pair, alignment=links))
    assert not well_aligned(replace(pair, mentions=pair.mentions[:2]))
    with pytest.raises(ValueError):                                          # a key word that no sentence tells
        finish(["Mia had a kite."], "[Tom] saw it.")


def test_links_are_written_as_sure_and_possible():
    gold = read_pharaoh(TRAIN[0].pharaoh)
    assert gold.sure == set(TRAIN[0].alignment) and gold.allowed == set(TRAIN[0].mentions)


# ------------------------------------------------------------------------------------------------ the three parts


def kept_apart(train, unseen_part):
    """No combination of an unseen gist that makes it one is in a gist to learn from, and each has one."""
    met = {both for pair in train for both in combinations(sorted(key_words(pair) & OPEN), 2)}
    fresh = [[both for both in combinations(sorted(key_words(pair) & OPEN), 2) if unseen(*both)]
             for pair in unseen_part]
    return all(fresh) and not any(both in met for pair in fresh for both in pair)


def test_parts_share_no_document_and_unseen_no_combination():
    sources = [{pair.source for pair in part} for part in (TRAIN, VALID, UNSEEN)]
    assert not sources[0] & sources[1] and not sources[0] & sources[2] and not sources[1] & sources[2]
    assert kept_apart(TRAIN + VALID, UNSEEN) and not kept_apart(TRAIN + VALID, VALID)
    assert not kept_apart(TRAIN + UNSEEN[:1], UNSEEN)
    known = {word for pair in TRAIN for word in SPLIT(pair.target)}
    assert {word for pair in UNSEEN for word in SPLIT(pair.target)} <= known


def test_a_document_belongs_to_one_part_whatever_the_seed():
    chance = random.Random(11)
    counts = Counter(part_of(draw(chance)) for _ in range(1000))
    assert counts["train"] > 600 and counts["valid"] > 40 and counts["unseen"] > 100
    for part in PARTS:
        assert {part_of(pair) for pair in pairs(50, 9, part)} == {part}


def test_every_plot_is_in_every_part():
    for part in (TRAIN, VALID, UNSEEN):
        kinds = Counter(next(word for word in ("found", "ended", "won", "mended", "ran", "reached")
                             if word in SPLIT(pair.target)) for pair in part)
        assert len(kinds) == 6 and min(kinds.values()) > 0.03 * len(part)


def test_an_unknown_part_is_named():
    with pytest.raises(SettingError, match="gists have no part vaild: did you mean valid"):
        pairs(1, part="vaild")


# ------------------------------------------------------------------------------------------------ by name


def test_gists_are_there_by_name(tmp_path, monkeypatch):
    corpus = embedded.PAIRED["gists"]
    assert corpus.count == 30_000 and embedded.known_pairs(["gists"]) is corpus and "gists" in embedded.every()
    assert next(embedded.pairs("gists", "unseen")) == UNSEEN[0]
    assert any(name.endswith("story_world.py") for name in corpus.modules)
    monkeypatch.setitem(embedded.PAIRED, "gists", replace(corpus, count=50))
    document, gist = embedded.write("gists", "train", tmp_path)
    assert document.read_text().splitlines() == [pair.source for pair in TRAIN[:50]]
    assert gist.read_text().splitlines() == [pair.target for pair in TRAIN[:50]]


def test_a_pair_is_shown():
    pair = Gist("Mia had a kite. Tom saw it.", "Tom saw Mia's kite.", ((0, 2), (5, 0)), ((0, 2), (5, 0)), 9)
    assert embedded.PAIRED["gists"].show(pair).splitlines() == [
        "Mia had a kite. Tom saw it.", "    Tom saw Mia's kite.", "    Tom 5  Mia's 0"]
    assert all(len(line) <= 100 for line in show(TRAIN[0]).splitlines())
