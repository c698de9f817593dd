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
from regard.look.influence import evaluating, gradient_amounts, lost_without, score_texts, with_blanks
from regard.look.track import Floats, Track

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
    model: LanguageModel | Learner, ways: Sequence[str], rows: Rows, *, of: str, on: str, shape: tuple[int, int],
    causal: bool, what: str = "token", instead: str = "<unk>", prefix: str = "influence", most: int = MOST_ROWS,
) -> list[Track]:
    """A track for each way, of `rows`, in evaluation mode: side `of` predicts, side `on` is read."""

    def measure(method: str, asked: list[int]) -> Floats:
        with evaluating(model):
            return rows(method, asked).cpu().numpy()

    def made(method: str) -> Track:
        return Track(
            name=f"{prefix}-{method}", kind="influence", badge=BADGES[method],
            about=ABOUT[method].format(what=what, instead=instead), rows=of, columns=on, shape=(1, 1, *shape),
            row_label="writes", causal=causal, signed=method != "sensitivity", layer_names=("all layers",),
            head_names=(method,), make=lambda: measure(method, list(range(shape[0]))),
            make_row=lambda at: measure(method, [at]), most=most)

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
        return torch.cat(list(gradient_amounts(
            embedding, lambda asked: score(texts(asked), asked), rows, shape[1], method == "sensitivity")))

    @torch.no_grad()
    def without_each(row: int) -> Tensor:
        asked = torch.tensor([row], device=embedding.weight.device)
        (text,) = texts(asked)
        return lost_without(lambda copies: score(copies, asked.expand(len(copies)))[:, None], score(text[None], asked),
                            lambda places: with_blanks(text, places, blank), shape[1], shape[1])

    def by_occlusion(_: str, rows: list[int]) -> Tensor:
        return torch.cat([without_each(row) for row in rows]).float()

    return [*influence_tracks(model, ("gradient", "sensitivity"), by_gradient, of=of, on="text", shape=shape,
                              causal=False),
            *influence_tracks(model, ("occlusion",), by_occlusion, of=of, on="text", shape=shape, causal=False,
                              instead=instead, most=most_occluded)]


# ------------------------------------------------------------------------------------------- of a source


def source_by_gradient(
    model: LanguageModel, embedding: nn.Embedding, source: Source, tokens: Tensor, targets: Tensor, rows: list[int],
    norm: bool, columns: slice,
) -> Tensor:
    """(rows, C): what the source tokens are to each target asked for, from copies of the pair, many at a time.

    `columns` are those of what the embedding gives: all of it for an encoder, the first for a prefix.
    """

    def score(asked: Tensor) -> Tensor:
        copies = Source(source.items.expand(len(asked), *source.items.shape[1:]))
        return score_texts(model, tokens.expand(len(asked), -1), targets, copies).gather(1, asked[:, None])

    length = len(tokens) + source.items.shape[1]
    return torch.cat(list(gradient_amounts(embedding, score, rows, length, norm)))[:, columns]


@torch.no_grad()
def source_by_occlusion(
    model: LanguageModel, source: Source, hidden: Callable[[Sequence[int]], Tensor], places: int, tokens: Tensor,
    targets: Tensor, rows: list[int],
) -> Tensor:
    """(rows, C): each place of the source is hidden in turn; `hidden` gives sources (n, ...), each with one hidden."""

    def scores(items: Tensor) -> Tensor:
        return score_texts(model, tokens.expand(len(items), -1), targets, Source(items))[:, rows]

    return lost_without(scores, scores(source.items)[0], hidden, places, len(tokens) + places)
