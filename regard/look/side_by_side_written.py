"""Several translators, summarisers or captioners on one source: what each writes, and what the others think of it.

    seen = written_side_by_side({"a": regard.load("runs/a"), "b": regard.load("runs/b")}, "Le chat noir dort.")
    seen.models[0].text, seen.models[0].bits
    seen.models[0].judged                       # bits of what each of the models has written, in the eyes of the first

Each writes its own text by beam search, so that there is no text in common to align. Instead each scores what all of
them have written, with its end: the one that finds its own text likelier than another's is not always the better one.
T target tokens · V vocabulary
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from regard.decoding.beam import BeamOptions, beam_search
from regard.errors import RunError
from regard.look.opening import Opening
from regard.look.side_by_side import Scored, SideBySide, Speller, Written, check_several
from regard.look.side_tokens import written_tokens
from regard.models.distributions import distributions

WIDTH = 5


def written_side_by_side(models: Mapping[str, Any], what: Any, options: BeamOptions | None = None) -> SideBySide:
    """Models by name, on one source: a text, or a picture for captioners."""
    check_several(models)
    if len({type(trained) for trained in models.values()}) > 1 or any(
            trained.task.card.continues for trained in models.values()):
        raise RunError("these runs are of different tasks: compare language models with language models, translators "
                       "with translators")
    options = options or BeamOptions(width=WIDTH)
    openings = {name: trained.open(what) for name, trained in models.items()}
    found = {name: best_pieces(models[name], opening, options) for name, opening in openings.items()}
    texts = ["".join(found[name][0]) for name in openings]
    columns = [replace(own, notes=(*own.notes, *unknown_in(openings[own.id], texts))) for own in (
        column(name, opening, *found[name], options, [judged(opening, text) for text in texts])
        for name, opening in openings.items())]
    return SideBySide("written", next(iter(openings.values())).text, tuple(columns))


def best_pieces(trained: Any, opening: Opening, options: BeamOptions) -> tuple[list[str], tuple[int, ...], bool]:
    """The pieces that a model writes, as in use, their tokens, and whether they came to an end."""
    ((best,),) = beam_search(opening.model, opening.source, limits=[opening.limit], begin=opening.prompt,
                             end=opening.special_tokens.end, options=options, banned=opening.special_tokens.banned)
    return trained.spell(opening, best), best.tokens, best.finished


def column(
    name: str, opening: Opening, pieces: Sequence[str], tokens: Sequence[int], finished: bool, options: BeamOptions,
    others: Sequence[float | None],
) -> Written:
    ids = [*tokens, opening.special_tokens.end] if finished else list(tokens)
    scored = scored_tokens(opening, ids, pieces)
    log_prob = -sum(each.bits for each in scored) * math.log(2)
    notes = opening.notes if finished else (*opening.notes, f"it came to no end within {opening.limit} tokens")
    text, bits = "".join(pieces), -log_prob / math.log(2) + 0.0
    return Written(name, text, scored, bits, len(text), bits / max(1, len(text)), log_prob,
                   options.score(log_prob, len(ids)), finished, tuple(others), notes)


@torch.no_grad()
def scored_tokens(opening: Opening, ids: Sequence[int], pieces: Sequence[str]) -> tuple[Scored, ...]:
    """Each token that was written, its bits, and what was expected there; the end stands for no characters."""
    model, t = opening.model, opening.tokenizer
    assert isinstance(model, nn.Module), "what reads a source is a neural model"
    model.eval()
    read = torch.tensor([*opening.prompt, *ids[:-1]])
    spans = [(each.start, each.end) for each in written_tokens(t, ids[:len(pieces)], pieces)]
    speller = Speller(t)
    tokens: list[Scored] = []
    for part in distributions(model, read, opening.source):
        for log_probs in part:
            id = ids[len(tokens)]
            span = spans[len(tokens)] if len(tokens) < len(spans) else (spans[-1][1] if spans else 0,) * 2
            tokens.append(Scored(t.token(id), *span, -float(log_probs[id]) / math.log(2) + 0.0,
                                 speller.expect(log_probs)))
            speller.read(id)
    return tuple(tokens)


def unknown_in(opening: Opening, texts: Sequence[str]) -> list[str]:
    """A note, where texts have words that this model does not know: it judges them too cheaply."""
    t = opening.tokenizer
    unknown = sum(int((t.encode(text) == t.unk).sum()) for text in texts)
    return [f"{unknown:,} of the tokens it judges are <unk>: their bits say only that a word is unknown, not which"
            ] * bool(unknown)


@torch.no_grad()
def judged(opening: Opening, text: str) -> float | None:
    """The bits of a text with its end, in the eyes of this model; None where it is longer than all it may write."""
    ids = [*opening.tokenizer.encode(text).tolist(), opening.special_tokens.end]
    if len(ids) > opening.limit:
        return None
    tokens = torch.tensor([[*opening.prompt, *ids]], device=opening.model.device)
    scores, _ = opening.model.score(tokens[:, :-1], tokens[:, 1:], opening.model.start(1, None, opening.source))
    return -float(scores.double().sum()) / math.log(2) + 0.0
