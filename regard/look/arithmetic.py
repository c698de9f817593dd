"""The arithmetic behind one cell of a map, with the model's own numbers, whatever the kind of map.

    seen = look(model, "the cat sat")
    told = arithmetic(model, seen, "self", layer=1, head=2, row=3, column=1)
    told.quantities["alpha"].values              # what row 3 reads of every column
    arithmetic(model, seen, "self", 1, 2, 3, 1, scores=[0, 0, 5, 0]).next      # what would be said, had it read so

Layers, heads and channels are counted from 1, rows and columns from 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import SettingError
from regard.look.arithmetic_attention import attention_sheet, score_name
from regard.look.arithmetic_backoff import backoff_sheet
from regard.look.arithmetic_influence import influence_sheet
from regard.look.arithmetic_kernel import kernel_sheet
from regard.look.arithmetic_sheet import Sheet
from regard.look.influence import evaluating
from regard.look.look import Look, LookSide
from regard.look.predictions import name_token
from regard.look.track import Track
from regard.models.ngram.counting import UNPREDICTED
from regard.watching import Edit, Reading, editing

BARS = 12                            # of next tokens


@dataclass(frozen=True)
class TokenChange:
    """The probability of one token as the next, as it is and with edited scores."""

    id: int
    piece: str
    before: float
    after: float | None


@dataclass(frozen=True)
class RestChange:
    """The probability of all other tokens together."""

    before: float
    after: float | None


@dataclass(frozen=True)
class NextTokens:
    """The likeliest next tokens of a row that predicts, as it is and with edited scores."""

    row: int
    after: str                       # the token that the row stands at
    in_place: bool                   # it predicts that very token, which is hidden
    tokens: tuple[TokenChange, ...]
    rest: RestChange
    moved: float | None              # half of the summed differences; None where nothing was edited


@dataclass(kw_only=True)
class Arithmetic(Sheet):
    """The sheet of one cell, to be read step by step and done again; and what its names stand for."""

    kind: str                        # attention · kernel · back-off · influence
    about: str                       # which score, which family of kernel: a few words
    names: dict[str, list[str]]      # what the entries of a quantity are called, by what they are over
    column: int                      # of the selected entry among "columns"
    next: NextTokens | None = None
    channels: tuple[int, int] | None = None      # those of the group, from 1: the first and the last
    channel: int | None = None                   # the one that is worked out by itself
    edited: dict[str, list[float]] = field(default_factory=dict)       # weights and output of the row, run again

    @classmethod
    def of(cls, kind: str, about: str, sheet: Sheet, names: dict[str, list[str]], column: int) -> Arithmetic:
        return cls(quantities=sheet.quantities, steps=sheet.steps, kind=kind, about=about, names=names, column=column)


def arithmetic(
    trained: Any, look: Look, track: Track | str, layer: int, head: int, row: int, column: int,
    scores: Sequence[float | None] | None = None, channel: int | None = None,
) -> Arithmetic:
    """The arithmetic of one cell. `scores` (None for -inf) stand in the place of the row's own, and the model is
    run again with them; `channel` is the one of a kernel's group that is shown by itself."""
    track = look.track(track) if isinstance(track, str) else track
    check_cell(track, layer, head, row, column)
    if scores is not None and track.kind != "weights":
        raise SettingError(f"scores can be edited of attention only, and {track.name} is {track.kind}: leave them out")
    if track.kind == "weights" and not track.places:
        raise SettingError(f"{track.name} is no attention, and its arithmetic is not shown: choose another map")
    if track.kind == "influence":
        return Arithmetic.of("influence", track.badge, influence_sheet(trained, look, track, row, column),
                          {"columns": pieces(look, track.columns)}, column)
    if track.kind == "back-off":
        return of_counts(trained, look, track, row, column)
    if track.kind == "kernel":
        return of_kernel(look, track, layer, head, row, column, channel)
    return of_attention(trained, look, track, layer, head, row, column, scores)


def check_cell(track: Track, layer: int, head: int, row: int, column: int) -> None:
    for name, value, first, count in (("layer", layer, 1, track.shape[0]), ("head", head, 1, track.shape[1]),
                                      ("row", row, 0, track.shape[2]), ("column", column, 0, track.shape[3])):
        if not first <= value < first + count:
            raise SettingError(f"{name} = {value}: {track.name} has {count}, counted from {first}")


def pieces(look: Look, side: str) -> list[str]:
    return [token.piece for token in look.sides[side].tokens]


def read_again(look: Look, track: Track, layer: int) -> Reading:
    """The reading of a layer, as the run that made the look is done once more, watched closely."""
    return look.watched(closely=True).readings[track.places[layer - 1]]


# ----------------------------------------------------------------------------------------------- by kind


def of_counts(trained: Any, look: Look, track: Track, row: int, column: int) -> Arithmetic:
    details, model = track.details, trained.model
    own = {name: details[name][row] for name in ("count", "total", "discount", "weight", "share", "rest")}
    sheet = backoff_sheet(own, smoothing=str(details["smoothing"]), words=model.vocab - UNPREDICTED,
                          p=math.exp(float(details["log_prob"][row])), k=getattr(model, "ngram", model).k)
    named = [f"{k}: {context(look.sides[track.columns], row, k - 1)}" for k in range(1, int(details["order"]) + 1)]
    return Arithmetic.of("back-off", f"{details['smoothing']}, order {details['order']}", sheet,
                      {"columns": pieces(look, track.columns), "orders": named}, column)


