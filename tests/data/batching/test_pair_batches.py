"""Batches of pairs: every pair once an epoch, within the budget, padded little, and the same for the same seed."""

from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.batching.pair_batches import HeldOutPairs, Pairs, by_width
from regard.data.reading.shards import Counts, Shard
from regard.errors import DataError

EOS = 2


def shard(sentences):
    tokens = np.array([token for sentence in sentences for token in (*sentence, EOS)], np.uint16)
    ends = np.cumsum([len(sentence) + 1 for sentence in sentences]).astype(np.uint64)
    return Shard(Path("none"), tokens, ends, Counts(len(tokens), len(ends)), "", "")


@pytest.fixture(scope="module")
def sides():
    """Pairs like sentences: the source about as long as the target, and told by its first token."""
    draw = np.random.default_rng(0)
    lengths = np.clip(draw.gamma(6, 2, 3000).astype(int), 1, 60)
    others = np.clip(lengths * draw.normal(1.1, 0.15, 3000), 1, 70).astype(int)
    return (shard([[10 + i, *draw.integers(4, 9, n - 1)] for i, n in enumerate(others)]),
            shard([[10 + i, *draw.integers(4, 9, n - 1)] for i, n in enumerate(lengths)]))


def epoch(pairs, number=0):
    return [pairs.batch(number * len(pairs) + i) for i in range(len(pairs))]


def test_every_pair_comes_once_an_epoch_beside_its_own_source(sides):
    pairs = Pairs(*sides, budget=1024)
    for number in (0, 1):
        batches = epoch(pairs, number)
        seen = torch.cat([batch.targets[:, 0] for batch in batches])
        assert sorted(seen.tolist()) == list(range(10, 3010))
        assert torch.equal(seen, torch.cat([batch.source[:, 0] for batch in batches]))


def test_a_batch_keeps_to_the_budget_and_is_framed(sides):
    for batch in epoch(Pairs(*sides, budget=1024)):
        rows, width = batch.targets.shape
        assert rows * width <= 1024 + width and (batch.tokens[:, 0] == 1).all()
        for row in range(min(3, rows)):
            n, m = int(batch.lengths[row]), int(batch.source_lengths[row])
            assert batch.targets[row, n - 1] == EOS and batch.source[row, m - 1] == EOS
            assert torch.equal(batch.tokens[row, 1:n], batch.targets[row, :n - 1])
            assert (batch.targets[row, n:] == 0).all() and (batch.source[row, m:] == 0).all()
            assert (batch.tokens[row, n:] == 0).all()


def test_little_is_padding(sides):
    batches = epoch(Pairs(*sides, budget=1024))
    real = sum(int(batch.lengths.sum() + batch.source_lengths.sum()) for batch in batches)
    whole = sum(batch.targets.numel() + batch.source.numel() for batch in batches)
    assert 1 - real / whole < 0.1


def test_the_same_seed_gives_the_same_batches_and_another_others(sides):
    one, two, other = (Pairs(*sides, budget=512, seed=seed) for seed in (1, 1, 2))
    assert all(torch.equal(one.batch(step).source, two.batch(step).source) for step in (0, 7, len(one) + 3))
    orders = [[batch.targets[:, 0].tolist() for batch in epoch(pairs, number)]
              for pairs, number in ((one, 0), (one, 1), (other, 0))]
    assert orders[0] != orders[1] and orders[0] != orders[2]
    together = [{frozenset(batch) for batch in order} for order in orders]         # not only in another order
    assert len(together[0] & together[1]) < 10 and len(together[0] & together[2]) < 10


def test_held_out_pairs_come_once_each_within_the_budget(sides):
    seen = []
    for batch in HeldOutPairs(*sides, budget=700):
        assert batch.targets.numel() <= 700 and batch.source.numel() <= 700
        assert torch.equal(batch.targets[:, 0], batch.source[:, 0])
        seen += batch.targets[:, 0].tolist()
    assert sorted(seen) == list(range(10, 3010))
    some = list(HeldOutPairs(*sides, budget=700, every=3))
    assert len(some) == -(-len(list(HeldOutPairs(*sides, budget=700))) // 3)


def test_a_pair_beyond_the_budget_stands_alone():
    long = shard([[5] * 40, [6]])
    assert [batch.targets.shape[0] for batch in epoch(Pairs(long, long, budget=8))] == [1, 1]
    assert [batch.targets.shape[0] for batch in HeldOutPairs(long, long, budget=8)] == [1, 1]


def test_rows_and_device_keep_the_source(sides):
    batch = Pairs(*sides, budget=512).batch(0)
    part = batch.rows(1, 3)
    assert torch.equal(part.source, batch.source[1:3]) and torch.equal(part.lengths, batch.lengths[1:3])
    assert part.to(torch.device("cpu")).source is not None


def test_sides_that_do_not_match_are_refused():
    with pytest.raises(DataError, match="2 sources and 1 targets are no pairs"):
        Pairs(shard([[4], [5]]), shard([[4]]), budget=8)


def test_pairs_stand_with_their_width_in_their_order_and_unfit_ones_nowhere():
    random = np.random.default_rng(0)
    wide, fits = random.integers(1, 9, 200) * 2, random.random(200) < 0.8
    found = dict(by_width(wide, fits))
    assert list(found) == sorted(set(wide[fits].tolist()))
    for width, members in found.items():
        np.testing.assert_array_equal(members, np.flatnonzero((wide == width) & fits))


class Counted(np.ndarray):
    """An array that counts the numbers that go through operations on it."""

    seen = 0

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        Counted.seen += max(np.size(each) for each in inputs)
        return getattr(ufunc, method)(*(np.asarray(each) for each in inputs), **options)

    def __array_function__(self, function, types, args, options):
        Counted.seen += self.size
        return super().__array_function__(function, types, args, options)


def test_many_widths_are_no_more_work_than_few():
    def work(widths):
        Counted.seen = 0
        wide = (np.arange(4096) % widths).view(Counted)
        assert len(list(by_width(wide, np.ones(4096, bool)))) == widths
        return Counted.seen

    assert work(1024) < 2 * work(4)
