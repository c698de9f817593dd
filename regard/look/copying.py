"""Translations as text: each <unk> becomes the source word that it read most.

    spell(model, tokenizer, texts, sources, found)[0][0]        # the pieces of the best target of the first source
T target tokens · L source tokens
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from regard.contract import LanguageModel, Source
from regard.data.tokens.tokenizer_pair import TokenizerPair
from regard.data.tokens.vocabulary import BOS, UNK
from regard.decoding.beam import Hypothesis
from regard.decoding.source_batches import budget, in_batches
from regard.decoding.spelling import pieces_of, unknown_words
from regard.decoding.stream import padded
from regard.look.attention_alignment import read_of_source, stacked

Weights = NDArray[np.float32]              # (layers, heads, T, L)


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
