"""The kinds of sentences in the phrasebook: statements, questions, and two clauses in one."""

from __future__ import annotations

from collections.abc import Callable

from regard.corpora import phrasebook_grammar as g
from regard.corpora.phrasebook_draft import SentenceDraft
from regard.corpora.phrasebook_grammar import NounPhrase, Phrase, group, nothing, noun_phrase, statement, word
from regard.corpora.phrasebook_statements import (
    ACTIONS,
    TAKEN,
    action,
    age,
    be_so,
    being,
    being_able,
    feeling,
    giving,
    going,
    having,
    liking,
    living,
    there_is,
    wanting,
)
from regard.corpora.phrasebook_verbs import BE, HAVE, STATES, THINKING, TRANSITIVE, VERB, WANT, Verb
from regard.corpora.phrasebook_words import NOUNS

Part = Callable[[SentenceDraft], Phrase]
# faire is left out: `what does she do` would be said, not `what does she make`
ABOUT_THINGS = tuple(verb for verb in TRANSITIVE if verb.objects[0].kind not in ("person", "place") and verb.it)
COUNTED = tuple(VERB[verb] for verb in ("acheter", "manger", "vendre", "voir", "prendre"))
NOBODY = NounPhrase([], [], 0, False)      # asked about before the subject is known: no imparfait


# ------------------------------------------------------------------------------------------------ questions
def asked(d: SentenceDraft) -> Phrase:
    """Est-ce que tu connais Marie? Are they tired?"""
    if d.flip(0.25):
        return g.est_ce_que(*be_so(d, asked=True))
    verb = d.pick((*ACTIONS, WANT, HAVE))
    subject = d.subject(verb, clause=False)
    tense = d.tense(verb, NOBODY)
    return g.est_ce_que(subject, *d.predicate(subject, verb, tense, "", asked=True))


# Où partent-ils would be `where are they going`: one asks where of what happens in a place.
SOMEWHERE = tuple(verb for verb in ACTIONS if {"at", "in"} & set(verb.adjuncts))
SOMETIME = tuple(verb for verb in ACTIONS if verb.french not in STATES)
ASKING = (("où", "where", SOMEWHERE, ("present", "past", "future")), ("quand", "when", SOMETIME, ("past", "future")),
          ("pourquoi", "why", SOMETIME, ("present", "past", "future")))


def why(d: SentenceDraft) -> Phrase:
    """A question with where, when or why: with est-ce que, or with the pronoun after the verb."""
    french, english, verbs, tenses = d.pick(ASKING)
    verb, tense = d.pick(verbs), d.pick(tenses)
    negation = "pas" if english == "why" and d.flip(0.2) else ""
    subject = d.pronoun(verb) if d.flip(0.6) else d.subject(verb, clause=False)
    rest: Phrase = d.object_of(verb, subject.own, bool(negation), clause=False) if verb.objects else nothing()
    return _ask(d, word(french, english), subject, verb, tense, negation, rest)


def _ask(
    d: SentenceDraft, asking: Phrase, subject: NounPhrase, verb: Verb, tense: str, negation: str, rest: Phrase
) -> Phrase:
    made = group(verb, subject, tense, negation=negation, asked=True)
    if subject.pronoun and subject.person and d.flip(0.5) and not g.before_vowel(made.finite.text):
        return g.inverted(asking, subject, made, rest)
    return g.est_ce_que(subject, made, rest, asking)


def what(d: SentenceDraft) -> Phrase:
    """Qu'est-ce que tu manges? Que lit-elle?"""
    verb, tense = d.pick(ABOUT_THINGS), d.pick(("present", "past", "future"))
    subject = d.subject(verb, clause=False)
    return _ask(d, word("que", "what"), subject, verb, tense, "", nothing())


