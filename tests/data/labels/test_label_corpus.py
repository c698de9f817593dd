"""Corpora and batches of labelled texts: parts, labels, targets, and the same batch at the same step."""

import numpy as np
import pytest
import torch

from regard.data.labels.label_batches import HeldOutLabels, LabelBatches
from regard.data.labels.label_corpus import prepare_labelled
from regard.data.labels.labelled_texts import OF_TEXTS, LabelSettings
from regard.data.labels.labelled_tokenizer import BASELINE, LABELS, LabelledTokenizer
from regard.data.reading.corpus import TokenizerSettings
from regard.data.tokens.vocabulary import EOS, PAD
from regard.errors import DataError
from regard.run_folder import BASELINE as BASELINE_OF_RUNS
from regard.run_folder import LABELS as LABELS_OF_RUNS

LINES = [f"{label}\t{label} word{number % 7} end{number}" for label in ("b", "a", "c") for number in range(40)]
WORDS = TokenizerSettings("word")


def quiet(text):
    pass


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "texts.tsv"
    path.write_text("\n".join(LINES) + "\n")
    return path


def prepare(path, tmp_path, tokenizer=WORDS, **settings):
    return prepare_labelled(LabelSettings((str(path),), **settings), tokenizer, OF_TEXTS, tmp_path / "cache", quiet)


def test_texts_sorted_by_label_are_held_out_at_random(table, tmp_path):
    corpus = prepare(table, tmp_path)
    assert (len(corpus.train), len(corpus.valid)) == (108, 12)
    assert {pair.source for pair in corpus.valid.lines()} == {"a", "b", "c"}
    both = [f"{label}\t{text}" for part in (corpus.train, corpus.valid) for label, text in part.lines()]
    assert sorted(both) == sorted(LINES)
    assert corpus.content == prepare(table, tmp_path / "elsewhere").content


def test_texts_are_cut_into_subwords_unless_told(table, tmp_path):
    assert prepare(table, tmp_path, TokenizerSettings()).tokenizer.kind == "bpe"
    assert prepare(table, tmp_path, TokenizerSettings("char")).tokenizer.kind == "char"


def test_labels_are_in_the_order_of_their_names_and_targets_are_one_more(table, tmp_path):
    corpus = prepare(table, tmp_path)
    assert corpus.tokenizer.labels == ("a", "b", "c")
    wanted = ["abc".index(pair.source) + 1 for pair in corpus.train.lines()]
    assert corpus.train.targets.tolist() == wanted and not corpus.train.of_tokens


def test_halves_of_what_is_held_out_share_no_text(table, tmp_path):
    corpus = prepare(table, tmp_path, halve=True, valid_share=0.3)
    parts = [set(part.lines()) for part in (corpus.train, corpus.valid, corpus.judged)]
    assert corpus.measured_on == "half" and sum(map(len, parts)) == len(set.union(*parts)) == len(LINES)
    assert len(corpus.judged.targets) == len(corpus.judged) == 18


def test_files_of_their_own_are_held_out_in_their_order(table, tmp_path):
    other = tmp_path / "valid.tsv"
    other.write_text("a\tone\na\tone\nb\ttwo\n")
    corpus = prepare(table, tmp_path, valid=(str(other),), test=(str(other),))
    assert [tuple(pair) for pair in corpus.valid.lines()] == [("a", "one"), ("a", "one"), ("b", "two")]
    assert corpus.judged.targets.tolist() == [1, 1, 2] and len(corpus.train) == len(LINES)


def test_labels_are_saved_beside_the_tokenizer(table, tmp_path):
    tokenizer = prepare(table, tmp_path).tokenizer
    tokenizer.save(tmp_path)
    loaded = LabelledTokenizer.load(tmp_path)
    assert loaded.labels == tokenizer.labels and loaded.digest() == tokenizer.digest()
    assert (tmp_path / LABELS).exists() and LABELS == LABELS_OF_RUNS
    assert loaded.digest() != LabelledTokenizer(loaded.text, ("b", "a", "c")).digest()
    (tmp_path / LABELS).write_text('{"labels": "abc"}')
    with pytest.raises(DataError, match="could not read the labels"):
        LabelledTokenizer.load(tmp_path)


