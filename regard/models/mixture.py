"""The mixture of a network, an n-gram and a cache: all say what follows, and fitted shares say how far to believe each.

    p(w | c) = q (s p_network(w | c) + (1 - s) p_ngram(w | c)) + Σ_k q_k p_k(w | c)
    s = sigmoid(a + b log max_w p_network(w | c) + Σ_k (u_k + g_k log γ_k))

over the contexts of the last k words that were seen. γ_k is what the n-gram leaves to shorter contexts after these
words: little where it has seen much there. So the network is believed where it is certain, and the n-gram where it has
seen much. The cache (word_cache.py) says with p_k what followed the same k words a short while ago; its shares are q_k.
The 2 n numbers of s, and two for each q_k, are fitted on held-out text.

B batch · T time · V vocabulary · n order
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.contract import LanguageModel, Source, State, last_real
from regard.models.distributions import HELD, by_head, by_reach
from regard.models.neural import NeuralLM
from regard.models.ngram import NGram
from regard.models.ngram.model import Contexts
from regard.models.word_cache import (
    ORDERS,
    REMEMBERED,
    CacheCounts,
    ReadWords,
    add_to_targets,
    add_to_words,
    count_targets,
    read_on,
    start_cache,
    weigh_orders,
)
from regard.watching import watching

ROUNDS = 100               # of the fit: L-BFGS on a few numbers is done long before
PRIOR = 0.01               # how many tokens worth of doubt there is that a number is far from zero
LEAST = -20.0              # log γ: an n-gram that is not smoothed leaves nothing
RARELY = (-2.0, 0.0)       # v_k and d_k before the fit


@dataclass
class MixtureState(State):
    """The states of all. The n-gram's lies on the network's device, so that beams reorder all alike."""

    network: State
    ngram: State
    cache: ReadWords | None = None


class Mixture(nn.Module, LanguageModel):
    """A network and an n-gram over the same vocabulary, and a cache if it has numbers, as one language model.

    `numbers` (n, 2) has a and b in its first row, u_k and g_k in row k; `cache` (K, 2) has v_k and d_k.
    """

    asks_host = True                         # the n-gram looks words up there
    vectors_from = "network.norm"            # the module whose vectors the network's head reads
    numbers: Tensor
    cache: Tensor | None

    def __init__(
        self, network: NeuralLM, ngram: NGram, numbers: Tensor | None = None, cache: Tensor | None = None,
        remembered: int = REMEMBERED,
    ):
        super().__init__()
        assert network.vocab == ngram.vocab, "both must say the same words"
        self.network, self.ngram = network, ngram
        self.vocab, self.context = network.vocab, network.context
        even = torch.zeros(ngram.order, 2)
        self.register_buffer("numbers", (even if numbers is None else numbers).double(), persistent=False)
        self.register_buffer("cache", None if cache is None else cache.double(), persistent=False)
        self.remembered = remembered

    @property
    def device(self) -> torch.device:
        return self.network.device

    @property
    def embedding(self) -> nn.Module:
        return self.network.embedding

    @property
    def stack(self) -> nn.Module:
        return self.network.stack

    @property
    def head(self) -> nn.Module:
        return self.network.head

    def start(self, batch: int, capacity: int | None = None, source: Source | None = None) -> MixtureState | None:
        state = self.network.start(batch, capacity, source)
        if state is None:
            return None
        cache = None if self.cache is None else start_cache(batch, self.remembered, self.device)
        return MixtureState(state, self.ngram.start(batch).to(self.device), cache)

    def score(
        self, tokens: Tensor, targets: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, MixtureState | None]:
        before, counted, cached = split_state(state)
        h, after = self.network.encode(tokens, before, lengths)
        scores, top = score_and_top(self.network.head, h, targets)
        found, contexts, said = self.ngram.score_in_context(tokens.cpu(), targets.cpu(), counted, on_host(lengths))
        share = self.share(top, contexts)
        mixed = mix_by(share, scores, found.to(scores))
        counts = None
        if self.cache is not None:
            counts = count_targets(cached, tokens, targets, self.remembered)
            mixed = add_to_targets(self.cache, mixed, counts)
        if (recorder := watching()) is not None:
            recorder.add(self, "share", self.parts(share, counts))
        return mixed, self._join(after, said, cached and read_on(cached, tokens, lengths))

    def step(
        self, tokens: Tensor, state: State, lengths: Tensor | None = None
    ) -> tuple[Tensor, MixtureState]:
        before, counted, cached = split_state(state)
        assert before is not None and counted is not None, "a step needs a state: start(batch, capacity)"
        h, after = self.network.encode(tokens, before, lengths)
        ours = self.network.head(last_real(h, lengths))
        found, contexts, said = self.ngram.step_in_context(tokens.cpu(), counted, on_host(lengths))
        mixed = mix_by(self.share(ours.amax(-1), contexts)[:, None], ours, found.to(ours))
        read = cached and read_on(cached, tokens, lengths)
        joined = self._join(after, said, read)
        assert joined is not None
        return self.add_cache(mixed, read), joined

    def add_cache(self, mixed: Tensor, read: ReadWords | None) -> Tensor:
        """Return (B, V) log-probabilities with what the cache says after the words read."""
        if self.cache is None or read is None:
            return mixed
        ends = torch.tensor([read.words.shape[1]], device=mixed.device)
        return add_to_words(self.cache, mixed[:, None], read.words, ends, self.remembered)[:, 0]

    def parts(self, share: Tensor, counts: CacheCounts | None) -> Tensor:
        """Return the shares (..., 3) of the network, the n-gram and the cache, which sum to 1; (..., 2) without one."""
        shares = torch.stack((share.sigmoid(), (-share).sigmoid()), -1)
        if self.cache is None or counts is None:
            return shares
        rest = weigh_orders(self.cache.to(share), counts.contexts)[0].exp()[..., None]
        return torch.cat((rest * shares, 1 - rest), -1)

    def share(self, top: Tensor, contexts: Contexts) -> Tensor:
        """Return the logit of the network's share, from its largest log-probability and the n-gram's contexts."""
        return find_share(self.numbers.to(top), top, *(each.to(top.device) for each in contexts))

    def distributions(self, tokens: Tensor, window: int | None = None) -> Iterator[Tensor]:
        """Yield (t, V) log-probabilities of what follows each of tokens (T,); each window is read by itself."""
        for part in tokens.split(window or len(tokens)):
            vectors = self.network.encode(part[None].to(self.device))[0][0]
            read, first = part[None].cpu(), 0
            _, contexts, _ = self.ngram.score_in_context(read, read)
            for ours in by_head(self.network.head, vectors):
                rows = slice(first, first + len(ours))
                first += len(ours)
                share = self.share(ours.amax(-1), Contexts(*(each[0, rows] for each in contexts)))
                mixed = mix_by(share[:, None].to(ours), ours, self._count_rows(read[0], rows).to(ours))
                if self.cache is not None:
                    ends = torch.arange(rows.start, rows.stop) + 1
                    mixed = add_to_words(self.cache.cpu(), mixed[None], read, ends, self.remembered)[0]
                yield mixed

    def _count_rows(self, tokens: Tensor, rows: slice) -> Tensor:
        """Return (t, V) log-probabilities of the n-gram after the tokens of these rows."""
        reach = max(1, self.ngram.order - 1)
        begin = max(0, rows.start - reach + 1)
        return torch.cat(list(by_reach(self.ngram, tokens[begin:rows.stop], reach)))[rows.start - begin:]

    def _join(self, network: State | None, ngram: State | None, cache: ReadWords | None) -> MixtureState | None:
        return None if network is None or ngram is None else MixtureState(network, ngram.to(self.device), cache)

    def saved_tensors(self) -> dict[str, Tensor]:
        """The network's: the n-gram and the numbers have files of their own."""
        return self.network.saved_tensors()


