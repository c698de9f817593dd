"""The phrasebook: French and English sentences that say the same, and which word says which.

    for pair in pairs(3):
        print(show(pair))

The sentences come from a grammar (phrasebook_grammar, phrasebook_draft, phrasebook_sentences) and a lexicon
(phrasebook_words, phrasebook_verbs). Three parts share no sentence, whatever their seeds: `train`, `valid` (a
hash of the French line decides) and `unseen`, whose every sentence has an adjective with a noun, or a verb with an
object, that never meet in the other two (a hash of the two words decides). Each sentence comes once.

No space stands before a French question mark, as in Canada, so that the `word` tokenizer puts lines back as they were.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice

from regard.corpora.phrasebook_draft import SentenceDraft
from regard.corpora.phrasebook_grammar import English, Phrase, Word, word
from regard.corpora.phrasebook_sentences import FORMS
from regard.corpora.phrasebook_words import before_vowel
from regard.corpora.word_split import split_words
from regard.errors import SettingError, did_you_mean

PARTS = ("train", "valid", "unseen")
VALID = 10                      # one line in so many is held out
UNSEEN = 25                     # one combination in so many
LONGEST = 25                    # French words; a longer sentence is drawn again

# Words beside their neighbours: elision (l'homme) and contraction (du, aux).
ELIDED = {"le": "l'", "la": "l'", "je": "j'", "ne": "n'", "de": "d'", "que": "qu'", "me": "m'", "te": "t'"}
CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
JOINING = frozenset({*ELIDED, "à", "si"})


@dataclass(frozen=True)
class PhrasePair:
    """A French line, the same in English, and (French word, English word) links over their `word` tokens."""

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]

    @property
    def pharaoh(self) -> str:
        """The alignment as `0-0 1-2 2-1`."""
        return " ".join(f"{i}-{j}" for i, j in self.alignment)


def pairs(number: int, seed: int = 0, part: str = "train") -> Iterator[PhrasePair]:
    """So many pairs of a part, the same for the same seed."""
    if part not in PARTS:
        raise SettingError(f"the phrasebook has no part {part}{did_you_mean(part, PARTS)}")
    return islice(_endless(seed, part), number)


def _endless(seed: int, part: str) -> Iterator[PhrasePair]:
    chance = random.Random(seed)
    known: set[int] = set()
    while True:
        draft = SentenceDraft(chance)
        form, mark = draft.pick(FORMS)
        said = form(draft)
        if any(unseen(*both) for both in draft.combinations) != (part == "unseen") or len(said.fr) > LONGEST:
            continue
        pair = finish(said, mark)
        key = zlib.crc32(pair.source.encode())
        if key in known or (part != "unseen" and (key % VALID == 0) != (part == "valid")):
            continue
        known.add(key)
        yield pair


@cache
def unseen(one: str, other: str) -> bool:
    """True if these two words are kept apart in `train` and `valid`."""
    return zlib.crc32(f"{one} {other}".encode()) % UNSEEN == 0


def finish(said: Phrase, mark: str = ".") -> PhrasePair:
    """The two lines with their capitals and marks, and the links between their tokens."""
    said = said + word(mark, mark)
    french, english = french_tokens(said.fr), english_tokens(said.en)
    links = {(each.at, at) for at, (_, by) in enumerate(said.en) for each in by}
    return PhrasePair(_line(french), _line(english), tuple(sorted(links)))


def _line(tokens: list[str]) -> str:
    tokens[0] = tokens[0][0].upper() + tokens[0][1:]
    text = " ".join(tokens[:-1]) + tokens[-1]
    return text.replace(" - ", "-").replace(" ,", ",")


def french_tokens(words: list[Word]) -> list[str]:
    """Elides and contracts, from right to left (de + le + homme is de l'homme), and gives each word its token."""
    tokens: list[str] = []
    for each in reversed(words):
        joined = tokens and each.text in JOINING and _join(each.text, tokens[-1])
        if joined:
            tokens[-1] = joined
        else:
            tokens.append(each.text)
        each.at = len(tokens)                    # counted from the right, for now
    for each in words:
        each.at = len(tokens) - each.at
    return tokens[::-1]


def _join(left: str, right: str) -> str:
    """The one token that two words make, or nothing."""
    if left in ELIDED:
        if before_vowel(right):
            return ELIDED[left] + right
        return CONTRACTED.get((left, right), "")
    if left == "à":
        return CONTRACTED.get((left, right), "")
    return f"s'{right}" if left == "si" and right in ("il", "ils") else ""


def english_tokens(words: list[English]) -> list[str]:
    """`a` becomes `an` before a vowel that is heard."""
    tokens = [text for text, _ in words]
    for at, text in enumerate(tokens[:-1]):
        if text == "a" and tokens[at + 1][0] in "aeiou":
            tokens[at] = "an"
    return tokens


def show(pair: PhrasePair) -> str:
    """Both lines, then each French word above the English it says: `·` for none, the#2 for the second `the`."""
    french, english = split_words(pair.source), _numbered(split_words(pair.target))
    says = ["+".join(english[j] for i, j in pair.alignment if i == at) or "·" for at in range(len(french))]
    rows = [pair.source, pair.target]
    for columns in _wrapped(list(zip(french, says, strict=True))):
        widths = [max(map(len, column)) for column in columns]
        for row in zip(*columns, strict=True):
            cells = (f"{text:<{width}}" for text, width in zip(row, widths, strict=True))
            rows.append("    " + "  ".join(cells).rstrip())
    return "\n".join(rows)


def _numbered(words: list[str]) -> list[str]:
    """the, dog, the#2: no two alike."""
    return [word if word not in words[:at] else f"{word}#{words[:at].count(word) + 1}" for at, word in enumerate(words)]


def _wrapped(columns: list[tuple[str, str]], width: int = 90) -> Iterator[list[tuple[str, str]]]:
    """The columns in blocks that fit a terminal."""
    block: list[tuple[str, str]] = []
    filled = 0
    for column in columns:
        wide = max(map(len, column)) + 2
        if block and filled + wide > width:
            yield block
            block, filled = [], 0
        block.append(column)
        filled += wide
    yield block
