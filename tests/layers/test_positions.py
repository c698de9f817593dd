import math

import pytest
import torch

from regard.errors import SettingError
from regard.kernels.rotary import by_definition
from regard.layers.positions import LearnedPositions, Rotary, SinusoidalPositions

T, D = 40, 8


def test_the_sinusoids_are_the_formula():
    table = SinusoidalPositions(D).vectors(torch.arange(T))
    for t in range(T):
        for i in range(D // 2):
            angle = t / 10000 ** (2 * i / D)
            assert table[t, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-5)
            assert table[t, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)


@pytest.mark.parametrize("shift", [1, 5, 17])
def test_moving_along_the_sinusoids_is_one_linear_map_wherever_it_starts(shift):
    table = SinusoidalPositions(D).vectors(torch.arange(T)).double()
    turns = [shift / 10000 ** (2 * i / D) for i in range(D // 2)]
    move = torch.block_diag(*(torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]]) for a in turns))
    torch.testing.assert_close(table[:-shift] @ move.double(), table[shift:], rtol=0, atol=1e-5)


def test_sinusoids_reach_beyond_any_length_seen():
    layer = SinusoidalPositions(D)
    x = torch.zeros(1, 2, D)
    state = layer.start(1, 10_000)
    state.count += 9_000
    y, _ = layer(x, state)
    torch.testing.assert_close(y[0], layer.vectors(torch.tensor([9_000, 9_001])))


def test_a_turned_query_meets_a_turned_key_by_their_distance_alone():
    rotary = Rotary(D)
    q, k = torch.randn(2, 1, 1, 1, D, dtype=torch.float64).expand(2, 1, T, 1, D)
    turns = rotary.turns(torch.arange(T), torch.float64)
    products = rotary(q, turns)[0, :, 0] @ rotary(k, turns)[0, :, 0].T                # (T, T)
    for distance in range(-T + 1, T):
        along = products.diagonal(distance)
        torch.testing.assert_close(along, along[:1].expand_as(along), rtol=0, atol=1e-12)
    assert not torch.allclose(products[0, 0], products[0, 1])


def test_turning_keeps_lengths_and_position_zero_stays_put():
    rotary = Rotary(D)
    x = torch.randn(1, T, 2, D)
    turned = rotary(x, rotary.turns(torch.arange(T)))
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(turned[:, 0], x[:, 0])


def test_learned_positions_refuse_what_lies_beyond_them():
    layer = LearnedPositions(D, limit=4)
    with pytest.raises(SettingError, match=r"^5 tokens were given to a model with 4 learned positions: "
                                           r"cut the text, or train with a larger --context$"):
        layer(torch.zeros(1, 5, D))
    with pytest.raises(SettingError, match=r"^room for 5 tokens was asked of a model with 4 learned positions: "
                                           r"read at most 4 at once, or train with --context 5$"):
        layer.start(1, 5)
    layer(torch.zeros(1, 4, D))


def test_a_learned_vector_belongs_to_the_position_not_the_chunk():
    layer = LearnedPositions(D, limit=6)
    x = torch.zeros(2, 6, D)
    state = layer.start(2, 6)
    _, state = layer(x[:, :3], state, torch.tensor([3, 1]))
    y, _ = layer(x[:, :2], state)
    torch.testing.assert_close(y, torch.stack([layer.table[3:5], layer.table[1:3]]))


def test_widths_that_cannot_pair_up_are_refused():
    with pytest.raises(SettingError, match="sinusoidal positions need an even width"):
        SinusoidalPositions(7)
    with pytest.raises(SettingError, match="heads of width 3 cannot turn in pairs"):
        Rotary(3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_turning_as_complex_numbers_equals_the_definition(dtype):
    rotary = Rotary(D)
    x = torch.randn(2, T, 3, 2, D, dtype=dtype)
    for at in (torch.arange(T), torch.randint(0, 50, (2, T))):
        turns = rotary.turns(at, dtype)
        shaped = turns.view(*turns.shape[:-1], 1, 1, turns.shape[-1])
        torch.testing.assert_close(rotary(x, turns), by_definition(x, shaped))
