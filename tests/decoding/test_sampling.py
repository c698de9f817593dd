import pytest
import torch

from regard.decoding.sampling import (
    Sampling,
    choose,
    cut_distribution,
    likeliest,
    likeliest_by_definition,
    row_noise,
    uniform,
)
from regard.errors import SettingError

CHANCES = torch.tensor([[0.125, 0.5, 0.125, 0.25]], dtype=torch.float64)


def survivors(sampling, chances=CHANCES):
    weights, tokens = cut_distribution(chances.log(), sampling)
    torch.testing.assert_close(weights.sum(-1), torch.ones(len(chances), dtype=torch.float64))
    return {int(token): float(weight) for weight, token in zip(weights[0], tokens[0], strict=True) if weight > 0}


def draw(chances, sampling, count):
    rows = torch.arange(count)
    return choose(chances.log().expand(count, -1), sampling, rows, torch.full_like(rows, 3))


def test_temperature_zero_takes_the_likeliest():
    assert draw(CHANCES, Sampling(temperature=0), 5).tolist() == [1] * 5


def test_temperature_sharpens_and_flattens():
    half = survivors(Sampling(temperature=0.5))
    squares = CHANCES[0] ** 2 / (CHANCES[0] ** 2).sum()
    assert half == pytest.approx(dict(enumerate(squares.tolist())))
    assert survivors(Sampling(temperature=1e6)) == pytest.approx(dict.fromkeys(range(4), 0.25), abs=1e-4)


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_temperature_near_zero_is_greedy_and_never_breaks(temperature, dtype):
    assert draw(CHANCES.to(dtype), Sampling(temperature=temperature), 50).tolist() == [1] * 50


@pytest.mark.parametrize("k, left", [
    (0, {0, 1, 2, 3}), (1, {1}), (2, {1, 3}), (3, {0, 1, 3}), (4, {0, 1, 2, 3}), (9, {0, 1, 2, 3})])
def test_top_k_keeps_exactly_the_k_likeliest_and_breaks_ties_by_the_smaller_id(k, left):
    assert set(survivors(Sampling(top_k=k))) == left


@pytest.mark.parametrize("vocab, k", [(7, 3), (100, 40), (1000, 5), (1024, 31), (5003, 150)])
@pytest.mark.parametrize("kinds", [2, 30, 10**6], ids=["ties all over", "some ties", "few"])
def test_the_likeliest_are_found_in_two_steps_as_by_sorting_them_all(vocab, k, kinds):
    values = -torch.randint(kinds, (6, vocab)).float() / kinds * 20
    values[1, ::3], values[2, 1:] = -torch.inf, -torch.inf
    values[3, ::2] *= -0.0                                     # which is equal to 0.0
    values[4] *= -1
    torch.testing.assert_close(likeliest(values, k), likeliest_by_definition(values, k), rtol=0, atol=0)
    assert likeliest(values, k).diff(dim=1).min() > 0


@pytest.mark.parametrize("p, left", [
    (1.0, {0, 1, 2, 3}), (0.01, {1}), (0.5, {1}), (0.51, {1, 3}), (0.75, {1, 3}), (0.76, {0, 1, 3}),
    (0.9, {0, 1, 2, 3})])
def test_top_p_keeps_the_fewest_likeliest_that_hold_so_much(p, left):
    assert set(survivors(Sampling(top_p=p))) == left


def test_the_cuts_renormalise_what_is_left():
    assert survivors(Sampling(top_k=2)) == pytest.approx({1: 2 / 3, 3: 1 / 3})
    assert survivors(Sampling(top_k=2, top_p=0.6)) == pytest.approx({1: 1.0})      # of 2/3 and 1/3
    assert survivors(Sampling(top_p=0.7)) == pytest.approx({1: 2 / 3, 3: 1 / 3})


def test_the_cuts_look_at_the_whole_vocabulary():
    """Many unlikely tokens that together hold half: top-p counts them all, and keeps every one it needs."""
    many = torch.cat([torch.tensor([0.5]), torch.full((4096,), 0.5 / 4096)])[None].double()
    assert len(survivors(Sampling(top_p=0.75), many)) == 1 + 2048
    assert len(survivors(Sampling(top_k=3000), many)) == 3000


