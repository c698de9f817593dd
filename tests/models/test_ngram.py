"""The n-gram: equal to its definition, a probability distribution, lawful, and KenLM's numbers."""

from __future__ import annotations

import gzip
import math
import os
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import DataError, RunError, SettingError
from regard.models.ngram import NGram, lookup, order_table
from regard.models.ngram.counting import BOS, EOS, UNK, sort_with_places
from regard.models.ngram.packed import Pointers
from regard.watching import watch
from tests.models.ngram_definition import Definition

DATA = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[3] / "shared" / "data"))
NO_DATA = "needs the public data sets: REGARD_DATA names their folder"
SMOOTHINGS = ("kneser-ney", "add-k", "none")


def random_documents(seed: int, vocab: int, count: int = 30) -> list[list[int]]:
    """Texts with a Zipf-like choice of words, each ended by <eos>."""
    draw = np.random.default_rng(seed)
    return [[*(4 + draw.zipf(1.6, size=draw.integers(0, 12)) % (vocab - 4)).tolist(), EOS] for _ in range(count)]


def joined(documents: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate(documents).astype(np.uint16), np.cumsum([len(each) for each in documents])


def small_model(order: int = 3, smoothing: str = "kneser-ney", vocab: int = 12, seed: int = 0) -> NGram:
    tokens, ends = joined(random_documents(seed, vocab))
    return NGram.fit(tokens, ends, vocab=vocab, order=order, smoothing=smoothing, dtype=torch.float64)


def all_after(model: NGram, context: list[int]) -> torch.Tensor:
    return model.step(torch.tensor([context]), model.start(1))[0][0]


def some_text(vocab: int, shape: tuple[int, int], seed: int = 1) -> torch.Tensor:
    text = torch.randint(2, vocab, shape, generator=torch.Generator().manual_seed(seed))
    text[:, 0] = BOS
    text[-1, shape[1] // 2] = BOS               # a second text in the same row
    return text


# ------------------------------------------------------------------------------------------- definition


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_fast_model_equals_its_definition(order, smoothing, seed):
    vocab = 9 + 20 * seed
    documents = random_documents(seed, vocab, count=60)
    tokens, ends = joined(documents)
    model = NGram.fit(tokens, ends, vocab=vocab, order=order, smoothing=smoothing, k=0.3, dtype=torch.float64)
    slow = Definition([[BOS, *each] for each in documents], vocab=vocab, order=order, smoothing=smoothing, k=0.3)
    contexts = [[BOS, *each][:cut] for each in documents[:8] for cut in (1, 2, 4, len(each))]
    contexts += [[5], [4, 5, BOS], [4, UNK, 5, 4], [7, 7, 7, 7, 7], [4, 4]]
    for context in contexts:
        expected = torch.tensor([slow.probability(word, context) for word in range(vocab)], dtype=torch.float64)
        torch.testing.assert_close(all_after(model, context).exp(), expected, rtol=1e-12, atol=1e-14)


@settings(max_examples=40, deadline=None)
@given(
    documents=st.lists(st.lists(st.integers(2, 6), min_size=1, max_size=8), min_size=1, max_size=8),
    order=st.integers(1, 7), smoothing=st.sampled_from(SMOOTHINGS), context=st.lists(st.integers(1, 6), min_size=1),
)
def test_any_text_however_small_gives_a_distribution_equal_to_the_definition(documents, order, smoothing, context):
    tokens, ends = joined(documents)
    model = NGram.fit(tokens, ends, vocab=7, order=order, smoothing=smoothing, dtype=torch.float64)
    slow = Definition([[BOS, *each] for each in documents], vocab=7, order=order, smoothing=smoothing)
    got = all_after(model, context).exp()
    assert got.sum().item() == pytest.approx(1, abs=1e-9)
    expected = torch.tensor([slow.probability(word, context) for word in range(7)], dtype=torch.float64)
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-14)


def test_a_stream_is_one_document():
    tokens = np.concatenate(random_documents(3, 12))
    stream = NGram.fit(tokens, None, vocab=12, order=4, dtype=torch.float64)
    slow = Definition([[BOS, *tokens.tolist()]], vocab=12, order=4)
    for context in ([BOS], tokens[:3].tolist(), tokens[20:40].tolist(), [EOS]):
        expected = [slow.probability(word, context) for word in range(12)]
        np.testing.assert_allclose(all_after(stream, context).exp(), expected, rtol=1e-12, atol=1e-14)


def test_documents_that_are_framed_already_are_not_framed_twice():
    documents = random_documents(4, 12)
    plain = NGram.fit(*joined(documents), vocab=12)
    framed = NGram.fit(*joined([[BOS, *each] for each in documents]), vocab=12)
    for name, tensor in plain.saved_tensors().items():
        assert torch.equal(tensor, framed.saved_tensors()[name])


def test_keys_too_wide_to_pack_are_sorted_just_the_same():
    narrow = np.random.default_rng(0).integers(0, 50, 1000)
    keys, places = sort_with_places(narrow)
    wide, wide_places = sort_with_places(narrow << 56)
    assert np.array_equal(wide >> 56, keys) and np.array_equal(narrow[places], keys)
    assert np.array_equal(narrow[wide_places], keys)


@pytest.mark.parametrize("repaid", [0, 2**40])
def test_ids_of_32_bits_do_not_overflow_the_keys(monkeypatch, repaid):
    monkeypatch.setattr(order_table, "REPAID", repaid)
    sizes = np.zeros(100_001, np.int64)
    sizes[[0, 100_000]] = 1
    order = order_table.OrderTable(
        np.array([7, 3], np.uint16), Pointers.from_sizes(sizes), np.zeros(2), None, vocab=50_000)
    assert order.keys.tolist() == [7, 100_000 * 50_000 + 3]
    assert order.find(np.array([100_000, 0, 5], np.int32), np.array([3, 7, 3], np.int32)).tolist() == [1, 0, -1]
    assert order.following(np.array([100_000], np.int32))[0].tolist() == [1]


# ------------------------------------------------------------------------------------------- the laws


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("order", [1, 2, 5, 7])
def test_every_context_gives_probabilities_that_sum_to_one_and_none_for_pad_and_bos(order, smoothing):
    model = small_model(order, smoothing)
    state = model.start(6)
    for column in some_text(12, (6, 12)).split(1, dim=1):
        logs, state = model.step(column, state)
        torch.testing.assert_close(logs.exp().sum(-1), torch.ones(6, dtype=torch.float64), rtol=0, atol=1e-9)
        assert torch.isneginf(logs[:, :2]).all()


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("order", [1, 2, 4])
def test_score_is_what_step_says_of_the_same_word(order, smoothing):
    model, text = small_model(order, smoothing), some_text(12, (5, 11))
    scores, _ = model.score(text[:, :-1], text[:, 1:])
    state = model.start(5)
    for t in range(10):
        logs, state = model.step(text[:, t:t + 1], state)
        assert torch.equal(scores[:, t], logs.gather(1, text[:, t + 1:t + 2])[:, 0])


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("cut", range(1, 9))
def test_cutting_anywhere_and_carrying_the_state_changes_nothing(order, cut):
    model, text = small_model(order), some_text(12, (4, 10))
    read, targets = text[:, :-1], text[:, 1:]
    whole, end = model.score(read, targets, model.start(4))
    head, state = model.score(read[:, :cut], targets[:, :cut], model.start(4))
    tail, after = model.score(read[:, cut:], targets[:, cut:], state)
    assert torch.equal(torch.cat([head, tail], 1), whole)
    assert torch.equal(end.words, after.words) and torch.equal(end.count, after.count)


def test_padding_and_neighbours_change_no_row_and_a_row_of_length_0_keeps_its_state():
    model, text = small_model(4), some_text(12, (5, 10))
    lengths = torch.tensor([9, 4, 1, 0, 6])
    state = model.step(torch.tensor([[5], [6], [7], [8], [9]]), model.start(5))[1]
    before = state.clone()
    scores, after = model.score(text[:, :-1], text[:, 1:], state.clone(), lengths)
    stepped, _ = model.step(text[:, :-1], state.clone(), lengths)
    assert scores.isfinite()[torch.arange(9) >= lengths[:, None]].all()
    for row, length in enumerate(lengths.tolist()):
        alone = before.select(torch.tensor([row]))
        if length == 0:
            assert torch.equal(after.words[row], before.words[row])
            continue
        own, own_state = model.score(text[row:row + 1, :length], text[row:row + 1, 1:length + 1], alone.clone())
        assert torch.equal(scores[row, :length], own[0])
        assert torch.equal(after.words[row], own_state.words[0]) and after.count[row] == own_state.count[0]
        assert torch.equal(stepped[row], model.step(text[row:row + 1, :length], alone)[0][0])


def test_targets_that_are_not_the_next_words_are_scored_in_their_contexts():
    model, text = small_model(4), some_text(12, (3, 8))
    other = text.flip(0).clamp(min=2)
    scores, _ = model.score(text, other, lengths=torch.tensor([8, 5, 3]))
    for row, length in enumerate([8, 5, 3]):
        for t in range(length):
            logs, _ = model.step(text[row:row + 1, :t + 1], model.start(1))
            assert scores[row, t] == logs[0, other[row, t]]


@pytest.mark.parametrize("repaid, few, dense, packed, indexed", [
    (0, 0, 2**20, 63, False), (0, 10**9, 2**20, 63, False),
    (2**40, 16, 2**20, 63, True), (2**40, 16, 0, 63, True), (2**40, 16, 0, 0, True)])
def test_blocks_and_how_ngrams_are_found_change_no_number(monkeypatch, repaid, few, dense, packed, indexed):
    """By binary search, all at once or one by one; by an index, laid out, or of hashes with the keys or without."""
    model, text = small_model(4, vocab=300), some_text(20, (7, 40))
    usual, _ = model.score(text[:, :-1], text[:, 1:])
    for name, value in (("REPAID", repaid), ("FEW", few), ("DENSE", dense), ("PACKED", packed)):
        monkeypatch.setattr(order_table, name, value)
    monkeypatch.setattr(lookup, "BLOCK", 5)
    again = small_model(4, vocab=300)
    assert torch.equal(again.score(text[:, :-1], text[:, 1:])[0], usual)
    assert all((order.index is not None) == indexed for order in again.orders[1:])
    assert not indexed or all(order.index.direct == bool(dense) for order in again.orders[1:])


@pytest.mark.parametrize("room", [1, 3])
@pytest.mark.parametrize("packed", [0, 63])
def test_an_index_has_every_key_and_no_other(monkeypatch, room, packed):
    """Also where it is nearly full, so that many keys stand far from their slots."""
    for name, value in (("DENSE", 0), ("PACKED", packed), ("ROOM", room)):
        monkeypatch.setattr(order_table, name, value)
    keys = np.unique(np.random.default_rng(3).integers(0, 2**40, 2000))
    index, absent = order_table.Index(keys[::2], 2**40), np.setdiff1d(keys + 1, keys)
    there, ids = index.seek(np.append(keys, absent))
    assert there.tolist() == list(range(0, len(keys), 2)) and ids.tolist() == list(range(len(keys[::2])))


def test_an_index_is_made_once_it_is_repaid():
    model, text = small_model(3, vocab=300), some_text(20, (1, 4))
    model.score(text[:, :-1], text[:, 1:])
    assert model.orders[2].index is None
    model.score(*(some_text(20, (60, 21))[:, cut] for cut in (slice(0, -1), slice(1, None))))
    assert model.orders[1].index is not None


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("order", [1, 2, 4])
def test_a_whole_text_is_scored_as_its_documents_are(monkeypatch, order, smoothing):
    model, documents = small_model(order, smoothing), random_documents(7, 12)
    tokens, ends = joined([[], *documents])
    rows = [model.score(torch.tensor([[BOS, *each[:-1]]]), torch.tensor([each]))[0][0] for each in documents]
    stream = model.score(torch.tensor([[BOS, *tokens[:-1].tolist()]]), torch.from_numpy(tokens.astype(int))[None])[0][0]
    for block in (lookup.BLOCK, 7, 3):
        monkeypatch.setattr(lookup, "BLOCK", block)
        assert torch.equal(model.score_text(tokens, ends), torch.cat(rows))
        assert torch.equal(model.score_text(tokens), stream)
    assert model.score_text(tokens[:0]).shape == (0,)


def test_reordering_the_batch_reorders_the_state():
    model, text = small_model(3), some_text(12, (4, 6))
    order = torch.tensor([2, 0, 3, 1])
    _, state = model.step(text, model.start(4))
    _, other = model.step(text[order], model.start(4))
    assert torch.equal(state.select(order).words, other.words)


def test_watching_tells_how_long_an_ngram_was_found_and_changes_no_number():
    model = NGram.fit(np.array([4, 5, 6, 4, 5, 6, 7, 2]), vocab=9, order=3)
    read, targets = torch.tensor([[BOS, 4, 5, 4]]), torch.tensor([[4, 5, 4, 8]])
    unwatched, _ = model.score(read, targets)
    with watch() as seen:
        watched, _ = model.score(read, targets)
    assert torch.equal(unwatched, watched)
    assert seen.of("back-off")[0].values.tolist() == [[2, 3, 1, 1]]
    assert seen.of("back-off")[0].about["order"] == 3


# ------------------------------------------------------------------------------------------- smoothing


def test_without_smoothing_counts_are_normalised_and_the_unseen_is_impossible():
    model = NGram.fit(np.array([4, 5, 4, 6, 2]), vocab=8, order=2, smoothing="none")
    after = all_after(model, [4]).exp()
    assert after[5] == after[6] == 0.5 and after[7] == 0
    read, targets = torch.tensor([[4]]), torch.tensor([[7]])
    assert torch.isneginf(model.score(read, targets)[0]).item()


def test_add_k_is_the_formula_of_the_textbook():
    model = NGram.fit(np.array([4, 5, 4, 6, 4, 5, 2]), vocab=8, order=2, smoothing="add-k", k=0.5)
    after = all_after(model, [4]).exp()
    assert after[5].item() == pytest.approx((2 + 0.5) / (3 + 0.5 * 6))
    assert after[7].item() == pytest.approx(0.5 / (3 + 0.5 * 6))
    assert all_after(model, [7]).exp()[5].item() == pytest.approx(1 / 6)


def test_undefined_discounts_fall_back_and_say_why():
    model = NGram.fit(np.array([4, 5, 6, 2]), vocab=8, order=2)
    assert model.notes == [
        "order 1: one discount of 0.500 for all counts (no 1-gram has adjusted count 2)",
        "order 2: one discount of 0.500 for all counts (no 2-gram has adjusted count 2)",
    ]
    assert model.discounts[0] == [0.5, 0.5, 0.5]


# ------------------------------------------------------------------------------------------- keeping


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_a_model_saved_and_loaded_is_the_same(tmp_path, smoothing):
    model, text = small_model(4, smoothing), some_text(12, (3, 9))
    safetensors.torch.save_file(model.saved_tensors(), tmp_path / "model.safetensors")
    loaded = NGram.from_tensors(safetensors.torch.load_file(tmp_path / "model.safetensors"), model.settings)
    assert torch.equal(model.score(text[:, :-1], text[:, 1:])[0], loaded.score(text[:, :-1], text[:, 1:])[0])
    assert loaded.settings == model.settings


def test_a_damaged_model_says_so():
    model = small_model(3)
    tensors = model.saved_tensors()
    with pytest.raises(RunError, match=r"lacks words\.3"):
        NGram.from_tensors({name: each for name, each in tensors.items() if name != "words.3"}, model.settings)
    with pytest.raises(RunError, match="the 2-grams of the model do not fit together"):
        NGram.from_tensors({**tensors, "logprobs.2": tensors["logprobs.2"][1:]}, model.settings)


@pytest.mark.parametrize("change, message", [
    ({"order": 0}, "order 0: an n-gram has between 1 and 7 words"),
    ({"order": 8}, "order 8"),
    ({"smoothing": "kneser-nay"}, "did you mean kneser-ney?"),
    ({"smoothing": "add-k", "k": 0.0}, "add-k adds a number above 0"),
    ({"vocab": 2}, "vocab 2"),
])
def test_impossible_settings_are_refused_in_one_line(change, message):
    with pytest.raises(SettingError, match=message):
        NGram.fit(np.array([4, 5, 2]), **{"vocab": 8, **change})


@pytest.mark.parametrize("tokens, ends, message", [
    ([], None, "the text is empty"),
    ([4, 0, 5], None, "ids must lie between 1 and 7"),
    ([4, 8], None, "found 4 to 8"),
    ([1, 1], None, "nothing but <bos>"),
    ([4, 5, 2], [2], "document ends must rise to the number of tokens, 3"),
    ([4, 5, 2], [2, 1, 3], "document ends must rise"),
])
def test_text_that_cannot_be_counted_is_refused_in_one_line(tokens, ends, message):
    with pytest.raises(DataError, match=message):
        NGram.fit(np.array(tokens, np.int64), None if ends is None else np.array(ends), vocab=8)


# ------------------------------------------------------------------------------------------- KenLM's numbers


def read_lines(name: str) -> list[list[str]]:
    with gzip.open(DATA / "multi30k" / name, "rt", encoding="utf-8") as file:
        return [line.split() for line in file]


@pytest.mark.skipif(not (DATA / "multi30k").exists(), reason=NO_DATA)
@pytest.mark.parametrize("order, with_oov, without", [(5, 53.4926, 44.2318), (3, 54.8984, 45.4338)])
def test_perplexity_on_multi30k_is_that_of_kenlm(order, with_oov, without):
    train, valid = read_lines("train.en.gz"), read_lines("val.en.gz")
    ids = {word: id for id, word in enumerate(dict.fromkeys(word for line in train for word in line), start=4)}
    encode = [[*(ids.get(word, UNK) for word in line), EOS] for line in valid]
    tokens, ends = joined([[*(ids[word] for word in line), EOS] for line in train])
    model = NGram.fit(tokens, ends, vocab=len(ids) + 4, order=order)
    lengths = torch.tensor([len(line) for line in encode])
    targets = torch.nn.utils.rnn.pad_sequence([torch.tensor(line) for line in encode], batch_first=True)
    read = torch.cat([torch.full((len(targets), 1), BOS), targets[:, :-1]], dim=1)
    scores, _ = model.score(read, targets, lengths=lengths)
    real = torch.arange(targets.shape[1]) < lengths[:, None]
    assert int(real.sum()) == 13181 and int((targets == UNK).sum()) == 273
    assert math.exp(-scores[real].double().mean()) == pytest.approx(with_oov, abs=0.001)
    assert math.exp(-scores[real & (targets != UNK)].double().mean()) == pytest.approx(without, abs=0.001)


@pytest.mark.skipif(not (DATA / "tinyshakespeare.txt").exists(), reason=NO_DATA)
def test_a_character_5_gram_scores_tinyshakespeare_at_1_56():
    text = (DATA / "tinyshakespeare.txt").read_text(encoding="utf-8")
    ids = {character: id for id, character in enumerate(sorted(set(text)), start=4)}
    stream = np.array([ids[character] for character in text], np.uint8)
    cut = int(0.9 * len(stream))
    model = NGram.fit(stream[:cut], vocab=len(ids) + 4, order=5)
    held_out = torch.from_numpy(stream[cut:].astype(np.int64))[None]
    scores, _ = model.score(held_out[:, :-1], held_out[:, 1:])
    assert -scores.double().mean().item() == pytest.approx(1.561, abs=0.002)


@pytest.mark.parametrize("smoothing", ["kneser-ney", "add-k"])
def test_threads_and_blocks_change_no_number(smoothing, monkeypatch):
    from regard.models.ngram import lookup

    tokens = np.random.default_rng(1).integers(2, 30, 5000)
    model = NGram.fit(tokens, None, vocab=30, order=4, smoothing=smoothing)
    whole = model.score_text(tokens)
    monkeypatch.setattr(lookup, "BLOCK", 64)
    for threads in (1, 3):
        monkeypatch.setattr(lookup.torch, "get_num_threads", lambda threads=threads: threads)
        assert torch.equal(model.score_text(tokens), whole)
