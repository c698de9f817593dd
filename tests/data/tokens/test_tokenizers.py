import json
import os
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
import tokenizers as library
from hypothesis import given
from hypothesis import strategies as st

from regard.corpora import stories
from regard.data.tokens.tokenizers import (
    KINDS,
    SPECIALS,
    Tokenizer,
    choose_tokenizer,
    default_vocab,
    pair_vocab,
    train_tokenizer,
)
from regard.errors import DataError, SettingError

TEXT = " ".join(stories.generate(300)) + (
    "\n“Naïve café” — l’été, 3.14 €… 你好，世界! 👩‍👩‍👧 <eos> <unk>\tend\n\n  x_y don't")
anything = st.text(st.characters(exclude_categories=["Cs"])) | st.text(st.sampled_from("ab <eos>é😀\n\t\0\u2028 '1"))
every_kind = pytest.mark.parametrize("kind", KINDS)


@cache
def trained(kind):
    return train_tokenizer(kind, [TEXT], 600 if kind in ("bpe", "unigram") else None)


@every_kind
def test_specials_come_first(kind):
    tokenizer = trained(kind)
    assert [tokenizer.token(id) for id in range(4)] == list(SPECIALS) == ["<pad>", "<bos>", "<eos>", "<unk>"]
    assert (tokenizer.pad, tokenizer.bos, tokenizer.eos, tokenizer.unk) == (0, 1, 2, 3)
    assert tokenizer.decode([1, 2, 0, 3]) == ""


@pytest.mark.parametrize("kind", ["byte", "bpe", "unigram"])
@given(text=anything)
def test_any_text_comes_back_where_the_kind_is_lossless(kind, text):
    tokenizer = trained(kind)
    assert tokenizer.lossless
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(text=st.text(st.sampled_from(sorted(set(TEXT)))))
def test_characters_seen_in_training_come_back(text):
    assert trained("char").decode(trained("char").encode(text)) == text


def test_a_character_never_seen_is_unknown():
    assert trained("char").encode("aЖa").tolist()[1] == trained("char").unk
    assert not trained("char").lossless


@every_kind
@given(text=anything)
def test_no_special_is_ever_found_in_a_text(kind, text):
    ids = trained(kind).encode(text)
    assert not np.isin(ids, [0, 1, 2]).any()
    for name in SPECIALS:
        assert not np.isin(trained(kind).encode(f"{name} x{name}y <eos>"), [0, 1, 2]).any()


@every_kind
@given(text=anything)
def test_streamed_text_is_the_decoded_text(kind, text):
    tokenizer = trained(kind)
    ids = tokenizer.encode(text)
    stream = tokenizer.stream()
    pieces = [stream.push(int(id)) for id in ids]
    assert "".join(pieces) + stream.flush() == tokenizer.decode(ids)
    assert kind in ("whitespace", "word") or "\ufffd" in text or not any("\ufffd" in piece for piece in pieces)


@pytest.mark.parametrize("kind", ["byte", "bpe", "unigram"])
@given(ids=st.lists(st.integers(0, 259), max_size=20))
def test_ids_that_are_no_text_stream_as_they_decode(kind, ids):
    tokenizer = trained(kind)
    stream = tokenizer.stream()
    assert "".join(map(stream.push, ids)) + stream.flush() == tokenizer.decode(ids)


def test_a_stream_goes_on_after_a_prompt():
    tokenizer = trained("word")
    prompt, more = tokenizer.encode("They went"), tokenizer.encode("to the mill.")
    stream = tokenizer.stream(after=prompt)
    assert "".join(stream.push(int(id)) for id in more) == " to the mill."


@every_kind
def test_a_batch_encodes_like_its_texts(kind):
    texts = ["", "one day", "😀 <eos>\n", TEXT[:5000], " "]
    for ids, text in zip(trained(kind).encode_batch(texts), texts, strict=True):
        assert ids.tolist() == trained(kind).encode(text).tolist()


@every_kind
def test_saved_and_loaded_is_the_same(kind, tmp_path):
    tokenizer = trained(kind)
    path = tokenizer.save(tmp_path)
    again = Tokenizer.load(path)
    assert (again.kind, again.vocab_size, again.lossless) == (kind, tokenizer.vocab_size, tokenizer.lossless)
    assert again.digest() == tokenizer.digest() == Tokenizer.load(tmp_path).digest()
    assert again.encode(TEXT).tolist() == tokenizer.encode(TEXT).tolist()


