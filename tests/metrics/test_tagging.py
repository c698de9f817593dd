import numpy as np
import pytest

from regard.errors import DataError
from regard.metrics.tagging import TagCounts, measure_tags

TRAIN = [(["the", "fish", "swims"], ["DET", "NOUN", "VERB"]), (["they", "fish"], ["PRON", "VERB"]),
         (["a", "fish"], ["DET", "NOUN"]), (["the", "light"], ["DET", "NOUN"])]
TEST = [(["they", "fish"], ["PRON", "VERB"]), (["the", "heron", "swims"], ["DET", "NOUN", "VERB"]),
        (["the", "heron"], ["DET", "PROPN"])]


def test_the_baseline_gives_each_word_its_most_frequent_tag_and_an_unknown_one_the_most_frequent_of_all():
    counts = TagCounts(TRAIN)
    assert counts.tag(["they", "fish", "the", "heron"]) == ["PRON", "NOUN", "DET", "DET"]   # 3 DET, 3 NOUN
    assert counts.ambiguous("fish") and not counts.ambiguous("the") and not counts.ambiguous("heron")
    assert counts.unseen("heron") and not counts.unseen("fish")


def test_the_baseline_is_counted_on_the_training_part_and_never_on_what_is_measured():
    """`heron` and the verb `fish` are of the test part: counts that had seen them would know them."""
    found = measure_tags(TEST, [tags for _, tags in TEST], TagCounts(TRAIN))
    assert (found.baseline.right, found.baseline.total) == (4, 7) and found.accuracy == 1 and found.errors_gone == 1
    told = measure_tags(TEST, [tags for _, tags in TEST], TagCounts([*TRAIN, *TEST]))
    assert told.baseline.right > 4 and told.unseen.total == 0


def test_accuracy_is_that_of_words_and_of_the_ambiguous_and_the_unseen_among_them():
    given = [["PRON", "NOUN"], ["DET", "NOUN", "VERB"], ["DET", "NOUN"]]
    found = measure_tags(TEST, given, TagCounts(TRAIN))
    assert found.accuracy == pytest.approx(5 / 7) and found.sentences == 3
    assert (found.ambiguous.right, found.ambiguous.total) == (0, 1)
    assert (found.unseen.right, found.unseen.total) == (1, 2)
    assert found.errors_gone == pytest.approx(1 - 2 / 3)
    values = found.as_dict()
    assert values["baseline_accuracy"] == pytest.approx(4 / 7) and values["unseen_words"] == 2
    assert "baseline_accuracy" not in measure_tags(TEST, given).as_dict()


def test_precision_recall_and_f1_of_each_tag_are_those_of_its_definition():
    given = [["PRON", "NOUN"], ["DET", "NOUN", "VERB"], ["DET", "NOUN"]]
    noun = measure_tags(TEST, given).tags["NOUN"]
    assert (noun.precision, noun.recall, noun.f1) == (pytest.approx(1 / 3), 1, pytest.approx(1 / 2))
    verb = measure_tags(TEST, given).tags["VERB"]
    assert (verb.precision, verb.recall) == (1, 1 / 2)
    assert measure_tags(TEST, given).tags["PROPN"].f1 == 0


def test_an_interval_draws_sentences_and_not_words():
    """Sentences are all right or all wrong: the interval is that of 100 sentences, wider than that of 1000 words."""
    sentences = [(["w"] * 10, ["A"] * 10)] * 100
    given = [["A"] * 10] * 80 + [["B"] * 10] * 20
    low, high = measure_tags(sentences, given).interval
    by_sentences = 2 * 1.96 * np.sqrt(0.8 * 0.2 / 100)
    assert low < 0.8 < high and high - low == pytest.approx(by_sentences, rel=0.2)
    assert high - low > 2 * by_sentences / np.sqrt(10)


def test_tags_for_other_sentences_are_refused():
    with pytest.raises(DataError, match="3 tagged sentences and tags for 1"):
        measure_tags(TEST, [["PRON", "VERB"]])
    with pytest.raises(DataError, match="no tagged words to count"):
        TagCounts([])
