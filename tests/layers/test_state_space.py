import pytest
import torch

from regard.errors import SettingError
from regard.families import randomised
from regard.families.mamba import MambaSettings, build_mamba
from regard.layers.roles import find_roles
from regard.layers.state_space import SelectiveSSM, inverse_softplus
from regard.watching import watch

B, T, D = 3, 7, 10
DECAYS = ("channel", "head")


def drawn(decay, width=D, **sizes):
    return randomised(SelectiveSSM(width, state=3, decay=decay, **sizes)).double()


def captured(layer):
    """What `recur` is given, and what it returns, each time it is called."""
    calls, recur = [], layer.recur

    def watched(*inputs):
        calls.append((inputs, recur(*inputs)))
        return calls[-1][1]

    layer.recur = watched
    return calls


@pytest.mark.parametrize("decay", DECAYS)
def test_the_kernel_is_what_the_recurrence_reads(decay):
    """By hand: y - skip u is the sum over the past of kernel[t, s] u[s], channel by channel, signs and all."""
    layer = drawn(decay, width=40)                                  # two heads, so that they could be mixed up
    calls = captured(layer)
    layer(torch.randn(B, T, 40, dtype=torch.float64))
    (u, delta, b, c, _), (y, _) = calls[0]
    kernel = layer.kernel(delta, b, c)
    channels = layer.inner // kernel.shape[1]
    kernel, skip = kernel.repeat_interleave(channels, 1), layer.skip.repeat_interleave(channels)
    assert kernel.shape == (B, layer.inner, T, T) and (kernel < 0).any() and not kernel.triu(1).any()
    torch.testing.assert_close(torch.einsum("bdts,bsd->btd", kernel, u), y - skip * u, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("decay", DECAYS)
def test_a_watcher_sees_the_mean_kernel_of_groups_of_channels(decay):
    layer = drawn(decay)
    calls = captured(layer)
    with watch() as seen:
        layer(torch.randn(B, T, D, dtype=torch.float64))
    (_, delta, b, c, _), _ = calls[0]
    reading = seen.of("kernel")[0]
    full = layer.kernel(delta, b, c)
    groups = reading.about["groups"]
    assert reading.layer is layer and reading.about["past"] == "none" and reading.values.shape[1] == len(groups) <= 8
    assert [channel for group in groups for channel in range(*group)] == list(range(full.shape[1]))
    expected = torch.stack([full[:, slice(*group)].mean(1) for group in groups], 1)
    torch.testing.assert_close(reading.values, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("decay", DECAYS)
def test_watched_with_a_carried_state_it_shows_what_is_read_now(decay):
    layer = drawn(decay)
    x = torch.randn(B, T, D, dtype=torch.float64)
    _, state = layer(x[:, :4], layer.start(B, T))
    with watch() as seen:
        layer(x[:, 4:], state)
    reading = seen.of("kernel")[0]
    assert reading.values.shape[-2:] == (3, 3) and reading.about["past"] == "left out"


@pytest.mark.parametrize("decay", DECAYS)
def test_the_state_is_that_after_each_rows_last_real_token(decay):
    layer = drawn(decay)
    x, lengths = torch.randn(B, T, D, dtype=torch.float64), torch.tensor([7, 3, 0])
    _, together = layer(x, layer.start(B, T), lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = layer.start(1, T)
        if length:
            _, alone = layer(x[row:row + 1, :length], alone)
        torch.testing.assert_close(together.h[row], alone.h[0], rtol=0, atol=1e-12)
        torch.testing.assert_close(together.tail.inputs[row], alone.tail.inputs[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("decay", DECAYS)
def test_the_state_has_one_size_whatever_was_read(decay):
    layer = SelectiveSSM(64, state=16, decay=decay)
    assert layer.start(1, 8).nbytes() == layer.start(1, 8192).nbytes() == 4 * (128 * 16 + 3 * 128)


@pytest.mark.parametrize("decay", DECAYS)
def test_in_half_precision_the_state_stays_in_float32(decay):
    layer = SelectiveSSM(16, decay=decay)
    with torch.autocast("cpu", torch.bfloat16):
        y, state = layer(torch.randn(2, 5, 16), layer.start(2, 8))
        y, state = layer(torch.randn(2, 1, 16), state)
    assert state.h.dtype == state.tail.inputs.dtype == torch.float32 and y.isfinite().all()


@pytest.mark.parametrize("decay", DECAYS)
def test_no_vector_of_rates_is_taken_for_a_matrix_and_fused_matrices_are_counted(decay):
    """Muon makes every matrix of a stack orthogonal: decays, steps and filters must not be among them."""
    layer = build_mamba(MambaSettings(layers=1, decay=decay), 11).stack.layers[0].mixer
    matrices = {name for name, weight in layer.named_parameters() if weight.ndim == 2}
    assert matrices == {name for name in matrices if name.startswith(("into", "codes", "steps", "out"))}
    roles = find_roles(layer)
    assert roles["into.weight"].parts == roles["codes.weight"].parts == 2


@pytest.mark.parametrize("decay", DECAYS)
def test_it_starts_by_adding_nothing_and_with_steps_between_a_thousandth_and_a_tenth(decay):
    layer = build_mamba(MambaSettings(layers=1, decay=decay), 11).stack.layers[0].mixer
    steps = torch.nn.functional.softplus(layer.step_bias)
    assert not layer.out.weight.any() and (layer.a < 0).all()
    assert steps.min() >= 0.99e-3 and steps.max() <= 1.01e-1


def test_softplus_is_undone():
    x = torch.tensor([1e-4, 0.1, 3.0], dtype=torch.float64)
    torch.testing.assert_close(torch.nn.functional.softplus(inverse_softplus(x)), x)


def test_it_says_what_computes_it():
    assert str(SelectiveSSM(8, decay="channel").backend).startswith("torch (the tensors are on cpu")
    assert str(SelectiveSSM(8, decay="head").backend) == "torch (products of matrices)"


@pytest.mark.parametrize("width", [1, 7, 33, 100])
def test_any_width_has_heads_that_fit(width):
    layer = SelectiveSSM(width, decay="head")
    assert layer.inner % layer.heads == 0 and 2 * width <= layer.inner < 2 * width + layer.heads


def test_an_unknown_decay_is_refused_with_the_choices():
    with pytest.raises(SettingError, match=r"model.decay = 'row': choose one of channel, head"):
        SelectiveSSM(8, decay="row")
