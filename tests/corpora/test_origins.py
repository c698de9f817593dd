"""Origins: the same every time, parts that share nothing, and words that really stand in such a line."""

from collections import Counter
from itertools import islice

import pytest

from regard.corpora import origins, stories
from regard.corpora.origins import LABELS, LONGEST, SHORTEST, texts
from regard.data import embedded
from regard.errors import SettingError
from tests.made_later import MadeLater

SOME = MadeLater(lambda: {part: list(texts(400, part=part)) for part in origins.PARTS})


def test_texts_are_the_same_for_the_same_seed():
    assert list(texts(50)) == SOME["train"][:50] != list(texts(50, seed=1))


def test_no_text_is_in_two_parts_or_twice_in_one():
    found = [text for part in SOME.values() for _, text in part]
    assert len(set(found)) == len(found) == 1200


def test_a_text_is_a_few_words_of_a_line_of_its_corpus():
    lines = "\n".join(islice(stories.generate(2000), 2000))
    own = [text for label, text in SOME["train"] if label == "stories"]
    assert sum(text in lines for text in own) > len(own) / 2
    assert all(SHORTEST <= len(text.split()) <= LONGEST for part in SOME.values() for _, text in part)


def test_every_label_is_there_and_they_are_not_equally_frequent():
    counts = Counter(label for label, _ in SOME["train"])
    assert set(counts) == set(LABELS) and counts["stories"] > 1.3 * counts["sally"]


def test_another_part_is_refused():
    with pytest.raises(SettingError, match="no part tests: did you mean test"):
        texts(1, part="tests")


def test_it_is_an_embedded_corpus_of_texts_and_not_of_words():
    assert embedded.known_labelled(["origins"], "text") is embedded.LABELLED["origins"]
    assert embedded.known_labelled(["origins"], "word") is None and embedded.LABELLED["origins"].unit == "texts"
    assert next(embedded.labelled("origins", "test")) == SOME["test"][0]
