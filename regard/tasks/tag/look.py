"""A look at a tagger: the tag of each word, what each token has to do with it, and what the encoder reads.

A row of influence is a word with its likeliest tag, a column is a token of the text.   T tokens · W words · L labels
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import isqrt

import torch
from torch import Tensor

from regard.corpora.word_split import split_words
from regard.data.tokens.piece_words import piece_spans, piece_words
from regard.data.tokens.vocabulary import PAD, UNK
from regard.errors import DataError
from regard.look.influence import evaluating
from regard.look.influence_tracks import encoder_tracks
from regard.look.look import Look, LookSide, Prediction, Request, Token
from regard.look.reading_tracks import encoder_maps
from regard.look.side_tokens import character_spans, special_token, text_side
from regard.look.track import Track
from regard.models.label_models import LabelModel
from regard.tasks.lm.look import MOST_NUMBERS
from regard.tasks.tag.trained import Asked, TrainedTagger
from regard.watching import Recorder, watch


def build(trained: TrainedTagger, request: Request) -> Look:
    """Return the look at a text."""
    words, notes = split_words(request.text or ""), list[str]()
    if not words:
        raise DataError("a tagger reads a text: give one of at least one word")
    model, asked = trained.model, fitting(trained, words, notes)
    words = words[:len(asked.places)]
    text = " ".join(words)
    ids = torch.tensor(asked.ids, device=model.device)

    def watched(closely: bool = False) -> Recorder:
        with torch.no_grad(), evaluating(model), watch(closely) as seen:
            model.encode(ids[None])
        return seen

    said = best_tags(trained, words, asked)
    maps = encoder_maps(watched().readings, model.encoder.stack, len(ids))
    sides = {"text": text_side("text", "text", text, text_tokens(trained, text, asked)), "tags": tag_side(said)}
    return Look(request, trained.family, trained.task.name, sides, "tags", said,
                (*influences(model, ids, asked.places, said), *maps), tuple(notes), in_place=True, watched=watched)


def fitting(trained: TrainedTagger, words: Sequence[str], notes: list[str]) -> Asked:
    """Return as many of the first words as are read at once, and as their maps have room for."""
    heads = sum(getattr(module, "heads", 0) for module in trained.model.encoder.stack.modules())
    room = isqrt(MOST_NUMBERS // heads) if heads else trained.context
    first = next(trained.ask(words))
    whole = sum(place < room - 1 for place in first.places)
    if whole < len(words):
        notes.append(f"the text has {len(words):,} words, and {whole:,} are read at once: the first are looked at")
    return first if whole == len(first.places) else trained.encode(words[:whole])


def text_tokens(trained: TrainedTagger, text: str, asked: Asked) -> list[Token]:
    """Return the tokens of the text that are read, each with the number of its word."""
    t = trained.tokenizer.text
    ids = t.encode(text).tolist()
    spans, words = character_spans(text, piece_spans(t, text, ids)), piece_words(t, text, ids, "whitespace")
    found = [Token(id, t.token(id), start, end, word=word)
             for id, (start, end), word in zip(ids, spans, words, strict=True)]
    return [*found, special_token(t, t.eos)][:len(asked.ids)]


@torch.no_grad()
def best_tags(trained: TrainedTagger, words: Sequence[str], asked: Asked) -> tuple[Prediction, ...]:
    """Return the likeliest tag of each word, as word/TAG."""
    return tuple(
        Prediction(label, f"{word}/{trained.tokenizer.labels[label]}", -math.log2(p) + 0.0, p, 1, guess=True)
        for word, (label, p) in zip(words, trained.answer([asked])[0], strict=True))


def tag_side(said: Sequence[Prediction]) -> LookSide:
    """Return the words with their tags as a text."""
    tokens, end = [], -1
    for number, each in enumerate(said):
        start, end = end + 1, end + 1 + len(each.piece)
        tokens.append(Token(each.id, each.piece, start, end, word=number))
    return text_side("tags", "words with their tags", " ".join(each.piece for each in said), tokens)


def influences(model: LabelModel, ids: Tensor, places: Sequence[int], said: Sequence[Prediction]) -> list[Track]:
    """Return the influence of every token on the tag of each word."""
    positions = torch.tensor(places, device=ids.device)
    tags = torch.tensor([each.id + 1 for each in said], device=ids.device)

    def texts(asked: Tensor) -> Tensor:
        return ids.repeat(len(asked), 1)

    def score(rows: Tensor, asked: Tensor) -> Tensor:
        """(n,): the log-probability of the tag of one word of each text."""
        targets = torch.full_like(rows, PAD)
        targets[torch.arange(len(rows)), positions[asked]] = tags[asked]
        return model.score(rows, targets)[0].sum(1)                                    # zero where nothing is asked

    return encoder_tracks(model, model.encoder.embedding, texts, score, blank=UNK, of="tags",
                          shape=(len(said), len(ids)))