@every_kind
def test_hugging_face_reads_our_file_and_finds_the_same_ids(kind, tmp_path):
    theirs = library.Tokenizer.from_file(str(trained(kind).save(tmp_path)))
    text = TEXT.replace("<eos>", "").replace("<unk>", "")
    assert theirs.encode(text).ids == trained(kind).encode(text).tolist()
    if kind not in ("word",):                      # they join words with spaces, also before a comma
        assert theirs.decode(theirs.encode(text).ids) == trained(kind).decode(theirs.encode(text).ids)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@given(text=anything)
def test_chunks_are_cut_as_the_library_cuts_them(kind, text):
    ours = trained(kind)
    assert ours._library.encode(text).ids == ours.encode(text).tolist()


def test_whitespace_splits_at_spaces_tabs_and_newlines_and_nowhere_else():
    tokenizer = train_tokenizer("whitespace", ["b,c a  b,c\td\u00a0e\nf\u2028g\n"])
    assert [tokenizer.token(id) for id in range(4, tokenizer.vocab_size)] == ["b,c", "a", "d\u00a0e", "f\u2028g"]
    assert tokenizer.decode(tokenizer.encode(" a \n b,c")) == "a b,c"


def test_words_and_marks_come_back_with_sensible_spaces():
    text = 'He said: "Don\'t go (yet)," and paid $3.50, not 1,000. "No?" \u201cNo!\u201d'
    tokenizer = train_tokenizer("word", [text])
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert [tokenizer.token(id) for id in tokenizer.encode("Don't 3.50,")] == ["Don't", "3.50", ","]
    stories_back = [tokenizer.decode(tokenizer.encode(line)) for line in stories.generate(50)
                    for tokenizer in [train_tokenizer("word", [line])]]
    assert stories_back == list(stories.generate(50))


@pytest.mark.parametrize("kind, expected", [("char", "ab"), ("whitespace", "ab"), ("word", "ab")])
def test_vocabularies_are_ordered_by_frequency_then_name_and_cut(kind, expected):
    tokenizer = train_tokenizer(kind, ["b b a a c"], 7 if kind == "char" else 6)
    names = [tokenizer.token(id) for id in range(4, tokenizer.vocab_size)]
    assert [name for name in names if name != " "] == list(expected)


def test_training_is_the_same_in_another_process():
    code = ("from tests.data.tokens.test_tokenizers import trained, KINDS;"
            "print(*[trained(kind).digest() for kind in KINDS])")
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.getcwd()})
    assert told.stdout.split() == [trained(kind).digest() for kind in KINDS]


def test_the_default_fits_the_text():
    assert choose_tokenizer(200_000, 65) == ("char", None)
    assert choose_tokenizer(200_000, 3000) == ("bpe", 512)
    assert choose_tokenizer(1_115_394, 65) == ("bpe", 4096)
    assert choose_tokenizer(50_000_000, 90) == ("bpe", 8192)
    for sizes in ([of(10**power) for power in range(4, 11)] for of in (default_vocab, pair_vocab)):
        assert sizes == sorted(sizes) and sizes[0] >= 260
    assert pair_vocab(3_600_000) == 4096                              # Multi30k


def test_impossible_kinds_and_sizes_are_refused():
    with pytest.raises(SettingError, match="did you mean char"):
        train_tokenizer("chars", [TEXT])
    with pytest.raises(SettingError, match="at least 260"):
        train_tokenizer("bpe", [TEXT], 100)
    with pytest.raises(DataError, match="half a surrogate pair"):
        trained("byte").encode("a\ud800")


@every_kind
def test_a_malformed_file_is_one_clear_line(kind, tmp_path):
    path = trained(kind).save(tmp_path)
    value = json.loads(path.read_text())
    vocab = value["model"]["vocab"]
    shuffled = vocab[::-1] if isinstance(vocab, list) else dict(zip(vocab, reversed(vocab.values()), strict=True))
    for damaged in ("", "{", "[]", "null", '{"model": {}}', '{"model": {"type": "BPE"}}',
                    json.dumps({**value, "model": {**value["model"], "vocab": shuffled}}),
                    json.dumps({**value, "model": {**value["model"], "vocab": 3}}), path.read_text()[:-50]):
        path.write_text(damaged)
        with pytest.raises(DataError, match="is not a tokenizer saved by regard") as caught:
            Tokenizer.load(path)
        assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_clear_line(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_the_text_package_does_not_import_torch():
    code = "import sys, regard.data.reading.corpus; assert 'torch' not in sys.modules and 'pyarrow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