def test_what_a_baseline_learned_is_saved_beside_the_labels(table, tmp_path):
    tokenizer = prepare(table, tmp_path).tokenizer
    tokenizer.save(tmp_path)
    assert not (tmp_path / BASELINE).exists() and BASELINE == BASELINE_OF_RUNS
    with_counts = LabelledTokenizer(tokenizer.text, tokenizer.labels, {"texts": np.array([3, 1, 2])})
    with_counts.save(tmp_path)
    assert LabelledTokenizer.load(tmp_path).baseline["texts"].tolist() == [3, 1, 2]
    assert with_counts.digest() == tokenizer.digest()


def test_a_label_that_the_run_does_not_know_is_refused(table, tmp_path):
    tokenizer = prepare(table, tmp_path).tokenizer
    other = tmp_path / "other.tsv"
    other.write_text("a\tone\nd\ttwo\n" * 5)
    with pytest.raises(DataError, match="has the label 'd', which is none of the run's 3"):
        prepare(other, tmp_path, tokenizer)


def test_one_label_is_nothing_to_tell_apart(tmp_path):
    path = tmp_path / "one.tsv"
    path.write_text("a\tone\na\ttwo\na\tthree\n")
    with pytest.raises(DataError, match="every text has the label 'a'"):
        prepare(path, tmp_path)


# ---------------------------------------------------------------------------------------------- batches


def test_a_row_is_a_text_with_its_end_and_its_target(table, tmp_path):
    corpus = prepare(table, tmp_path)
    batch = next(iter(HeldOutLabels(corpus.valid, 16, 5)))
    for row, pair in enumerate(list(corpus.valid.lines())[:5]):
        ids = [*corpus.tokenizer.text.encode(pair.target).tolist(), EOS]
        assert batch.tokens[row].tolist() == ids + [PAD] * (batch.tokens.shape[1] - len(ids))
        assert batch.lengths[row] == len(ids) and batch.targets[row].tolist() == ["abc".index(pair.source) + 1]
    assert batch.targets.shape == (5, 1) and batch.real == 5 and batch.read == int(batch.lengths.sum())


def test_every_text_is_read_once_an_epoch_and_a_step_is_always_the_same(table, tmp_path):
    corpus = prepare(table, tmp_path)
    batches = LabelBatches(corpus.train, 16, 12, seed=3)
    read = np.concatenate([batches.pools.rows(step) for step in range(len(batches))])
    assert sorted(read) == list(range(108))
    again = LabelBatches(corpus.train, 16, 12, seed=3)
    for step in (7, 2, 40):
        assert torch.equal(batches.batch(step).tokens, again.batch(step).tokens)
        assert torch.equal(batches.batch(step).targets, again.batch(step).targets)
    assert not torch.equal(batches.batch(0).targets, LabelBatches(corpus.train, 16, 12, seed=4).batch(0).targets)


def test_a_long_text_is_cut_and_counted(table, tmp_path):
    corpus = prepare(table, tmp_path)
    batches = LabelBatches(corpus.train, 2, 12)
    assert batches.batch(0).tokens.shape == (12, 2) and batches.shortened == 108
    assert LabelBatches(corpus.train, 16, 12).shortened == 0


def test_widened_rows_keep_one_target_a_text_and_one_a_token(table, tmp_path):
    corpus = prepare(table, tmp_path)
    batch = LabelBatches(corpus.train, 16, 4).batch(0)
    wide = batch.widened(8, 16)
    assert wide.tokens.shape == (4, 8) and torch.equal(wide.targets, batch.targets) and wide.real == batch.real
    each = type(batch)(batch.tokens, batch.tokens.clone(), batch.lengths).widened(8, 16)
    assert each.targets.shape == (4, 8) and each.read == batch.read
