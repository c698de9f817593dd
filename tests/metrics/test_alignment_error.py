"""Alignments: the error rate by hand, and links read off attention of pieces of words."""

import pytest
import torch

from regard.errors import DataError
from regard.metrics.alignment_error import (
    ErrorRate,
    Gold,
    error_rate,
    read_pharaoh,
    word_weights,
    write_pharaoh,
)


def test_the_error_rate_by_hand():
    gold = Gold(frozenset({(0, 0), (1, 2)}), frozenset({(2, 1)}))
    rate = error_rate([(0, 0), (2, 1), (3, 3)], gold)          # one sure, one possible, one wrong
    assert rate.aer == pytest.approx(1 - (1 + 2) / (3 + 2))
    assert rate.precision == pytest.approx(2 / 3) and rate.recall == pytest.approx(1 / 2)
    assert error_rate([(0, 0), (1, 2)], gold).aer == 0 and error_rate([(5, 5)], gold).aer == 1


def test_rates_of_several_sentences_are_of_all_links_together():
    gold = Gold(frozenset({(0, 0)}))
    both = error_rate([(0, 0)], gold) + error_rate([(0, 1), (0, 2)], gold)
    assert both == ErrorRate(3, 2, 1, 1) and both.aer == pytest.approx(1 - 2 / 5)


def test_pieces_of_words_are_put_together():
    weights = torch.tensor([[0.5, 0.25, 0.125, 0.125], [0, 0, 1, 0], [0, 0.5, 0.25, 0.25], [0, 0, 0, 1]])
    words = word_weights(weights, source_words=[0, 0, 1, -1], target_words=[0, 1, 1, -1])
    torch.testing.assert_close(words, torch.tensor([[0.75, 0.125], [0.25, 0.625]]))
    assert words.argmax(1).tolist() == [0, 1]


def test_pharaoh_is_read_and_written():
    gold = read_pharaoh("0-0 1-2 2?1 3p3")
    assert gold.sure == {(0, 0), (1, 2)} and gold.possible == {(2, 1), (3, 3)}
    assert write_pharaoh({(1, 2), (0, 0)}) == "0-0 1-2" and read_pharaoh("") == Gold(frozenset())
    with pytest.raises(DataError, match=r"line 3: '1:2' is no link"):
        read_pharaoh("0-0 1:2", "line 3")
