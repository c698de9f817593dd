"""Words, numbers and marks of a line."""

import sys
import unicodedata

from regard.corpora.word_split import MARKS_END, split_words


def test_words_numbers_and_marks_are_told_apart():
    assert split_words("L'été, 3,5 km… «don't»_x 𝟙!") == [
        "L'été", ",", "3,5", "km", "…", "«", "don't", "»", "_x", "𝟙", "!"]


def test_no_mark_lies_where_nobody_looks_for_one():
    beyond = map(chr, range(MARKS_END, sys.maxunicode + 1))
    assert not [each for each in beyond if unicodedata.category(each)[0] in "PS" or each.isspace()]
