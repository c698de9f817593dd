"""Draws the parts of a sentence: who, what, where, in which tense; the grammar says them in both languages.

Every choice is one that the French shows, so that a French sentence has one English rendering: son is used of
the subject only, le is a person or a thing as its verb demands, and l' is never him-or-her.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeVar

from regard.corpora import phrasebook_grammar as g
from regard.corpora.phrasebook_grammar import Group, NounPhrase, Phrase, group, nothing, noun_phrase, word
from regard.corpora.phrasebook_verbs import (
    BE,
    INTRANSITIVE,
    STATES,
    TRANSITIVE,
    Verb,
)
from regard.corpora.phrasebook_words import (
    CITIES,
    COLOURS_OF,
    EVERY_NOUN,
    NAMES,
    NOUNS,
    NUMBERS,
    OFTEN,
    ONLY_SAID,
    SAID_OF,
    SURFACES,
    Adjective,
    Noun,
    before_vowel,
    pool,
)

T = TypeVar("T")
OWNERS = ("my", "thy", "our", "your", "their")
PERSONS = (0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 4, 4, 5, 5)
FEW = (0, 2, 2, 5)
TAKERS = {noun.french[0]: tuple(verb for verb in TRANSITIVE if noun in verb.objects) for noun in EVERY_NOUN}
NOBODYS = frozenset(noun.french[0] for noun in pool("person place region train bus"))
LYING = ("thing", "text", "food", "clothes")           # what is found on tables and in bags
INSIDE = NOUNS["room"] + NOUNS["region"]
BESIDE = NOUNS["place"] + NOUNS["room"]


class SentenceDraft:
    """One sentence being drawn: its chances, the nouns it has used, and the combinations it makes."""

    def __init__(self, chance: random.Random):
        self.random = chance.random
        self.used: set[str] = set()
        self.combinations: list[tuple[str, str]] = []       # (adjective, noun) and (verb, object)
        self.you = ""                                       # tu or vous, once chosen: a sentence does not mix them
        self.nested = False                                 # a clause among others: kept plainer
        self.present = False                                # no other tense will do

    def pick(self, among: Sequence[T]) -> T:
        return among[int(self.random() * len(among))]

    def flip(self, chance: float) -> bool:
        return self.random() < chance

    def noun(self, among: Sequence[Noun]) -> Noun:
        """One that this sentence has not used, where there is one."""
        for _ in range(8):
            noun = self.pick(among)
            if noun.french[0] not in self.used:
                break
        self.used.add(noun.french[0])
        return noun

    # -------------------------------------------------------------------------------------------- noun phrases
    def adjectives(self, noun: Noun, chance: float = 0.3) -> tuple[Adjective | None, Adjective | None]:
        """At most one before the noun and one after it; where there are two, the second is a colour."""
        if not self.flip(chance) or not SAID_OF[noun.french[0]]:
            return None, None
        one = self.pick(SAID_OF[noun.french[0]])
        if one.english in ONLY_SAID:
            return None, None
        self.combinations.append((one.forms[0], noun.french[0]))
        if not one.first:
            return None, one
        if not COLOURS_OF[noun.french[0]] or not self.flip(0.25):
            return one, None
        colour = self.pick(COLOURS_OF[noun.french[0]])
        self.combinations.append((colour.forms[0], noun.french[0]))
        return one, colour

    def owner(self, own: str) -> str:
        """Whose it is: the subject's own, or someone's."""
        if own and self.flip(0.5):
            return own
        other = self.pick(OWNERS)
        if other in ("thy", "your"):
            self.you = self.you or other
            return self.you
        return other

    def thing(self, noun: Noun, owner: str = "", negated: bool = False, clause: bool = True) -> NounPhrase:
        """A noun phrase for an object; after a negation un, des and du become de."""
        many = noun.plural and self.flip(0.3)
        first, last = self.adjectives(noun)
        number = None
        if not noun.counted:
            name = self.pick(("the", "some", "some", "the", "this", "lots"))
        elif noun.kind == "kin":
            if not many and not first and not last and self.flip(0.3):
                return g.owned(noun_phrase(noun), self.pick(NAMES))
            name = self.owner(owner)
        else:
            name = self.pick(("the", "the", "the", "a", "a", "this", self.owner(owner)))
            if noun.french[0] in NOBODYS and name not in ("the", "a", "this"):
                name = "the"
            if many and self.flip(0.35):
                number, name = self.pick(NUMBERS), "a" if name == "this" else name
        if negated and name in ("a", "some", "lots"):
            name, number = "no", None
        phrase = noun_phrase(noun, name, many, number, first, last)
        plain = clause and name in ("the", "a") and noun.counted
        return self.relative(noun, phrase) if plain and self.flip(0.14) else phrase

    def someone(self, clause: bool = True) -> NounPhrase:
        """A person, by name, by kinship or by what they are."""
        if self.flip(0.4):
            return g.named(self.name())
        if self.flip(0.5):
            return self.thing(self.noun(NOUNS["kin"]), clause=False)
        noun = self.noun(NOUNS["person"])
        first, last = self.adjectives(noun, 0.2)
        many = noun.plural and self.flip(0.25)
        made = noun_phrase(noun, self.pick(("the", "the", "a", "this")), many, None, first, last)
        return self.relative(noun, made) if clause and self.flip(0.15) else made

    def name(self) -> g.Name:
        name = self.pick([name for name in NAMES if name.french not in self.used])
        self.used.add(name.french)
        return name

    def pronoun(self, verb: Verb | None = None) -> NounPhrase:
        person = self.pick(FEW if verb and verb.few else PERSONS)
        if person in (1, 4):
            self.you = self.you or ("thy" if person == 1 else "your")
            person = 1 if self.you == "thy" else 4
        return g.pronoun(person, self.flip(0.5))

    def subject(self, verb: Verb | None = None, clause: bool = True) -> NounPhrase:
        """The subject: a pronoun, a person, two people, or an animal where animals do it."""
        if self.flip(0.4):
            return self.pronoun(verb)
        if verb and verb.animals and self.flip(0.35):
            noun = self.noun(NOUNS["animal"])
            name, many = self.pick(("the", "a", "this", self.owner(""))), noun.plural and self.flip(0.3)
            return noun_phrase(noun, name, many, None, *self.adjectives(noun))
        if self.flip(0.1) and not self.nested:
            return g.both(g.named(self.name()), self.someone(clause=False))
        return self.someone(clause)

    def relative(self, noun: Noun, antecedent: NounPhrase) -> NounPhrase:
        """With qui, the antecedent does it; with que, it is done to it."""
        alive = noun.kind in ("person", "kin", "animal")
        takers = [verb for verb in TAKERS[noun.french[0]] if verb.french not in self.used]
        if takers and self.flip(0.5):
            return g.described(antecedent, self.done_to(noun, antecedent, self.pick(takers)))
        subject = NounPhrase([], [], antecedent.person, antecedent.feminine, human=antecedent.human)
        qui = word("qui", "who" if noun.kind in ("person", "kin") else "that")
        if alive and self.flip(0.7):
            verb = self.pick(INTRANSITIVE + TRANSITIVE)
            while noun.kind == "animal" and not verb.animals:
                verb = self.pick(INTRANSITIVE + TRANSITIVE)
            return g.described(antecedent, qui + self.doing(subject, verb, self.tense(verb, subject), clause=False))
        rest = self.spot() if noun.kind in LYING else self.somewhere() if alive else self.near()
        return g.described(antecedent, qui + g.statement(subject, group(BE, subject), rest))

    def done_to(self, noun: Noun, antecedent: NounPhrase, verb: Verb) -> Phrase:
        """`que Marie a achetée`: in the passé composé the participle agrees with what it is done to."""
        self.combinations.append((verb.french, noun.french[0]))
        subject = self.pronoun(verb) if self.flip(0.5) else g.named(self.name())
        tense = "past" if verb.agrees and self.flip(0.4) else self.pick(("present", "present", "future"))
        tense = "present" if verb.french in STATES else tense
        made = group(verb, subject, tense, agree=(antecedent.feminine, antecedent.plural))
        return word("que", "that") + g.statement(subject, made, nothing())

    # -------------------------------------------------------------------------------------------- where and when
    def somewhere(self, at: bool = True) -> Phrase:
        """A place where people are: au marché, dans la rue, devant l'école, à Paris."""
        if at and self.flip(0.35):
            return self.at("at")
        if at and self.flip(0.15):
            return self.city("in")
        if self.flip(0.6):
            return self.near()
        noun = self.noun(INSIDE)
        name = self.pick(("the", "the", "this"))
        return word("dans", "in") + noun_phrase(noun, name, False, None, *self.adjectives(noun, 0.25))

    def city(self, english: str) -> Phrase:
        city = self.pick(CITIES)
        return word("à", english) + word(city.french, city.english)

    def at(self, english: str) -> Phrase:
        noun = self.noun(NOUNS["place"])
        return word("à", english) + noun_phrase(noun, "the", False, None, *self.adjectives(noun, 0.15))

    def near(self) -> Phrase:
        """Beside a place: près du musée, derrière cette maison."""
        lead = word(*self.pick((("devant", "in front of"), ("derrière", "behind"))))
        if self.flip(0.4):
            near, de = g.Word("près"), g.Word("de")
            lead = Phrase([near, de], [("near", (near, de))])
        noun = self.noun(BESIDE)
        name = self.pick(("the", "the", "this"))
        return lead + noun_phrase(noun, name, False, None, *self.adjectives(noun, 0.25))

    def spot(self) -> Phrase:
        """A place where things lie: sur la table, dans mon sac."""
        if self.flip(0.55):
            noun = self.noun(SURFACES)
            lead = word(*self.pick((("sur", "on"), ("sous", "under"))))
            name = "the" if self.flip(0.6) else self.owner("")
        else:
            noun = self.noun(NOUNS["container"])
            lead, name = word("dans", "in"), self.pick(("the", "this", self.owner("")))
        return lead + noun_phrase(noun, name, False, None, *self.adjectives(noun, 0.2))

    def circumstance(self, verb: Verb) -> Phrase:
        """A complement: where, with whom or for whom."""
        how = self.pick(verb.adjuncts)
        if how in ("at", "in"):
            return self.somewhere(how == "at")
        return word("avec" if how == "with" else "pour", how) + self.someone(clause=False)

    def tense(self, verb: Verb, subject: NounPhrase) -> str:
        was = self.was(subject, 0.12) if verb.ing or verb.french in STATES else "present"
        if was == "imperfect" or self.present or verb.french in STATES:
            return was
        return self.pick(("present", "present", "past", "future"))

    def was(self, subject: NounPhrase, chance: float, everyone: bool = False) -> str:
        """The imparfait sometimes, in the third person: few of its forms are worth learning."""
        able = (everyone or subject.person in (2, 5)) and not self.present
        return "imperfect" if able and self.flip(chance) else "present"

    # -------------------------------------------------------------------------------------------- clauses
    def negation(self, chance: float = 0.2) -> str:
        return self.pick(("pas", "pas", "pas", "jamais", "plus")) if self.flip(chance) else ""

    def doing(self, subject: NounPhrase, verb: Verb, tense: str, clause: bool = True) -> Phrase:
        """A statement about someone doing something."""
        negation = self.negation(0.05 if tense == "imperfect" else 0.2)
        negation = "pas" if negation and verb.french == "connaître" else negation       # nobody never knows Paul
        adverb = self.pick(OFTEN) if tense in ("present", "past") and negation != "jamais" and self.flip(0.1) else None
        if adverb and (negation == "plus" or verb.french == "connaître" or (negation and adverb.french == "rarement")):
            adverb = None
        made, rest = self.predicate(subject, verb, tense, negation, clause=clause, adverb=adverb)
        return g.statement(subject, made, rest)

    def predicate(self, subject: NounPhrase, verb: Verb, tense: str, negation: str, clause: bool = True,
                  **more: Any) -> tuple[Group, Phrase]:
        """The verb, and its objects and circumstances."""
        if verb.objects and "modal" not in more and self.flip(0.2):
            found = self.clitic(subject, verb, tense)
            if found:
                return group(verb, subject, tense, negation=negation, **found, **more), nothing()
        rest = nothing()
        if verb.objects:
            rest = self.object_of(verb, subject.own, bool(negation), clause)
        if verb.adjuncts and self.flip(0.25 if verb.objects else 0.6) and not (verb.objects and len(rest.fr) > 5):
            rest = rest + self.circumstance(verb)
        return group(verb, subject, tense, negation=negation, **more), rest

    def object_of(self, verb: Verb, owner: str, negated: bool, clause: bool = True) -> NounPhrase:
        noun = self.noun(verb.objects)
        if noun.kind in ("person", "kin") and self.flip(0.35):
            return g.named(self.name())
        self.used.add(verb.french)
        self.combinations.append((verb.french, noun.french[0]))
        return self.thing(noun, owner, negated, clause)

    def clitic(self, subject: NounPhrase, verb: Verb, tense: str) -> dict[str, Any]:
        """An object pronoun for `group`, or nothing where the French would not show who is meant."""
        if tense == "imperfect" or (tense == "past" and not verb.agrees):
            return {}
        people = verb.objects[0].kind == "person"
        counted = any(noun.counted for noun in verb.objects)
        feminine, kind = self.flip(0.5), self.pick(("le", "le", "les", "me", "nous")) if counted else "le"
        if kind == "le" and verb.it:
            what = "it" if verb.it == "it" else "her" if feminine else "him"
            return dict(pronoun="la" if feminine else "le", him=what, agree=(feminine, False))
        if kind == "le" or kind == "les" or tense == "past" or not people:
            return dict(pronoun="les", him="them", agree=(feminine, True))
        return self.to_whom(subject, (verb.french if tense == "future" else verb.present[0]), ())

    def to_whom(self, subject: NounPhrase, host: str, other: tuple[str, ...]) -> dict[str, Any]:
        """me, te, nous or vous, but never of the subject's own person, and no m' or t'."""
        small = () if before_vowel(host) else ("me", "te")
        barred = {0: "me nous", 3: "me nous", 1: "te vous", 4: "te vous"}.get(subject.person, "")
        barred += {"thy": " vous", "your": " te"}.get(self.you, "")
        chosen = [each for each in (*small, "nous", "vous", *other) if each not in barred.split()]
        if not chosen:
            return dict(pronoun="les", him="them", agree=(False, True))
        which = self.pick(chosen)
        self.you = self.you or {"te": "thy", "vous": "your"}.get(which, "")
        return dict(pronoun=which, him=g.OBJECTS[which])
