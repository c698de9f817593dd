"""Statements of the phrasebook, one clause at a time: doing, having, liking, giving, being."""

from __future__ import annotations

from regard.corpora import phrasebook_grammar as g
from regard.corpora.phrasebook_draft import SentenceDraft
from regard.corpora.phrasebook_grammar import NounPhrase, Phrase, group, nothing, noun_phrase, saying, statement, word
from regard.corpora.phrasebook_verbs import (
    BE,
    CAN,
    GIVING,
    GO,
    HAVE,
    INTRANSITIVE,
    LIKE,
    LIVE,
    MUST,
    TRANSITIVE,
    WANT,
)
from regard.corpora.phrasebook_words import FEELINGS, NOUNS, NUMBERS, SAID_OF, TRADES, WHEN, Noun

ACTIONS = TRANSITIVE * 2 + INTRANSITIVE
WILLED = tuple(verb for verb in ACTIONS if verb.french not in ("tomber", "perdre", "connaître"))
FURNISHING = NOUNS["thing"] + NOUNS["container"] + NOUNS["text"] + NOUNS["food"]


# ------------------------------------------------------------------------------------------------ statements
def action(d: SentenceDraft) -> Phrase:
    """Someone does something, perhaps at some time."""
    verb = d.pick(ACTIONS)
    subject = d.subject(verb)
    tense = d.tense(verb, subject)
    made = d.doing(subject, verb, tense)
    often = any(text in ("often", "always", "rarely", "never", "longer") for text, _ in made.en)
    return made if often or verb.french == "connaître" else timed(d, made, tense)


def timed(d: SentenceDraft, statement: Phrase, tense: str) -> Phrase:
    """With `hier` at its head or its end, sometimes."""
    if d.nested or not d.flip(0.22):
        return statement
    when = saying(d.pick(WHEN[tense]))
    if d.flip(0.5):
        return when + word(",", ",") + statement
    return statement + when


def going(d: SentenceDraft) -> Phrase:
    """Il va au marché; they went to Paris."""
    subject, negation = d.subject(), d.negation()
    tense = "present" if d.present else d.pick(("present", "past", "future"))
    rest = d.at("to") if d.flip(0.75) else d.city("to")
    if d.flip(0.2):
        rest = rest + word("avec", "with") + d.someone(clause=False)
    made = statement(subject, group(GO, subject, tense, negation=negation), rest)
    return made if negation in ("jamais", "plus") else timed(d, made, tense)


def living(d: SentenceDraft) -> Phrase:
    """Ils habitent dans une vieille maison."""
    subject = d.subject(LIVE)
    tense = d.was(subject, 0.3)
    noun = d.noun((*NOUNS["region"][1:3], NOUNS["room"][0]))
    name = d.pick(("a", "this", "the"))
    rest = d.city("in") if d.flip(0.4) else \
        word("dans", "in") + noun_phrase(noun, name, False, None, *d.adjectives(noun, 0.6))
    return statement(subject, group(LIVE, subject, tense, negation=d.negation()), rest)


def liking(d: SentenceDraft) -> Phrase:
    """J'aime le pain is `I like bread`; what is liked is a kind of thing, or one that is pointed at."""
    subject = d.subject()
    if d.flip(0.3):
        verb = d.pick(INTRANSITIVE[:8])        # nobody likes to fall
        made = group(verb, subject, modal=LIKE, negation=d.negation())
        return statement(subject, made, d.somewhere(False) if d.flip(0.3) else nothing())
    return statement(subject, group(LIKE, subject, d.was(subject, 0.15), negation=d.negation()), _liked(d, subject))


def _liked(d: SentenceDraft, subject: NounPhrase) -> NounPhrase:
    noun = d.noun(LIKE.objects)
    d.combinations.append((LIKE.french, noun.french[0]))
    if not noun.counted or (noun.plural and noun.kind in ("animal", "food") and d.flip(0.6)):
        return noun_phrase(noun, "generic", noun.counted)
    name = "this" if noun.kind in ("person", "place", "region") else d.owner(subject.own)
    return noun_phrase(noun, name, noun.plural and d.flip(0.3), None, *d.adjectives(noun))


def having(d: SentenceDraft) -> Phrase:
    """She has two brothers; we do not have a car."""
    subject, negation = d.subject(), d.negation()
    noun = d.noun(HAVE.objects)
    d.combinations.append((HAVE.french, noun.french[0]))
    tense = d.was(subject, 0.2)
    if negation:
        what = noun_phrase(noun, "no", noun.plural and d.flip(0.4), None, *d.adjectives(noun))
    elif noun.plural and d.flip(0.4):
        what = noun_phrase(noun, "a", True, d.pick(NUMBERS), *d.adjectives(noun))
    else:
        what = noun_phrase(noun, "a", False, None, *d.adjectives(noun, 0.5))
    return statement(subject, group(HAVE, subject, tense, negation=negation), what)


def wanting(d: SentenceDraft) -> Phrase:
    subject, negation = d.subject(), d.negation()
    made = group(WANT, subject, d.was(subject, 0.2), negation=negation)
    return statement(subject, made, d.object_of(WANT, subject.own, bool(negation)))


def being_able(d: SentenceDraft) -> Phrase:
    """Wants to, can, must."""
    verb = d.pick(WILLED)
    subject, negation = d.subject(verb), d.negation()
    modal = d.pick((WANT, CAN, MUST))
    if verb.objects and d.flip(0.25):
        found = d.clitic(subject, verb, "future")
        return statement(subject, group(verb, subject, modal=modal, negation=negation, **found), nothing())
    made, rest = d.predicate(subject, verb, "present", negation, modal=modal)
    return statement(subject, made, rest)


