"""Tagged sentences from columns, slashes and JSON lines; and the token at which the tag of a word is asked for."""

import gzip

import numpy as np
import pytest

from regard.data.labels.label_batches import HeldOutLabels
from regard.data.labels.label_corpus import prepare_labelled
from regard.data.labels.labelled_texts import LabelSettings, read_labelled
from regard.data.labels.tagged_sentences import OF_WORDS, asking_tokens
from regard.data.reading.corpus import TokenizerSettings
from regard.data.reading.tally import Tally
from regard.data.tokens.tokenizers import train_tokenizer
from regard.data.tokens.vocabulary import EOS, PAD
from regard.errors import DataError


def read(path, **settings):
    tally = Tally()
    pairs = list(read_labelled(LabelSettings((str(path),), **settings), OF_WORDS, tally))
    return [tuple(pair) for pair in pairs], tally


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


EXPECTED = [("DET NOUN VERB", "The dog barks"), ("INTJ PUNCT", "No !")]
CONLLU = """# sent_id = 1
1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_
2-3\tdog's\t_\t_\t_\t_\t_\t_\t_\t_
2\tdog\tdog\tNOUN\tNN\t_\t3\tnsubj\t_\t_
2.1\tgone\t_\tVERB\t_\t_\t_\t_\t_\t_
3\tbarks\tbark\tVERB\tVBZ\t_\t0\troot\t_\t_

1\tNo\tno\tINTJ\tUH\t_\t0\troot\t_\t_
2\t!\t!\tPUNCT\t.\t_\t1\tpunct\t_\t_
"""


@pytest.mark.parametrize(("name", "text"), [
    ("a.conll", "The\tDET\ndog\tNOUN\nbarks\tVERB\n\nNo\tINTJ\n!\tPUNCT\n"),
    ("a.tsv", "\nThe\tDET\r\ndog\tNOUN\r\nbarks\tVERB\r\n\r\n\r\nNo\tINTJ\n!\tPUNCT"),
    ("a.conll", "The the DET\ndog dog NOUN\nbarks bark VERB\n\nNo no INTJ\n! ! PUNCT\n"),
    ("a.conllu", CONLLU),
    ("a.txt", "The/DET dog/NOUN barks/VERB\nNo/INTJ !/PUNCT\n"),
    ("a.jsonl", '{"words": ["The", "dog", "barks"], "tags": ["DET", "NOUN", "VERB"]}\n'
                '{"tags": ["INTJ", "PUNCT"], "words": ["No", "!"], "id": 7}\n'),
])
def test_every_format_gives_the_same_sentences(tmp_path, name, text):
    assert read(write(tmp_path, name, text))[0] == EXPECTED


def test_a_packed_file_is_read_and_the_last_slash_counts(tmp_path):
    packed = write(tmp_path, "a.txt.gz", gzip.compress(b"1/2/NUM and/or/CCONJ\n"))
    assert read(packed)[0] == [("NUM CCONJ", "1/2 and/or")]


def test_a_space_inside_a_word_becomes_an_underscore_and_is_counted(tmp_path):
    pairs, tally = read(write(tmp_path, "a.tsv", "1 000\tNUM\ndogs\tNOUN\n"))
    assert pairs == [("NUM NOUN", "1_000 dogs")] and "1 words with spaces joined by _" in tally.line()


def test_every_sentence_is_counted_and_a_bad_line_takes_its_sentence_along(tmp_path):
    path = write(tmp_path, "a.conll", b"A\tDET\ndog\n\nNo\tINTJ\n\nbad \xff\tX\nB\tY\n\nNo\tINTJ\n\nC\t\n")
    pairs, tally = read(path, on_bad_text="drop")
    assert pairs == [("INTJ", "No")]
    assert tally.line() == "5 texts read: 1 kept, 4 dropped (2 a word without a tag, 1 bad UTF-8, 1 duplicate)"


