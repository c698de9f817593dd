"""Which language a text is in, among those of the translators that are served.

Each language has a small model of its words, made of some that are known to belong to it: the vocabularies of
translators whose two sides have one each (the frequent words counting more), and a few dozen of the commonest words of
some languages, below. A word that is not known is judged by its characters. Against them stands a model that knows no
language at all: any letter is as likely as any other. The confidence is the posterior probability, each language and
the stranger being equally likely at first, of the evidence at a part of its weight: the words of a text are far from
independent, and a model that took them so would always be certain.

What it cannot do: tell a language that no translator reads or writes. Such a text has the confidence of the nearest
one, lowered by the stranger.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek",
    "en": "English", "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish",
    "fr": "French", "ga": "Irish", "gl": "Galician", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian",
    "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese", "ko": "Korean", "lt": "Lithuanian",
    "lv": "Latvian", "nb": "Norwegian Bokmål", "nl": "Dutch", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian",
    "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sr": "Serbian", "sv": "Swedish", "tr": "Turkish",
    "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}

COMMON = {
    "de": "der die das und ist in den von zu mit sich auf für nicht ein eine als auch es an werden aus er hat dass "
          "sie nach wird bei einer um am sind noch wie einem über einen so zum haben nur oder aber vor zur bis mehr "
          "durch man sein wurde wenn ich wir ihr mein kann schon was hier dieser",
    "en": "the of and to in is that it was for on are as with his they at be this have from or one had by but not "
          "what all were we when your can said there use an each which she do how their if will up other about out "
          "many then them these so some her would make like him into time has look two more go see no way could my "
          "than",
    "es": "de la que el en y a los se del las un por con no una su para es al lo como más o pero sus le ha me si "
          "sin sobre este ya entre cuando todo esta ser son dos también fue había era muy años hasta desde está mi "
          "porque qué sólo han yo hay vez puede todos así nos ni parte tiene él uno donde bien tiempo",
    "fr": "le la les de des du un une et est à il elle que qui ne pas dans pour sur avec ce se au je tu nous vous "
          "ils elles son sa ses mon ma mes par plus mais ou où comme tout fait être avoir cette ces aux même leur "
          "si bien sont était très peut sans deux aussi donc quand chez c'est n'est d'un l'homme qu'il j'ai",
    "it": "di che è e la il un a per in una mi sono ho non ma lo ha le si ti i con cosa se io come da ci no questo "
          "qui hai sei del bene tu sì me più al mio perché lei solo te era gli tutto della così mia ne questa fare "
          "quando ora fatto essere so mai chi o alla tutti molto anche detto quello va niente grazie dove",
    "nl": "de het een van en in is dat op te zijn met voor niet aan er om ook als dan maar bij nog uit ze naar "
          "heeft door wordt hij over werd tot ik deze geen worden was je we wat die had haar kan meer moet zo waar "
          "wel heb hun mijn zou nu hebben tegen na onder veel goed",
    "pt": "de a o que e do da em um para é com não uma os no se na por mais as dos como mas foi ao ele das tem à "
          "seu sua ou ser quando muito há nos já está eu também só pelo pela até isso ela entre era depois sem "
          "mesmo aos ter seus quem nas me esse eles estão você tinha foram",
}

FLOOR = 0.02                   # of the share of a character that the model never saw in its place
WEIGHT = 0.3                   # of the evidence
LETTERS = 60                   # equally likely ones, to the stranger
LONGEST, LONGEST_WORD = 1000, 40   # characters that are looked at: more say nothing new


class Words:
    """P(word): half by how frequent it is among the known, half by its characters, each given the two before it."""

    def __init__(self, known: Mapping[str, float]):
        self.shares: dict[str, float] = {}
        for word, weight in known.items():
            for part in plain(word).split():
                self.shares[part] = self.shares.get(part, 0.0) + weight
        self.total = sum(self.shares.values())
        self.counts: tuple[dict[str, float], ...] = ({}, {}, {})
        self.totals: tuple[dict[str, float], ...] = ({}, {}, {})
        for word, weight in self.shares.items():
            self._count(f" {word} ", weight)

    def _count(self, text: str, weight: float) -> None:
        for at in range(1, len(text)):
            for order in range(min(3, at + 1)):
                gram, before = text[at - order:at + 1], text[at - order:at]
                self.counts[order][gram] = self.counts[order].get(gram, 0.0) + weight
                self.totals[order][before] = self.totals[order].get(before, 0.0) + weight

    def log_prob(self, words: Iterable[str]) -> float:
        return sum(math.log(0.5 * self.shares.get(word, 0.0) / self.total + 0.5 * self.spelled(f" {word} "))
                   for word in words)

    def spelled(self, text: str) -> float:
        """The product over the characters but the first."""
        return math.prod(self.share(text[max(0, at - 2):at], text[at]) for at in range(1, len(text)))

    def share(self, before: str, character: str) -> float:
        """Of this character after these, interpolated with what fewer of them say."""
        found = FLOOR / LETTERS
        for order in range(len(before) + 1):
            context = before[len(before) - order:]
            total = self.totals[order].get(context, 0.0)
            trust = total / (total + 0.01 * self.total)
            if total:
                found = (1 - trust) * found + trust * self.counts[order].get(context + character, 0.0) / total
        return max(found, FLOOR / LETTERS)


def plain(text: str) -> str:
    """Lower case, letters and apostrophes; anything else is one space."""
    folded = unicodedata.normalize("NFC", text.lower()).replace("’", "'")
    return " ".join("".join(c if c.isalpha() or c == "'" or unicodedata.combining(c) else " " for c in folded).split())


def weighted(words: Iterable[str]) -> dict[str, float]:
    """Words in the order of how frequent they are: the k-th has a share of about 1 / k."""
    return {word: 1.0 / (10 + rank) for rank, word in enumerate(words) if plain(word)}


class Detector:
    """Tells the languages apart of which it is given words, by code."""

    def __init__(self, words: Mapping[str, Sequence[str]]):
        self.models = {}
        for code in sorted(words):
            known = weighted(words[code])
            for word, weight in weighted(COMMON.get(code, "").split()).items():
                known[word] = known.get(word, 0.0) + weight
            if known:
                self.models[code] = Words(known)

    def detect(self, text: str) -> list[tuple[str, float]]:
        """The languages, likeliest first, each with a confidence from 0 to 1; what is left is no language it knows."""
        words = [word[:LONGEST_WORD] for word in plain(text[:LONGEST]).split()]
        if not words:
            return [(code, 0.0) for code in self.models]
        logs = {code: WEIGHT * model.log_prob(words) for code, model in self.models.items()}
        stranger = -WEIGHT * math.log(LETTERS) * sum(len(word) + 1 for word in words)
        top = max([stranger, *logs.values()])
        total = sum(math.exp(value - top) for value in (stranger, *logs.values()))
        found = [(code, math.exp(value - top) / total) for code, value in logs.items()]
        return sorted(found, key=lambda each: -each[1])