def giving(d: SentenceDraft) -> Phrase:
    """Gives a book to Marie, or gives us a book."""
    verb, tense, negation = d.pick(GIVING), d.pick(("present", "past", "future")), d.negation(0.12)
    subject = d.subject(verb)
    if d.flip(0.45):
        inside = verb.french if tense == "future" else "a" if tense == "past" else verb.present[0]
        found = d.to_whom(subject, inside, ("leur",))
        made = group(verb, subject, tense, negation=negation, **found)
        rest: Phrase = d.object_of(verb, subject.own, bool(negation))
    else:
        made = group(verb, subject, tense, negation=negation)
        rest = d.object_of(verb, subject.own, bool(negation), clause=False) + word("à", "to") + d.someone()
    return timed(d, statement(subject, made, rest), tense)


# ------------------------------------------------------------------------------------------------ being
def being(d: SentenceDraft) -> Phrase:
    subject, made, rest = be_so(d, d.negation())
    return statement(subject, made, rest)


def be_so(d: SentenceDraft, negation: str = "", asked: bool = False) -> tuple[NounPhrase, g.Group, Phrase]:
    """Someone or something is so, is a baker, is somewhere."""
    if d.flip(0.4):
        noun = d.noun(TAKEN)
        subject = _placed(d, noun, clause=not asked)
        rest = _so(d, noun, subject) if d.flip(0.7) else d.spot()
    else:
        subject = d.subject(clause=not asked)
        rest = _who(d, subject) if d.flip(0.65) else d.somewhere()
    return subject, group(BE, subject, d.was(subject, 0.25, everyone=True), negation=negation, asked=asked), rest


TAKEN = FURNISHING + NOUNS["clothes"]


def _placed(d: SentenceDraft, noun: Noun, clause: bool) -> NounPhrase:
    """A thing that something is said of: the, this, my; never some."""
    name = d.pick(("the", "the", "this", d.owner("")))
    many = noun.plural and d.flip(0.35)
    number = d.pick(NUMBERS) if many and name != "this" and d.flip(0.25) else None
    made = noun_phrase(noun, name, many, number, *d.adjectives(noun, 0.2))
    return d.relative(noun, made) if clause and name == "the" and d.flip(0.12) else made


def _so(d: SentenceDraft, noun: Noun, subject: NounPhrase) -> Phrase:
    """A predicate of a thing; two, sometimes."""
    said = [d.pick(SAID_OF[noun.french[0]])]
    other = d.pick(SAID_OF[noun.french[0]])
    if d.flip(0.2) and other.english != said[0].english:
        said.append(other)
    made = nothing()
    for each in said:
        d.combinations.append((each.forms[0], noun.french[0]))
        lead = word("et", "and") if made.fr else nothing()
        made = made + lead + word(each.agree(subject.feminine, subject.plural), each.english)
    return made


def _who(d: SentenceDraft, subject: NounPhrase) -> Phrase:
    """A predicate of a person: `fatiguée`, or `boulanger`, where English wants an article."""
    if d.flip(0.4) and subject.person < 3 and len(subject.fr) == 1:
        trade = d.pick([noun for noun in TRADES if noun.feminine == subject.feminine])
        return word(trade.french[0], f"a {trade.english[0]}")
    said = d.pick(SAID_OF["ami"])
    very = word("très", "very") if d.flip(0.25) else nothing()
    return very + word(said.agree(subject.feminine, subject.plural), said.english)


def feeling(d: SentenceDraft) -> Phrase:
    """J'ai faim: French has hunger, English is hungry. The verb is built as être, then said with avoir."""
    subject = d.subject()
    tense = d.was(subject, 0.3)
    made = group(BE, subject, tense, negation=d.negation())
    made.finite.text = HAVE.imperfect(subject.person) if tense == "imperfect" else HAVE.present[subject.person]
    french, english = d.pick(FEELINGS)
    return statement(subject, made, word(french, english))


def age(d: SentenceDraft) -> Phrase:
    """Il a dix ans: he is ten years old."""
    subject = d.pronoun() if d.flip(0.4) else g.named(d.name())
    made = group(BE, subject)
    made.finite.text = HAVE.present[subject.person]
    return statement(subject, made, word(*d.pick(NUMBERS)) + word("ans", "years old"))


def there_is(d: SentenceDraft) -> Phrase:
    """Il y a un chat sur la table; il n'y a pas de pain."""
    noun = d.noun(FURNISHING + NOUNS["meal"] + NOUNS["animal"])
    many = noun.plural and d.flip(0.4)
    negated = d.flip(0.25)
    name = "no" if negated else "a" if noun.counted else "some"
    number = d.pick(NUMBERS) if many and not negated and d.flip(0.6) else None
    what = noun_phrase(noun, name, many, number, *d.adjectives(noun))
    il, ne, y, a, pas = (g.Word(each) for each in ("il", "ne", "y", "a", "pas"))
    en = [("there", (il, y)), ("are" if what.plural else "is", (a,)), *([("not", (ne, pas))] if negated else [])]
    where = d.somewhere() if noun.kind == "animal" else d.spot()
    return Phrase([il, *([ne, y, a, pas] if negated else [y, a])], en) + what + where