def test_a_token_without_a_chance_is_never_chosen():
    chances = torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]], dtype=torch.float64)
    for sampling in (Sampling(), Sampling(top_k=4), Sampling(top_p=0.999), Sampling(temperature=3.0)):
        assert set(draw(chances, sampling, 500).tolist()) == {1, 3}


@pytest.mark.parametrize("sampling", [Sampling(seed=1), Sampling(seed=2, temperature=0.7), Sampling(seed=3, top_k=3),
                                 Sampling(seed=4, top_p=0.8)], ids=str)
def test_tokens_come_as_often_as_their_probabilities_say(sampling):
    count = 20_000
    seen = draw(CHANCES, sampling, count).bincount(minlength=4)
    expected = survivors(sampling)
    wanted = {token: count * chance for token, chance in expected.items()}
    chi_square = sum((seen[token].item() - often) ** 2 / often for token, often in wanted.items())
    assert chi_square < 16.3                                     # 3 degrees of freedom, one in a thousand
    assert seen.sum() == sum(seen[token] for token in expected)


def drawn_by(seed, rows, positions):
    return uniform(row_noise(seed, rows), positions)


def mixed(x):
    """The finaliser of splitmix64, in whole numbers."""
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


@pytest.mark.parametrize("seed", [0, 12345, 2**63 + 7])
def test_the_noise_is_that_of_its_definition(seed):
    rows, positions = torch.arange(50), 7 * torch.arange(50) + 1
    expected = [(mixed(mixed(mixed(seed) ^ row) ^ at) >> 11) * 2.0**-53
                for row, at in zip(rows.tolist(), positions.tolist(), strict=True)]
    assert drawn_by(seed, rows, positions).tolist() == expected


def test_the_noise_is_a_function_of_seed_row_and_position():
    rows, positions = torch.arange(1000), torch.arange(1000).flip(0)
    drawn = drawn_by(7, rows, positions)
    assert torch.equal(drawn, drawn_by(7, rows, positions))
    order = torch.randperm(1000, generator=torch.Generator().manual_seed(0))
    assert torch.equal(drawn[order], drawn_by(7, rows[order], positions[order]))
    for seed, down, right in ((8, 0, 0), (7, 1000, 0), (7, 0, 1000)):
        other = drawn_by(seed, rows + down, positions + right)
        assert not torch.isin(drawn, other).any()
    assert drawn.min() >= 0 and drawn.max() < 1
    assert abs(drawn.mean().item() - 0.5) < 0.03 and abs(drawn.var().item() - 1 / 12) < 0.01


def test_rows_and_positions_do_not_stand_for_each_other():
    grid = drawn_by(0, torch.arange(100).repeat_interleave(100), torch.arange(100).repeat(100))
    assert len(grid.unique()) == 10_000


@pytest.mark.parametrize("settings, message", [
    (dict(temperature=-1.0), r"^--temperature -1.0: must be 0 \(greedy\) or more$"),
    (dict(temperature=float("nan")), r"^--temperature nan: must be"),
    (dict(temperature=float("inf")), r"^--temperature inf: must be"),
    (dict(top_k=-1), r"^--top-k -1: must be 0 \(all\) or more$"),
    (dict(top_p=0.0), r"^--top-p 0.0: must be above 0 and at most 1$"),
    (dict(top_p=1.5), r"^--top-p 1.5: must be above 0 and at most 1$"),
])
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        Sampling(**settings)


def uniform_by_definition(seed, row, position):
    """splitmix64 (Steele, Lea and Flood 2014) in Python: 53 bits of mix(mix(mix(seed) ^ row) ^ position)."""

    def mixed(z):
        z = (z + 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    return (mixed(mixed(mixed(seed % 2**64) ^ row) ^ position) >> 11) / 2**53


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63 - 1, 2**63, 2**64 - 1, 2**64])
def test_noise_is_its_definition_for_every_seed(seed):
    """What was drawn once is drawn again, by every version and on every device."""
    rows, positions = torch.tensor([0, 1, 2, 1000]), torch.tensor([0, 5, 2**31, 7])
    found = uniform(row_noise(seed, rows), positions).tolist()
    for number, row, position in zip(found, rows.tolist(), positions.tolist(), strict=True):
        assert number == uniform_by_definition(seed, row, position)
