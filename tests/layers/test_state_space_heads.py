"""Mamba-2 beside its definition in numpy, beside the class of transformers, and what it promises by itself."""

import math

import numpy as np
import pytest
import torch

from regard.errors import SettingError
from regard.families import randomised
from regard.families.mamba2 import Mamba2Settings, build_mamba2
from regard.kernels import Backend, grouped_dual
from regard.kernels.grouped_dual import grouped_dual_loop
from regard.layers import state_space_heads
from regard.layers.roles import find_roles
from regard.layers.state_space_heads import Mamba2
from regard.watching import watch

B, T, D = 3, 7, 10
KINDS = {"one group": dict(head_width=4), "groups": dict(head_width=5, groups=2),
         "limits": dict(head_width=4, least_step=0.3, most_step=0.9)}


def drawn(width=D, state=3, **sizes):
    return randomised(Mamba2(width, state=state, **sizes)).double()


def captured(layer):
    """What `recur` is given, and what it returns, each time it is called."""
    calls, recur = [], layer.recur

    def watched(*inputs):
        calls.append((inputs, recur(*inputs)))
        return calls[-1][1]

    layer.recur = watched
    return calls


# ------------------------------------------------------------------------------------- the block, by other roads


def by_numpy(layer, u, least=0.0, most=math.inf):
    """(T, D) of one row, by the equations of the paper, a number at a time."""
    w = {name: each.detach().numpy() for name, each in layer.named_parameters()}
    heads, groups, states, inner = layer.heads, layer.groups, layer.states, layer.inner
    width, codes = inner // heads, groups * states
    projected = u @ w["into.weight"].T
    z, xbc, s = np.split(projected, [inner, 2 * inner + 2 * codes], axis=1)
    taps = w["conv.weight"][:, 0]
    mixed = np.zeros_like(xbc)
    for t in range(len(u)):
        for j in range(taps.shape[1]):
            if t - j >= 0:
                mixed[t] += taps[:, taps.shape[1] - 1 - j] * xbc[t - j]
    mixed += w["conv.bias"]
    mixed = mixed / (1 + np.exp(-mixed))
    x, b, c = np.split(mixed, [inner, inner + codes], axis=1)
    y = np.zeros_like(x)
    for head in range(heads):
        own, group = slice(head * width, (head + 1) * width), head // (heads // groups)
        written, read = (each[:, group * states:(group + 1) * states] for each in (b, c))
        h = np.zeros((width, states))
        for t in range(len(u)):
            step = min(max(np.log1p(np.exp(s[t, head] + w["step_bias"][head])), least), most)
            h = np.exp(-step * np.exp(w["log_rate"][head])) * h + step * np.outer(x[t, own], written[t])
            y[t, own] = h @ read[t] + w["skip"][head] * x[t, own]
    y = (y * z / (1 + np.exp(-z))).reshape(len(u), groups, -1)
    y = y / np.sqrt((y**2).mean(-1, keepdims=True) + 1e-5)
    return (y.reshape(len(u), inner) * w["norm.weight"]) @ w["out.weight"].T


@pytest.mark.parametrize("kind", KINDS)
def test_the_layer_is_the_equations_of_the_paper(kind):
    sizes = KINDS[kind]
    layer = drawn(**sizes)
    u = torch.randn(B, T, D, dtype=torch.float64)
    expected = np.stack([by_numpy(layer, row, sizes.get("least_step", 0.0), sizes.get("most_step", math.inf))
                         for row in u.numpy()])
    np.testing.assert_allclose(layer(u)[0].detach().numpy(), expected, rtol=0, atol=1e-12 * np.abs(expected).max())


