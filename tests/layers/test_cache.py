"""The key/value cache on a CPU: its short ways are the long ones."""

import pytest
import torch

from regard.layers.cache import KeyValueCache
from regard.layers.self_attention import SelfAttention

B, C, H, K = 4, 7, 2, 3


def cache_at(*counts):
    torch.manual_seed(0)
    keys, values = torch.randn(2, len(counts), C + 1, H, K, dtype=torch.float64)
    return KeyValueCache(keys.clone(), values.clone(), torch.tensor(counts))


def chunk(time, rows=B):
    return torch.randn(2, rows, time, H, K, dtype=torch.float64)


@torch.no_grad()
@pytest.mark.parametrize("time", [1, 3])
def test_rows_that_stand_at_one_place_are_written_as_those_that_do_not(time, monkeypatch):
    keys, values = chunk(time)
    together, readable = cache_at(2, 2, 2, 2).write(keys, values, None)
    assert readable.even
    monkeypatch.setattr(KeyValueCache, "together", lambda cache: None)
    one_by_one, other = cache_at(2, 2, 2, 2).write(keys, values, None)
    assert not other.even
    for name, tensor in one_by_one.tensors().items():
        assert torch.equal(together.tensors()[name], tensor), name
    assert torch.equal(readable.keys, other.keys) and torch.equal(readable.at, other.at)


@torch.no_grad()
def test_rows_at_several_places_are_not_called_even():
    keys, values = chunk(1)
    assert not cache_at(2, 1, 2, 2).write(keys, values, None)[1].even
    assert not cache_at(2, 2, 2, 2).write(keys, values, torch.tensor([1, 1, 0, 1]))[1].even


@torch.no_grad()
@pytest.mark.parametrize("positions", ["rotary", "alibi", "none"])
def test_a_step_without_a_mask_reads_what_one_with_a_mask_reads(positions, monkeypatch):
    torch.manual_seed(0)
    layer, x = SelfAttention(8, heads=2, positions=positions).double().eval(), torch.randn(B, 5, 8).double()

    def read():
        state, outputs = layer.start(B, C), []
        for token in x.split(1, 1):
            y, state = layer(token, state)
            outputs.append(y)
        return torch.cat(outputs, 1)

    short = read()
    monkeypatch.setattr(KeyValueCache, "together", lambda cache: None)
    torch.testing.assert_close(short, read(), rtol=0, atol=1e-12)
    torch.testing.assert_close(short, layer(x)[0], rtol=0, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("rows", [[0, 0, 0, 1, 1, 1], [1, 1, 0, 0], [1, 0], [0]])
def test_a_reordered_cache_reads_on_as_a_selected_one(rows):
    rows = torch.tensor(rows)
    expected, got = cache_at(2, 2).select(rows), cache_at(2, 2).reorder(rows)
    keys, values = chunk(1, len(rows))
    for _ in range(2):
        expected, wanted = expected.write(keys, values, None)
        got, seen = got.write(keys, values, None)
        assert torch.equal(seen.keys, wanted.keys) and torch.equal(seen.values, wanted.values)
        assert torch.equal(got.count, expected.count)
