"""The mixture of a network and an n-gram: both say what follows, and a fitted share says how far each is believed.

    p(w | c) = s p_network(w | c) + (1 - s) p_ngram(w | c)
    s = sigmoid(a_k + b_k log max_w p_network(w | c))

k is the length of the longest context that the n-gram has seen. So the n-gram is believed where it knows much of the
context, and the network where it is certain. The few numbers a and b are fitted on held-out text.

B batch · T time · V vocabulary · n order
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.contract import LanguageModel, Source, State
from regard.models.distributions import HELD, by_head, by_reach
from regard.models.neural import NeuralLM
from regard.models.ngram import NGram
from regard.watching import watching

ROUNDS = 50                # of the fit: L-BFGS on a few numbers is done long before
PRIOR = 1.0                # tokens' worth of doubt that a and b are far from even shares


@dataclass
class MixtureState(State):
    """The states of both. The n-gram's lies on the network's device, so that beams reorder both alike."""

    network: State
    ngram: State


class Mixture(nn.Module, LanguageModel):
    """A network and an n-gram over the same vocabulary, as one language model."""

    on_one_device = False            # the n-gram looks words up on the host

    def __init__(self, network: NeuralLM, ngram: NGram, shares: Tensor | None = None):
        super().__init__()
        assert network.vocab == ngram.vocab, "both must say the same words"
        self.network, self.ngram = network, ngram
        self.vocab, self.context = network.vocab, network.context
        even = torch.zeros(ngram.order, 2, dtype=torch.float64)
        self.register_buffer("shares", even if shares is None else shares.double(), persistent=False)   # (n, 2): a, b

    @property
    def device(self) -> torch.device:
        return self.network.device

    @property
    def embedding(self) -> nn.Module:
        return self.network.embedding

    @property
    def stack(self) -> nn.Module:
        return self.network.stack

    def start(self, batch: int, capacity: int | None = None, source: Source | None = None) -> MixtureState | None:
        state = self.network.start(batch, capacity, source)
        return None if state is None else MixtureState(state, self.ngram.start(batch).to(self.device))

    def score(
        self, tokens: Tensor, targets: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, MixtureState | None]:
        before, counted = _apart(state)
        h, after = self.network.encode(tokens, before, lengths)
        scores, top = score_and_top(self.network.head, h, targets)
        found, known, said = self.ngram.score_in_context(tokens.cpu(), targets.cpu(), counted, _to_host(lengths))
        mixed = self.mix(scores, found.to(scores), top, known.to(self.device))
        return mixed, self._together(after, said)

    def step(
        self, tokens: Tensor, state: State, lengths: Tensor | None = None
    ) -> tuple[Tensor, MixtureState]:
        before, counted = _apart(state)
        assert before is not None and counted is not None, "a step needs a state: start(batch, capacity)"
        log_probs, after = self.network.step(tokens, before, lengths)
        found, known, said = self.ngram.step_in_context(tokens.cpu(), counted, _to_host(lengths))
        top = log_probs.amax(-1, keepdim=True)
        mixed = self.mix(log_probs, found.to(log_probs), top, known.to(self.device)[:, None])
        together = self._together(after, said)
        assert together is not None
        return mixed, together

    def mix(self, network: Tensor, ngram: Tensor, top: Tensor, known: Tensor) -> Tensor:
        """Return the log-probabilities of the mixture, from those of both; `top` is the network's largest."""
        share = self.shares_of(top, known)
        if (recorder := watching()) is not None and top.shape == network.shape:
            recorder.add(self, "share", share.sigmoid())
        return mix_by(share, network, ngram)

    def shares_of(self, top: Tensor, known: Tensor) -> Tensor:
        """Return the logit of the network's share, from its largest log-probability and the length of the context."""
        a, b = self.shares.to(top).unbind(-1)
        return a[known] + b[known] * top

    def distributions(self, tokens: Tensor, window: int | None = None) -> Iterator[Tensor]:
        """Yield (t, V) log-probabilities of what follows each of tokens (T,); each window is read by itself."""
        for part in tokens.split(window or len(tokens)):
            vectors = self.network.encode(part[None].to(self.device))[0][0]
            _, known, _ = self.ngram.score_in_context(part[None].cpu(), part[None].cpu())
            first = 0
            for ours in by_head(self.network.head, vectors):
                rows = slice(first, first + len(ours))
                first += len(ours)
                yield self.mix(ours, self._counted(part, rows).to(ours), ours.amax(-1, keepdim=True),
                               known[0, rows, None])

    def _counted(self, tokens: Tensor, rows: slice) -> Tensor:
        """Return (t, V) log-probabilities of the n-gram after the tokens of these rows."""
        begin = max(0, rows.start - self.ngram.order + 2)
        found = torch.cat(list(by_reach(self.ngram, tokens[begin:rows.stop].cpu(), max(1, self.ngram.order - 1))))
        return found[rows.start - begin:]

    def _together(self, network: State | None, ngram: State | None) -> MixtureState | None:
        return None if network is None or ngram is None else MixtureState(network, ngram.to(self.device))

    def saved_tensors(self) -> dict[str, Tensor]:
        """The network's: the n-gram and the shares have files of their own."""
        return self.network.saved_tensors()


def mix_by(share: Tensor, network: Tensor, ngram: Tensor) -> Tensor:
    """Return log(s p_network + (1 - s) p_ngram), from the logit of s and log-probabilities."""
    return torch.logaddexp(F.logsigmoid(share) + network, F.logsigmoid(-share) + ngram)


def score_and_top(head: nn.Module, h: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return (B, T) log-probabilities of the targets and the largest of each position; few logits are held at once."""
    vectors, wanted = h.flatten(0, 1), targets.flatten()
    scores, tops = [], []
    rows = max(1, HELD // head.weight.shape[0])
    for some, here in zip(vectors.split(rows), wanted.split(rows), strict=True):
        log_probs = head(some)
        scores.append(log_probs.gather(-1, here[:, None])[:, 0])
        tops.append(log_probs.amax(-1))
    return torch.cat(scores).view(targets.shape), torch.cat(tops).view(targets.shape)


def fit_shares(network: Tensor, ngram: Tensor, top: Tensor, known: Tensor, order: int) -> Tensor:
    """Return the (n, 2) numbers a and b under which held-out tokens (N,) are most likely.

    All are log-probabilities of the same tokens; `known` are the lengths of their contexts. A context length that is
    rare stays near even shares: PRIOR counts as so many tokens.
    """
    network, ngram, top = network.double(), ngram.double(), top.double()
    shares = torch.zeros(order, 2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([shares], max_iter=ROUNDS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        a, b = shares[known.long()].unbind(-1)
        nats = 0.5 * PRIOR * shares.square().sum() - mix_by(a + b * top, network, ngram).sum()
        mean = nats / max(1, len(network))
        mean.backward()                                                       # type: ignore[no-untyped-call]
        return mean

    optimizer.step(loss)
    return shares.detach()


def _apart(state: State | None) -> tuple[State | None, State | None]:
    """Return the network's state and the n-gram's, the latter on the host."""
    if state is None:
        return None, None
    assert isinstance(state, MixtureState), f"a mixture's state is MixtureState, not {type(state).__name__}"
    return state.network, state.ngram.to("cpu")


def _to_host(lengths: Tensor | None) -> Tensor | None:
    return None if lengths is None else lengths.cpu()
