"""Tagged: English sentences with the part of speech of each word. Many words have more than one.

    for sentence in sentences(3):
        print(show(sentence))                # Her/DET watch/NOUN is/AUX light/ADJ ./PUNCT

The sentences come from a grammar (tagged_grammar), so that the words around a word decide its tag: `her` is a DET
before a noun and else a PRON, `that` a DET, PRON or SCONJ, `light` an ADJ, NOUN or VERB. The tags are those of
Universal Dependencies, but possessives are DET.

Three parts share no sentence, whatever their seeds: `train`, `valid` and `test` (a hash of the line decides). Some
words are in `valid` alone and some in `test` alone (a hash of the word decides): these are never seen in training.
Each sentence comes once.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise

from regard.corpora.tagged_grammar import Grammar, Tagged, read_words
from regard.errors import SettingError, did_you_mean

PARTS = ("train", "valid", "test")
HELD_OUT = 5                    # one line in so many is for `valid`, another for `test`
HELD_WORDS = 12                 # one word in so many is in `valid` alone, another in `test` alone
LONGEST = 20                    # words; a longer sentence is drawn again


@dataclass(frozen=True)
class TaggedSentence:
    """The words of a sentence, and the tag of each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(self.words)


def sentences(number: int, seed: int = 0, part: str = "train") -> Iterator[TaggedSentence]:
    """So many sentences of a part, the same for the same seed."""
    if part not in PARTS:
        raise SettingError(f"tagged has no part {part}{did_you_mean(part, PARTS)}")
    return islice(_endless(seed, part), number)


def _endless(seed: int, part: str) -> Iterator[TaggedSentence]:
    chance, grammar = random.Random(seed), grammar_of(part)
    known: set[str] = set()
    while True:
        drawn = grammar.draw(chance)
        if len(drawn) > LONGEST:
            continue
        sentence = finish(drawn)
        if sentence.text in known or part_of_line(sentence.text) != part:
            continue
        known.add(sentence.text)
        yield sentence


@cache
def grammar_of(part: str) -> Grammar:
    """The grammar with the words of a part."""
    return Grammar(read_words(lambda word: part_of_word(word) in ("every", part)))


def part_of_line(text: str) -> str:
    """The one part that may have this line."""
    return {0: "valid", 1: "test"}.get(zlib.crc32(text.encode()) % HELD_OUT, "train")


def part_of_word(word: str) -> str:
    """`every`, or the one part that may have this word."""
    return {5: "valid", 6: "test"}.get(zlib.crc32(word.encode()) % HELD_WORDS, "every")


def finish(drawn: list[Tagged]) -> TaggedSentence:
    """The sentence as it is written: `an` before a vowel, `I`, and a capital at the beginning."""
    words = [word for word, _ in drawn]
    for at, (word, following) in enumerate(pairwise(words)):
        if word == "a" and following[0] in "aeiou" and following != "one":
            words[at] = "an"
    words = ["I" if word == "i" else word for word in words]
    words[0] = words[0][0].upper() + words[0][1:]
    return TaggedSentence(tuple(words), tuple(tag for _, tag in drawn))


def show(sentence: TaggedSentence) -> str:
    """The sentence as word/TAG, for people to read."""
    return " ".join(f"{word}/{tag}" for word, tag in zip(sentence.words, sentence.tags, strict=True))
