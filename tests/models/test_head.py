import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.kernels import log_softmax
from regard.layers.embedding import Embedding
from regard.models.head import Head
from regard.models.missing_tokens import leave_out_of_head, read_as_others

B, T, D, V = 3, 5, 6, 11


def drawn(dtype=torch.float64, **options):
    torch.manual_seed(0)
    head = Head(D, V, **options).to(dtype)
    with torch.no_grad():
        head.weight.normal_()
    return head, torch.randn(B, T, D, dtype=dtype, requires_grad=True), torch.randint(V, (B, T))


def test_a_score_is_the_targets_place_in_the_distribution():
    head, h, targets = drawn()
    everything = head(h)
    torch.testing.assert_close(everything.exp().sum(-1), torch.ones(B, T, dtype=torch.float64))
    torch.testing.assert_close(head.score(h, targets), everything.gather(-1, targets[..., None])[..., 0])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [1, 4, 7])
def test_scoring_in_chunks_gives_the_same_scores_and_gradients(monkeypatch, rows, smoothing):
    head, h, targets = drawn(smoothing=smoothing)
    pull = torch.randn(B, T, dtype=torch.float64)
    whole = head.score(h, targets)
    expected = torch.autograd.grad(whole, (h, head.weight), pull)
    sizes, original = [], log_softmax._score
    monkeypatch.setattr(log_softmax, "_score", lambda h, *rest: sizes.append(len(h)) or original(h, *rest))
    monkeypatch.setattr(log_softmax, "LARGEST_LOGITS", rows * V + 1)
    chunked = head.score(h, targets)
    assert max(sizes) == rows and sum(sizes) == B * T
    torch.testing.assert_close(chunked, whole, rtol=0, atol=1e-12)
    for ours, theirs in zip(torch.autograd.grad(chunked, (h, head.weight), pull), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_a_chunk_has_at_least_one_position(monkeypatch):
    head, h, targets = drawn()
    whole = head.score(h, targets)
    monkeypatch.setattr(log_softmax, "LARGEST_LOGITS", 1)
    torch.testing.assert_close(head.score(h, targets), whole, rtol=0, atol=1e-12)


def test_targets_are_smoothed_in_training_only():
    head, h, targets = drawn(smoothing=0.2)
    plain = head(h).gather(-1, targets[..., None])[..., 0]
    torch.testing.assert_close(head.train().score(h, targets), 0.8 * plain + 0.2 * head(h).mean(-1))
    torch.testing.assert_close(head.eval().score(h, targets), plain)


@pytest.mark.parametrize("width", [D, 4])
def test_a_tied_head_compares_with_the_embedding_whatever_its_width(width):
    torch.manual_seed(0)
    embedding = nn.Embedding(V, width)
    head = Head(D, V, embedding=embedding)
    assert head.weight is embedding.weight
    h = torch.randn(B, T, D)
    seen = h if width == D else h @ head.project.weight.T
    torch.testing.assert_close(head(h), F.log_softmax(seen @ embedding.weight.T, -1))
    assert head.score(h, torch.zeros(B, T, dtype=torch.long)).shape == (B, T)


def test_a_bias_is_added_to_the_logits_after_their_cap_and_takes_a_token_away():
    torch.manual_seed(0)
    head, h = Head(4, 5, softcap=2.0, bias=True), torch.randn(3, 4)
    nn.init.normal_(head.weight)
    with torch.no_grad():
        head.bias.copy_(torch.tensor([0.5, -1.0, 0.0, 2.0, -1e4]))
        logits = 2.0 * np.tanh(h.numpy() @ head.weight.numpy().T / 2.0) + head.bias.numpy()
        expected = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        torch.testing.assert_close(head(h), torch.from_numpy(expected), rtol=1e-5, atol=1e-3)
        assert (head(h)[:, 4].exp() == 0).all()
        assert torch.equal(head.score(h[None], torch.full((1, 3), 3))[0], head(h)[:, 3])


@pytest.mark.parametrize("bias", [False, True])
def test_tokens_that_are_left_out_are_never_written_and_change_nothing_of_the_others(bias):
    torch.manual_seed(0)
    head, h, targets = Head(4, 6, bias=bias), torch.randn(2, 3, 4), torch.tensor([[0, 2, 5], [2, 2, 0]])
    for weight in head.parameters():
        nn.init.normal_(weight)
    kept = [0, 2, 5]
    few = Head(4, 3, bias=bias)
    few.load_state_dict({name: weight[kept] for name, weight in head.state_dict().items()})
    leave_out_of_head(head, [1, 3, 4])
    assert set(head.state_dict()) == set(few.state_dict())                             # what is left out is not saved
    torch.testing.assert_close(head(h)[..., kept], few(h))
    assert (head(h)[..., [1, 3, 4]].exp() == 0).all()
    shares = torch.full((2, 3), 1 / 6)
    losses = head.loss(h, targets, shares), few.loss(h, torch.tensor([[0, 1, 2], [1, 1, 0]]), shares)
    torch.testing.assert_close(*losses)
    of_all, of_few = (torch.autograd.grad(loss, list(each.parameters()))
                      for loss, each in zip(losses, (head, few), strict=True))
    for found, wanted in zip(of_all, of_few, strict=True):
        torch.testing.assert_close(found[kept], wanted)
        assert (found[[1, 3, 4]] == 0).all()


def test_a_token_that_is_left_out_is_read_as_another():
    whole, tokens = Embedding(5, 3, scale=2.0), torch.tensor([[0, 1, 4], [1, 1, 2]])
    embedding = read_as_others(whole, {1: 4, 3: 3})
    assert embedding.weight is whole.weight
    torch.testing.assert_close(embedding(tokens), 2.0 * embedding.weight[torch.tensor([[0, 4, 4], [4, 4, 2]])])
    assert set(embedding.state_dict()) == {"weight"}
    embedding(tokens).sum().backward()
    assert (embedding.weight.grad[1] == 0).all() and (embedding.weight.grad[4] != 0).all()


def test_log_probabilities_are_float32_even_under_bfloat16():
    head, h, targets = drawn(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        everything, scores = head(h), head.score(h, targets)
    assert everything.dtype == scores.dtype == torch.float32
    torch.testing.assert_close(everything.exp().sum(-1), torch.ones(B, T), rtol=0, atol=1e-5)
    torch.testing.assert_close(scores, head.score(h, targets), rtol=0.1, atol=0.1)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("width", [4, 6])                                   # as wide as the embedding, and projected
@pytest.mark.parametrize("bias", [False, True])
def test_the_loss_of_a_step_is_that_of_its_scores_with_and_without_logits(width, training, bias, monkeypatch):
    torch.manual_seed(0)
    embedding = nn.Embedding(11, 4)
    made = Head(width, 11, embedding=embedding, smoothing=0.1, softcap=3.0, bias=bias).double().train(training)
    h, targets = torch.randn(2, 5, width, dtype=torch.float64, requires_grad=True), torch.randint(11, (2, 5))
    shares = torch.rand(2, 5, dtype=torch.float64)
    shares[1, 3:] = 0
    weights = [h, *made.parameters()]
    expected = -(made.score(h, targets) * shares).sum()
    wanted = [expected, *torch.autograd.grad(expected, weights)]
    for largest in (10**9, 1):                                              # scores of all; then chunk by chunk
        for module in ("log_softmax", "cross_entropy"):
            monkeypatch.setattr(f"regard.kernels.{module}.largest_logits", lambda gpu, largest=largest: largest)
        monkeypatch.setattr("regard.kernels.cross_entropy.FEW_LOGITS", largest)
        loss = made.loss(h, targets, shares)
        for ours, theirs in zip([loss, *torch.autograd.grad(loss, weights)], wanted, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["transformer", "prefix", "rnn-attention"])
def test_the_loss_of_a_translator_is_that_of_its_scores(name):
    from regard.families.translate import TRANSLATE

    kind = TRANSLATE[name]
    model, source = kind.example(torch.float64), kind.example_source()
    tokens = torch.randint(4, 9, (len(source.items), 6))
    shares = torch.rand(tokens.shape, dtype=torch.float64)
    pair = (source.items, source.lengths)
    scores, _ = model.learn(tokens, tokens, None, None, *pair)
    loss, state = model.loss(tokens, tokens, shares, None, None, *pair)
    assert state is None
    torch.testing.assert_close(loss, -(scores * shares).sum())


@pytest.mark.parametrize("softcap", [0.0, 5.0])
def test_log_probabilities_without_a_gradient_are_those_with_one(softcap):
    torch.manual_seed(0)
    head, h = Head(8, 1000, softcap=softcap), 30 * torch.randn(70, 8)
    torch.nn.init.normal_(head.weight)
    learned = head(h)
    with torch.no_grad():
        assert torch.equal(head(h), learned)
        assert torch.equal(head(h[:, None])[:, 0], learned)


def test_the_size_of_a_chunk_is_a_constant_to_the_compiler():
    """By the mark that torch sets, which we set without importing the compiler."""
    assert torch.compiler.assume_constant_result(lambda: 0).__dict__ == log_softmax.largest_logits.__dict__ != {}
