"""Gists: stories of the small world, and in one line what each comes down to.

    for pair in pairs(3):
        print(show(pair))

Who it was, what it was about, where, and how it ended are told in different sentences, among other people, things and
places (gist_plots): no sentence says it all, and the first and the last say little. A gist follows from its document:
names and things are taken from there, and how it ended follows from what happened. Each key word of a gist is linked
to the mention that tells it (`alignment`) and to every mention (`mentions`), over `word` tokens.

Three parts share no document, whatever their seeds: `train`, `valid` (a hash of the document decides) and `unseen`,
whose every gist has two key words that never meet in a gist of the other two (a hash of the two words decides).
"""

from __future__ import annotations

import random
import textwrap
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, islice

from regard.corpora.gist_plots import PLOTS
from regard.corpora.story_world import ANIMALS, BOYS, COLOURS, FOODS, GIRLS, PLACES, ROOMS, TOYS, World
from regard.corpora.word_split import split_words
from regard.errors import SettingError, did_you_mean

PARTS = ("train", "valid", "unseen")
VALID = 10                      # one document in so many is held out
UNSEEN = 40                     # one combination in so many
LENGTHS = range(60, 121)        # `word` tokens of a document; a shorter or longer one is drawn again
# What meets freely. A tool follows from what broke, and what to take along from the weather.
OPEN = frozenset((*GIRLS, *BOYS, *COLOURS, *TOYS, *ANIMALS, *PLACES, *ROOMS, *FOODS))

Links = tuple[tuple[int, int], ...]        # (word of the document, word of the gist)


@dataclass(frozen=True)
class Gist:
    """A document, its gist, and which mention tells each key word; `mentions` are all of them."""

    source: str
    target: str
    alignment: Links
    mentions: Links
    length: int                 # tokens of the document

    @property
    def pharaoh(self) -> str:
        """The telling mentions as `0-1`, the others as `5?1`."""
        return " ".join(f"{i}{'-' if (i, j) in self.alignment else '?'}{j}" for i, j in self.mentions)


def pairs(number: int, seed: int = 0, part: str = "train") -> Iterator[Gist]:
    """So many documents of a part with their gists, the same for the same seed."""
    if part not in PARTS:
        raise SettingError(f"gists have no part {part}{did_you_mean(part, PARTS)}")
    return islice(_endless(seed, part), number)


def _endless(seed: int, part: str) -> Iterator[Gist]:
    chance = random.Random(seed)
    known: set[int] = set()
    while True:
        pair = draw(chance)
        key = zlib.crc32(pair.source.encode())
        if part_of(pair) == part and key not in known:
            known.add(key)
            yield pair


def draw(chance: random.Random) -> Gist:
    """Any story and its gist."""
    while True:
        pair = finish(*chance.choice(PLOTS)(World(chance)))
        if pair.length in LENGTHS:
            return pair


def part_of(pair: Gist) -> str:
    """The only part that a document may come in."""
    if any(unseen(*both) for both in combinations(sorted(key_words(pair) & OPEN), 2)):
        return "unseen"
    return "valid" if zlib.crc32(pair.source.encode()) % VALID == 0 else "train"


@cache
def unseen(one: str, other: str) -> bool:
    """True if these two words, in the order of the alphabet, are kept apart in the gists of `train` and `valid`."""
    return zlib.crc32(f"{one} {other}".encode()) % UNSEEN == 0


def key_words(pair: Gist) -> set[str]:
    """The words that a gist took from its document."""
    words = split_words(pair.target)
    return {words[j].removesuffix("'s") for _, j in pair.alignment}


def finish(sentences: list[str], gist: str) -> Gist:
    """Document and gist without their marks, and the links between their tokens."""
    text = " ".join(sentences)
    document, told = _unmarked(text)
    target, keys = _unmarked(gist)
    links, mentions = [], []
    for j in keys:
        word = target[j].removesuffix("'s")
        (telling,) = (i for i in told if document[i] == word)
        links.append((telling, j))
        mentions += [(i, j) for i, each in enumerate(document) if each == word]
    return Gist(_plain(text), _plain(gist), tuple(sorted(links)), tuple(sorted(mentions)), len(document))


def _unmarked(text: str) -> tuple[list[str], list[int]]:
    """The tokens without brackets, and the places of those that stood in them."""
    tokens: list[str] = []
    marked = []
    for token in split_words(text):
        if token == "[":
            marked.append(len(tokens))
        elif token != "]":
            tokens.append(token)
    return tokens, marked


def _plain(text: str) -> str:
    return text.replace("[", "").replace("]", "")


def show(pair: Gist) -> str:
    """The document in lines of a hundred characters, the gist, and the number of the word each key word is from."""
    target = split_words(pair.target)
    links = "  ".join(f"{target[j]} {i}" for i, j in sorted(pair.alignment, key=lambda link: link[1]))
    return "\n".join([*textwrap.wrap(pair.source, 100), f"    {pair.target}", f"    {links}"])