PLANTED = {
    "one norm over all groups": lambda layer: setattr(layer.norm, "groups", 1),
    "no limits of the steps": lambda layer: setattr(layer, "limits", (0.0, math.inf)),
    "taps from the other end": lambda layer: layer.conv.weight.copy_(layer.conv.weight.flip(2)),
    "no skip": lambda layer: layer.skip.zero_(),
    "one decay for all heads": lambda layer: layer.log_rate.copy_(layer.log_rate.mean().expand(layer.heads)),
    "steps without their bias": lambda layer: layer.step_bias.zero_(),
    "b and c of the other group": lambda layer: setattr(
        layer, "recur", lambda x, delta, b, c, h: Mamba2.recur(layer, x, delta, b.flip(2), c.flip(2), h)),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_another_equation_is_seen(bug):
    layer, u = drawn(head_width=5, groups=2, least_step=0.3, most_step=0.9), torch.randn(1, T, D, dtype=torch.float64)
    expected = by_numpy(layer, u[0].numpy(), 0.3, 0.9)
    with torch.no_grad():
        assert np.abs(layer(u)[0][0].numpy() - expected).max() < 1e-12 * np.abs(expected).max()
        PLANTED[bug](layer)
        assert np.abs(layer(u)[0][0].numpy() - expected).max() > 1e-3 * np.abs(expected).max()


def peer_of(groups, limits=(0.0, math.inf), tied=False):
    """transformers' model with weights that hide nothing."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    config = transformers.Mamba2Config(
        vocab_size=31, hidden_size=24, num_hidden_layers=2, state_size=16, num_heads=6, head_dim=8, expand=2,
        n_groups=groups, chunk_size=8, time_step_limit=limits, tie_word_embeddings=tied, pad_token_id=0,
        bos_token_id=1, eos_token_id=2)
    peer = transformers.Mamba2ForCausalLM(config).eval()
    if groups > 1 and not hasattr(peer.backbone.layers[0].mixer.norm, "group_size"):
        pytest.skip(f"transformers {transformers.__version__} has one gated norm for all groups; 5.23 has the paper's")
    with torch.no_grad():
        for name, weight in peer.named_parameters():
            around = 1.0 if "norm" in name else 0.0
            weight.normal_(std=0.3).add_(around)
    return peer


def name_of_peer(name):
    """The name of one of our tensors in transformers' model."""
    for ours, theirs in ((r"stack.layers", "backbone.layers"), ("mixer_norm", "norm"), ("mixer.into", "mixer.in_proj"),
                         ("mixer.conv.", "mixer.conv1d."), ("mixer.step_bias", "mixer.dt_bias"),
                         ("mixer.log_rate", "mixer.A_log"), ("mixer.skip", "mixer.D"), ("mixer.out", "mixer.out_proj"),
                         ("embedding.", "backbone.embeddings."), ("head.", "lm_head.")):
        name = name.replace(ours, theirs)
    return "backbone.norm_f.weight" if name == "norm.weight" else name


def ours_of(peer, groups, limits=(0.0, math.inf), tied=False):
    """Our model with every weight of transformers' model, taken by name."""
    model = build_mamba2(Mamba2Settings(
        layers=2, width=24, state=16, head_width=8, groups=groups, tied=tied, least_step=limits[0],
        most_step=0.0 if limits[1] == math.inf else limits[1]), 31).eval()
    theirs = dict(peer.named_parameters(remove_duplicate=False))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(theirs.pop(name_of_peer(name)))
    assert set(theirs) <= ({"lm_head.weight"} if tied else set())
    return model


@pytest.mark.parametrize("groups, limits, tied", [
    (1, (0.0, math.inf), True), (3, (0.0, math.inf), False), (2, (0.2, 1.5), False)])
def test_it_is_the_model_of_transformers(groups, limits, tied):
    peer = peer_of(groups, limits, tied)
    model = ours_of(peer, groups, limits, tied)
    tokens = torch.randint(3, 31, (2, 70))
    with torch.no_grad():
        expected = peer(tokens).logits.log_softmax(-1)
        ours = model.score(tokens[:, :-1], tokens[:, 1:])[0]
        wanted = expected[:, :-1].gather(-1, tokens[:, 1:, None])[..., 0]
        assert (ours - wanted).abs().max() < 1e-4
        state, stepped = model.start(2, 70), []
        for t in range(70):
            scores, state = model.step(tokens[:, t:t + 1], state)
            stepped.append(scores.log_softmax(-1))
        assert (torch.stack(stepped, 1) - expected).abs().max() < 1e-4
        model.stack.layers[1].mixer.norm.weight[0] += 0.01
        assert (model.score(tokens[:, :-1], tokens[:, 1:])[0] - wanted).abs().max() > 1e-4


def test_it_writes_the_text_that_transformers_writes():
    peer = peer_of(1)
    model, prompt = ours_of(peer, 1), torch.tensor([[1, 5, 9]])
    expected = peer.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=20, min_new_tokens=20,
                             do_sample=False)[0, 3:].tolist()
    with torch.no_grad():
        state, written, tokens = model.start(1, 40), [], prompt
        for _ in range(20):
            scores, state = model.step(tokens, state)
            scores[:, 2] = -math.inf                                # as `min_new_tokens` forbids the end
            tokens = scores.argmax(-1, keepdim=True)
            written.append(int(tokens))
    assert written == expected


# --------------------------------------------------------------------------------------------------- its promises


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_the_step_by_step_definition(kind, monkeypatch):
    layer = drawn(**KINDS[kind])
    u = torch.randn(B, 40, D, dtype=torch.float64, requires_grad=True)
    pull = torch.randn(B, 40, D, dtype=torch.float64)

    def gradients(layer):
        wanted = [u, *layer.parameters()]
        return torch.autograd.grad(layer(u)[0], wanted, pull)

    by_chunks = gradients(layer)
    monkeypatch.setattr(state_space_heads, "grouped_dual", grouped_dual_loop)
    for got, expected in zip(by_chunks, gradients(layer), strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-12 * (1 + expected.abs().max().item()))


