"""The lectures' equations in numpy, written from the lectures and not from our code, give what our layers give.

002, 6: e_i = s · h_i, alpha = softmax(e), a = sum alpha_i h_i, then [a; s]. 002, 8: the variants of e.
003: alpha = softmax(W_a [h; x] + b_a), c = H alpha, z = ReLU(W_c [x; c] + b_c), then a standard RNN.
000 and 004: q, k, v = f(W c). 003: Q, K in R^(L x H) and V in R^(L x D_out).
"""

import numpy as np
import pytest
import torch

from regard.contract import Memory
from regard.errors import SettingError
from regard.families.family import randomised
from regard.layers.attentive import Attention, AttentiveRecurrence
from regard.layers.cross_attention import CrossAttention
from regard.layers.full_attention import FullAttention
from regard.layers.self_attention import SelfAttention

L, T, N, X = 5, 4, 6, 3                  # source length, target length, width of states, width of embeddings
F = {"none": lambda x: x, "tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}


def softmax(e):
    powers = np.exp(e - e.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def drawn(layer):
    torch.manual_seed(1)
    return randomised(layer).double().eval()


def states(length=L, width=N, seed=0):
    return np.random.default_rng(seed).normal(size=(length, width))


def numbers(tensor):
    return tensor.detach().numpy()


def memory_of(h):
    """A source of these vectors; its summary is the first of them."""
    return Memory(torch.from_numpy(h)[None], torch.tensor([len(h)]), torch.from_numpy(h[:1]))


def read(reader, s, h):
    """What states s read of a source h through a recurrent decoder's attention."""
    return numbers(reader(torch.from_numpy(s)[None], reader.start(memory_of(h)), None))[0]


# ------------------------------------------------------------------- a recurrent decoder's attention: states alone


def test_the_plain_dot_product_has_no_weights_at_all():
    """002, section 6: decoder state times each encoder state, softmax, weighted sum of the encoder states."""
    reader = Attention(N, N, N, score="dot", projections="none")
    assert not list(reader.parameters())
    s, h = states(T, seed=1), states()
    np.testing.assert_allclose(read(reader, s, h), softmax(s @ h.T) @ h, atol=1e-12)


def test_the_scaled_dot_product_divides_by_the_root_of_the_width():
    s, h = states(T, seed=1), states()
    reader = Attention(N, N, N, score="scaled-dot", projections="none")
    np.testing.assert_allclose(read(reader, s, h), softmax(s @ h.T / np.sqrt(N)) @ h, atol=1e-12)


def test_a_bilinear_score_has_one_matrix_and_nothing_else():
    s, h = states(T, 7, seed=1), states()
    reader = drawn(Attention(7, N, N, score="bilinear"))
    (w,) = map(numbers, reader.parameters())
    assert w.shape == (1, 7, N)
    np.testing.assert_allclose(read(reader, s, h), softmax(s @ w[0] @ h.T) @ h, atol=1e-12)


def test_a_low_rank_score_has_two_narrow_matrices_and_no_scale():
    s, h = states(T, 7, seed=1), states()
    reader = drawn(Attention(7, N, N, score="low-rank"))
    u, v = (numbers(weight)[0] for weight in reader.parameters())
    np.testing.assert_allclose(read(reader, s, h), softmax((s @ u) @ (h @ v).T) @ h, atol=1e-12)


def test_an_additive_score_is_a_small_network_of_both_states():
    s, h = states(T, 7, seed=1), states()
    reader = drawn(Attention(7, N, N, score="additive"))
    w, u, v = (numbers(weight)[0] for weight in reader.parameters())
    e = np.array([[v[:, 0] @ np.tanh(w.T @ one + u.T @ other) for other in h] for one in s])
    np.testing.assert_allclose(read(reader, s, h), softmax(e) @ h, atol=1e-12)


def test_the_location_score_is_one_matrix_over_all_places():
    """003: alpha = softmax(W_a h + b_a), and the context is H alpha; no key is made, as none is looked at."""
    s, h = states(T, 7, seed=1), states()
    reader = drawn(Attention(7, N, N, score="location", places=9))
    w, b = map(numbers, reader.parameters())
    assert w.shape == (1, 7, 9)
    np.testing.assert_allclose(read(reader, s, h), softmax((s @ w[0] + b[0])[:, :L]) @ h, atol=1e-12)


def test_projections_come_before_the_score_and_make_dot_and_bilinear_one_in_substance():
    s, h = states(T, 7, seed=1), states()
    reader = drawn(Attention(7, N, 8, score="dot", projections="both"))
    w_q, w_k = numbers(reader.query.weight), numbers(reader.key.weight)
    np.testing.assert_allclose(read(reader, s, h), softmax((s @ w_q.T) @ (h @ w_k.T).T) @ h, atol=1e-12)
    lecture = Attention(7, N, N, score="bilinear")
    with torch.no_grad():
        lecture.score.weight[0] = torch.from_numpy(w_q.T @ w_k)
    np.testing.assert_allclose(read(lecture.double(), s, h), read(reader, s, h), atol=1e-6)


@pytest.mark.parametrize("f", F)
def test_heads_of_any_width_read_values_of_another(f):
    """A head's q = f(W_q s), k = f(W_k h), v = f(W_v h); d_k and d_v are free."""
    heads, own, value = 2, 3, 5
    s, h = states(T, 7, seed=1), states()
    reader = drawn(Attention(7, N, 8, score="dot", projections="both", heads=heads, f=f, head_width=own,
                             value_width=value))
    q, k, v = (F[f](x @ numbers(each.weight).T) for x, each in ((s, reader.query), (h, reader.key), (h, reader.value)))
    found = [softmax(q[:, own * n:own * (n + 1)] @ k[:, own * n:own * (n + 1)].T) @ v[:, value * n:value * (n + 1)]
             for n in range(heads)]
    np.testing.assert_allclose(read(reader, s, h), np.concatenate(found, 1), atol=1e-12)


def test_lecture_003_step_by_step():
    """alpha_t = softmax(W_a [x; h] + b_a), c = H alpha, z = ReLU(W_c [x; c] + b_c), h = tanh(W_h h + W_z z + b)."""
    layer = drawn(AttentiveRecurrence(X, N, d_memory=N, d_summary=N, cell="rnn", when="before", score="location",
                                      places=9))
    source, x = states(), states(T, X, seed=2)
    w_a, b_a = numbers(layer.reader.score.weight)[0], numbers(layer.reader.score.bias)[0, 0]
    w_c, b_c = numbers(layer.combine.weight), numbers(layer.combine.bias)
    own = layer.cell.weights(0)
    w_h, w_z, b = numbers(own.w_h), numbers(own.w_c), numbers(own.b_h) + numbers(own.b_c)
    h = np.tanh(numbers(layer.bridge.weight) @ source[0] + numbers(layer.bridge.bias))
    for t, y in enumerate(numbers(layer(torch.from_numpy(x)[None], layer.start(1, None, memory_of(source)))[0])[0]):
        alpha = softmax((np.concatenate((x[t], h)) @ w_a + b_a)[:L])
        c = alpha @ source
        z = np.maximum(w_c @ np.concatenate((x[t], c)) + b_c, 0)
        h = np.tanh(w_h @ h + w_z @ z + b)
        np.testing.assert_allclose(y, h, atol=1e-12)


def test_lecture_002_step_by_step():
    """h = tanh(W_h h + W_x x + b), e = h · source, c = sum alpha source, y = tanh(W_c [h; c] + b_c)."""
    layer = drawn(AttentiveRecurrence(X, N, d_memory=N, d_summary=N, cell="rnn", score="dot", projections="none"))
    source, x = states(), states(T, X, seed=2)
    w_c, b_c = numbers(layer.combine.weight), numbers(layer.combine.bias)
    own = layer.cell.weights(0)
    w_h, w_x, b = numbers(own.w_h), numbers(own.w_c), numbers(own.b_h) + numbers(own.b_c)
    h = np.tanh(numbers(layer.bridge.weight) @ source[0] + numbers(layer.bridge.bias))
    for t, y in enumerate(numbers(layer(torch.from_numpy(x)[None], layer.start(1, None, memory_of(source)))[0])[0]):
        h = np.tanh(w_h @ h + w_x @ x[t] + b)
        c = softmax(source @ h) @ source
        np.testing.assert_allclose(y, np.tanh(w_c @ np.concatenate((h, c)) + b_c), atol=1e-12)


# ------------------------------------------------------------------------------------- attention of a Transformer


def in_numpy(q, k, v, sizes, allowed=None):
    """Heads one after another, each softmax(q k^T / sqrt d_k) v; then one beside another."""
    heads, own, value = sizes
    found = []
    for n in range(heads):
        e = q[:, own * n:own * (n + 1)] @ k[:, own * n:own * (n + 1)].T / np.sqrt(own)
        e = e if allowed is None else np.where(allowed, e, -np.inf)
        found.append(softmax(e) @ v[:, value * n:value * (n + 1)])
    return np.concatenate(found, 1)


WIDTHS = [(2, 0, 0), (2, 4, 0), (3, 4, 0), (3, 2, 5), (2, 0, 1)]


@pytest.mark.parametrize("f", F)
@pytest.mark.parametrize("heads, own, value", WIDTHS)
@pytest.mark.parametrize("kind", ["self", "full", "cross"])
def test_attention_is_its_equation_with_any_f_and_any_widths(kind, heads, own, value, f):
    options = dict(heads=heads, f=f, head_width=own, value_width=value)
    x, h = states(T, seed=1), states(L, 7)
    own = own or N // heads
    value = value or own
    cuts = [heads * own, heads * 2 * own]
    if kind == "cross":
        layer = drawn(CrossAttention(N, 7, **options))
        q = x @ numbers(layer.q.weight).T
        k, v = np.split(h @ numbers(layer.kv.weight).T, cuts[:1], 1)
        y = layer(torch.from_numpy(x)[None], layer.start(1, None, memory_of(h)))[0]
    else:
        layer = drawn((SelfAttention if kind == "self" else FullAttention)(N, positions="none", **options))
        q, k, v = np.split(x @ numbers(layer.qkv.weight).T, cuts, 1)
        y = layer(torch.from_numpy(x)[None])[0]
    allowed = np.tril(np.ones((T, T), bool)) if kind == "self" else None
    expected = in_numpy(F[f](q), F[f](k), F[f](v), (heads, own, value), allowed) @ numbers(layer.out.weight).T
    np.testing.assert_allclose(numbers(y)[0], expected, atol=1e-12)


@pytest.mark.parametrize("kind", ["self", "full", "cross"])
def test_a_location_score_makes_no_keys(kind):
    """alpha = softmax(W q + b) over the places; W_v and W_out as everywhere."""
    x = states(T, seed=1)
    if kind == "cross":
        h = states(L, 7)
        layer = drawn(CrossAttention(N, 7, heads=1, score="location", places=9))
        q, v = x, h @ numbers(layer.kv.weight).T
        y = layer(torch.from_numpy(x)[None], layer.start(1, None, memory_of(h)))[0]
        assert layer.q is None
    else:
        layer = drawn((SelfAttention if kind == "self" else FullAttention)(
            N, heads=1, positions="none", score="location", places=9))
        q, v = np.split(x @ numbers(layer.qkv.weight).T, [N], 1)
        y = layer(torch.from_numpy(x)[None])[0]
    e = (q @ numbers(layer.score.weight)[0] + numbers(layer.score.bias)[0])[:, :len(v)]
    if kind == "self":
        e = np.where(np.tril(np.ones((T, T), bool)), e, -np.inf)
    np.testing.assert_allclose(numbers(y)[0], softmax(e) @ v @ numbers(layer.out.weight).T, atol=1e-12)


def test_cross_attention_without_projections_reads_the_states_themselves():
    x, h = states(T, seed=1), states()
    layer = drawn(CrossAttention(N, N, heads=1, score="dot", projections="none"))
    y = layer(torch.from_numpy(x)[None], layer.start(1, None, memory_of(h)))[0]
    assert [name for name, _ in layer.named_parameters()] == ["out.weight"]
    np.testing.assert_allclose(numbers(y)[0], softmax(x @ h.T) @ h @ numbers(layer.out.weight).T, atol=1e-12)


@pytest.mark.parametrize("wrong, message", [
    (dict(score="dot"), "the decoder asks with 7 channels a source of 6: choose model.projections = both"),
    (dict(score="bilinear", f="tanh"), "model.f = tanh is about W c, and model.projections = none has no W"),
    (dict(score="additive", head_width=2), "model.head_width = 2 is about W c"),
])
def test_what_states_alone_cannot_do_is_refused_with_the_cure(wrong, message):
    with pytest.raises(SettingError, match=message):
        Attention(7, N, N, projections="none", **wrong)
    with pytest.raises(SettingError, match="did you mean none"):
        Attention(7, N, N, projections="nune")
