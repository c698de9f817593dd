from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batching.shuffle import key_of, permute
from regard.data.batching.text_batches import Batch, Documents, Streams, Windows, evaluation_batches
from regard.data.reading.shards import Counts, Shard
from regard.errors import DataError

BOS, EOS = 1, 2


def shard_of(*documents):
    """A shard in memory; each document is given without its <eos>."""
    tokens = np.concatenate([[*document, EOS] for document in documents] or [[]]).astype(np.uint16)
    ends = np.cumsum([len(document) + 1 for document in documents]).astype(np.uint64)
    return Shard("memory", tokens, ends, Counts(len(tokens), len(ends)), "", "")


def numbered(length):
    """A stream whose tokens tell their own position: token i is 10 + i."""
    tokens = (10 + np.arange(length)).astype(np.uint32)
    return Shard("memory", tokens, np.array([length], dtype=np.uint64), Counts(length, 1), "", "")


def same(one, other):
    lengths = (one.lengths is None) == (other.lengths is None)
    return lengths and torch.equal(one.tokens, other.tokens) and torch.equal(one.targets, other.targets)


@given(count=st.integers(1, 3000), key=st.integers(0, 2**63))
def test_a_shuffle_is_a_bijection(count, key):
    assert sorted(permute(np.arange(count), count, key).tolist()) == list(range(count))


def test_shuffles_differ_by_key_and_look_random():
    orders = [permute(np.arange(1000), 1000, key_of(0, epoch)) for epoch in range(20)]
    assert len({tuple(order) for order in orders}) == 20
    assert abs(np.mean([np.corrcoef(order, np.arange(1000))[0, 1] for order in orders])) < 0.05
    assert permute(np.array([10**12 - 1]), 10**12, 7)[0] < 10**12


@given(length=st.integers(1, 400), context=st.integers(1, 50), batch=st.integers(1, 20), seed=st.integers(0, 5))
def test_windows_tile_the_stream_without_overlap(length, context, batch, seed):
    windows = Windows(numbered(length), context, batch, seed, BOS)
    starts = []
    for step in range(len(windows)):
        made = windows.batch(step)
        assert made.tokens.shape == made.targets.shape == (batch, windows.context) and made.lengths is None
        assert torch.equal(made.targets, made.targets[:, :1] + torch.arange(windows.context))
        follows = made.tokens == made.targets - 1
        assert follows[:, 1:].all() and (follows[:, 0] | (made.tokens[:, 0] == BOS)).all()
        starts += (made.targets[:, 0] - 10).tolist()
    epoch = sorted(starts[:windows.count])
    assert np.diff(epoch).tolist() == [windows.context] * (windows.count - 1)
    assert length - windows.count * windows.context < 2 * windows.context


def test_over_the_epochs_windows_cover_every_token():
    windows = Windows(numbered(205), 20, 4)
    seen = {int(target) for step in range(200 * len(windows)) for target in windows.batch(step).targets.flatten()}
    assert seen == set(range(10, 215))


def test_one_window_in_sixteen_begins_from_nothing():
    windows = Windows(numbered(64_000), 16, 10)
    begun = np.mean([(windows.batch(step).tokens[:, 0] == BOS).float().mean() for step in range(len(windows))])
    assert 0.04 < begun < 0.09


@pytest.mark.parametrize("kind", [Windows, Streams, Documents])
def test_a_batch_is_a_pure_function_of_the_step(kind):
    shard = shard_of(*[range(10, 10 + size % 37) for size in range(200)])
    first, second = kind(shard, 16, 8, 3, BOS), kind(shard, 16, 8, 3, BOS)
    steps = list(range(0, 3 * len(first), 7))
    forward = {step: first.batch(step) for step in steps}
    assert all(same(second.batch(step), forward[step]) for step in reversed(steps))
    other = kind(shard, 16, 8, 4, BOS)
    assert not all(same(other.batch(step), forward[step]) for step in steps)


def test_epochs_differ():
    windows = Windows(numbered(5000), 16, 8)
    assert not same(windows.batch(0), windows.batch(len(windows)))


@pytest.mark.parametrize("length, batch", [(1000, 4), (103, 5), (7, 4), (3, 8), (1, 2)])
def test_lanes_go_on_where_they_were(length, batch):
    streams = Streams(numbered(length), 10, batch, bos=BOS)
    for epoch in range(2):
        steps = range(epoch * len(streams), (epoch + 1) * len(streams))
        made = [streams.batch(step) for step in steps]
        assert [streams.fresh(step) for step in steps] == [True] + [False] * (len(streams) - 1)
        assert (made[0].tokens[:, 0] == BOS).all()
        for before, after in pairwise(made):
            assert torch.equal(after.tokens[:, 0], before.targets[:, -1])
        seen = torch.cat([each.targets.flatten() for each in made]).tolist()
        assert len(seen) == len(set(seen)) > length - streams.batch_size * streams.context


