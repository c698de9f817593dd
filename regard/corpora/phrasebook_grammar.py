"""The grammar of the phrasebook: noun phrases, clauses and questions, built in both languages at once.

Each English word is given with the French words it says, so the alignment is made with the sentence and not
guessed after it. An English word that French has no word for (`do`, `to`) goes with the word that calls for it;
a French word that English leaves out (the le of `j'aime le pain`) goes with none.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.corpora.phrasebook_verbs import BE, CAN, GO, HAVE, MUST, STATES, Verb
from regard.corpora.phrasebook_words import WORDS, Adjective, Name, Noun, Saying, before_vowel


@dataclass(slots=True, eq=False)
class Word:
    """A French word of the sentence being built; `at` is its token once the sentence is finished."""

    text: str
    at: int = -1


English = tuple[str, tuple[Word, ...]]           # a word, and the French words it says


@dataclass(slots=True, eq=False)
class Phrase:
    """The words of both languages, each in its own order."""

    fr: list[Word]
    en: list[English]

    def __add__(self, other: Phrase) -> Phrase:
        return Phrase(self.fr + other.fr, self.en + other.en)


@dataclass(slots=True, eq=False)
class NounPhrase(Phrase):
    """A phrase that a verb can agree with. `person` numbers je, tu, il, nous, vous, ils from 0."""

    person: int
    feminine: bool
    human: bool = True
    pronoun: bool = False

    @property
    def plural(self) -> bool:
        return self.person > 2

    @property
    def own(self) -> str:
        """The determiner of what is this subject's own; its, of a dog, is not said here."""
        if self.person == 2:
            return ("her" if self.feminine else "his") if self.human else ""
        return ("my", "thy", "", "our", "your", "their")[self.person]


def nothing() -> Phrase:
    return Phrase([], [])


def word(french: str, english: str) -> Phrase:
    """One French word, said by each of the English ones."""
    made = Word(french)
    return Phrase([made], [(each, (made,)) for each in english.split()])


def saying(idiom: Saying) -> Phrase:
    """Words that go together, linked as their table says."""
    fr = [Word(each) for each in idiom.french.split()]
    links: dict[str, list[Word]] = {}
    for link in idiom.links.split():
        i, j = link.split("-")
        links.setdefault(j, []).append(fr[int(i)])
    return Phrase(fr, [(each, tuple(links[str(j)])) for j, each in enumerate(idiom.english.split())])


# ------------------------------------------------------------------------------------------------ noun phrases
DETERMINERS = {name: tuple(forms.split() for forms in text.split(":")) for name, text in WORDS["determiners"].items()}


def determiner(name: str, noun: Noun, many: bool, following: str, adjective_first: bool) -> Phrase:
    """The words before a noun and its adjectives. `some` is the partitive, `no` what follows a negation."""
    if name == "some":                                   # du pain, de l'eau: the contraction comes at the end
        de, le = Word("de"), Word("la" if noun.feminine else "le")
        return Phrase([de, le], [("some", (de, le))])
    if name == "no":                                     # pas de pain, pas de chat
        return word("de", "any" if many or not noun.counted else "a")
    if name == "lots":
        return word("beaucoup", "a lot") + word("de", "of")
    if name == "generic":                                # j'aime le pain, les chats
        return Phrase([Word("les" if many else "la" if noun.feminine else "le")], [])
    if name == "a" and many and adjective_first:         # de petites pommes
        return word("de", "some")
    french, english = DETERMINERS[name]
    form = 4 if many else noun.feminine + 2 * before_vowel(following)
    return word(french[form], english[many])


