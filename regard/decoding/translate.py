"""From sources to targets, in token ids: many at once, in batches of about one length.

A batch holds as many sources as a budget of tokens allows, the beams of each counted. Neither the size of a batch nor
its company nor the order of the sources changes what comes out: beams do not know of each other, and sampling noise is
a function of the source's number.
S sources · k beams · L source length
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from regard.contract import LanguageModel, Source
from regard.decoding.beam import Beam, Hypothesis, beam_search
from regard.decoding.marks import Marks
from regard.decoding.sampling import Sampling
from regard.decoding.stream import generate_tokens, padded
from regard.errors import SettingError

AT_ONCE, MOST_AT_ONCE = 4096, 262_144      # tokens of sources, pads and beams included: on a CPU, and on a large GPU
MEMORY = 2**19                             # bytes of a GPU that a token may take, its share of all caches included
MORE, TIMES = 20, 2                        # a target may have so many tokens, and so many times those of its source


def translate_tokens(
    model: LanguageModel, sources: Sequence[Sequence[int]], *, marks: Marks, context: int,
    how: Beam | None = None, sampling: Sampling | None = None, numbers: Sequence[int] | None = None,
    at_once: int | None = None, on_batch: Callable[[int], None] | None = None,
) -> list[list[Hypothesis]]:
    """The best targets of each source (its end included), best first; with `sampling`, some that were drawn.

    `context` is the most tokens of a source or a target. `numbers` say which noise is whose: by default sources are
    counted. `on_batch` is told how many sources are done.
    """
    how = how or Beam()
    found: list[list[Hypothesis]] = [[] for _ in sources]
    rows, done = (how.n_best if sampling else how.width), 0
    for chosen in in_batches([len(source) for source in sources], budget(model, at_once) // rows):
        own = [sources[at] for at in chosen]
        # Drawing, unlike searching, makes room for the last token before it knows that it is the last.
        limits = [max(1, longest(len(source), context, model) - (sampling is not None)) for source in own]
        items, lengths = padded(own, model.device)
        if sampling is None:
            results = beam_search(model, Source(items, lengths), limits=limits, begin=marks.begin, end=marks.end,
                                  how=how, banned=marks.banned)
        else:
            which = list(chosen) if numbers is None else [numbers[at] for at in chosen]
            results = sample(model, Source(items, lengths), limits, which, marks, how, sampling)
        for at, result in zip(chosen, results, strict=True):
            found[at] = result
        done += len(chosen)
        if on_batch is not None:
            on_batch(done)
    return found


def longest(source: int, context: int, model: LanguageModel) -> int:
    """The most tokens of a target, its end included: generous, but within what the model can read."""
    limit = min(TIMES * source + MORE, context)
    if model.one_text and model.context is not None:
        limit = min(limit, model.context - source)
    return max(1, limit)


def budget(model: LanguageModel, at_once: int | None) -> int:
    if at_once is not None and at_once < 1:
        raise SettingError(f"--batch {at_once}: must be at least 1 token")
    if at_once or model.device.type != "cuda":
        return at_once or AT_ONCE
    return int(min(MOST_AT_ONCE, max(AT_ONCE, torch.cuda.get_device_properties(model.device).total_memory // MEMORY)))


def in_batches(lengths: Sequence[int], at_once: int) -> Iterator[list[int]]:
    """Numbers of sources in batches of similar length, the longest first: what does not fit into memory shows early."""
    order = sorted(range(len(lengths)), key=lambda at: (-lengths[at], at))
    first = 0
    while first < len(order):
        rows = max(1, at_once // max(1, lengths[order[first]]))
        yield order[first:first + rows]
        first += rows


# --------------------------------------------------------------------------------------------- sampling


def sample(
    model: LanguageModel, source: Source, limits: Sequence[int], numbers: Sequence[int], marks: Marks, how: Beam,
    sampling: Sampling,
) -> list[list[Hypothesis]]:
    """`how.n_best` targets of each source, drawn, the likeliest of them first."""
    each = torch.arange(len(limits), device=model.device).repeat_interleave(how.n_best)
    repeated = source.select(each)
    row_ids = [number * how.n_best + draw for number in numbers for draw in range(how.n_best)]
    most = [limit for limit in limits for _ in range(how.n_best)]
    said: list[list[int]] = [[] for _ in row_ids]
    ended = [False] * len(row_ids)
    steps = generate_tokens(
        model, [[marks.begin]] * len(row_ids), new_tokens=max(most), how=sampling, end=marks.end, banned=marks.banned,
        row_ids=row_ids, source=repeated, limits=most)
    for step in steps:
        for row, token in enumerate(step):
            if token is None:
                ended[row] = ended[row] or len(said[row]) < most[row]
            elif len(said[row]) < most[row]:
                said[row].append(token)
        if all(end or len(own) == room for end, own, room in zip(ended, said, most, strict=True)):
            break
    scores = log_probs(model, repeated, said, ended, marks).tolist()
    drawn = [Hypothesis(tuple(own), score, how.score(score, len(own) + end), end)
             for own, score, end in zip(said, scores, ended, strict=True)]
    groups = [drawn[first:first + how.n_best] for first in range(0, len(drawn), how.n_best)]
    return [sorted(group, key=lambda one: -one.score) for group in groups]


@torch.no_grad()
def log_probs(
    model: LanguageModel, source: Source, said: Sequence[Sequence[int]], ended: Sequence[bool], marks: Marks
) -> Tensor:
    """(B,) log p of whole targets, with their ends where they have one."""
    tokens, lengths = padded([[marks.begin, *own] for own in said], model.device)
    targets, _ = padded([[*own, marks.end] for own in said], model.device)
    scores, _ = model.score(tokens, targets, model.start(len(said), None, source), lengths)
    counted = lengths - 1 + torch.tensor(ended, device=lengths.device).long()
    real = torch.arange(tokens.shape[1], device=tokens.device) < counted[:, None]
    return torch.where(real, scores, 0.0).double().sum(1)
