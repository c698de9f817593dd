"""ARPA files: written and read back they give the same scores, and a bad file is refused at its line."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from regard.errors import DataError, SettingError, StorageError
from regard.models.ngram import NGram, read_arpa, write_arpa
from regard.models.ngram.counting import BOS, EOS

WORDS = ["<pad>", "<bos>", "<eos>", "<unk>", "the", "cat", "sat", "été\u00a0là", "mat"]
TOKENS = np.array([4, 5, 6, 2, 4, 5, 6, 7, 2, 4, 8, 6, 2, 5, 5, 2])
ENDS = np.array([4, 9, 13, 16])

GOOD = """\\data\\
ngram 1=5
ngram 2=2

\\1-grams:
-1.5\t<unk>
0\t<s>\t-0.3
-0.5\t</s>
-0.6\ta\t-0.25
-0.7\tb

\\2-grams:
-0.2\t<s> a
-0.4\ta b

\\end\\
"""


def model(order: int = 3, smoothing: str = "kneser-ney") -> NGram:
    return NGram.fit(TOKENS, ENDS, vocab=len(WORDS), order=order, smoothing=smoothing, dtype=torch.float64)


@pytest.mark.parametrize("smoothing", ["kneser-ney", "none"])
@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("name", ["m.arpa", "m.arpa.gz"])
def test_a_model_written_and_read_gives_the_same_scores(tmp_path, order, smoothing, name):
    written = model(order, smoothing)
    write_arpa(written, WORDS, tmp_path / name)
    read, words = read_arpa(tmp_path / name, dtype=torch.float64)
    assert words == ["<pad>", "<s>", "</s>", "<unk>", *WORDS[4:]]
    text = torch.randint(2, len(WORDS), (20, 9), generator=torch.Generator().manual_seed(0))
    text[:10, 0] = BOS
    torch.testing.assert_close(read.score(text[:, :-1], text[:, 1:])[0], written.score(text[:, :-1], text[:, 1:])[0],
                               rtol=0, atol=1e-6)
    assert os.listdir(tmp_path) == [name]


def test_spaces_around_the_numbers_of_the_header_are_allowed(tmp_path):
    (tmp_path / "m.arpa").write_text(GOOD.replace("ngram 1=5", "ngram  1 = 5 "))
    read, words = read_arpa(tmp_path / "m.arpa")
    assert words[4:] == ["a", "b"] and len(read.orders) == 2


def test_a_file_of_another_tool_is_read_with_its_backoffs(tmp_path):
    (tmp_path / "m.arpa").write_text(GOOD)
    read, words = read_arpa(tmp_path / "m.arpa")
    assert words[4:] == ["a", "b"]
    logs = read.step(torch.tensor([[BOS]]), read.start(1))[0][0] / np.log(10)
    assert logs[4:].tolist() == pytest.approx([-0.2, -0.7 - 0.3])
    assert torch.isneginf(logs[:2]).all()
    kept = NGram.from_tensors(read.saved_tensors(), read.settings)
    text = torch.tensor([[BOS, 4, 5, 4, 4]])
    assert torch.equal(kept.score(text[:, :-1], text[:, 1:])[0], read.score(text[:, :-1], text[:, 1:])[0])


@pytest.mark.parametrize("old, new, message", [
    ("\\data\\", "hello", r"line 1: expected \\data\\"),
    ("ngram 2=2", "ngram 3=2", r"line 3: expected `ngram 2=COUNT`"),
    ("ngram 2=2", "ngram 2=3", r"3 2-grams were promised, and 2 stand there"),
    ("ngram 2=2", "ngram 2=1", r"line 14: expected 1 lines"),
    ("-0.4\ta b", "-0.4\ta c", r"line 14: the word 'c' is not among the 1-grams"),
    ("-0.4\ta b", "minus\ta b", r"line 14: 'minus' is not a logarithm"),
    ("-0.4\ta b", "nan\ta b", r"line 14: 'nan' is not a logarithm"),
    ("-0.4\ta b", "-0.4\t<s> a", r"one of the 2-grams stands there twice"),
    ("-0.4\ta b", "-0.4\ta b b b", r"line 14: expected 2 lines of a number, 2 words"),
    ("\\end\\", "", r"expected \\end\\"),
    ("\ta\t", "\t" + "a" * 70000 + "\t", r"line 9: the line is longer"),
])
def test_a_bad_file_is_refused_at_its_line(tmp_path, old, new, message):
    (tmp_path / "m.arpa").write_text(GOOD.replace(old, new))
    with pytest.raises(DataError, match=message):
        read_arpa(tmp_path / "m.arpa")


def test_an_ngram_without_its_beginning_or_end_is_refused(tmp_path):
    more = GOOD.replace("ngram 2=2\n", "ngram 2=2\nngram 3=1\n")
    more = more.replace("\\end\\", "\\3-grams:\n-0.1\ta b a\n\n\\end\\")
    (tmp_path / "m.arpa").write_text(more)
    with pytest.raises(DataError, match="line 18: `a b a` stands there without the shorter n-grams"):
        read_arpa(tmp_path / "m.arpa")


def test_what_arpa_cannot_hold_is_refused(tmp_path):
    with pytest.raises(SettingError, match="add-k"):
        write_arpa(model(smoothing="add-k"), WORDS, tmp_path / "m.arpa")
    with pytest.raises(DataError, match="' ' cannot stand in an ARPA file"):
        write_arpa(model(), [*WORDS[:-1], " "], tmp_path / "m.arpa")
    with pytest.raises(DataError, match="spelt alike"):
        write_arpa(model(), [*WORDS[:-1], "cat"], tmp_path / "m.arpa")
    with pytest.raises(DataError, match="8 words given for a vocabulary of 9"):
        write_arpa(model(), WORDS[:-1], tmp_path / "m.arpa")
    assert os.listdir(tmp_path) == []


def test_a_missing_binary_or_unwritable_file_ends_in_one_line(tmp_path):
    with pytest.raises(DataError, match="could not read"):
        read_arpa(tmp_path / "none.arpa")
    (tmp_path / "binary.arpa").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"line 1: expected \\data\\"):
        read_arpa(tmp_path / "binary.arpa")
    (tmp_path / "latin.arpa").write_bytes(GOOD.replace("\ta\t", "\té\t").encode("latin-1"))
    with pytest.raises(DataError, match="could not read"):
        read_arpa(tmp_path / "latin.arpa")
    (tmp_path / "binary.arpa.gz").write_bytes(b"\x1f\x8b\x00")
    with pytest.raises(DataError, match="could not read"):
        read_arpa(tmp_path / "binary.arpa.gz")
    with pytest.raises(StorageError, match="could not write"):
        write_arpa(model(), WORDS, tmp_path / "no such folder" / "m.arpa")


def test_kenlm_gives_every_sentence_our_score(tmp_path):
    kenlm = pytest.importorskip("kenlm")
    ours = model(4)
    write_arpa(ours, WORDS, tmp_path / "m.arpa")
    theirs = kenlm.Model(str(tmp_path / "m.arpa"))
    for ids in ([4, 5, 6], [5, 5, 8, 7, 4], [3, 4, 6]):
        text = torch.tensor([[BOS, *ids, EOS]])
        score = ours.score(text[:, :-1], text[:, 1:])[0].sum().item() / np.log(10)
        assert theirs.score(" ".join(WORDS[id] for id in ids)) == pytest.approx(score, abs=1e-4)
