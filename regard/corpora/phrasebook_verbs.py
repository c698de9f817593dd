"""The verbs of the phrasebook: how they are conjugated in both languages, and who does them to what.

Four tenses. The present is the English simple present; the passé composé, and the imparfait of a state, are the
simple past; the imparfait of an action is `was eating`; the futur proche is `is going to eat`. The verbs stand in
phrasebook_verbs.tsv: `forms` are the present and the participle of an irregular one; English is `eat ate`, `wait for`
or `like` (a regular past is made); `also` names what else is so of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from regard.corpora.phrasebook_words import Noun, pool


@dataclass(frozen=True)
class Verb:
    """A verb of both languages. `person` numbers je, tu, il, nous, vous, ils from 0."""

    french: str                            # the infinitive
    present: tuple[str, ...]               # six forms
    participle: str
    english: str                           # `wait`
    particle: str                          # `for`, or nothing
    past: str
    ing: str = ""                          # given where the imparfait of an action is used
    by_being: bool = False                 # être in the passé composé
    animals: bool = False                  # animals do it too
    objects: tuple[Noun, ...] = field(default=(), repr=False)
    it: str = ""                           # what le is: `it`, `him`, or nothing where only `les` is said
    adjuncts: tuple[str, ...] = ()         # `at` a place, or `in` where à would mean `to`; `with` or `for` someone
    agrees: bool = False                   # object pronouns and `que` in the passé composé: je l'ai vue
    few: bool = False                      # said of je, il, ils and their like only: fewer forms to learn

    @property
    def third(self) -> str:
        """He waits."""
        if self.english in ("have", "be"):
            return {"have": "has", "be": "is"}[self.english]
        if self.english.endswith(("ch", "sh", "o", "s")):
            return self.english + "es"
        return self.english + "s"

    def imperfect(self, person: int) -> str:
        """The stem of nous, and the endings of the imparfait."""
        stem = "ét" if self.french == "être" else self.present[3].removesuffix("ons")
        if stem.endswith("ge") and person in (3, 4):
            stem = stem[:-1]
        return stem + ("ais", "ais", "ait", "ions", "iez", "aient")[person]

    def agree(self, feminine: bool, many: bool) -> str:
        """The participle: vue, vus, vues, and pris for one and for many."""
        made = self.participle + ("e" if feminine else "")
        return made + ("s" if many and not made.endswith("s") else "")


def _er(infinitive: str) -> tuple[str, ...]:
    """The present of a regular verb in -er: mange, manges, mange, mangeons, mangez, mangent."""
    stem = infinitive[:-2]
    soft = stem + ("e" if stem.endswith("g") else "")
    heavy = "achèt" if infinitive == "acheter" else stem
    return heavy + "e", heavy + "es", heavy + "e", soft + "ons", stem + "ez", heavy + "ent"


def _rows() -> list[dict[str, str]]:
    heading, *lines = Path(__file__).with_suffix(".tsv").read_text("utf-8").splitlines()
    return [dict(zip(heading.split("\t"), line.split("\t"), strict=True)) for line in lines]


def _verb(row: dict[str, str]) -> Verb:
    french, also = row["french"], row["also"].split()
    *present, participle = row["forms"].split() or (*_er(french), french[:-2] + "é")
    first, *other = row["english"].split()
    particle = next((word for word in other if word in ("for", "to")), "")
    past = next((word for word in other if word != particle), first + ("d" if first.endswith("e") else "ed"))
    return Verb(french, tuple(present), participle, first, particle, past, row["ing"], objects=pool(row["objects"]),
                it=row["it"], adjuncts=tuple(row["adjuncts"].split()), by_being="by_being" in also,
                animals="animals" in also, agrees="agrees" in also, few="few" in also)


ROWS = _rows()
VERBS = tuple(map(_verb, ROWS))
VERB = {verb.french: verb for verb in VERBS}
STATES = frozenset(row["french"] for row in ROWS if "state" in row["also"].split())   # their imparfait: simple past


def _group(name: str) -> tuple[Verb, ...]:
    return tuple(VERB[row["french"]] for row in ROWS if row["group"] == name)


TRANSITIVE, GIVING, INTRANSITIVE, THINKING = map(_group, ("transitive", "giving", "intransitive", "thinking"))
GO, LIVE, LIKE, BE, HAVE, WANT, CAN, MUST = (
    VERB[french] for french in ("aller", "vivre", "aimer", "être", "avoir", "vouloir", "pouvoir", "devoir"))
