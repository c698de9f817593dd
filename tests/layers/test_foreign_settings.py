"""The settings that other programs' models need are their equations, written here in numpy from the papers.

Part of a head turned: Black et al. 2022 (GPT-NeoX), parallel residuals: Wang & Komatsuzaki 2021 (GPT-J), slopes: Press
et al. 2021. T time · D width · K head width
"""

import math

import numpy as np
import pytest
import torch

from regard.families import FAMILIES
from regard.families.family import randomised
from regard.families.transformer import TransformerSettings, build_transformer
from regard.layers.feedforward import FeedForward
from regard.layers.norms import make_norm
from regard.layers.positions import Rotary, alibi_slopes
from regard.layers.self_attention import SelfAttention
from regard.layers.stack import Block

T, D = 7, 8


def drawn(layer):
    torch.manual_seed(2)
    return randomised(layer).double().eval()


def numbers(tensor):
    return tensor.detach().double().numpy()


def text(width=D):
    return torch.randn(2, T, width, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("share, turned", [(0.25, 2), (0.5, 4), (1.0, 8)])
@pytest.mark.parametrize("base", [10.0, 10000.0, 1e6])
def test_a_share_of_the_channels_turns_by_powers_of_the_base_and_the_rest_stands_still(share, turned, base):
    rotary, x = Rotary(8, base=base, share=share), numbers(text())
    found = numbers(rotary(torch.from_numpy(x), rotary.turns(torch.arange(T), torch.float64)))
    expected = x.copy()
    for t in range(T):
        for i in range(turned // 2):
            angle = t / base ** (2 * i / turned)
            turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
            expected[:, t, 2 * i:2 * i + 2] = x[:, t, 2 * i:2 * i + 2] @ turn.T
    np.testing.assert_allclose(found, expected, atol=1e-12)
    rates = numbers(rotary.rates(torch.device("cpu")))
    expected = [base ** (-2 * i / turned) if i < turned // 2 else 0 for i in range(4)]
    np.testing.assert_allclose(rates, expected, rtol=1e-6)


def published_slopes(heads):
    """As the paper's own appendix has it: a geometric sequence for powers of 2, else also every other one above."""
    if math.log2(heads).is_integer():
        start = 2 ** (-(2 ** -(math.log2(heads) - 3)))
        return [start * start**i for i in range(heads)]
    below = 2 ** math.floor(math.log2(heads))
    return published_slopes(below) + published_slopes(2 * below)[0::2][:heads - below]


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 6, 7, 8, 12, 16, 20])
def test_the_slopes_are_the_published_ones_for_any_number_of_heads(heads):
    torch.testing.assert_close(alibi_slopes(heads), torch.tensor(published_slopes(heads)))
    even = [2 ** (-8 * i / heads) for i in range(1, heads + 1)]
    torch.testing.assert_close(alibi_slopes(heads, evenly=True), torch.tensor(even))


def norm(x, module, eps):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * numbers(module.weight) + numbers(module.bias)


@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_a_norm_with_a_bias_is_its_equation(eps):
    layer, x = drawn(make_norm("layer", D, eps=eps, bias=True)), text()
    np.testing.assert_allclose(numbers(layer(x)), norm(numbers(x), layer, eps), atol=1e-12)
    x = numbers(x)
    layer = drawn(make_norm("rms", D, eps=eps, bias=True))                      # it has none
    expected = x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * numbers(layer.weight)
    np.testing.assert_allclose(numbers(layer(torch.from_numpy(x))), expected, atol=1e-12)


def test_a_parallel_block_adds_two_readings_of_its_input():
    feed = FeedForward(D, activation="silu", bias=True)
    block, x = drawn(Block(SelfAttention(D, heads=2, bias="all"), feed, bias=True, parallel=True)), text()
    mixed = numbers(block.mixer(torch.from_numpy(norm(numbers(x), block.mixer_norm, 1e-5)))[0])
    inner = norm(numbers(x), block.feed_norm, 1e-5) @ numbers(feed.up.weight).T + numbers(feed.up.bias)
    fed = inner / (1 + np.exp(-inner)) @ numbers(feed.down.weight).T + numbers(feed.down.bias)
    np.testing.assert_allclose(numbers(block(x)[0]), numbers(x) + mixed + fed, atol=1e-12)


@pytest.mark.parametrize("bias", ["none", "qkv", "all"])
def test_biases_stand_where_the_setting_says_and_start_at_zero(bias):
    model = build_transformer(TransformerSettings(layers=1, width=8, heads=2, bias=bias, logit_bias=True), 11)
    found = {name for name, _ in model.named_parameters() if name.endswith("bias")}
    attention, other = {"stack.layers.0.mixer.qkv.bias"}, {
        "stack.layers.0.mixer.out.bias", "stack.layers.0.feed.up.bias", "stack.layers.0.feed.down.bias",
        "stack.layers.0.mixer_norm.bias", "stack.layers.0.feed_norm.bias", "norm.bias"}
    assert found == {"head.bias"} | {"none": set(), "qkv": attention, "all": attention | other}[bias]
    assert not any(model.get_parameter(name).any() for name in found)


def test_attention_adds_its_biases_before_it_turns_and_after_it_mixes():
    layer, x = drawn(SelfAttention(D, heads=1, positions="none", bias="all")), text()
    q, k, v = np.split(numbers(x) @ numbers(layer.qkv.weight).T + numbers(layer.qkv.bias), 3, -1)
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(D) + np.triu(np.full((T, T), -np.inf), 1)
    alpha = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    expected = alpha @ v @ numbers(layer.out.weight).T + numbers(layer.out.bias)
    np.testing.assert_allclose(numbers(layer(x)[0]), expected, atol=1e-12)


# ------------------------------------------------------------------------------------------ runs of before


def old_table(**changes):
    """What runs wrote before there was `eps`."""
    return dict(layers=1, width=12, heads=3, context=16, dropout=0.0, embedding_scale="auto", tied=False) | changes


def test_a_run_of_before_keeps_its_slopes_and_the_eps_of_its_norms_of_queries_and_keys():
    family = FAMILIES["transformer"]
    settings = family.settings_of_run(old_table(positions="alibi", qk_norm=True))
    mixer = family.build(settings, 11).stack.layers[0].mixer
    torch.testing.assert_close(mixer.slopes, torch.tensor([2 ** (-8 * i / 3) for i in (1, 2, 3)]))
    assert mixer.q_norm.eps == mixer.k_norm.eps == 1e-6 and settings.eps == 1e-5
    now = family.settings_of_run(old_table(positions="alibi", qk_norm=True, eps=1e-4))
    mixer = family.build(now, 11).stack.layers[0].mixer
    torch.testing.assert_close(mixer.slopes, torch.tensor(published_slopes(3)))
    assert mixer.q_norm.eps == mixer.k_norm.eps == 1e-4


@pytest.mark.parametrize("name", ["hybrid", "transformer"])
def test_every_stack_of_before_keeps_its_slopes(name):
    settings = FAMILIES[name].settings_of_run(old_table(positions="alibi"))
    assert settings.positions == "alibi-even"


def test_mamba_has_rms_norms_as_in_the_paper():
    family = FAMILIES["mamba"]
    assert family.settings().norm == "rms"
    assert type(family.build(family.settings(layers=1, width=8), 11).norm).__name__ == "RMSNorm"
