"""Alignment by a translator: the source words that each target word read, and their error against gold alignments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from regard.data.tokens.piece_words import piece_words, words_of, written_words
from regard.decoding.translations import Part, Say, Translation
from regard.errors import DataError
from regard.metrics.alignment import Gold, Link
from regard.probe.alignment import AttentionErrors, check_links, word_links

if TYPE_CHECKING:
    from regard.tasks.translate.trained import TrainedTranslator

CHUNK = 512                    # pairs whose weights are held at once


def align_translation(
    trained: TrainedTranslator, told: Translation, parts: Sequence[Part], words: str
) -> Translation:
    """The translation with its links and weights: all pieces in a row, and a block of weights for each sentence."""
    read = trained.reads([part.ids for part in parts], [part.found[0].tokens for part in parts])
    rows, columns = (sum(own.shape[axis] for own in read) for axis in (2, 3))
    weights = np.zeros((*read[0].shape[:2], rows, columns), np.float32)
    links: set[Link] = set()
    row = column = source = target = 0                         # pieces and words of the sentences before
    for own, part in zip(read, parts, strict=True):
        weights[:, :, row:row + own.shape[2], column:column + own.shape[3]] = own
        row, column = row + own.shape[2], column + own.shape[3]
        of_source = piece_words(trained.tokenizer.source, part.text, part.ids[:-1], words)
        found = word_links(torch.from_numpy(own.mean((0, 1))), of_source, written_words(part.pieces[0], words))
        links |= {(source + here, target + there) for here, there in found}
        source += len(words_of(part.text, words))
        target += len(words_of(part.spelled(0), words))
    t = trained.tokenizer
    return replace(
        told, links=frozenset(links), weights=weights,
        source_pieces=tuple(t.source.token(id) for part in parts for id in part.ids[:-1]),
        target_pieces=tuple(t.target.token(id) for part in parts for id in part.found[0].tokens))


def measure_errors(
    trained: TrainedTranslator, sources: Sequence[str], targets: Sequence[str], golds: Sequence[Gold], words: str,
    notice: Say | None,
) -> AttentionErrors:
    """The errors of the attention over all pairs that the model can read."""
    check_links(sources, targets, golds, words)
    read, written = trained.encode(sources), [ids.tolist() for ids in trained.tokenizer.target.encode_batch(targets)]
    fits = [at for at, (source, target) in enumerate(zip(read, written, strict=True))
            if max(len(source), len(target) + 1) <= trained.context and len(source) > 1 and target]
    if len(fits) < len(sources) and notice is not None:
        notice(f"{len(sources) - len(fits):,} of {len(sources):,} pairs are empty or too long, and not in the "
               "alignment error")
    errors = AttentionErrors()
    for first in range(0, len(fits), CHUNK):                   # weights take memory
        some = fits[first:first + CHUNK]
        found = trained.reads([read[at] for at in some], [written[at] for at in some])
        for at, weights in zip(some, found, strict=True):
            errors.add(torch.from_numpy(weights),
                       piece_words(trained.tokenizer.source, sources[at], read[at][:-1], words),
                       piece_words(trained.tokenizer.target, targets[at], written[at], words), golds[at])
    if not errors.pairs:
        raise DataError("none of the pairs can be aligned: they are empty, or too long for the model")
    return errors
