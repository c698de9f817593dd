"""A trained tagger, ready to use: it gives each word of a text its tag.

    model = regard.load("runs/tagged-tag-lstm")
    for word, tag, probability in model.tag("Her watch is light."):
        print(f"{word}/{tag}", probability)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from regard.corpora.word_split import split_words
from regard.data.labels.labelled_tokenizer import LabelledTokenizer
from regard.data.labels.tagged_sentences import asking_tokens
from regard.decoding.stream import padded
from regard.errors import DataError
from regard.laws.answer_laws import LabelReader
from regard.laws.check import Report
from regard.models.label_models import TokenLabelModel
from regard.tasks.laws import check_with_encoder
from regard.tasks.trained_model import TrainedModel, batch_by_length

BATCH = 64                     # rows of tokens read at once


class TaggedWord(NamedTuple):
    """A word, its likeliest tag, and how likely that is."""

    word: str
    tag: str
    probability: float


class Asked(NamedTuple):
    """Words that are read together: their tokens, and the place at which the tag of each is asked for."""

    ids: list[int]
    places: list[int]


@dataclass
class TrainedTagger(TrainedModel):
    """A tagger with everything needed to use it on text."""

    model: TokenLabelModel
    tokenizer: LabelledTokenizer

    def check_laws(self) -> Report:
        """Try the laws of label models, and those of its encoder."""
        return check_with_encoder(LabelReader, self.model)

    def tag(self, text: str | Sequence[str]) -> list[TaggedWord]:
        """Return the words of a text with their tags. A string is split into words and marks, a list is not."""
        return self.tag_sentences([split_words(text) if isinstance(text, str) else text])[0]

    def tag_sentences(self, sentences: Sequence[Sequence[str]]) -> list[list[TaggedWord]]:
        """Return each sentence's words with their tags; many are read at once, which changes no tag."""
        asked = [(number, part) for number, words in enumerate(sentences) for part in self.ask(words)]
        answers: list[list[tuple[int, float]]] = [[] for _ in asked]
        for some in batch_by_length([part.ids for _, part in asked], BATCH):
            for at, own in zip(some, self.answer([asked[at][1] for at in some]), strict=True):
                answers[at] = own
        tags: list[list[tuple[int, float]]] = [[] for _ in sentences]
        for (number, _), own in zip(asked, answers, strict=True):
            tags[number] += own
        return [[TaggedWord(word, self.tokenizer.labels[label], p) for word, (label, p) in zip(words, own, strict=True)]
                for words, own in zip(sentences, tags, strict=True)]

    @torch.no_grad()
    def answer(self, asked: Sequence[Asked]) -> list[list[tuple[int, float]]]:
        """Return the likeliest label of each word that is asked about, and its probability."""
        tokens, lengths = padded([part.ids for part in asked], self.model.device)
        best, labels = self.model.eval().predict(tokens, lengths).exp().max(-1)                  # (B, T)
        return [list(zip(labels[row, part.places].tolist(), best[row, part.places].tolist(), strict=True))
                for row, part in enumerate(asked)]

    def ask(self, words: Sequence[str]) -> Iterator[Asked]:
        """Yield the words in parts that the model reads at once, <eos> behind each; a sentence mostly is one part."""
        for word in words:
            if not isinstance(word, str) or word.split() != [word]:
                raise DataError(f"{word!r} is no word: give words without white space in them")
        while words:
            places = self.encode(words[:self.context]).places
            whole = sum(place < self.context - 1 for place in places)                            # <eos> has room, too
            part, words = words[:max(1, whole)], words[max(1, whole):]
            yield self.encode(part)

    def encode(self, words: Sequence[str]) -> Asked:
        """Return the tokens of these words as they were read in training; of a word that is too long by itself, those
        that fit."""
        text = " ".join(words)
        ids = self.tokenizer.text.encode(text).tolist()
        places = asking_tokens(self.tokenizer.text, text, ids)
        ids = [*ids, self.tokenizer.eos][:self.context]
        return Asked(ids, [min(place, len(ids) - 1) for place in places])
