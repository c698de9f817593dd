"""A mixture of a network and an n-gram, against its definition in numpy, and the fit of its shares."""

import numpy as np
import pytest
import torch

from regard.decoding.fast import recorded_beam, recorded_stream
from regard.families.ngram import tiny_mixture, tiny_ngram
from regard.laws import MODEL_LAWS, LawBroken, ModelReader
from regard.models import mixture
from regard.models.distributions import distributions
from regard.models.mixture import Mixture, fit_numbers, mix_by, score_and_top
from regard.models.ngram.model import Contexts
from regard.watching import watch

TEXT = np.random.default_rng(0).integers(2, 11, 200)             # what tiny_ngram was counted on
A_TEXT = torch.tensor([[1, *np.random.default_rng(1).integers(2, 11, 12).tolist()]])


STREAM = [1, *TEXT.tolist()]


def known_by_definition(text, reach=2):
    """The most words at the end of `text` that stand together in TEXT, or begin it after <bos>; `reach` at most."""
    return max((size for size in range(1, min(reach, len(text)) + 1)
                if size == 1 or any(STREAM[i:i + size] == text[-size:] for i in range(len(STREAM)))), default=0)


def cached_by_definition(others, text, target, numbers, remembered):
    """The probability of a target after a text, with the cache: from that of the other models."""
    last, weights, said = text[-remembered:], [1.0], [others]
    for order, (v, d) in enumerate(numbers):
        now = last[len(last) - order:]
        followed = [last[j] for j in range(order, len(last)) if last[j - order:j] == now and last[j] > 1]
        if followed and len(now) == order:
            weights.append(np.exp(v + d * np.log(len(followed))))
            said.append(followed.count(target) / len(followed))
    return np.dot(weights, said) / sum(weights)


def test_each_probability_is_the_shared_sum_of_all():
    model = tiny_mixture(torch.float64)
    tokens, targets = A_TEXT[:, :-1], A_TEXT[:, 1:]
    found = model.score(tokens, targets)[0][0].detach().numpy()
    network, ngram = (list(distributions(each, tokens[0])) for each in (model.network, model.ngram))
    network, ngram = torch.cat(network).detach().numpy(), torch.cat(ngram).numpy()
    with watch() as seen:
        model.ngram.score(tokens, targets)
    left = seen.of("back-off")[0].about["weight"][0].log().tolist()        # by the path of each target, order by order
    for row, target in enumerate(targets[0].tolist()):
        text = tokens[0, :row + 1].tolist()
        a, b = model.numbers[0].tolist()
        logit = a + b * network[row].max()
        for size in range(1, known_by_definition(text) + 1):
            u, g = model.numbers[size].tolist()
            logit += u + g * left[row][size]
        share = 1 / (1 + np.exp(-logit))
        wanted = share * np.exp(network[row, target]) + (1 - share) * np.exp(ngram[row, target])
        wanted = cached_by_definition(wanted, text, target, model.cache.tolist(), model.remembered)
        assert found[row] == pytest.approx(np.log(wanted), abs=1e-6)                # γ is kept in float32


def test_the_length_of_the_context_is_that_of_the_definition():
    ngram, text = tiny_ngram(torch.float64), A_TEXT[0].tolist()
    wanted = [known_by_definition(text[:end]) for end in range(1, len(text))]
    whole = ngram.score_in_context(A_TEXT[:, :-1], A_TEXT[:, 1:])[1]
    in_text = ngram.score_text_in_context(np.array(text[1:]))[1]
    assert whole.known[0].tolist() == in_text.known.tolist() == wanted and len(set(wanted)) > 1
    state = ngram.start(1)
    for place, token in enumerate(text[:-1]):
        _, seen, state = ngram.step_in_context(torch.tensor([[token]]), state)
        assert int(seen.known) == wanted[place]
        assert seen.left[0].tolist() == whole.left[0, place].tolist() == in_text.left[place].tolist()


@pytest.mark.parametrize("window", [None, 5])
def test_whole_distributions_are_what_steps_say(window):
    model, tokens = tiny_mixture(torch.float64), A_TEXT[0]
    found = torch.cat(list(distributions(model, tokens, window=window)))
    wanted = []
    for part in tokens.split(window or len(tokens)):
        state = model.start(1, len(part))
        for token in part:
            log_probs, state = model.step(token.view(1, 1), state)
            wanted.append(log_probs)
    torch.testing.assert_close(found, torch.cat(wanted), atol=1e-12, rtol=0)


