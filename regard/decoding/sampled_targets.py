"""Targets of sources drawn by sampling, in the place of a search.   S sources · B rows, some for each source"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch
from torch import Tensor

from regard.contract import LanguageModel, Source
from regard.decoding.beam import BeamOptions, Hypothesis
from regard.decoding.sampling import Sampling
from regard.decoding.source_batches import SourceBatch, run_batches
from regard.decoding.special_tokens import SpecialTokens
from regard.decoding.stream import generate_tokens, padded


def sample_batches(
    model: LanguageModel, batches: Iterable[SourceBatch], special_tokens: SpecialTokens, options: BeamOptions,
    sampling: Sampling, numbers: Sequence[int] | None = None, on_batch: Callable[[int], None] | None = None,
) -> list[list[Hypothesis]]:
    """Return `options.n_best` drawn targets of every source, the likeliest first, in the order of the sources' numbers.

    `numbers` say whose noise draws for each source; by default its own number does.
    """
    draw = partial(sample_batch, model, special_tokens=special_tokens, options=options, sampling=sampling,
                   numbers=numbers)
    return run_batches(batches, draw, on_batch)


def sample_batch(
    model: LanguageModel, batch: SourceBatch, special_tokens: SpecialTokens, options: BeamOptions, sampling: Sampling,
    numbers: Sequence[int] | None,
) -> list[list[Hypothesis]]:
    """Return `options.n_best` drawn targets of each source of a batch, the likeliest first."""
    draws, rows = options.n_best, torch.arange(len(batch.numbers), device=model.device)
    repeated = batch.source.select(rows.repeat_interleave(options.n_best))
    noise = batch.numbers if numbers is None else [numbers[number] for number in batch.numbers]
    # Drawing, unlike searching, makes room for the last token before it knows that it is the last.
    limits = [max(1, limit - 1) for limit in batch.limits for _ in range(draws)]
    texts, ended = draw_texts(model, repeated, limits, [number * draws + draw for number in noise
                                                        for draw in range(draws)], special_tokens, sampling)
    scores = log_probs(model, repeated, texts, ended, special_tokens).tolist()
    drawn = [Hypothesis(tuple(text), score, options.score(score, len(text) + end), end)
             for text, score, end in zip(texts, scores, ended, strict=True)]
    groups = [drawn[first:first + draws] for first in range(0, len(drawn), draws)]
    return [sorted(group, key=lambda one: -one.score) for group in groups]


def draw_texts(
    model: LanguageModel, source: Source, limits: Sequence[int], row_ids: Sequence[int],
    special_tokens: SpecialTokens, sampling: Sampling,
) -> tuple[list[list[int]], list[bool]]:
    """Return a text for each row, of at most so many tokens, and whether it came to an end."""
    texts: list[list[int]] = [[] for _ in row_ids]
    ended = [False] * len(row_ids)
    steps = generate_tokens(
        model, [[special_tokens.begin]] * len(row_ids), new_tokens=max(limits), sampling=sampling,
        end=special_tokens.end, banned=special_tokens.banned, row_ids=row_ids, source=source, limits=limits)
    for step in steps:
        for row, token in enumerate(step):
            if token is None:
                ended[row] = ended[row] or len(texts[row]) < limits[row]
            elif len(texts[row]) < limits[row]:
                texts[row].append(token)
        if all(end or len(text) == limit for end, text, limit in zip(ended, texts, limits, strict=True)):
            break
    return texts, ended


@torch.no_grad()
def log_probs(
    model: LanguageModel, source: Source, texts: Sequence[Sequence[int]], ended: Sequence[bool],
    special_tokens: SpecialTokens,
) -> Tensor:
    """Return log p (B,) of whole targets, with their ends where they have one."""
    tokens, lengths = padded([[special_tokens.begin, *text] for text in texts], model.device)
    targets, _ = padded([[*text, special_tokens.end] for text in texts], model.device)
    scores, _ = model.score(tokens, targets, model.start(len(texts), None, source), lengths)
    counted = lengths - 1 + torch.tensor(ended, device=lengths.device).long()
    real = torch.arange(tokens.shape[1], device=tokens.device) < counted[:, None]
    return torch.where(real, scores, 0.0).double().sum(1)
