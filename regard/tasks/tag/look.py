"""A look at a tagger: the tag of each word, what each token has to do with it, and what the encoder reads.

A row of influence is a word with its likeliest tag, a column is a token of the text.   T tokens · W words · L labels
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.corpora.word_split import split_words
from regard.data.tokens.vocabulary import PAD
from regard.errors import DataError
from regard.look.look import Look, Prediction, Request, Token
from regard.look.side_tokens import read_tokens, special_token, text_side, word_side
from regard.look.track import Track
from regard.models.label_models import LabelModel
from regard.tasks.encoder_look import find_room, label_influences, make_look
from regard.tasks.tag.trained import Asked, TrainedTagger


def build(trained: TrainedTagger, request: Request) -> Look:
    """Return the look at a text."""
    words, notes = split_words(request.text or ""), list[str]()
    if not words:
        raise DataError("a tagger reads a text: give one of at least one word")
    model, asked = trained.model, fitting(trained, words, notes)
    words = words[:len(asked.places)]
    text = " ".join(words)
    ids = torch.tensor(asked.ids, device=model.device)

    predictions = best_tags(trained, words, asked)
    sides = {"text": text_side("text", "text", text, text_tokens(trained, text, asked)),
             "tags": word_side("tags", "words with their tags", [(each.id, each.piece) for each in predictions])}
    return make_look(trained, request, ids, sides, predictions, notes,
                     before=influences(model, ids, asked.places, predictions))


def fitting(trained: TrainedTagger, words: Sequence[str], notes: list[str]) -> Asked:
    """Return as many of the first words as are read at once, and as their maps have room for."""
    room = find_room(trained.model, trained.context)
    first = next(trained.ask(words))
    whole = sum(place < room - 1 for place in first.places)
    if whole < len(words):
        notes.append(f"the text has {len(words):,} words, and {whole:,} are read at once: the first are looked at")
    return first if whole == len(first.places) else trained.encode(words[:whole])


def text_tokens(trained: TrainedTagger, text: str, asked: Asked) -> list[Token]:
    """Return the tokens of the text that are read, each with the number of its word."""
    t = trained.tokenizer.text
    tokens = read_tokens(t, text, t.encode(text).tolist(), "whitespace")
    return [*tokens, special_token(t, t.eos)][:len(asked.ids)]


@torch.no_grad()
def best_tags(trained: TrainedTagger, words: Sequence[str], asked: Asked) -> tuple[Prediction, ...]:
    """Return the likeliest tag of each word, as word/TAG."""
    return tuple(
        Prediction(label, f"{word}/{trained.tokenizer.labels[label]}", -math.log2(p) + 0.0, p, 1, guess=True)
        for word, (label, p) in zip(words, trained.answer([asked])[0], strict=True))


def influences(model: LabelModel, ids: Tensor, places: Sequence[int], predictions: Sequence[Prediction]) -> list[Track]:
    """Return the influence of every token on the tag of each word."""
    positions = torch.tensor(places, device=ids.device)
    tags = torch.tensor([each.id + 1 for each in predictions], device=ids.device)

    def ask(texts: Tensor, asked: Tensor) -> Tensor:
        targets = torch.full_like(texts, PAD)
        targets[torch.arange(len(texts)), positions[asked]] = tags[asked]
        return targets

    return label_influences(model, ids, ask, of="tags", rows=len(predictions))