def who(d: SentenceDraft) -> Phrase:
    """Qui a cassé la lampe? The asking word is the subject, so English needs no do."""
    verb = d.pick(ACTIONS)
    asking = word("qui", "who")
    subject = NounPhrase(asking.fr, asking.en, 2, False, human=False)
    made, rest = d.predicate(subject, verb, d.tense(verb, NOBODY), "")
    return statement(subject, made, rest)


def where_is(d: SentenceDraft) -> Phrase:
    """Où sont mes clés?"""
    noun = d.noun(TAKEN + NOUNS["animal"])
    subject = noun_phrase(noun, d.pick(("the", d.owner(""))), noun.plural and d.flip(0.35), None, *d.adjectives(noun))
    made = group(BE, subject, d.was(subject, 0.25), asked=True)
    assert made.operator is not None
    asking = word("où", "where")
    return Phrase([*asking.fr, made.finite, *subject.fr], [*asking.en, made.operator, *subject.en])


def how_many(d: SentenceDraft) -> Phrase:
    """Combien de pommes est-ce que tu achètes? How much bread?"""
    verb = d.pick(COUNTED)
    noun = d.noun([noun for noun in verb.objects if noun.plural or not noun.counted])
    d.combinations.append((verb.french, noun.french[0]))
    combien, de, thing = g.Word("combien"), g.Word("de"), g.Word(noun.french[noun.counted])
    much = "many" if noun.counted else "much"
    en = [("how", (combien,)), (much, (combien, de)), (noun.english[noun.counted], (thing,))]
    asking = Phrase([combien, de, thing], en)
    subject = d.pronoun(verb) if d.flip(0.5) else d.someone(clause=False)
    return _ask(d, asking, subject, verb, d.pick(("present", "future")), "", nothing())


# ------------------------------------------------------------------------------------------------ two clauses
SIMPLE: tuple[Part, ...] = (action, action, action, action, being, being, having, liking, going, wanting, feeling,
                            living)


def joined(d: SentenceDraft) -> Phrase:
    """Two statements: and, but, because, when, if."""
    conjunction = d.pick(("et", "mais", "mais", "parce", "parce", "quand", "si"))
    d.nested, d.present = True, conjunction in ("quand", "si")
    one, other = d.pick(SIMPLE)(d), d.pick(SIMPLE)(d)
    if conjunction == "et":
        return one + word("et", "and") + other
    if conjunction == "mais":
        return one + word(",", ",") + word("mais", "but") + other
    if conjunction == "parce":
        parce, que = g.Word("parce"), g.Word("que")
        return one + Phrase([parce, que], [("because", (parce, que))]) + other
    return word(*(("quand", "when") if conjunction == "quand" else ("si", "if"))) + one + word(",", ",") + other


def thinking(d: SentenceDraft) -> Phrase:
    """Je pense que Marie est malade."""
    subject = d.pronoun() if d.flip(0.6) else d.someone(clause=False)
    d.nested = True
    verb = d.pick(THINKING)
    unknown = verb.french == "savoir" and subject.person not in (0, 3)       # ne pas penser wants the subjunctive
    negation = "pas" if unknown and d.flip(0.25) else ""
    made = group(verb, subject, negation=negation)
    return statement(subject, made, word("que", "that") + d.pick(SIMPLE)(d))


# How often each kind of sentence is drawn, and the mark at its end.
STATEMENTS: tuple[tuple[Part, int], ...] = (
    (action, 34), (being, 10), (going, 4), (living, 2), (liking, 4), (having, 4), (wanting, 3), (being_able, 6),
    (giving, 5), (feeling, 2), (age, 1), (there_is, 3), (joined, 18), (thinking, 5))
QUESTIONS: tuple[tuple[Part, int], ...] = ((asked, 5), (why, 4), (what, 2), (who, 2), (where_is, 1), (how_many, 1))
FORMS: tuple[tuple[Part, str], ...] = tuple((part, mark) for kinds, mark in ((STATEMENTS, "."), (QUESTIONS, "?"))
                                            for part, weight in kinds for _ in range(weight))
