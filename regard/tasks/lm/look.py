"""A look at a language model: it reads `<bos> w1 .. wn`, and each row says what follows.

T tokens read · N layers · H heads
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.contract import LanguageModel
from regard.decoding.sampling import Sampling
from regard.errors import DataError
from regard.look.influence import evaluating, influence_rows, ways_of
from regard.look.influence_tracks import influence_tracks
from regard.look.look import Look, Prediction, Request, Token
from regard.look.predictions import GUESS, make_predictions
from regard.look.reading_tracks import count_maps, find_readings, group_tracks, is_map, name_layers
from regard.look.side_tokens import move_tokens, read_tokens, special_token, text_side, word_side, written_tokens
from regard.look.track import Floats, Track
from regard.models.distributions import by_head, distributions
from regard.tasks.lm.trained import Trained
from regard.watching import Reading, Recorder, watch

MOST_TOKENS = 4096                   # read by a model that has no limit of its own
MOST_KERNEL = 1024                   # by one whose implicit kernels are worked out: their cost grows with the square
MOST_NUMBERS = 100_000_000           # of all maps together: 400 MB
PARTS = "parts"                      # the side of a mixture's parts


def build(trained: Trained, request: Request) -> Look:
    """The look at a text."""
    if request.text is None:
        raise DataError("a language model reads a text: give one")
    model = trained.model
    notes: list[str] = []
    text, tokens, ended = written(trained, request, notes)
    limit, why = most_tokens(model)
    if 1 + len(tokens) > limit:
        notes.append(f"the text has {1 + len(tokens):,} tokens with <bos>, and {why}: the first {limit:,} are read")
    begin = special_token(trained.tokenizer, trained.tokenizer.bos)
    read = [begin, *tokens][:limit]
    following = [*(token.id for token in tokens), trained.tokenizer.eos if ended else GUESS][:len(read)]
    ids = torch.tensor([token.id for token in read])

    def watched(closely: bool = False) -> Recorder:
        return watch_scores(model, ids, predicted, closely)

    predicted, seen = predict_rows(trained, ids, following)
    shares = [share_track(reading) for reading in seen.readings if reading.kind == "share"]
    tracks = [*read_tracks(model, seen, len(read), notes), *shares, *influences(model, ids, predicted)]
    sides = {"text": text_side("text", "text", text, read)}
    if shares:
        parts = list(enumerate(("network", "n-gram", "cache")))[:shares[0].shape[-1]]
        sides[PARTS] = word_side(PARTS, "parts of the mixture", parts)
    return Look(request, trained.family, trained.task.name, sides, "text", predicted, tuple(tracks), tuple(notes),
                watched=watched)


# ----------------------------------------------------------------------------------------------- the text


def written(trained: Trained, request: Request, notes: list[str]) -> tuple[str, list[Token], bool]:
    """The text and its tokens, with what the model writes after it; and whether it came to an end there."""
    text, t = str(request.text), trained.tokenizer
    ids = t.encode(text).tolist()
    tokens = read_tokens(t, text, ids)
    if not request.new_tokens:
        return text, tokens, False
    sampling = request.sampling or Sampling(temperature=0.0)
    steps = trained.steps([[t.bos, *ids]], new_tokens=request.new_tokens, sampling=sampling, notice=notes.append)
    new = [step[0] for step in steps]
    added = [id for id in new if id is not None]
    text, more = continued(trained, text, ids, added, tokens)
    return text, [*tokens, *more], len(added) < len(new)


def continued(
    trained: Trained, text: str, ids: list[int], added: list[int], before: Sequence[Token]
) -> tuple[str, list[Token]]:
    """The text with what these tokens add to it; they begin words of their own, counted on from those before."""
    stream = trained.tokenizer.stream(after=ids)
    pieces = [stream.push(id) for id in added]
    if pieces:
        pieces[-1] += stream.flush()
    first = 1 + max((token.word for token in before), default=-1)
    return text + "".join(pieces), move_tokens(written_tokens(trained.tokenizer, added, pieces), len(text), first)


def most_tokens(model: LanguageModel) -> tuple[int, str]:
    """The most tokens that are read at once, and the reason."""
    limits = [(MOST_TOKENS, f"{MOST_TOKENS:,} are shown at most") if model.context is None
              else (model.context, f"the model reads at most {model.context:,} at once")]
    heads, kernels = count_maps(model)
    if kernels:
        limits.append((MOST_KERNEL, f"the kernels of {MOST_KERNEL:,} are shown at most"))
    if heads + kernels:
        fits = isqrt(MOST_NUMBERS // (heads + kernels))
        limits.append((fits, f"{heads + kernels:,} maps of more than {fits:,} are more than can be held"))
    return min(limits)


# ------------------------------------------------------------------------------------------------ the run


def predict_rows(trained: Trained, ids: Tensor, following: Sequence[int]) -> tuple[tuple[Prediction, ...], Recorder]:
    """The prediction of each row, and what the model recorded meanwhile."""
    model: Any = trained.model
    with torch.no_grad(), evaluating(model), watch() as seen:
        log_probs = by_head(model.head, model.encode(ids[None].to(model.device))[0][0]) if model.in_one_pass \
            else distributions(model, ids)
        predicted = make_predictions(log_probs, following, trained.tokenizer, trained.special_tokens.banned)
    # An n-gram answers for its targets, and the guess is among them: it is watched once they are known.
    return predicted, seen if model.in_one_pass else watch_scores(model, ids, predicted)


@torch.no_grad()
def watch_scores(
    model: LanguageModel, ids: Tensor, predicted: Sequence[Prediction], closely: bool = False
) -> Recorder:
    """Return what the model records while it scores the predictions."""
    targets = torch.tensor([[each.id for each in predicted]], device=model.device)
    with evaluating(model), watch(closely) as seen:
        model.score(ids[None].to(model.device), targets)
    return seen


# --------------------------------------------------------------------------------------------- the tracks


def read_tracks(model: LanguageModel, seen: Recorder, length: int, notes: list[str]) -> list[Track]:
    """The readings of the layers as tracks, by kind."""
    found: list[Track] = []
    stack = getattr(model, "stack", None)
    for kind, name in (("weights", "self"), ("kernel", "kernel")):
        own = find_readings(seen.readings, lambda reading, kind=kind: reading.kind == kind and is_map(   # type: ignore[misc]
            reading, length, length))
        if own:
            names = name_layers(stack, own) if stack is not None else [f"layer {n}" for n in range(1, len(own) + 1)]
            found += group_tracks(name, own, names, rows="text", columns="text", causal=True)
    found += [back_off(reading, length, place) for place, reading in enumerate(seen.readings)
              if reading.kind == "back-off"]
    strange = [r for r in seen.readings if r.kind in ("weights", "kernel") and not is_map(r, length, length)]
    if strange:
        notes.append(f"{len(strange)} readings of {type(strange[0].layer).__name__} are no maps of {length} by "
                     f"{length} positions, and not shown")
    return found


def back_off(reading: Reading, length: int, place: int) -> Track:
    """The staircase of an n-gram: 1 where a column is in the context of the n-gram that answered."""
    matched = reading.values[0].cpu().numpy()
    details = {name: value[0].cpu().numpy() if isinstance(value, Tensor) else value
               for name, value in reading.about.items()}
    return Track(
        name="back-off", kind="back-off", badge="back-off: length of the n-gram that answered",
        about="Filled: the words before the predicted one that the n-gram which answered was looked up with. One that "
              "was never seen is answered by a shorter one.",
        rows="text", columns="text", shape=(1, 1, length, length), row_label="writes", causal=True,
        layer_names=("n-gram",), head_names=("context",), held=staircase(matched), places=(place,),
        details={"matched": matched, **details})


def share_track(reading: Reading) -> Track:
    """The shares of a mixture: how far the network and the n-gram are believed in each row."""
    shares = reading.values[0].float().cpu().numpy()                                   # (T, parts)
    return Track(
        name="mixture", kind="weights", badge="mixture: share of each part",
        about="How far the network, the n-gram and the cache are believed about the next token; the shares of a row "
              "sum to 1.",
        rows="text", columns=PARTS, shape=(1, 1, *shares.shape), row_label="writes", layer_names=("mixture",),
        head_names=("share",), held=shares[None, None])


def staircase(matched: Any) -> Floats:
    """(1, 1, T, T) from the length (T,) of the n-gram that answered at each row: k words, k - 1 of them its context."""
    at = np.arange(len(matched))
    distance = at[:, None] - at                                                       # (T, T)
    filled = (distance >= 0) & (distance < np.asarray(matched)[:, None] - 1)
    return filled.astype(np.float32)[None, None]


def influences(model: LanguageModel, ids: Tensor, predicted: Sequence[Prediction]) -> list[Track]:
    rows = partial(influence_rows, model, ids, torch.tensor([each.id for each in predicted]))
    return influence_tracks(model, ways_of(model), rows, of="text", on="text", shape=(len(ids), len(ids)), causal=True)
