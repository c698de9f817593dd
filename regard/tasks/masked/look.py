"""A look at a masked model: every position reads all others, and what stands in a place is told from what is around it.

A text is read as it is, with <mask> in its blanks (___ or [MASK]). A row says how likely its token is with the token
itself hidden: each in turn, or in a long text every sixteenth at once, as it was trained.
T tokens · V vocabulary
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.data.tokens.vocabulary import FIRST
from regard.decoding.fill import BLANK, JOINED
from regard.errors import DataError
from regard.look.influence import evaluating, with_blanks
from regard.look.influence_tracks import encoder_tracks
from regard.look.look import Look, Prediction, Request, Token
from regard.look.predictions import GUESS, make_prediction
from regard.look.side_tokens import move_tokens, read_tokens, special_token, text_side
from regard.look.track import Track
from regard.models.masked import MaskedModel
from regard.tasks.encoder_look import find_room, keep_first, make_look
from regard.tasks.masked.trained import TrainedMasked

MOST_TOKENS = 1024                   # read by a model that has no limit of its own
ONE_BY_ONE = 64                      # tokens, up to which each is hidden by itself
STRIDE = 16                          # beyond that, every so many are hidden together


def build(trained: TrainedMasked, request: Request) -> Look:
    """The look at a text."""
    if request.text is None:
        raise DataError("a masked model reads a text: give one")
    model, t = trained.model, trained.tokenizer
    notes: list[str] = []
    tokens = text_tokens(trained, request.text)
    if trained.framed:
        tokens.append(special_token(t, t.eos))
    tokens = keep_first(tokens, min(model.context or MOST_TOKENS, find_room(model, MOST_TOKENS)), notes)
    if not tokens:
        raise DataError("there is no text to read: it is empty")
    ids = torch.tensor([token.id for token in tokens], device=model.device)

    predictions = say(trained, ids, notes)
    sides = {"text": text_side("text", "text", request.text, tokens)}
    return make_look(trained, request, ids, sides, predictions, notes, after=influences(model, ids, predictions))


def text_tokens(trained: TrainedMasked, text: str) -> list[Token]:
    """The tokens of a text, with one <mask> for each blank; words are counted through."""
    t, begin = trained.tokenizer, 0
    tokens: list[Token] = []
    for blank in [*BLANK.finditer(text), None]:
        part = text[begin:blank.start() if blank else len(text)]
        if blank and t.kind in JOINED:
            part = part.removesuffix(" ")                     # the space belongs to what is missing
        first = 1 + max((token.word for token in tokens), default=-1)
        tokens += move_tokens(read_tokens(t, part, t.encode(part).tolist()), begin, first)
        if blank:
            first = 1 + max((token.word for token in tokens), default=-1)
            tokens.append(Token(trained.model.mask, "<mask>", blank.start(), blank.end(), word=first))
            begin = blank.end()
    return tokens


# ---------------------------------------------------------------------------------------- what rows say


@torch.no_grad()
def say(trained: TrainedMasked, ids: Tensor, notes: list[str]) -> tuple[Prediction, ...]:
    """The prediction of each row for its own place; of a blank, its best guess."""
    model, size = trained.model, len(ids)
    banned = (*range(FIRST), model.mask)
    if size > ONE_BY_ONE:
        notes.append(f"the text is long: what a row says is told with every {STRIDE}th token hidden at once")
    predictions: dict[int, Prediction] = {}
    with evaluating(model):
        for hidden in hidden_together(size):
            row = ids.clone()
            row[hidden] = model.mask
            log_probs = model.predict(row[None], torch.tensor([hidden], device=ids.device))[0].cpu()
            for place, own in zip(hidden, log_probs, strict=True):
                target = int(ids[place])
                target = GUESS if target == model.mask else target
                predictions[place] = make_prediction(own, target, trained.tokenizer, banned)
    return tuple(predictions[place] for place in range(size))


def hidden_together(size: int) -> list[list[int]]:
    """The places that are hidden in each read: each once."""
    if size <= ONE_BY_ONE:
        return [[place] for place in range(size)]
    return [list(range(first, size, STRIDE)) for first in range(STRIDE)]


# ---------------------------------------------------------------------------------------------- influence


def influences(model: MaskedModel, ids: Tensor, told: Sequence[Prediction]) -> list[Track]:
    """The influence of every token on the one in each place, which is hidden while it is asked for."""
    targets = torch.tensor([each.id for each in told], device=ids.device)

    def scores(rows: Tensor, places: Tensor) -> Tensor:
        """(n,): the log-probability of the target at one place of each row."""
        wanted = torch.zeros_like(rows)
        at = torch.arange(len(rows), device=rows.device)
        wanted[at, places] = targets[places]
        return model.score(rows, wanted)[0][at, places]

    return encoder_tracks(
        model, model.encoder.embedding, lambda places: with_blanks(ids, places, model.mask), scores, blank=model.mask,
        of="text", shape=(len(ids), len(ids)), instead="<mask>", most_occluded=ONE_BY_ONE)