@pytest.mark.parametrize(("name", "text", "message"), [
    ("a.conll", "A\tDET\n\ndog\n", r"a\.conll line 3 has one column: a line is a word, a tab and a tag; mend it"),
    ("a.tsv", "A\tDET\nB\t\n", r"a\.tsv line 1 begins a sentence with an empty word or tag; mend it"),
    ("a.conllu", "1\tA\tDET\n", r"a\.conllu line 1 has 3 columns: a line of CoNLL-U has 10; mend it"),
    ("a.txt", "A/DET dog\n", r"a\.txt line 1 has 'dog' without a tag: write word/TAG; mend it"),
    ("a.txt", "A/DET /NOUN\n", r"a\.txt line 1 has 'NOUN' without a tag"),
    ("a.jsonl", "{\n", r"a\.jsonl line 1 is not JSON"),
    ("a.jsonl", '{"words": ["A"], "tags": []}\n', r'a\.jsonl line 1 has no "words" and "tags" of one length'),
    ("a.jsonl", '{"words": ["A"], "tags": "D"}\n', r'a\.jsonl line 1 has no "words" and "tags" of one length'),
    ("a.jsonl", "[]\n", r'a\.jsonl line 1 has no "words" and "tags"'),
    ("a.csv", "A,DET\n", r"a\.csv is none of the files of labelled texts: \.conll \.tsv \.conllu \.txt"),
    ("a.txt", "\n\n", r"there are no labelled texts in .*a\.txt"),
])
def test_bad_files_are_refused_with_their_place_and_the_cure(tmp_path, name, text, message):
    with pytest.raises(DataError, match=message):
        read(write(tmp_path, name, text))


# ------------------------------------------------------------------------------------------------ tokens

SENTENCES = [("DET NOUN VERB PUNCT", "The crocodile's unthinkable ."), ("NOUN VERB", "naïveté 平和")]
TEXTS = [text for _, text in SENTENCES] + ["The the then"] * 3


@pytest.mark.parametrize("kind", ["char", "byte", "word", "whitespace", "bpe", "unigram"])
def test_a_tag_is_asked_for_at_the_last_token_of_its_word(kind):
    """The tokens up to there spell the text up to the end of the word: by decoding, not by spans."""
    t = train_tokenizer(kind, TEXTS)
    for _, text in SENTENCES:
        ids = t.encode(text).tolist()
        places = asking_tokens(t, text, ids)
        assert len(places) == len(text.split()) and places == sorted(set(places)) and places[-1] == len(ids) - 1
        for number, place in enumerate(places, 1):
            wanted = " ".join(text.split()[:number])
            assert t.decode(ids[:place + 1]).rstrip() in (wanted, wanted.replace(" .", "."))


def test_targets_stand_at_the_last_token_of_each_word_and_nowhere_else(tmp_path):
    """Of characters: every target is at the letter before a space or the end; pads, spaces and <eos> ask nothing."""
    path = write(tmp_path, "a.txt", "The/DET dog/NOUN barks/VERB ./PUNCT\nNo/INTJ !/PUNCT\n" * 10)
    corpus = prepare_labelled(LabelSettings((str(path),), drop_duplicates=False), TokenizerSettings("char"), OF_WORDS,
                              tmp_path / "cache", lambda text: None)
    t = corpus.tokenizer
    assert t.labels == ("DET", "INTJ", "NOUN", "PUNCT", "VERB") and corpus.train.of_tokens
    found = set()
    for batch in HeldOutLabels(corpus.train, 64, 5):
        assert batch.targets.shape == batch.tokens.shape
        assert not batch.targets[batch.tokens == PAD].any() and not batch.targets[batch.tokens == EOS].any()
        for tokens, targets, length in zip(batch.tokens, batch.targets, batch.lengths, strict=True):
            text = t.text.decode(tokens[:length - 1].tolist())
            tags = [t.labels[target - 1] if target else "" for target in targets.tolist()]
            words, at = [], 0
            for word in text.split():
                at = text.index(word, at) + len(word)
                words.append(f"{word}/{tags[at - 1]}")
            assert np.count_nonzero(targets.numpy()) == len(words)
            found.add(" ".join(words))
    assert found == {"The/DET dog/NOUN barks/VERB ./PUNCT", "No/INTJ !/PUNCT"}


def test_a_tag_that_the_run_does_not_know_is_refused(tmp_path):
    path, other = write(tmp_path, "a.txt", "A/DET dog/NOUN\n" * 10), write(tmp_path, "b.txt", "A/DET dog/NOUM\n" * 9)
    settings = dict(cache=tmp_path / "cache", say=lambda text: None)
    data = LabelSettings((str(path),), drop_duplicates=False)
    corpus = prepare_labelled(data, TokenizerSettings("word"), OF_WORDS, **settings)
    with pytest.raises(DataError, match=r"sentence 1 has the label 'NOUM', .* run's 2: did you mean NOUN"):
        prepare_labelled(LabelSettings((str(other),), drop_duplicates=False), corpus.tokenizer, OF_WORDS, **settings)
