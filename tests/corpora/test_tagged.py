import hashlib
import re
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from regard.corpora.tagged import HELD_WORDS, TaggedSentence, finish, part_of_word, sentences, show
from regard.corpora.tagged_grammar import Grammar, noun_forms, read_rules, read_words, verb_forms
from regard.errors import SettingError
from tests.made_later import MadeLater

TRAIN = MadeLater(lambda: list(sentences(20_000)))
HELD = MadeLater(lambda: {part: list(sentences(2_000, part=part)) for part in ("valid", "test")})
EVERY = MadeLater(lambda: [*TRAIN, *HELD["valid"], *HELD["test"]])
TAGS = {"NOUN", "PROPN", "VERB", "AUX", "ADJ", "ADV", "PRON", "DET", "ADP", "NUM", "CCONJ", "SCONJ", "PART", "INTJ",
        "PUNCT"}


def tags_by_word(found):
    counts = defaultdict(Counter)
    for sentence in found:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            counts[word][tag] += 1
    return counts


# ------------------------------------------------------------------------------------------------ ambiguity


def test_a_fifth_of_the_words_is_ambiguous():
    """A running word is ambiguous if its form has more than one tag in the part to learn from."""
    counts = tags_by_word(TRAIN)
    for found in (TRAIN, HELD["test"]):
        words = [word for sentence in found for word in sentence.words]
        share = sum(len(counts[word]) > 1 for word in words if word in counts) / len(words)
        assert 0.15 < share < 0.3


def test_the_most_frequent_tag_is_often_wrong_and_two_neighbours_nearly_never():
    """So the context decides: one tag for nearly every word among its neighbours, though not for every word."""
    by_word, by_neighbours = Counter(), Counter()
    words, around = tags_by_word(TRAIN), defaultdict(Counter)
    for sentence in TRAIN:
        row = ("", *sentence.words, "")
        for at, tag in enumerate(sentence.tags, 1):
            around[row[at - 1], row[at], row[at + 1]][tag] += 1
    for counts, total in ((words, by_word), (around, by_neighbours)):
        for count in counts.values():
            total["all"] += count.total()
            total["wrong"] += count.total() - max(count.values())
    assert by_word["wrong"] > 0.05 * by_word["all"]
    assert by_neighbours["wrong"] < 0.01 * by_neighbours["all"]


def test_every_tag_is_there_and_known_homographs_have_theirs():
    counts = tags_by_word(TRAIN)
    assert {tag for sentence in TRAIN for tag in sentence.tags} == TAGS
    for word, tags in (("that", "DET PRON SCONJ"), ("her", "DET PRON"), ("to", "ADP PART"), ("light", "ADJ NOUN VERB"),
                       ("fish", "NOUN VERB"), ("has", "AUX VERB"), ("like", "ADP VERB"), ("before", "ADP ADV SCONJ"),
                       ("left", "ADJ NOUN VERB"), ("Will", "AUX PROPN"), ("can", "AUX NOUN"), ("No", "DET INTJ")):
        assert set(counts[word]) == set(tags.split()), word


# --------------------------------------------------------------------------------------- tags follow the grammar

# Tagged by hand, without a look at the rules.
BY_HAND = """
    Her/DET watch/NOUN is/AUX light/ADJ ./PUNCT
    They/PRON light/VERB the/DET candle/NOUN ./PUNCT
    The/DET light/NOUN was/AUX red/ADJ ./PUNCT
    We/PRON saw/VERB her/PRON ./PUNCT
    Can/AUX they/PRON fish/VERB ?/PUNCT
    She/PRON had/VERB a/DET can/NOUN of/ADP paint/NOUN ./PUNCT
    That/PRON is/AUX that/DET book/NOUN ./PUNCT
    She/PRON said/VERB that/SCONJ he/PRON danced/VERB ./PUNCT
    He/PRON wants/VERB to/PART go/VERB to/ADP Paris/PROPN ./PUNCT
    There/PRON is/AUX a/DET key/NOUN there/ADV ./PUNCT
    She/PRON has/AUX cleaned/VERB the/DET window/NOUN ./PUNCT
    She/PRON has/VERB a/DET clean/ADJ window/NOUN ./PUNCT
    He/PRON swims/VERB like/ADP a/DET duck/NOUN ./PUNCT
    They/PRON like/VERB ducks/NOUN ./PUNCT
    We/PRON left/VERB Rome/PROPN before/ADP dinner/NOUN ./PUNCT
    We/PRON walked/VERB before/SCONJ she/PRON talked/VERB ./PUNCT
    No/INTJ ,/PUNCT no/DET dog/NOUN ran/VERB fast/ADV ./PUNCT
    May/AUX I/PRON go/VERB home/ADV ?/PUNCT
""".strip().splitlines()


def trigrams(sentence):
    """Each word with its tag and the tags beside it."""
    tags = ("", *sentence.tags, "")
    return [(tags[at], word.lower(), tags[at + 1], tags[at + 2]) for at, word in enumerate(sentence.words)]


def read(line):
    words, tags = zip(*(part.rsplit("/", 1) for part in line.split()), strict=True)
    return TaggedSentence(words, tags)


DRAWN = MadeLater(lambda: {each for sentence in EVERY for each in trigrams(sentence)})


