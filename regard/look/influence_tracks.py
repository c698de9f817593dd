"""Influence, as tracks that are worked out when they are first looked at: of any model, on any of its sides.

    gradient      g . x: the gradient of the target's log-probability towards a token's embedding, times the embedding
    sensitivity   |g|: how strongly it reacts to any change of the embedding
    occlusion     what the log-probability loses when the token (or the patch) is replaced by one that says nothing

R rows · C columns · D width · L source length
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from regard.contract import LanguageModel, Learner, Source
from regard.look.influence import MOST_TOKENS, evaluating, leaf_outputs
from regard.look.track import Track

BADGES = {"gradient": "influence (gradient × embedding), signed", "sensitivity": "influence (size of the gradient)",
          "occlusion": "influence (log-probability lost without it), signed"}
ABOUT = {
    "gradient": "To first order what each {what} adds to the log-probability of what the row predicts: above zero it "
                "speaks for it, below against it.",
    "sensitivity": "How strongly the log-probability of what the row predicts reacts to a change of each {what}.",
    "occlusion": "What the log-probability of what the row predicts loses when each {what} is replaced by {instead}."}
MOST_ROWS = 300                                  # of more, a row is measured when it is looked at
Rows = Callable[[str, list[int]], Tensor]        # (how, rows) -> (len(rows), C)


def influence_tracks(
    ways: Sequence[str], rows: Rows, *, of: str, on: str, shape: tuple[int, int], causal: bool, what: str = "token",
    instead: str = "<unk>", prefix: str = "influence", most: int = MOST_ROWS,
) -> list[Track]:
    """A track for each way, of `rows`: side `of` predicts, side `on` is read."""

    def made(method: str) -> Track:
        return Track(
            name=f"{prefix}-{method}", kind="influence", badge=BADGES[method],
            about=ABOUT[method].format(what=what, instead=instead), rows=of, columns=on, shape=(1, 1, *shape),
            row_label="writes", causal=causal, signed=method != "sensitivity", layer_names=("all layers",),
            head_names=(method,), make=lambda: rows(method, list(range(shape[0]))).cpu().numpy(),
            make_row=lambda at: rows(method, [at]).cpu().numpy(), most=most)

    return [made(how) for how in ways]


# -------------------------------------------------------------------------------- on what an encoder's model predicts


def encoder_tracks(
    model: Learner, embedding: nn.Embedding, texts: Callable[[Tensor], Tensor],
    score: Callable[[Tensor, Tensor], Tensor], *, blank: int, of: str, shape: tuple[int, int], instead: str = "<unk>",
    most_occluded: int = MOST_ROWS,
) -> list[Track]:
    """Return the influence of every token on what each row predicts: by gradient, by sensitivity and by occlusion.

    `texts(rows)` returns (n, C), the text from which each of these rows is predicted, and `score(texts, rows)` returns
    (n,), the log-probability of what the row predicts. Occlusion writes `blank` in a token's place.
    """

    def by_gradient(method: str, rows: list[int]) -> Tensor:
        parts = []
        for some in batches(rows, shape[1]):
            asked = torch.tensor(some, device=embedding.weight.device)
            with evaluating(model), torch.enable_grad(), torch.backends.cudnn.flags(enabled=False), leaf_outputs(
                    embedding) as read:
                (g,) = torch.autograd.grad(score(texts(asked), asked).sum(), read[0])
            parts.append(g.norm(dim=-1) if method == "sensitivity" else (g * read[0].detach()).sum(-1))
        return torch.cat(parts)

    @torch.no_grad()
    def by_occlusion(_: str, rows: list[int]) -> Tensor:
        lost = torch.zeros(len(rows), shape[1])
        with evaluating(model):
            for number, row in enumerate(rows):
                asked = torch.tensor([row], device=embedding.weight.device)
                whole = score(texts(asked), asked)
                for columns in batches(list(range(shape[1])), shape[1]):
                    copies = asked.expand(len(columns))
                    occluded = texts(copies)
                    occluded[torch.arange(len(columns)), columns] = blank
                    lost[number, columns] = (whole - score(occluded, copies)).float().cpu()
        return lost

    return [*influence_tracks(("gradient", "sensitivity"), by_gradient, of=of, on="text", shape=shape, causal=False),
            *influence_tracks(("occlusion",), by_occlusion, of=of, on="text", shape=shape, causal=False,
                              instead=instead, most=most_occluded)]


# ------------------------------------------------------------------------------------------- of a source


def source_by_gradient(
    model: LanguageModel, embedding: nn.Embedding, source: Source, tokens: Tensor, targets: Tensor, rows: list[int],
    norm: bool, columns: slice,
) -> Tensor:
    """(rows, C): what the source tokens are to each target asked for, from copies of the pair, many at a time.

    `columns` are those of what the embedding gives: all of it for an encoder, the first for a prefix.
    """
    parts = []
    for some in batches(rows, len(tokens) + source.items.shape[1]):
        asked = torch.tensor(some, device=tokens.device)
        copies = Source(source.items.expand(len(some), *source.items.shape[1:]))
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False), leaf_outputs(embedding) as read:
            state = model.start(len(some), None, copies)
            scores, _ = model.score(tokens.repeat(len(some), 1), targets.repeat(len(some), 1), state)
            wanted = scores.gather(1, asked[:, None]).sum()
            (g,) = torch.autograd.grad(wanted, read[0])
        values = g.norm(dim=-1) if norm else (g * read[0].detach()).sum(-1)
        parts.append(values[:, columns])
    return torch.cat(parts)


@torch.no_grad()
def source_by_occlusion(
    model: LanguageModel, source: Source, hidden: Callable[[Sequence[int]], Tensor], places: int, tokens: Tensor,
    targets: Tensor, rows: list[int],
) -> Tensor:
    """(rows, C): each place of the source is hidden in turn; `hidden` gives sources (n, ...), each with one hidden."""
    asked = torch.tensor(rows, device=tokens.device)

    def scores(items: Tensor) -> Tensor:
        state = model.start(len(items), None, Source(items))
        return model.score(tokens.repeat(len(items), 1), targets.repeat(len(items), 1), state)[0][:, asked]

    whole = scores(source.items)[0]
    found = torch.zeros(len(rows), places, dtype=whole.dtype, device=whole.device)
    for some in batches(list(range(places)), len(tokens) + places):
        found[:, some] = (whole - scores(hidden(some))).T
    return found


def batches(items: list[int], length: int) -> list[list[int]]:
    size = max(1, MOST_TOKENS // max(1, length))
    return [items[first:first + size] for first in range(0, len(items), size)]


def unwatched(model: LanguageModel, rows: Rows) -> Rows:
    """In evaluation mode."""

    def measured(how: str, asked: list[int]) -> Tensor:
        with evaluating(model):
            return rows(how, asked)

    return measured
