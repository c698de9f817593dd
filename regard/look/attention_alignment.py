"""Attention as alignment: the source tokens that each target token read, and how well they agree with a gold alignment.

The target is given, and read in one go (forced decoding). A token's row is what was read at the step that predicts
it, with the token before it as the last one known: there a decoder decides what to write. For the end of the target
there is a row, too.

    for name, weights in read_of_source(model, source, tokens, lengths):
        weights                                            # (B, H, T, L)

Translations are spelled by it: each <unk> becomes the source word that it read most.
B batch · H heads · T target tokens · L source tokens · N layers
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.contract import LanguageModel, Source
from regard.data.tokens.piece_words import words_of
from regard.data.tokens.vocabulary import BOS, UNK, TokenizerPair
from regard.decoding.beam import Hypothesis
from regard.decoding.source_attention import source_weights
from regard.decoding.source_batches import budget, in_batches
from regard.decoding.spelling import pieces_of, unknown_words
from regard.decoding.stream import padded
from regard.errors import DataError
from regard.look.influence import evaluating
from regard.metrics.alignment_error import ErrorRate, Gold, Link, error_rate, word_weights
from regard.watching import watch

Weights = NDArray[np.float32]              # (layers, heads, T, L)


@torch.no_grad()
def read_of_source(
    model: LanguageModel, source: Source, tokens: Tensor, lengths: Tensor | None = None
) -> list[tuple[str, Tensor]]:
    """(name, weights (B, H, T, L)) of each layer that reads the source, from the lowest on.

    `tokens` (B, T) are those read, <bos> first: row t is what was read to predict the token after it. Weights of a
    decoder-only model are those of its self-attention on the source, and sum to less than one.
    """
    with evaluating(model):
        state = model.start(len(tokens), None, source)
        with watch() as seen:
            model.score(tokens, torch.zeros_like(tokens), state, lengths)
    layers = source_weights(model, source, seen.readings, rows=len(tokens), whole=True)
    return [(f"layer {number}", weights) for number, weights in enumerate(layers, 1)]


def stacked(layers: Sequence[tuple[str, Tensor]]) -> Tensor:
    """(N, B, H, T, L) of all layers; those with fewer heads show each several times."""
    heads = max(weights.shape[1] for _, weights in layers)
    return torch.stack([weights.repeat_interleave(heads // weights.shape[1], 1) for _, weights in layers])


def word_links(weights: Tensor, source_words: Sequence[int], target_words: Sequence[int]) -> set[Link]:
    """Each target word with the source word that it read most, from (T, L) weights of tokens.

    `source_words[l]` is the word of token l, or -1; a word that has no token has no link.
    """
    if max(source_words, default=-1) < 0 or max(target_words, default=-1) < 0:
        return set()
    best = word_weights(weights, source_words, target_words).argmax(1).tolist()
    return {(best[target], target) for target in set(target_words) if target >= 0}


def check_links(sources: Sequence[str], targets: Sequence[str], golds: Sequence[Gold], words: str) -> None:
    """Refuses alignments that are not of these pairs: too few of them, or words that are not there."""
    if len(golds) != len(sources):
        raise DataError(f"{len(sources):,} pairs and {len(golds):,} alignments: there must be one for each")
    for number, (source, target, gold) in enumerate(zip(sources, targets, golds, strict=True), 1):
        sizes = len(words_of(source, words)), len(words_of(target, words))
        for link in sorted(gold.allowed):
            if link[0] >= sizes[0] or link[1] >= sizes[1]:
                raise DataError(f"alignment {number:,} has the link {link[0]}-{link[1]}, but its pair has {sizes[0]} "
                                f"and {sizes[1]} words: check the file, or what a word is (--words)")


# ------------------------------------------------------------------------------------------- error rates


@dataclass
class AttentionErrors:
    """Alignment error rates over many pairs: of each layer and head, of the mean of all, and of their maximum."""

    heads: dict[tuple[int, int], ErrorRate] = field(default_factory=dict)       # (layer, head), counted from 1
    layers: dict[int, ErrorRate] = field(default_factory=dict)                  # the mean of a layer's heads
    mean: ErrorRate = field(default_factory=ErrorRate)
    max: ErrorRate = field(default_factory=ErrorRate)
    pairs: int = 0

    def add(self, weights: Tensor, source_words: Sequence[int], target_words: Sequence[int], gold: Gold) -> None:
        """One pair: weights (N, H, T, L), and the word of each of its tokens."""

        def rate(own: Tensor) -> ErrorRate:
            return error_rate(word_links(own, source_words, target_words), gold)

        for layer, own in enumerate(weights, 1):
            self.layers[layer] = self.layers.get(layer, ErrorRate()) + rate(own.mean(0))
            for head, each in enumerate(own, 1):
                self.heads[layer, head] = self.heads.get((layer, head), ErrorRate()) + rate(each)
        self.mean += rate(weights.mean((0, 1)))
        self.max += rate(weights.amax((0, 1)))
        self.pairs += 1

    @property
    def best(self) -> tuple[int, int]:
        """The layer and head that agree best with the gold alignment."""
        return min(self.heads, key=lambda place: self.heads[place].aer)

    def as_dict(self) -> dict[str, Any]:
        layer, head = self.best
        return {"aer": self.mean.aer, "aer_max": self.max.aer, "aer_best": self.heads[layer, head].aer,
                "aer_best_layer": layer, "aer_best_head": head,
                "aer_heads": [[self.heads[place].aer for place in sorted(self.heads) if place[0] == layer]
                              for layer in sorted(self.layers)],
                "aer_layers": [self.layers[layer].aer for layer in sorted(self.layers)],
                "precision": self.mean.precision, "recall": self.mean.recall, "aligned_pairs": self.pairs}


# --------------------------------------------------------------------------------------------- spelling


def spell(
    model: LanguageModel, tokenizer: TokenizerPair, texts: Sequence[str], sources: Sequence[list[int]],
    hypotheses: Sequence[Sequence[Hypothesis]],
) -> list[list[list[str]]]:
    """The pieces of each target that was found of each source; `texts` are the sources as they were written."""
    t = tokenizer
    unknown = [(row, place) for row, several in enumerate(hypotheses) for place, each in enumerate(several)
               if UNK in each.tokens]
    instead: dict[tuple[int, int], dict[int, str]] = {}
    targets = [hypotheses[row][place].tokens for row, place in unknown]
    for number, weights in each_read(model, [sources[row] for row, _ in unknown], targets):
        row, _ = unknown[number]
        instead[unknown[number]] = unknown_words(
            t.source, texts[row], sources[row][:-1], t.target, targets[number], weights.mean((0, 1)))
    return [[pieces_of(t.target, each.tokens, instead.get((row, place))) for place, each in enumerate(several)]
            for row, several in enumerate(hypotheses)]


def each_read(
    model: LanguageModel, sources: Sequence[list[int]], targets: Sequence[Sequence[int]]
) -> Iterator[tuple[int, Weights]]:
    """The number of each pair, in any order, with what its target tokens read of its source, the ends left out."""
    widths = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    for chosen in in_batches(widths, budget(model, None)):
        items, lengths = padded([sources[at] for at in chosen], model.device)
        # The last token need not be read: nothing follows it here.
        tokens, own = padded([[BOS, *targets[at][:-1]] for at in chosen], model.device)
        weights = stacked(read_of_source(model, Source(items, lengths), tokens, own)).float().cpu().numpy()
        for row, at in enumerate(chosen):
            yield at, weights[:, row, :, :len(targets[at]), :len(sources[at]) - 1]
