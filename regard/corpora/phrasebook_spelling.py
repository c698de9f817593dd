"""The spelling of words beside their neighbours: elision (l'homme), contraction (du, aux), a and an."""

from __future__ import annotations

from regard.corpora.phrasebook_grammar import English, Word
from regard.corpora.phrasebook_words import before_vowel

ELIDED = {"le": "l'", "la": "l'", "je": "j'", "ne": "n'", "de": "d'", "que": "qu'", "me": "m'", "te": "t'"}
CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
JOINING = frozenset({*ELIDED, "à", "si"})


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