def test_watched_it_tells_the_share_of_each_token_and_what_both_read():
    model = tiny_mixture(torch.float64)
    with watch() as seen:
        scores, _ = model.score(A_TEXT[:, :-1], A_TEXT[:, 1:])
    (shares,) = [reading.values for reading in seen.readings if reading.kind == "share"]
    assert {"weights", "back-off"} <= {reading.kind for reading in seen.readings}
    network, _ = score_and_top(model.network.head, model.network.encode(A_TEXT[:, :-1])[0], A_TEXT[:, 1:])
    ngram = model.ngram.score(A_TEXT[:, :-1], A_TEXT[:, 1:])[0]
    ours = shares[..., 0] * network.exp() + shares[..., 1] * ngram.exp()
    torch.testing.assert_close(shares.sum(-1), torch.ones(1, 12, dtype=torch.float64))
    assert (scores.exp() >= ours - 1e-12).all() and (scores.exp() - ours <= shares[..., 2] + 1e-12).all()
    alone = Mixture(model.network, model.ngram, model.numbers)
    with watch() as seen:
        scores, _ = alone.score(A_TEXT[:, :-1], A_TEXT[:, 1:])
    (share,) = [reading.values for reading in seen.readings if reading.kind == "share"]
    torch.testing.assert_close(scores, (share[..., 0] * network.exp() + share[..., 1] * ngram.exp()).log())
    assert 0 < float(share.min()) < float(share.max()) < 1


class SharesOfAnotherContext(Mixture):
    """Planted: a step takes the share of a context that is one word shorter."""

    def step(self, tokens, state, lengths=None):
        log_probs, after = self.network.step(tokens, state.network, lengths)
        found, contexts, said = self.ngram.step_in_context(tokens, state.ngram, lengths)
        share = self.share(log_probs.amax(-1), contexts._replace(known=contexts.known - 1))
        return mix_by(share[:, None], log_probs, found), self._join(after, said, None)


def test_a_step_with_the_share_of_another_context_breaks_a_law():
    honest = tiny_mixture(torch.float64)
    planted = SharesOfAnotherContext(honest.network, honest.ngram, honest.numbers)
    with pytest.raises(LawBroken):
        MODEL_LAWS["steps"].check(ModelReader(planted))


def test_a_cache_that_forgets_a_cut_breaks_a_law(monkeypatch):
    """Planted: what is read in a later piece is not remembered."""
    monkeypatch.setattr(mixture, "read_on", lambda state, tokens, lengths=None: state)
    with pytest.raises(LawBroken):
        MODEL_LAWS["cuts"].check(ModelReader(tiny_mixture(torch.float64)))


class OnAGPU(Mixture):
    """It says that it is on a GPU."""

    device = torch.device("cuda")


def test_steps_that_ask_the_host_are_not_recorded(monkeypatch):
    honest = tiny_mixture(torch.float32)
    model = OnAGPU(honest.network, honest.ngram)
    assert not recorded_stream.fits(model, 1000) and not recorded_beam.fits(model, 64, 1000)
    monkeypatch.setattr(OnAGPU, "asks_host", False)
    assert recorded_stream.fits(model, 1000)


# ----------------------------------------------------------------------------------------------- the fit


def drawn(count, order, seed=0):
    """Log-probabilities of tokens that come from one of two sources, the first as often as its share says."""
    random = np.random.default_rng(seed)
    numbers = random.normal(size=(order, 2))
    known, top = random.integers(order, size=count), -random.exponential(size=count)
    seen = known[:, None] > np.arange(order - 1)
    left = np.where(seen, -random.exponential(size=(count, order - 1)), 0.0)
    logit = numbers[0, 0] + numbers[0, 1] * top + (seen * (numbers[1:, 0] + numbers[1:, 1] * left)).sum(1)
    share = 1 / (1 + np.exp(-logit))
    first = random.random(count) < share
    heads = random.random(count) < np.where(first, 0.95, 0.05)       # of two tokens, the one that the first prefers
    network, ngram = np.where(heads, 0.95, 0.05), np.where(heads, 0.05, 0.95)
    parts = [torch.from_numpy(each) for each in (np.log(network), np.log(ngram), top)]
    return (*parts, Contexts.of(known, left)), numbers


def test_the_fit_finds_the_shares_that_the_tokens_were_drawn_with():
    parts, wanted = drawn(200_000, 3)
    np.testing.assert_allclose(fit_numbers(*parts)[0].numpy(), wanted, atol=0.1)


def test_the_fit_is_the_best_of_a_grid():
    network, ngram, top, contexts = drawn(500, 1, seed=3)[0]
    a, b = fit_numbers(network, ngram, top, contexts)[0][0].tolist()

    def loss(a, b):
        share = 1 / (1 + np.exp(-(a + b * top.numpy())))
        mixed = share * network.exp().numpy() + (1 - share) * ngram.exp().numpy()
        return -np.log(mixed).sum() + 0.005 * (a * a + b * b)

    best = min(loss(x, y) for x in np.arange(-4, 4, 0.1) for y in np.arange(-4, 4, 0.1))
    assert loss(a, b) <= best


def test_a_network_that_knows_nothing_is_left_out():
    ngram, network = torch.full((5000,), -1.0), torch.full((5000,), -9.0)
    nothing = Contexts(torch.zeros(5000, dtype=torch.long), torch.zeros(5000, 0))
    a, b = fit_numbers(network, ngram, network, nothing)[0][0]
    mixed = mix_by(a + b * network, network, ngram)
    assert float(-mixed.mean()) == pytest.approx(1.0, abs=1e-3)
