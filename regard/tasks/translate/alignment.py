"""Alignment by a translator: the source words that each target word read, and their error against gold alignments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from regard.data.tokens.piece_words import piece_words, words_of, written_words
from regard.errors import DataError
from regard.look.attention_alignment import AttentionErrors, check_links, word_links
from regard.metrics.alignment_error import Gold, Link
from regard.tasks.translate.translations import Say, TranslatedSentence, Translation

if TYPE_CHECKING:
    from regard.tasks.translate.trained import TrainedTranslator

CHUNK = 512                    # pairs whose weights are held at once


def align_translation(
    trained: TrainedTranslator, translation: Translation, parts: Sequence[TranslatedSentence], words: str
) -> Translation:
    """Return the translation with links and weights: all pieces in a row, and a block of weights for each sentence."""
    read = trained.reads([part.ids for part in parts], [part.found[0].tokens for part in parts])
    rows, columns = (sum(block.shape[axis] for block in read) for axis in (2, 3))
    weights = np.zeros((*read[0].shape[:2], rows, columns), np.float32)
    links: set[Link] = set()
    row = column = source = target = 0                         # pieces and words of the sentences before
    for block, part in zip(read, parts, strict=True):
        weights[:, :, row:row + block.shape[2], column:column + block.shape[3]] = block
        row, column = row + block.shape[2], column + block.shape[3]
        of_source = piece_words(trained.tokenizer.source, part.text, part.ids[:-1], words)
        own_links = word_links(torch.from_numpy(block.mean((0, 1))), of_source, written_words(part.pieces[0], words))
        links |= {(source + here, target + there) for here, there in own_links}
        source += len(words_of(part.text, words))
        target += len(words_of(part.spell(0), words))
    t = trained.tokenizer
    return replace(
        translation, links=frozenset(links), weights=weights,
        source_pieces=tuple(t.source.token(id) for part in parts for id in part.ids[:-1]),
        target_pieces=tuple(t.target.token(id) for part in parts for id in part.found[0].tokens))


def measure_errors(
    trained: TrainedTranslator, sources: Sequence[str], targets: Sequence[str], golds: Sequence[Gold], words: str,
    notice: Say | None,
) -> AttentionErrors:
    """Return the errors of the attention over all pairs that the model can read."""
    check_links(sources, targets, golds, words)
    read, written = trained.encode(sources), [ids.tolist() for ids in trained.tokenizer.target.encode_batch(targets)]
    fits = [number for number, (source, target) in enumerate(zip(read, written, strict=True))
            if max(len(source), len(target) + 1) <= trained.context and len(source) > 1 and target]
    if len(fits) < len(sources) and notice is not None:
        notice(f"{len(sources) - len(fits):,} of {len(sources):,} pairs are empty or too long, and not in the "
               "alignment error")
    errors = AttentionErrors()
    for first in range(0, len(fits), CHUNK):                   # weights take memory
        some = fits[first:first + CHUNK]
        blocks = trained.reads([read[n] for n in some], [written[n] for n in some])
        for n, weights in zip(some, blocks, strict=True):
            errors.add(torch.from_numpy(weights),
                       piece_words(trained.tokenizer.source, sources[n], read[n][:-1], words),
                       piece_words(trained.tokenizer.target, targets[n], written[n], words), golds[n])
    if not errors.pairs:
        raise DataError("none of the pairs can be aligned: they are empty, or too long for the model")
    return errors
