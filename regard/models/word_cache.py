"""The cache: the words that followed the same words a short while ago.

Among the last W words read, order k counts those before which the k words stand that stand before the next word now:

    C_k = #{j : x_{j-k} .. x_{j-1} are the last k words}        H_k(w) = #{those j where x_j = w}

for k = 0 (any word), 1 .. K-1, and p_k(w) = H_k(w) / C_k where C_k > 0. A text repeats itself: names, turns of phrase,
identifiers. What no model could know beforehand stands a few lines above. Each order is believed by a fitted weight:

    p(w) = q p_others(w) + Σ_k q_k p_k(w)        (q, q_0, .., q_{K-1}) = softmax(0, v_0 + d_0 log C_0, ..)

B batch · T time · V vocabulary · W words remembered · K orders · N tokens of a text
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.contract import State
from regard.models.ngram.counting import BOS, PAD, UNPREDICTED, document_starts

ORDERS = 5
REMEMBERED = 2048          # words: of 500, 2,000, 8,000 and all of a text, 2,000 served best
COMPARED = 2**24           # pairs of words that are compared at once, at most
BLOCK = 2**19              # tokens of a text that are counted at once

Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass
class ReadWords(State):
    """The last words read, at the right; <pad> where there is none yet."""

    words: Tensor            # (B, W)


class CacheCounts(NamedTuple):
    """The counts of each order: of words in the same place, and of the target among them."""

    contexts: Tensor         # (..., K) C_k
    hits: Tensor             # (..., K) H_k of the target


def start_cache(batch: int, remembered: int, device: torch.device) -> ReadWords:
    return ReadWords(torch.full((batch, remembered), PAD, device=device))


def read_on(state: ReadWords, tokens: Tensor, lengths: Tensor | None = None) -> ReadWords:
    """Return the state after tokens (B, T), of which `lengths` are real."""
    words, remembered = torch.cat([state.words, tokens], 1), state.words.shape[1]
    real = torch.full_like(tokens[:, 0], tokens.shape[1]) if lengths is None else lengths.to(tokens.device)
    return ReadWords(words.gather(1, real[:, None] + torch.arange(remembered, device=words.device)))


# -------------------------------------------------------------------------------------- counting in rows


def count_targets(before: ReadWords | None, tokens: Tensor, targets: Tensor, remembered: int) -> CacheCounts:
    """Return the counts (B, T, K) of targets that follow each of tokens (B, T), which are read after `before`."""
    words = tokens if before is None else torch.cat([before.words, tokens], 1)
    first, parts = words.shape[1] - tokens.shape[1] + 1, []
    for some in torch.arange(tokens.shape[1], device=words.device).split(max(1, COMPARED // words.numel())):
        found = list(find_matches(words, some + first, remembered))
        same = words[:, None, :] == targets[:, some, None]
        parts.append((torch.stack([each.sum(-1) for each in found], -1),
                      torch.stack([(each & same).sum(-1) for each in found], -1)))
    return CacheCounts(*(torch.cat(each, 1) for each in zip(*parts, strict=True)))


def find_matches(words: Tensor, ends: Tensor, remembered: int) -> Iterator[Tensor]:
    """Yield for each order (B, T, W): which of words (B, W) stand where the word after the first `ends` (T,) stands."""
    place = torch.arange(words.shape[1], device=words.device)
    matches = (place < ends[:, None]) & (words >= UNPREDICTED)[:, None]
    for order in range(ORDERS):
        if order:
            last = words[:, (ends - order).clamp(min=0)][..., None]                           # (B, T, 1)
            before = F.pad(words, (order, 0), value=PAD)[:, None, : words.shape[1]]            # (B, 1, W)
            matches = matches & (before == last) & (last != PAD) & (ends >= order)[:, None]
        yield matches & (place - order >= ends[:, None] - remembered)


# ------------------------------------------------------------------------------------ counting in a text


def count_text(tokens: Ints, ends: Ints | None, remembered: int) -> CacheCounts:
    """Return the counts (N, K) of the tokens of a text, each document after <bos>; `ends` None: it is one document.

    The same as `count_targets` of whole documents, by sorting, and with little of a long text held at a time.
    """
    starts = np.zeros(1, np.int64) if ends is None else document_starts(np.asarray(ends), len(tokens))
    stream = np.insert(np.asarray(tokens, np.int64), starts, BOS)
    document = np.cumsum(np.insert(np.zeros(len(tokens), np.int64), starts, 1))
    contexts, hits = (np.zeros((len(stream), ORDERS), np.int64) for _ in range(2))
    for first in range(0, len(stream), BLOCK):
        begin, last = max(0, first - remembered), min(first + BLOCK, len(stream))
        counted = count_block(stream[begin:last], document[begin:last], remembered)
        contexts[first:last], hits[first:last] = (each[first - begin:] for each in counted)
    asked = np.ones(len(stream), bool)
    asked[starts + np.arange(len(starts))] = False
    return CacheCounts(torch.from_numpy(contexts[asked]), torch.from_numpy(hits[asked]))


def count_block(stream: Ints, document: Ints, remembered: int) -> tuple[Ints, Ints]:
    """Return the counts (n, K) of the words of a stream: contexts are numbered, and looked up in sorted places."""
    size, base = len(stream), int(stream.max()) + 2
    place, context = np.arange(size), document - document[0]
    contexts, hits = (np.zeros((size, ORDERS), np.int64) for _ in range(2))
    counted = stream >= UNPREDICTED

    def count_before(numbers: Ints, order: int) -> Ints:
        keys = numbers * (size + 1) + place
        there = np.sort(keys[counted])
        earliest = numbers * (size + 1) + np.clip(place - remembered + order, 0, place)
        return np.searchsorted(there, keys) - np.searchsorted(there, earliest)

    for order in range(ORDERS):
        if order:                                                    # one word more to the left, where there is one
            before = np.concatenate([np.full(order, base - 1), stream[:-order]])[:size]
            before = np.where(np.concatenate([np.full(order, -1), document[:-order]])[:size] == document, before,
                              base - 1)
            context = np.unique(context * base + before, return_inverse=True)[1]
        contexts[:, order] = count_before(context, order)
        hits[:, order] = count_before(np.unique(context * base + stream, return_inverse=True)[1], order)
    return contexts, hits


# ------------------------------------------------------------------------------------------------ mixing


def weigh_orders(numbers: Tensor, contexts: Tensor) -> tuple[Tensor, Tensor]:
    """Return log q (...) of the other models and q_k (..., K) of each order, from numbers (K, 2) and C_k (..., K)."""
    v, d = numbers.unbind(-1)
    seen = contexts > 0
    logits = torch.where(seen, v + d * contexts.clamp(min=1).to(numbers).log(), -torch.inf)
    log_weights = torch.log_softmax(torch.cat([torch.zeros_like(logits[..., :1]), logits], -1), -1)
    return log_weights[..., 0], log_weights[..., 1:].exp()


def add_to_targets(numbers: Tensor, others: Tensor, counts: CacheCounts) -> Tensor:
    """Return the log-probabilities (...) of targets with the cache, from those of the other models."""
    log_rest, weights = weigh_orders(numbers.to(others), counts.contexts)
    return add_probability(
        log_rest + others, (weights * counts.hits.to(weights) / counts.contexts.clamp(min=1).to(weights)).sum(-1))


def add_to_words(numbers: Tensor, others: Tensor, words: Tensor, ends: Tensor, remembered: int) -> Tensor:
    """Return the log-probabilities (B, T, V) of every word with the cache, from those of the other models.

    They are of the word after the first `ends` (T,) of words (B, W).
    """
    found = torch.stack(list(find_matches(words, ends, remembered)), -1)                      # (B, T, W, K)
    contexts = found.sum(2)
    log_rest, weights = weigh_orders(numbers.to(others), contexts)
    each = (found.to(weights) * (weights / contexts.clamp(min=1).to(weights))[:, :, None]).sum(-1)   # (B, T, W)
    said = torch.zeros_like(others).scatter_add_(-1, words[:, None].expand_as(each), each)
    return add_probability(log_rest[..., None] + others, said)


def add_probability(log_p: Tensor, q: Tensor) -> Tensor:
    """Return log(p + q); where q is 0 it has no part in the gradient, which would be infinite."""
    return torch.where(q > 0, torch.logaddexp(log_p, q.clamp(min=torch.finfo(q.dtype).tiny).log()), log_p)
