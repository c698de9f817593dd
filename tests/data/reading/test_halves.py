"""What is held out, in two halves: one chooses, the other is measured."""

from itertools import pairwise

import pytest

from regard.data.pairs.pair_corpus import PairTokenizerSettings, prepare_pairs
from regard.data.pairs.pairs import PairSettings
from regard.data.reading.corpus import DataSettings, TokenizerSettings, prepare

LINES = [f"line {number} of a little text" for number in range(400)]
TEXT = "".join(f"{line}\n" for line in LINES * 5)


def prepared(*files, **options):
    kind = options.pop("kind", "char")
    return prepare(DataSettings(files, **options), TokenizerSettings(kind), say=lambda line: None)


def lines_of(shard, tokenizer):
    starts = [0, *shard.ends.tolist()]
    return [tokenizer.decode(shard.tokens[a:b]).strip() for a, b in pairwise(starts)]


def test_lines_take_turns(write):
    corpus = prepared(write("a.txt", TEXT[:len(TEXT) // 5]), documents="line", halve=True)
    held_out = LINES[360:]                                            # the last tenth
    assert lines_of(corpus.valid, corpus.tokenizer) == held_out[::2]
    assert lines_of(corpus.judged, corpus.tokenizer) == held_out[1::2]
    assert corpus.measured_on == "half" and corpus.train.counts.documents == 360


def test_a_held_out_file_is_halved_too(write):
    own = write("own.txt", "".join(f"{line}\n" for line in LINES[:21]))
    corpus = prepared(write("a.txt", TEXT), documents="line", valid=(own,), halve=True)
    assert lines_of(corpus.valid, corpus.tokenizer) == LINES[:21:2]
    assert lines_of(corpus.judged, corpus.tokenizer) == LINES[1:21:2]


def test_one_long_text_is_cut_in_the_middle_of_what_is_held_out(write):
    corpus = prepared(write("a.txt", TEXT), halve=True)
    cut = int(0.9 * len(TEXT))
    middle = (cut + len(TEXT)) // 2
    assert corpus.tokenizer.decode(corpus.train.tokens) == TEXT[:cut]
    assert corpus.tokenizer.decode(corpus.valid.tokens) == TEXT[cut:middle]
    assert corpus.tokenizer.decode(corpus.judged.tokens).strip() == TEXT[middle:].strip()
    own = prepared(write("b.txt", TEXT), valid=(write("own.txt", TEXT),), halve=True)
    assert own.tokenizer.decode(own.valid.tokens) == TEXT[:len(TEXT) // 2]


def test_whole_files_take_turns(write, tmp_path):
    for number in range(40):
        write(f"texts/{number:02}.txt", f"text {number}\n")
    corpus = prepared(str(tmp_path / "texts"), halve=True)
    assert lines_of(corpus.valid, corpus.tokenizer) == ["text 36", "text 38"]
    assert lines_of(corpus.judged, corpus.tokenizer) == ["text 37", "text 39"]


@pytest.mark.parametrize("options", [dict(documents="line"), dict(documents="file")])
def test_what_is_too_small_stays_whole_and_is_measured_itself(write, options):
    corpus = prepared(write("a.txt", "".join(f"{line}\n" for line in LINES[:190])), halve=True, **options)   # 19 lines
    assert corpus.test is None and corpus.measured_on == "" and corpus.judged is corpus.valid


def test_a_test_file_is_measured_and_what_is_held_out_stays_whole(write):
    test = write("test.txt", "a little line of it\n")
    asked = dict(documents="line", halve=True, test=(test,))
    corpus = prepared(write("a.txt", TEXT), **asked)
    assert lines_of(corpus.judged, corpus.tokenizer) == ["a little line of it"] and corpus.measured_on == "test"
    assert corpus.valid.counts.documents == 200
    write("test.txt", "another text\n")
    assert prepared(write("a.txt", TEXT), **asked).content != corpus.content         # a changed test file is seen


def test_an_embedded_corpus_has_its_own_test_part_and_is_not_halved():
    corpus, whole = prepared("ab", kind="auto", halve=True), prepared("ab", kind="auto")
    assert corpus.valid.content == whole.valid.content and corpus.judged.content == whole.judged.content
    assert corpus.measured_on == "test"


# ------------------------------------------------------------------------------------------------- pairs


def pair_corpus(write, number, **settings):
    files = tuple(write(f"pairs.{lang}", "".join(f"{lang} {n}\n" for n in range(number))) for lang in ("fr", "en"))
    return prepare_pairs(PairSettings(files, **settings), PairTokenizerSettings("word"), say=lambda line: None)


def test_pairs_take_turns_on_both_sides(write):
    corpus = pair_corpus(write, 400, halve=True)
    assert [pair.source for pair in corpus.held_out(99)] == [f"fr {n}" for n in range(360, 400, 2)]
    assert [pair.target for pair in corpus.judged(99)] == [f"en {n}" for n in range(361, 400, 2)]
    assert corpus.valid.counts.documents == corpus.source_valid.counts.documents == 20
    assert pair_corpus(write, 190, halve=True).test is None


def test_pairs_of_a_test_file_are_measured(write):
    test = tuple(write(f"test.{lang}", f"{lang} test\n") for lang in ("fr", "en"))
    corpus = pair_corpus(write, 400, halve=True, test=test)
    assert [tuple(pair) for pair in corpus.judged(99)] == [("fr test", "en test")] and corpus.measured_on == "test"
    assert len(corpus.held_out(99)) == 40 and corpus.content != pair_corpus(write, 400).content