def context(side: LookSide, row: int, length: int) -> str:
    """The last so many tokens up to a row, as they stand in the text."""
    tokens = side.tokens[max(0, row + 1 - length):row + 1] if length else ()
    words = [token for token in tokens if not token.special]
    text = side.text[words[0].start:words[-1].end] if words else ""
    marks = [token.piece for token in tokens if token.special]
    return " ".join([*marks, *([text] if text else [])]) + " …" if tokens else "no context"


def of_kernel(
    look: Look, track: Track, layer: int, head: int, row: int, column: int, channel: int | None
) -> Arithmetic:
    reading = read_again(look, track, layer)
    with torch.no_grad():
        sheet = kernel_sheet(reading, head - 1, row, column, None if channel is None else channel - 1)
    told = Arithmetic.of("kernel", str(reading.about["of"]), sheet, {"columns": pieces(look, track.columns)}, column)
    if "groups" in reading.about:
        first, last = reading.about["groups"][head - 1]
        told.channels, told.channel = (first + 1, last), first + 1 if channel is None else channel
        told.names["group"] = [f"{reading.about['unit']} {each}" for each in range(first + 1, last + 1)]
    return told


def of_attention(
    trained: Any, look: Look, track: Track, layer: int, head: int, row: int, column: int,
    scores: Sequence[float | None] | None,
) -> Arithmetic:
    """`offset`: of a model that reads source and target as one text, a row of the target stands further on."""
    offset = int(track.details.get("offset", 0))
    model = trained.model
    with final_vectors(model) as before:
        reading = read_again(look, track, layer)
    with torch.no_grad():
        sheet = attention_sheet(reading, head - 1, row + offset, column)
    columns = pieces(look, "text" if offset else track.columns)
    result = Arithmetic.of("attention", score_name(reading.about["score"]), sheet, {"columns": columns}, column)
    after = None
    if scores is not None:
        edit = Edit(reading.layer, head - 1, row + offset, edited_scores(sheet, scores))
        with editing(edit), final_vectors(model) as changed:
            again = read_again(look, track, layer)
        after = changed[-1]
        result.edited = {"alpha": again.values[0, head - 1, row + offset].tolist(),
                         "output": again.about["output"][0, head - 1, row + offset].tolist()}
    result.next = next_tokens(trained, look, track, row, before[-1], after)
    return result


# ------------------------------------------------------------------------------------------ edited scores


def edited_scores(sheet: Sheet, scores: Sequence[float | None]) -> Tensor:
    """(S,): as they were given, -inf for None; what is masked stays masked."""
    before = torch.from_numpy(sheet.quantities["e"].values.copy())
    if len(scores) != len(before):
        raise SettingError(f"{len(scores)} scores were given for a row of {len(before)}: give one for each column")
    new = torch.tensor([-math.inf if each is None else each for each in scores], dtype=before.dtype)
    if bool(new.isnan().any()) or bool((new == math.inf).any()):
        raise SettingError("scores must be numbers, or null where nothing is to be read")
    if bool((new.isfinite() & ~before.isfinite()).any()):
        raise SettingError("a masked column was given a score: what the mask hides cannot be read")
    return new


@contextmanager
def final_vectors(model: Any) -> Iterator[list[Tensor]]:
    """The vector of each row before the prediction, (R, D), of whatever is run inside; nothing is changed by it."""
    outputs: list[Tensor] = []

    def keep(_module: nn.Module, _inputs: object, output: Any) -> None:
        vectors = output if isinstance(output, Tensor) else output.vectors
        outputs.append(vectors.detach()[0])

    handle = model.get_submodule(model.vectors_from).register_forward_hook(keep)
    try:
        yield outputs
    finally:
        handle.remove()


@torch.no_grad()
def next_tokens(
    trained: Any, look: Look, track: Track, row: int, before: Tensor, after: Tensor | None
) -> NextTokens:
    """The likeliest tokens of a row that predicts, with their probabilities as it is and after an edit."""
    model = trained.model
    with evaluating(model):
        predicting = row_that_says(look, track, row, model, before, after)
        now = model.head(before[predicting]).exp()
        new = None if after is None else model.head(after[predicting]).exp()
    most = now if new is None else torch.maximum(now, new)
    best = most.topk(min(BARS, len(most))).indices.tolist()
    tokenizer = trained.writes
    tokens = tuple(TokenChange(id, name_token(tokenizer, id), float(now[id]), None if new is None else float(new[id]))
                   for id in best)
    rest = RestChange(max(0.0, 1 - float(now[best].double().sum())),
                      None if new is None else max(0.0, 1 - float(new[best].double().sum())))
    moved = None if new is None else float((now - new).abs().double().sum() / 2)
    return NextTokens(predicting, pieces(look, look.written)[predicting], look.in_place, tokens, rest, moved)


def row_that_says(
    look: Look, track: Track, row: int, model: Any, before: Tensor, after: Tensor | None
) -> int:
    """The row of the written side to show: the selected one, or, of a source, the one that an edit moves the most."""
    if track.rows == look.written:
        return row
    first = len(look.sides[track.rows].tokens) - len(before)     # of one text of both, the target is the end
    if track.rows == "text" and first >= 0 and row >= first:
        return row - first
    if after is None:
        return len(before) - 1
    moved = [float((model.head(a).exp() - model.head(b).exp()).abs().sum()) for a, b in zip(before, after, strict=True)]
    return max(range(len(moved)), key=moved.__getitem__)
