from regard.metrics.lengths import by_length


def test_each_sentence_is_in_the_bin_of_its_source_and_blank_ones_in_none():
    sources = ["a", "a b c d e", "a b c d e f", "", "w " * 60]
    references = ["one two three four"] * 5
    told = by_length(sources, [*references[:2], "else", "x", references[4]], references)
    assert [(each.name, each.sentences, each.exact_match) for each in told] == [
        ("1-5", 2, 1.0), ("6-10", 1, 0.0), ("51+", 1, 1.0)]
    assert told[0].bleu > 99 and told[1].as_dict()["bleu"] < 1