@pytest.mark.parametrize("kind", KINDS)
def test_the_state_is_that_after_each_rows_last_real_token(kind):
    layer = drawn(**KINDS[kind])
    x, lengths = torch.randn(B, T, D, dtype=torch.float64), torch.tensor([7, 3, 0])
    _, together = layer(x, layer.start(B, T), lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = layer.start(1, T)
        if length:
            _, alone = layer(x[row:row + 1, :length], alone)
        torch.testing.assert_close(together.h[row], alone.h[0], rtol=0, atol=1e-12)
        torch.testing.assert_close(together.tail.inputs[row], alone.tail.inputs[0], rtol=0, atol=1e-12)


def test_the_state_has_one_size_whatever_was_read():
    layer = Mamba2(64, state=16)
    assert layer.start(1, 8).nbytes() == layer.start(1, 8192).nbytes() == 4 * (128 * 16 + 3 * (128 + 2 * 16))


def test_in_half_precision_the_state_stays_in_float32():
    layer = Mamba2(16, state=8)
    with torch.autocast("cpu", torch.bfloat16):
        _, state = layer(torch.randn(2, 5, 16), layer.start(2, 8))
        y, state = layer(torch.randn(2, 1, 16), state)
    assert state.h.dtype == state.tail.inputs.dtype == torch.float32 and y.isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_kernel_is_what_the_recurrence_reads(kind):
    """By hand: y - skip x is the sum over the past of kernel[t, s] x[s], head by head, signs and all."""
    layer = drawn(**KINDS[kind])
    calls = captured(layer)
    layer(torch.randn(B, T, D, dtype=torch.float64))
    (x, delta, b, c, _), (y, _) = calls[0]
    kernel = layer.kernel(delta, b, c)
    assert kernel.shape == (B, layer.heads, T, T) and (kernel < 0).any() and not kernel.triu(1).any()
    x, y = (each.unflatten(-1, (layer.heads, -1)) for each in (x, y))
    read = torch.einsum("bhts,bshp->bthp", kernel, x)
    torch.testing.assert_close(read, y - layer.skip[:, None] * x, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sizes, maps", [
    (dict(head_width=1), 8), (dict(head_width=2, groups=3), 6), (dict(head_width=1, groups=10), 10),
    (dict(head_width=20), 1)])
def test_a_watcher_sees_the_mean_kernel_of_heads_that_share_their_codes(sizes, maps):
    layer = drawn(**sizes)
    calls = captured(layer)
    with watch() as seen:
        layer(torch.randn(B, T, D, dtype=torch.float64))
    (_, delta, b, c, _), _ = calls[0]
    reading, full = seen.of("kernel")[0], layer.kernel(delta, b, c)
    groups, of_group = reading.about["groups"], layer.heads // layer.groups
    assert reading.layer is layer and reading.values.shape[1] == len(groups) == layer.maps == maps
    assert [head for group in groups for head in range(*group)] == list(range(layer.heads))
    assert all(start // of_group == (stop - 1) // of_group for start, stop in groups)
    expected = torch.stack([full[:, slice(*group)].mean(1) for group in groups], 1)
    torch.testing.assert_close(reading.values, expected, rtol=0, atol=1e-12)


def test_no_vector_of_rates_is_taken_for_a_matrix_and_it_starts_by_adding_nothing():
    layer = build_mamba2(Mamba2Settings(layers=1), 11).stack.layers[0].mixer
    roles = find_roles(layer)
    assert {name for name, role in roles.items() if role.kind == "matrix"} == {"into.weight", "out.weight"}
    assert roles["into.weight"].parts == (256, 256, 128, 128, 4) and sum(roles["into.weight"].parts) == len(
        layer.into.weight)
    steps = torch.nn.functional.softplus(layer.step_bias)
    assert not layer.out.weight.any() and (layer.a < 0).all()
    assert steps.min() >= 0.99e-3 and steps.max() <= 1.01e-1


@pytest.mark.parametrize("width, groups", [(1, 1), (7, 2), (33, 3), (100, 4)])
def test_any_width_has_heads_and_groups_that_fit(width, groups):
    layer = Mamba2(width, state=2, groups=groups)
    assert layer.inner % layer.heads == layer.heads % groups == 0
    assert 2 * width <= layer.inner < 2 * width + layer.heads


def test_it_says_what_computes_it(monkeypatch):
    assert str(Mamba2(8).backend).startswith("torch (the tensors are on cpu")
    monkeypatch.setattr(grouped_dual, "choose_backend", lambda *asked: Backend("triton"))
    assert str(Mamba2(8).backend) == "triton (in half precision; else torch, by products of matrices)"


def test_limits_that_leave_no_step_are_refused():
    with pytest.raises(SettingError, match=r"model.most_step = 0.1: choose more than model.least_step = 0.2"):
        Mamba2Settings(least_step=0.2, most_step=0.1)