def test_documents_are_framed_and_padded():
    shard = shard_of([10, 11], [20, 21, 22, 23], [30])
    documents = Documents(shard, 16, 3, bos=BOS)
    made = documents.batch(0)
    rows = {tuple(made.tokens[row, :size].tolist()): tuple(made.targets[row, :size].tolist())
            for row, size in enumerate(made.lengths.tolist())}
    assert rows == {(BOS, 10, 11): (10, 11, EOS), (BOS, 20, 21, 22, 23): (20, 21, 22, 23, EOS), (BOS, 30): (30, EOS)}
    assert made.tokens.shape == (3, 5) and made.real == 10
    assert all((made.tokens[row, size:] == 0).all() for row, size in enumerate(made.lengths.tolist()))
    assert documents.cut == 0


def test_long_documents_are_cut_into_consecutive_rows():
    shard = shard_of(range(10, 20), [30])
    documents = Documents(shard, 4, 4, bos=BOS)
    assert (documents.count, documents.cut) == (4, 1)
    made = documents.batch(0)
    sizes = made.lengths.tolist()
    rows = sorted((made.targets[row, :size].tolist(), made.tokens[row, 0].item()) for row, size in enumerate(sizes))
    assert rows == [([10, 11, 12, 13], BOS), ([14, 15, 16, 17], 13), ([18, 19, EOS], 17), ([30, EOS], BOS)]


@given(sizes=st.lists(st.integers(0, 30), min_size=1, max_size=120), batch=st.integers(1, 9),
       context=st.integers(1, 12))
def test_an_epoch_of_documents_has_every_row(sizes, batch, context):
    shard = shard_of(*[[100 + number] * size for number, size in enumerate(sizes)])
    documents = Documents(shard, context, batch, bos=BOS)
    made = [documents.batch(step) for step in range(len(documents))]
    assert all(len(each.tokens) == batch for each in made)
    seen = np.concatenate([each.targets.flatten().numpy() for each in made])
    for number, size in enumerate(sizes):
        assert (seen == 100 + number).sum() >= size
    assert (np.concatenate([each.targets.flatten() for each in made]) > 0).sum() >= len(shard)


def test_documents_of_a_batch_are_of_similar_length():
    shard = shard_of(*[range(10, 10 + (size * 7919) % 97) for size in range(2000)])
    documents = Documents(shard, 128, 16, bos=BOS)
    padded = real = 0
    for step in range(len(documents)):
        made = documents.batch(step)
        padded, real = padded + made.tokens.numel(), real + made.real
    assert padded < 1.2 * real


@given(sizes=st.lists(st.integers(0, 30), min_size=1, max_size=20), batch=st.integers(1, 9),
       context=st.none() | st.integers(1, 12), documents=st.booleans())
def test_evaluation_predicts_every_token_once(sizes, batch, context, documents):
    shard = shard_of(*[range(10, 10 + size) for size in sizes])
    targets, starts = [], []
    for made in evaluation_batches(shard, context, batch, BOS, documents):
        lengths = [made.targets.shape[1]] * len(made.targets) if made.lengths is None else made.lengths.tolist()
        assert made.real == sum(lengths)
        for row, size in enumerate(lengths):
            targets += made.targets[row, :size].tolist()
            starts.append(made.tokens[row, 0].item())
            assert torch.equal(made.tokens[row, 1:size], made.targets[row, :size - 1])
    assert targets == shard.tokens.tolist()
    assert starts.count(BOS) == (len(sizes) if documents else 1)
    if context is None and not documents:
        assert len(starts) == 1


@pytest.mark.parametrize("kind", [Windows, Streams])
def test_the_phase_of_an_epoch_comes_from_seed_and_epoch_in_this_order(kind):
    """Or seed 3 in its fifth epoch would read what seed 5 reads in its third."""
    for seed, epoch in ((3, 5), (5, 3), (0, 1)):
        batches = kind(numbered(1000), 8, 4, seed=seed)
        starts = [int(batches.batch(epoch * len(batches) + step).targets[:, 0].min()) for step in range(len(batches))]
        assert min(starts) - numbered(1000).tokens[0] == key_of(seed, epoch, 1) % (batches.slack + 1)


def test_real_targets_are_counted():
    tokens = torch.zeros(2, 3, dtype=torch.int64)
    assert Batch(tokens, tokens).real == 6
    assert Batch(tokens, tokens, torch.tensor([3, 1])).real == 4


def test_batches_are_int64():
    for made in (Windows(numbered(50), 8, 2).batch(0), next(evaluation_batches(numbered(50), 8, 2))):
        assert made.tokens.dtype == made.targets.dtype == torch.int64


def test_an_empty_shard_is_refused():
    for kind in (Windows, Streams, Documents):
        with pytest.raises(DataError, match="is empty"):
            kind(shard_of(), 4, 2)


def test_widening_a_batch_adds_pads_and_nothing_else():
    batch = Batch(torch.arange(1, 11).view(2, 5), torch.arange(2, 12).view(2, 5), None)
    wide = batch.widened(4, most=16)
    assert wide.tokens.shape == (2, 8) and wide.lengths.tolist() == [5, 5] and wide.real == batch.real
    assert torch.equal(wide.tokens[:, :5], batch.tokens) and not wide.tokens[:, 5:].any()
    assert batch.widened(64, most=6).tokens.shape == (2, 6)