def noun_phrase(noun: Noun, name: str = "the", many: bool = False, number: tuple[str, ...] | None = None,
                first: Adjective | None = None, last: Adjective | None = None) -> NounPhrase:
    """Determiner, numeral, adjective, noun, adjective: `mes deux petits chiens noirs`."""
    if name == "no" and noun.french[0] == noun.french[1]:
        many = False                                     # pas de souris would be a mouse or any mice: it is a mouse
    thing = Word(noun.french[many])
    fr: list[Word] = [thing]
    en: list[English] = [(noun.english[many], (thing,))]
    if last:
        after = Word(last.agree(noun.feminine, many))
        fr.append(after)
        en.insert(0, (last.english, (after,)))
    if first:
        vowel = not (many or noun.feminine) and before_vowel(thing.text)
        before = Word(first.vowel if vowel else first.agree(noun.feminine, many))
        fr.insert(0, before)
        en.insert(0, (first.english, (before,)))
    lead = word(*number) if number else nothing()
    if not number or name != "a":                        # deux pommes has no article, les deux pommes has
        lead = determiner(name, noun, many, fr[0].text, first is not None) + lead
    return NounPhrase(lead.fr + fr, lead.en + en, 5 if many else 2, noun.feminine, noun.kind in ("person", "kin"))


SUBJECTS = (("je", "I"), ("tu", "you"), ("il", "he"), ("nous", "we"), ("vous", "you"), ("ils", "they"))
FEMININE_SUBJECTS = {2: ("elle", "she"), 5: ("elles", "they")}


def pronoun(person: int, feminine: bool = False) -> NounPhrase:
    """A subject: je, elle, nous."""
    french, english = FEMININE_SUBJECTS[person] if feminine and person in (2, 5) else SUBJECTS[person]
    made = word(french, english)
    return NounPhrase(made.fr, made.en, person, feminine, pronoun=True)


def named(name: Name) -> NounPhrase:
    made = word(name.french, name.english)
    return NounPhrase(made.fr, made.en, 2, name.feminine)


def both(one: NounPhrase, other: NounPhrase, conjunction: tuple[str, str] = ("et", "and")) -> NounPhrase:
    """Two that do something together: masculine unless both are feminine."""
    made = one + word(*conjunction) + other
    return NounPhrase(made.fr, made.en, 5, one.feminine and other.feminine)


def owned(thing: NounPhrase, owner: Name) -> NounPhrase:
    """`le chien de Marie`, Marie's dog: the article of the French has no English word."""
    de, who = Word("de"), Word(owner.french)
    en = [(f"{owner.english}'s", (de, who)), *thing.en[1:]]
    return NounPhrase([*thing.fr, de, who], en, thing.person, thing.feminine, thing.human)


def described(thing: NounPhrase, clause: Phrase) -> NounPhrase:
    """A noun phrase with its relative clause."""
    made = thing + clause
    return NounPhrase(made.fr, made.en, thing.person, thing.feminine, thing.human)


# ------------------------------------------------------------------------------------------------ verbs
NEGATIONS = {"pas": "not", "jamais": "never", "plus": "no longer"}
OBJECTS = {"me": "me", "te": "you", "nous": "us", "vous": "you", "les": "them", "leur": "them"}
AM = ("am", "are", "is", "are", "are", "are")
WAS = ("was", "were", "was", "were", "were", "were")


@dataclass(slots=True)
class Group:
    """The verb and what clings to it, in pieces, so that a question can put the subject among them."""

    before: list[Word]                    # ne, le
    finite: Word
    after: list[Word]                     # pas, souvent, the participle or infinitive
    operator: English | None              # do, did, is, can: what a question puts first
    main: list[English]


def group(verb: Verb, subject: NounPhrase, tense: str = "present", *, negation: str = "", adverb: Saying | None = None,
          pronoun: str = "", him: str = "", modal: Verb | None = None, asked: bool = False,
          agree: tuple[bool, bool] | None = None) -> Group:
    """The verb of a clause. `him` is what the object pronoun says; `agree` is the gender and number of an object
    that stands before a passé composé."""
    ne, pas = Word("ne"), Word(negation)
    object_ = Word(pronoun)
    often = saying(adverb) if adverb else nothing()
    finite, rest = _french(verb, subject, tense, modal, agree)
    inside = modal is not None or tense == "future"        # the pronoun stands before the infinitive
    before = ([ne] if negation else []) + ([object_] if pronoun and not inside else [])
    after = ([pas] if negation else []) + often.fr + ([object_] if pronoun and inside else []) + rest
    middle = _negated(negation, ne, pas)
    operator, main = _english(verb, subject.person, tense, modal, finite, rest, asked or negation == "pas")
    if operator and operator[0] == "can" and negation == "pas" and not asked:
        operator, middle = ("cannot", (ne, finite, pas)), []
    en = middle + often.en + main + ([(him, (object_,))] if pronoun else [])
    return Group(before, finite, after, operator, en)