@pytest.mark.parametrize("line", BY_HAND)
def test_sentences_tagged_by_hand_agree_with_the_grammar(line):
    """Nearly every word, with its tag and those beside it, is one that the grammar draws."""
    found = trigrams(read(line))
    assert sum(each in DRAWN for each in found) >= len(found) - 1, [each for each in found if each not in DRAWN]


@pytest.mark.parametrize("wrong", [
    "We/PRON saw/VERB her/DET ./PUNCT", "They/PRON light/NOUN the/DET candle/NOUN ./PUNCT",
    "He/PRON wants/VERB to/ADP go/VERB ./PUNCT"])
def test_a_wrong_tag_would_be_seen(wrong):
    found = trigrams(read(wrong))
    assert sum(each in DRAWN for each in found) < len(found) - 1


BASES = {word for name, words in read_words(lambda word: True).items() if name.endswith("_base") for word, _ in words}


def test_what_stands_beside_a_word_is_what_english_wants():
    """Rules of English that are written nowhere in the grammar."""
    for sentence in EVERY:
        both = [*zip(sentence.words, sentence.tags, strict=True), ("", "")]
        for (word, tag), (following, next_tag) in pairwise(both):
            if tag == "DET":
                assert next_tag in ("NOUN", "ADJ", "NUM"), show(sentence)
            if (word.lower(), tag) == ("to", "PART"):
                assert next_tag == "VERB" and following in BASES, show(sentence)
            if tag == "PART":
                assert next_tag in ("VERB", "ADV"), show(sentence)
            if word in ("a", "an"):
                assert (word == "an") == (following[0] in "aeiou" and following != "one"), show(sentence)
        assert sentence.tags[-1] == "PUNCT" and sentence.words[0][0].isupper()


# ------------------------------------------------------------------------------------------------ parts


def test_sentences_are_the_same_every_time():
    content = hashlib.sha256("\n".join(map(show, TRAIN)).encode()).hexdigest()[:16]
    assert content == "1e57218538f45111"
    assert list(sentences(50, seed=1)) != list(sentences(50, seed=2))


def test_parts_share_no_sentence():
    texts = [{sentence.text for sentence in part} for part in (TRAIN, *HELD.values())]
    assert [len(each) for each in texts] == [20_000, 2_000, 2_000]
    assert not texts[0] & texts[1] and not texts[0] & texts[2] and not texts[1] & texts[2]
    assert not {each.text for each in sentences(2_000, seed=5)} & (texts[1] | texts[2])


def test_some_words_of_each_held_out_part_are_in_no_other():
    counts = {part: tags_by_word(found) for part, found in (("train", TRAIN), *HELD.items())}
    for part, other in (("valid", "test"), ("test", "valid")):
        unseen = [word for sentence in HELD[part] for word in sentence.words if word not in counts["train"]]
        assert 0.02 < len(unseen) / sum(len(sentence.words) for sentence in HELD[part]) < 0.06
        assert len({word for word in unseen if word not in counts[other]}) > 50
    base = [word for word, _ in read_words(lambda word: True)["noun.thing_1"]]
    assert 0 < sum(part_of_word(word) != "every" for word in base) < 4 * len(base) / HELD_WORDS


def test_an_unknown_part_is_named():
    with pytest.raises(SettingError, match="tagged has no part tset: did you mean test"):
        sentences(1, part="tset")


# ------------------------------------------------------------------------------------------------ words and rules


def test_verbs_and_nouns_have_their_forms():
    assert verb_forms("walk") == ("walk", "walks", "walked", "walked", "walking")
    assert verb_forms("dance") == ("dance", "dances", "danced", "danced", "dancing")
    assert verb_forms("carry") == ("carry", "carries", "carried", "carried", "carrying")
    assert verb_forms("chop") == ("chop", "chops", "chopped", "chopped", "chopping")
    assert verb_forms("agree") == ("agree", "agrees", "agreed", "agreed", "agreeing")
    assert verb_forms("go:went:gone") == ("go", "goes", "went", "gone", "going")
    assert verb_forms("play") == ("play", "plays", "played", "played", "playing")
    assert verb_forms("forget:forgot:forgotten:forgetting")[-1] == "forgetting"
    assert noun_forms("man:men") == ("man", "men") and noun_forms("watch") == ("watch", "watches")


def test_every_rule_is_used_and_every_part_of_one_is_known():
    rules, words = read_rules(), read_words(lambda word: True)
    used = {part for rule in rules.values() for alternative in rule for part in alternative}
    assert not set(rules) - used - {"line"} - {name for name in rules if name.startswith("do_")}
    Grammar(words)                                                      # asserts that parts are known
    classes = {re.sub(r"_\w+$", "", name) for name in words}
    assert not classes - {re.sub(r"_\w+$", "", part) for part in used}


def test_a_sentence_is_written_and_shown_as_english_is():
    drawn = [("may", "AUX"), ("i", "PRON"), ("eat", "VERB"), ("a", "DET"), ("apple", "NOUN"), ("?", "PUNCT")]
    assert show(finish(drawn)) == "May/AUX I/PRON eat/VERB an/DET apple/NOUN ?/PUNCT"