def split_state(state: State | None) -> tuple[State | None, State | None, ReadWords | None]:
    """Return the states of the network, of the n-gram, which is on the host, and of the cache."""
    if state is None:
        return None, None, None
    assert isinstance(state, MixtureState), f"a mixture's state is MixtureState, not {type(state).__name__}"
    return state.network, state.ngram.to("cpu"), state.cache


def on_host(lengths: Tensor | None) -> Tensor | None:
    return None if lengths is None else lengths.cpu()


def find_share(numbers: Tensor, top: Tensor, known: Tensor, left: Tensor) -> Tensor:
    """Return the logit of the network's share (...), of `top` and `known` (...) and `left` (..., n-1)."""
    (a, b), (u, g) = numbers[0], numbers[1:].unbind(-1)
    seen = known[..., None] > torch.arange(left.shape[-1], device=top.device)
    return a + b * top + (seen * (u + g * left.to(top).clamp(min=LEAST))).sum(-1)


def mix_by(share: Tensor, network: Tensor, ngram: Tensor) -> Tensor:
    """Return log(s p_network + (1 - s) p_ngram), from the logit of s and log-probabilities."""
    return torch.logaddexp(F.logsigmoid(share) + network, F.logsigmoid(-share) + ngram)


def score_and_top(head: Any, h: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return (B, T) log-probabilities of the targets and the largest of each position; few logits are held at once."""
    vectors, wanted = h.flatten(0, 1), targets.flatten()
    scores, tops = [], []
    rows = max(1, HELD // head.weight.shape[0])
    for some, here in zip(vectors.split(rows), wanted.split(rows), strict=True):
        log_probs = head(some)
        scores.append(log_probs.gather(-1, here[:, None])[:, 0])
        tops.append(log_probs.amax(-1))
    return torch.cat(scores).view(targets.shape), torch.cat(tops).view(targets.shape)


def fit_numbers(
    network: Tensor, ngram: Tensor, top: Tensor, contexts: Contexts, counts: CacheCounts | None = None
) -> tuple[Tensor, Tensor | None]:
    """Return the numbers (n, 2) of the shares, and (K, 2) of the cache, under which held-out tokens (N,) are likeliest.

    `network`, `ngram` and `top` are log-probabilities of the same tokens. A number that few tokens tell of stays near
    where it began: PRIOR counts as so many.
    """
    network, ngram, top, left = (each.double().cpu() for each in (network, ngram, top, contexts.left))
    shares = torch.zeros(1 + left.shape[-1], 2, dtype=torch.float64)
    begin = shares if counts is None else torch.cat([shares, torch.tensor([RARELY] * ORDERS, dtype=torch.float64)])
    numbers = begin.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([numbers], max_iter=ROUNDS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        mixed = mix_by(find_share(numbers[: len(shares)], top, contexts.known, left), network, ngram)
        if counts is not None:
            mixed = add_to_targets(numbers[len(shares):], mixed, counts)
        mean = (0.5 * PRIOR * (numbers - begin).square().sum() - mixed.sum()) / max(1, len(network))
        mean.backward()                                                       # type: ignore[no-untyped-call]
        return mean

    optimizer.step(loss)                                                      # type: ignore[no-untyped-call]
    found = numbers.detach()
    return found[: len(shares)], None if counts is None else found[len(shares):]