def _negated(negation: str, ne: Word, pas: Word) -> list[English]:
    if not negation:
        return []
    first, *more = NEGATIONS[negation].split()
    return [(first, (ne, pas)), *((each, (pas,)) for each in more)]


def _french(verb: Verb, subject: NounPhrase, tense: str, modal: Verb | None,
            agree: tuple[bool, bool] | None) -> tuple[Word, list[Word]]:
    """The conjugated word, and the participle or infinitive after it."""
    if modal:
        return Word(modal.present[subject.person]), [Word(verb.french)]
    if tense == "future":
        return Word(GO.present[subject.person]), [Word(verb.french)]
    if tense == "imperfect":
        return Word(verb.imperfect(subject.person)), []
    if tense == "past":
        if verb.by_being:
            return Word(BE.present[subject.person]), [Word(verb.agree(subject.feminine, subject.plural))]
        participle = verb.agree(*agree) if agree else verb.participle
        return Word(HAVE.present[subject.person]), [Word(participle)]
    return Word(verb.present[subject.person]), []


def _english(verb: Verb, person: int, tense: str, modal: Verb | None, finite: Word, rest: list[Word],
             operated: bool) -> tuple[English | None, list[English]]:
    """The operator (where one is needed, or the tense has one), and the words of the verb."""
    source: tuple[Word, ...] = (rest[0] if rest else finite,)
    plain: list[English] = [(verb.english, source), *([(verb.particle, source)] if verb.particle else [])]
    if modal in (CAN, MUST):
        return (modal.english, (finite,)), plain
    if modal:                                            # he wants to eat
        operator, main = _english(modal, person, "present", None, finite, [], operated)
        return operator, [*main, ("to", source), *plain]
    if tense == "future":
        return (AM[person], (finite,)), [("going", (finite,)), ("to", source), *plain]
    if verb is BE:
        return ((WAS if tense == "imperfect" else AM)[person], (finite,)), []
    if tense == "imperfect" and verb.french not in STATES:
        return (WAS[person], (finite,)), [(verb.ing, source), *plain[1:]]
    past = tense in ("past", "imperfect")
    if operated:
        return ("did" if past else "does" if person == 2 else "do", (finite,)), plain
    shown = verb.past if past else verb.third if person == 2 else verb.english
    return None, [(shown, (finite, *rest)), *plain[1:]]


# ------------------------------------------------------------------------------------------------ clauses
def statement(subject: NounPhrase, verb: Group, rest: Phrase) -> Phrase:
    """Paul ne mange pas la pomme: Paul does not eat the apple."""
    operator = [verb.operator] if verb.operator else []
    return Phrase([*subject.fr, *verb.before, verb.finite, *verb.after, *rest.fr],
                  [*subject.en, *operator, *verb.main, *rest.en])


def est_ce_que(subject: NounPhrase, verb: Group, rest: Phrase, asking: Phrase | None = None) -> Phrase:
    """(Où) est-ce que Paul travaille: (where) does Paul work. Its three words say the operator."""
    assert verb.operator is not None
    asking = asking or nothing()
    est, ce, que = Word("est"), Word("ce"), Word("que")
    text, by = verb.operator
    return Phrase([*asking.fr, est, Word("-"), ce, que, *subject.fr, *verb.before, verb.finite, *verb.after, *rest.fr],
                  [*asking.en, (text, (*by, est, ce, que)), *subject.en, *verb.main, *rest.en])


def inverted(asking: Phrase, subject: NounPhrase, verb: Group, rest: Phrase) -> Phrase:
    """Où travaille-t-il: where does he work. A t stands between two vowels."""
    assert verb.operator is not None and subject.pronoun and subject.person > 0
    t = [Word("t"), Word("-")] if verb.finite.text[-1] in "ae" and subject.person == 2 else []
    return Phrase([*asking.fr, *verb.before, verb.finite, Word("-"), *t, *subject.fr, *verb.after, *rest.fr],
                  [*asking.en, verb.operator, *subject.en, *verb.main, *rest.en])
