"""The running mean: a mean of what was read, counted and added up exactly across cuts."""

import torch

from regard.layers.average import RunningMean

B, T, D = 3, 9, 4


def test_each_position_gives_the_mean_of_everything_up_to_it():
    layer, x = RunningMean(D), torch.randn(B, T, D, dtype=torch.float64)
    y, state = layer(x)
    assert state is None
    for t in range(T):
        torch.testing.assert_close(y[:, t], x[:, : t + 1].mean(1), rtol=0, atol=1e-12)


def test_the_state_is_the_sum_and_the_count_of_what_is_real():
    layer, x = RunningMean(D).double(), torch.randn(B, T, D, dtype=torch.float64)
    lengths = torch.tensor([9, 4, 0])
    _, state = layer(x, layer.start(B, T), lengths)
    assert torch.equal(state.count, lengths)
    for row, n in enumerate(lengths.tolist()):
        torch.testing.assert_close(state.total[row], x[row, :n].sum(0), rtol=0, atol=1e-12)


def test_sums_are_kept_in_float32_at_least():
    """bfloat16 has eight bits: a thousand ones would add up to 256."""
    layer = RunningMean(D).bfloat16()
    ones = torch.ones(B, 1000, D, dtype=torch.bfloat16)
    y, state = layer(ones, layer.start(B, 1000))
    assert y.dtype == torch.bfloat16 and state.total.dtype == torch.float32
    assert torch.equal(y, ones) and (state.total == 1000).all()


def test_word_dropout_leaves_words_out_of_the_mean_in_training_only():
    layer = RunningMean(D, word_dropout=0.5)
    x = torch.randn(64, 50, D)
    y, state = layer(x, layer.start(64, 50))
    assert abs(state.count.float().mean() - 25) < 2 and y.isfinite().all()
    torch.testing.assert_close(y[:, -1], state.total / state.count[:, None])
    none = layer.eval()(x)[0]
    torch.testing.assert_close(none[:, -1], x.mean(1))
    assert torch.equal(layer(x, layer.start(64, 50))[1].count, torch.full((64,), 50))
