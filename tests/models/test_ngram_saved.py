"""An n-gram's file: few bytes an n-gram, used where it lies; and its packed arrays, equal to plain ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from regard.errors import RunError
from regard.families import FAMILIES
from regard.families.ngram import NGramSettings, restore_ngram
from regard.models.ngram import NGram, packed
from regard.models.ngram.packed import Coded, Pointers, coded, smallest
from regard.models.ngram.saved import order_from_keys


def model(vocab: int = 500, order: int = 4, **options) -> NGram:
    draw = np.random.default_rng(0)
    tokens = (4 + draw.zipf(1.3, 30_000) % (vocab - 4)).astype(np.uint16)
    ends = np.arange(20, len(tokens) + 1, 20)
    tokens[ends - 1] = 2
    return NGram.fit(tokens, ends, vocab=vocab, order=order, **options)


@settings(max_examples=50, deadline=None)
@given(sizes=st.lists(st.integers(0, 300), max_size=300))
def test_pointers_are_the_sums_of_the_sizes(sizes):
    pointers = Pointers.from_sizes(np.array(sizes, np.int64))
    begins = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    groups = np.arange(len(sizes), dtype=np.int32)
    assert len(pointers) == len(sizes) and pointers.total == sum(sizes)
    begin, end = pointers.between(groups)
    assert np.array_equal(begin, begins[:-1]) and np.array_equal(end, begins[1:])
    assert np.array_equal(pointers.sizes(), np.array(sizes, int))


def test_pointers_take_two_bytes_where_groups_are_small_and_more_where_they_are_not(monkeypatch):
    monkeypatch.setattr(packed, "AT_ONCE", 128)
    small, large = Pointers.from_sizes(np.full(1000, 7)), Pointers.from_sizes(np.full(1000, 70_000))
    assert small.distances.dtype == np.uint16 and large.distances.dtype == np.uint32
    assert large.between(np.array([999]))[1].tolist() == [70_000_000]


@pytest.mark.parametrize("distinct, kind", [(1, np.uint8), (256, np.uint8), (257, np.uint16), (70_000, None)])
def test_codes_are_equal_to_the_numbers_to_the_last_bit(monkeypatch, distinct, kind):
    monkeypatch.setattr(packed, "AT_ONCE", 10_000)
    values = np.append(np.random.default_rng(0).normal(size=distinct - 1), -np.inf).astype(np.float32)
    numbers = np.tile(values, -(-300_000 // distinct))
    short = coded(numbers)
    assert np.array_equal(short[np.arange(len(numbers))], numbers)
    assert short is numbers if kind is None else isinstance(short, Coded) and short.codes.dtype == kind


def test_numbers_that_codes_would_not_shorten_stay_as_they_are():
    numbers = np.arange(100, dtype=np.float32)
    assert coded(numbers) is numbers
    assert [smallest(highest) for highest in (255, 256, 65_536, 2**32)] == [np.uint8, np.uint16, np.uint32, np.int64]


def test_an_ngram_takes_about_ten_bytes_with_its_count_and_loading_copies_nothing(tmp_path):
    made = model()
    ngrams = sum(map(len, made.orders))
    assert made.nbytes() / ngrams < 10.5
    assert model(counts=False).nbytes() / ngrams < 9.5
    save_file(made.saved_tensors(), tmp_path / "model.safetensors")
    tensors = load_file(tmp_path / "model.safetensors")
    loaded = NGram.from_tensors(tensors, made.settings)
    order = loaded.orders[3]
    for name, array in (("words.4", order.words), ("logprobs.4", order.logprobs), ("first.4", order.first.distances)):
        assert array.ctypes.data == tensors[name].data_ptr()
    assert order.words.dtype == np.uint16 and isinstance(loaded.orders[2].backoffs, Coded)


def test_what_was_used_is_saved_as_what_was_not():
    made = model()
    before = made.saved_tensors()
    text = torch.randint(4, 500, (50, 400), generator=torch.Generator().manual_seed(0))
    made.score(text[:, :-1], text[:, 1:])
    assert made.orders[1].index is not None
    after = made.saved_tensors()
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)


def test_a_restored_model_has_its_discounts_and_thresholds():
    wanted = NGramSettings(order=4, prune=(0, 0, 1))
    made = model(order=4, prune=(0, 0, 1))
    again = restore_ngram(wanted, 500, made.saved_tensors())
    assert again.discounts == made.discounts and again.prune
    assert again.orders[0].counts is not None
    assert FAMILIES["ngram"].restore is restore_ngram


def test_a_file_of_an_earlier_version_says_so():
    tensors = model(order=2).saved_tensors()
    tensors["keys.2"] = tensors.pop("words.2")
    with pytest.raises(RunError, match=r"lacks words\.2: it is of an earlier version; count it again"):
        restore_ngram(NGramSettings(order=2), 500, tensors)


def test_pointers_that_do_not_fit_are_refused():
    made = model(order=3)
    tensors = made.saved_tensors()
    with pytest.raises(RunError, match=r"the 3-grams of the model do not fit together \(.*pointers.*damaged"):
        NGram.from_tensors({**tensors, "first.3": tensors["first.3"][:-1]}, made.settings)


@pytest.mark.parametrize("vocab, kind", [(255, np.uint8), (256, np.uint8), (257, np.uint16), (2**16, np.uint16)])
def test_words_are_kept_in_the_smallest_numbers_that_hold_the_vocabulary(vocab, kind):
    keys = np.array([4, vocab - 1, vocab + 5])
    order = order_from_keys(keys, np.zeros(3), None, contexts=2, vocab=vocab)
    assert order.words.dtype == kind and order.words.tolist() == [4, vocab - 1, 5]
