import json
import random
import re
from collections import Counter
from itertools import islice, pairwise

import pytest
from click.testing import CliRunner

from regard.cli.data import command
from regard.corpora import phrasebook_grammar as g
from regard.corpora.phrasebook import ELIDED, PARTS, PhrasePair, finish, french_tokens, pairs, show, unseen
from regard.corpora.phrasebook_draft import SentenceDraft
from regard.corpora.phrasebook_grammar import Word, est_ce_que, group, inverted, nothing, noun_phrase, statement, word
from regard.corpora.phrasebook_sentences import FORMS
from regard.corpora.phrasebook_verbs import BE, CAN, HAVE, LIKE, VERB, VERBS, WANT
from regard.corpora.phrasebook_words import (
    ADJECTIVES,
    ASPIRATED,
    CITIES,
    EVERY_NOUN,
    FEELINGS,
    NAMES,
    NOUN,
    NUMBERS,
    OFTEN,
    WHEN,
    before_vowel,
    english_plural,
    plural,
)
from regard.data import embedded
from regard.data.tokens.words import WordTokenizer
from regard.errors import SettingError
from tests.made_later import MadeLater

ADJECTIVE = {adjective.forms[0]: adjective for adjective in ADJECTIVES}
SPLIT = WordTokenizer([]).split
TRAIN = MadeLater(lambda: list(pairs(50_000)))
SOME = MadeLater(lambda: TRAIN[:20_000])
VALID = MadeLater(lambda: list(pairs(1_000, part="valid")))
UNSEEN = MadeLater(lambda: list(pairs(1_000, part="unseen")))
PAUL, MARIE = NAMES[0], NAMES[5]
FRENCH_NOUN = {form: noun for noun in EVERY_NOUN for form in noun.french}
HOMOGRAPHS = {"porte", "ferme", "lit", "montre", "montres", "cuisine", "portes", "froid", "watch"}
PLAIN_NOUNS = {form for noun in EVERY_NOUN for form in noun.english} - HOMOGRAPHS


def drawn(number, seed):
    """Sentences as they are drawn, before any is kept apart or dropped for having been said."""
    chance = random.Random(seed)
    for _ in range(number):
        draft = SentenceDraft(chance)
        form, mark = draft.pick(FORMS)
        yield finish(form(draft), mark)


def lines(phrase, mark="."):
    pair = finish(phrase, mark)
    return pair.source, pair.target


def some(french, *, det="the", many=False, number=None, first="", last=""):
    made = noun_phrase(NOUN[french], det, many, number, ADJECTIVE.get(first), ADJECTIVE.get(last))
    return " ".join(french_tokens(made.fr)), " ".join(text for text, _ in made.en)


# ------------------------------------------------------------------------------------------------ noun phrases
@pytest.mark.parametrize("said, french, english", [
    (some("homme"), "l'homme", "the man"),
    (some("hibou"), "le hibou", "the owl"),
    (some("haricot", many=True), "les haricots", "the beans"),
    (some("amie", det="my"), "mon amie", "my friend"),
    (some("amie", det="my", first="jeune"), "ma jeune amie", "my young friend"),
    (some("homme", det="this"), "cet homme", "this man"),
    (some("homme", det="this", first="vieux"), "ce vieil homme", "this old man"),
    (some("oiseau", det="a", first="beau"), "un bel oiseau", "a beautiful bird"),
    (some("hôtel", first="nouveau"), "le nouvel hôtel", "the new hotel"),
    (some("hibou", det="a", first="vieux"), "un vieux hibou", "a old owl"),          # an comes with the line
    (some("homme", many=True, first="vieux"), "les vieux hommes", "the old men"),
    (some("robe", first="beau", last="blanc"), "la belle robe blanche", "the beautiful white dress"),
    (some("pomme", det="a", many=True, first="petit"), "de petites pommes", "some small apples"),
    (some("pomme", det="a", many=True), "des pommes", "some apples"),
    (some("pain", det="some"), "du pain", "some bread"),
    (some("eau", det="some"), "de l'eau", "some water"),
    (some("viande", det="some", last="frais"), "de la viande fraîche", "some fresh meat"),
    (some("eau", det="no"), "d'eau", "any water"),
    (some("chat", det="no"), "de chat", "a cat"),
    (some("souris", det="no", many=True), "de souris", "a mouse"),                    # one rendering of pas de souris
    (some("pain", det="lots"), "beaucoup de pain", "a lot of bread"),
    (some("cheval", det="her", many=True, last="gris"), "ses chevaux gris", "her grey horses"),
    (some("chien", det="my", many=True, number=("deux", "two"), first="petit", last="noir"),
     "mes deux petits chiens noirs", "my two small black dogs"),
    (some("pomme", det="a", many=True, number=("onze", "eleven")), "onze pommes", "eleven apples"),
])
def test_articles_and_adjectives_agree_with_their_noun(said, french, english):
    assert said == (french, english)


def test_prepositions_contract_with_articles():
    near = Word("près"), Word("de")
    for noun, many, contracted in (("musée", False, "près du musée"), ("école", False, "près de l'école"),
                                   ("plage", False, "près de la plage"), ("chien", True, "près des chiens")):
        assert " ".join(french_tokens([*near, *noun_phrase(NOUN[noun], "the", many).fr])) == contracted
    for noun, many, contracted in (("roi", False, "au roi"), ("ami", False, "à l'ami"), ("fille", True, "aux filles")):
        assert " ".join(french_tokens([Word("à"), *noun_phrase(NOUN[noun], "the", many).fr])) == contracted
    assert " ".join(french_tokens([Word("si"), Word("il"), Word("si"), Word("elle")])) == "s'il si elle"


def test_plurals():
    assert [plural(one) for one in ("gâteau", "journal", "bus", "hibou", "clé")] == [
        "gâteaux", "journaux", "bus", "hiboux", "clés"]
    assert [english_plural(one) for one in ("box", "story", "man", "key", "knife", "sandwich", "tomato")] == [
        "boxes", "stories", "men", "keys", "knives", "sandwiches", "tomatoes"]


# ------------------------------------------------------------------------------------------------ clauses
JE, SHE, WE, THEY = g.pronoun(0), g.pronoun(2, True), g.pronoun(3), g.pronoun(5)


def says(subject, verb, *args, rest=None, **more):
    return lines(statement(subject, group(VERB[verb], subject, *args, **more), rest or nothing()))


APPLE = noun_phrase(NOUN["pomme"], "a")
STATEMENTS = [
    (says(JE, "aimer", negation="pas"), "Je n'aime pas.", "I do not like."),
    (says(SHE, "aider", pronoun="nous", him="us"), "Elle nous aide.", "She helps us."),
    (says(JE, "voir", pronoun="le", him="him"), "Je le vois.", "I see him."),
    (says(g.pronoun(2), "manger", negation="pas", pronoun="les", him="them"), "Il ne les mange pas.",
     "He does not eat them."),
    (says(JE, "voir", "past", pronoun="la", him="her", agree=(True, False)), "Je l'ai vue.", "I saw her."),
    (says(JE, "prendre", "past", pronoun="les", him="them", agree=(False, True)), "Je les ai pris.", "I took them."),
    (says(JE, "acheter", "future", pronoun="le", him="it", negation="jamais"), "Je ne vais jamais l'acheter.",
     "I am never going to buy it."),
    (says(SHE, "aller", "past"), "Elle est allée.", "She went."),
    (says(THEY, "partir", "past", negation="pas"), "Ils ne sont pas partis.", "They did not leave."),
    (says(g.named(PAUL), "attendre", negation="plus"), "Paul n'attend plus.", "Paul no longer waits for."),
    (says(WE, "manger", rest=APPLE), "Nous mangeons une pomme.", "We eat an apple."),
    (says(SHE, "manger", "imperfect"), "Elle mangeait.", "She was eating."),
    (says(SHE, "vouloir", "imperfect", negation="pas"), "Elle ne voulait pas.", "She did not want."),
    (says(SHE, "chanter", modal=CAN, negation="pas"), "Elle ne peut pas chanter.", "She cannot sing."),
    (says(SHE, "lire", modal=WANT, pronoun="le", him="it"), "Elle veut le lire.", "She wants to read it."),
    (says(JE, "danser", modal=LIKE, negation="pas"), "Je n'aime pas danser.", "I do not like to dance."),
    (says(g.pronoun(2), "dormir", adverb=OFTEN[0], negation="pas"), "Il ne dort pas souvent.",
     "He does not often sleep."),
    (says(g.both(g.named(MARIE), g.named(PAUL)), "tomber", "past"), "Marie et Paul sont tombés.",
     "Marie and Paul fell."),
]


@pytest.mark.parametrize("said, french, english", STATEMENTS)
def test_verbs_agree_and_words_stand_in_their_places(said, french, english):
    assert said == (french, english)


def test_questions_are_asked_in_both_ways():
    verb = group(VERB["manger"], SHE, asked=True)
    assert lines(est_ce_que(SHE, verb, APPLE), "?") == ("Est-ce qu'elle mange une pomme?", "Does she eat an apple?")
    he, what, where = g.pronoun(2), word("que", "what"), word("où", "where")
    assert lines(inverted(what, he, group(VERB["manger"], he, asked=True), nothing()), "?") == (
        "Que mange-t-il?", "What does he eat?")
    assert lines(inverted(where, THEY, group(VERB["lire"], THEY, "past", asked=True), nothing()), "?") == (
        "Où ont-ils lu?", "Where did they read?")
    assert lines(est_ce_que(he, group(BE, he, asked=True), word("triste", "sad")), "?") == (
        "Est-ce qu'il est triste?", "Is he sad?")


def test_the_alignment_of_a_sentence_known_by_hand():
    verb = group(VERB["voir"], JE, "past", negation="pas")
    pair = finish(statement(JE, verb, noun_phrase(NOUN["homme"], "this", first=ADJECTIVE["vieux"])))
    assert pair == PhrasePair("Je n'ai pas vu ce vieil homme.", "I did not see this old man.",
                        ((0, 0), (1, 1), (1, 2), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7)))
    owned = finish(statement(g.owned(noun_phrase(NOUN["ami"]), MARIE), group(VERB["dormir"], SHE), nothing()))
    assert (owned.source, owned.target) == ("L'ami de Marie dort.", "Marie's friend sleeps.")
    assert owned.pharaoh == "0-1 1-0 2-0 3-2 4-3"


# ------------------------------------------------------------------------------------------------ many sentences
def test_the_same_seed_says_the_same():
    assert SOME[:200] == list(pairs(200)) != list(pairs(200, seed=1))
    assert list(pairs(50, 3, "valid")) == list(pairs(50, 3, "valid"))


NEVER = {("de", "le"), ("de", "les"), ("à", "le"), ("à", "les"), ("si", "il"), ("si", "ils")}
BEFORE_VOWEL = {"ma", "ta", "sa", "ce", "beau", "nouveau"}


def misspelled(line):
    """Whether words that should have changed for their neighbour did not, or the other way round."""
    words = [each.lower() for each in SPLIT(line)]
    return any((left in ELIDED and before_vowel(right)) or (left, right) in NEVER
               or (left in BEFORE_VOWEL and right in FRENCH_NOUN and before_vowel(right))
               for left, right in pairwise(words)) or \
        any("'" in each and not before_vowel(each.split("'")[1]) for each in words)


def test_elision_and_contraction_happen_everywhere():
    assert not [pair.source for pair in SOME if misspelled(pair.source)]
    assert not any(before_vowel(each) for each in ASPIRATED)


@pytest.mark.parametrize("line", ["Je ai faim.", "Le homme dort.", "Il va à le parc.", "C'est le chien de les rois.",
                                  "Si il dort.", "Ma amie dort.", "L'hibou dort.", "Un beau oiseau dort."])
def test_a_misspelling_would_be_seen(line):
    assert misspelled(line)


def test_negation_has_both_its_words():
    for pair in SOME:
        words = SPLIT(pair.source)
        before = sum(each in ("ne", "Ne") or each.startswith("n'") for each in words)
        after = sum(each in ("pas", "jamais", "plus") for each in words)
        assert before == after, pair


BASES = {verb.english for verb in VERBS} - {"be", "can", "must"}


def test_english_articles_and_verbs_agree():
    wrong = re.compile(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]|\b(?:does|do|did|can|cannot|must|to) (?:not )?\w+ed\b"
                       rf"|\b(?:does|did) (?:he|she) (?:{'|'.join(verb.third for verb in VERBS if verb is not BE)})\b")
    bare = re.compile(rf"^(?:He|She|Paul|Marie) (?:{'|'.join(sorted(BASES))})\b")
    past = {verb.past for verb in VERBS}
    for pair in SOME:
        assert not wrong.search(pair.target), pair
        found = bare.search(pair.target)
        assert not found or found[0].split()[1] in past, pair              # read is its own past
    assert wrong.search("I see a owl.") and bare.search("He see it.")       # the tests can fail


def test_lines_come_back_as_they_were():
    tokenizer = WordTokenizer(sorted({each for pair in SOME[:3000] for text in (pair.source, pair.target)
                                      for each in SPLIT(text)}))
    for pair in SOME[:3000]:
        for text in (pair.source, pair.target):
            assert tokenizer.decode(tokenizer.encode(text)) == text


def well_aligned(pair):
    """In range and in order, no English word without a French one, marks with marks, and nouns with their nouns."""
    french, english = SPLIT(pair.source), SPLIT(pair.target)
    if list(pair.alignment) != sorted(set(pair.alignment)) or pair.alignment[-1] != (len(french) - 1, len(english) - 1):
        return False
    sources, targets = ({link[side] for link in pair.alignment} for side in (0, 1))
    if targets != set(range(len(english))) or not sources <= set(range(len(french))):
        return False
    for i, j in pair.alignment:
        noun = FRENCH_NOUN.get(french[i].split("'")[-1].lower())
        if english[j] in PLAIN_NOUNS and french[i] not in HOMOGRAPHS and not (noun and english[j] in noun.english):
            return False
    return True


def test_alignments_are_in_range_and_nouns_say_nouns():
    assert not [pair for pair in SOME if not well_aligned(pair)]


def test_a_wrong_alignment_would_be_seen():
    right = finish(statement(JE, group(VERB["voir"], JE), noun_phrase(NOUN["chat"])))
    assert well_aligned(right) and right.pharaoh == "0-0 1-1 2-2 3-3 4-4"
    for links in (((0, 0), (1, 1), (2, 3), (3, 2), (4, 4)), right.alignment[1:], right.alignment[:-1]):
        assert not well_aligned(PhrasePair(right.source, right.target, links))


def test_a_french_sentence_has_one_english_rendering_and_there_are_millions():
    said, times = {}, Counter()
    for pair in drawn(60_000, seed=9):
        assert said.setdefault(pair.source, pair) == pair
        times[pair.source] += 1
    counts = Counter(times.values())
    at_least = len(said) + counts[1] ** 2 / (2 * counts[2])                  # Chao 1984: a lower bound of all there are
    assert at_least > 1_000_000


def test_the_lexicon_is_large_and_the_vocabulary_small():
    phrases = [*OFTEN, *(each for times in WHEN.values() for each in times)]
    small = "je tu il elle nous vous ils elles me te le les leur un ce mon ton son notre votre de beaucoup dans sur " \
            "sous devant derrière près avec pour à en et mais parce quand si où pourquoi combien qui que ne pas " \
            "jamais plus très"
    french = {noun.french[0] for noun in EVERY_NOUN} | {verb.french for verb in VERBS} | set(small.split())
    french |= {each.forms[0] for each in ADJECTIVES} | {name.french for name in (*NAMES, *CITIES)}
    french |= {each for each, _ in (*NUMBERS, *FEELINGS)} | {each for said in phrases for each in said.french.split()}
    small = "I you he she we they me him her us them it the a some any this these my your his our their lot of in " \
            "on under front behind near with for to at and but because when if where why how many much who that " \
            "what not never no longer very do years there"
    english = {noun.english[0] for noun in EVERY_NOUN} | {verb.english for verb in VERBS} | set(small.split())
    english |= {each.english for each in ADJECTIVES} | {name.english for name in (*NAMES, *CITIES)}
    english |= {each for _, each in (*NUMBERS, *FEELINGS)} | {each for said in phrases for each in said.english.split()}
    assert len(french) >= 300 and len(english) >= 300
    types = [{each for pair in SOME for each in SPLIT(text(pair))} for text in (lambda p: p.source, lambda p: p.target)]
    assert 400 < len(types[1]) < 700 and 400 < len(types[0]) < 900
    assert {each.lower() for each in types[1]} >= {each.lower() for each in english - {"be"}}


def test_lengths_vary():
    lengths = [len(SPLIT(pair.source)) for pair in SOME]
    assert max(lengths) <= 26 and sum(4 <= each <= 15 for each in lengths) > 0.85 * len(lengths)
    assert sum(each > 15 for each in lengths) > 0.03 * len(lengths)


# ------------------------------------------------------------------------------------------------ the three parts
def test_no_sentence_comes_twice_or_in_two_parts():
    sources = [{pair.source for pair in part} for part in (TRAIN, VALID, UNSEEN)]
    assert [len(each) for each in sources] == [50_000, 1_000, 1_000]
    assert not sources[0] & sources[1] and not sources[0] & sources[2] and not sources[1] & sources[2]


LEMMAS = {form: each.forms[0] for each in ADJECTIVES for form in (*each.forms, each.vowel)}
VERB_FORMS = {form: verb.french for verb in VERBS if verb.objects and verb is not HAVE      # il y a is not avoir
              for form in (*verb.present, verb.french, verb.participle) if form not in FRENCH_NOUN}


def combinations(pair):
    """Adjectives beside nouns, and verbs before un, une, le, la and a noun, as the words of the line show them."""
    words = [each.split("'")[-1].lower() for each in SPLIT(pair.source)]
    for left, right in pairwise(words):
        if left in LEMMAS and right in FRENCH_NOUN:
            yield LEMMAS[left], FRENCH_NOUN[right].french[0]
        if left in FRENCH_NOUN and right in LEMMAS and left not in HOMOGRAPHS:
            yield LEMMAS[right], FRENCH_NOUN[left].french[0]
    for verb, article, noun in zip(words, words[1:], words[2:], strict=False):
        if verb in VERB_FORMS and article in ("un", "une", "le", "la", "les", "du") and noun in FRENCH_NOUN:
            yield VERB_FORMS[verb], FRENCH_NOUN[noun].french[0]


def test_unseen_combinations_are_never_learned_from_but_their_parts_are():
    met = {both for pair in (*TRAIN, *VALID) for both in combinations(pair)}
    assert not {both for both in met if unseen(*both)}
    fresh = {both for pair in UNSEEN for both in combinations(pair) if unseen(*both)}
    assert len(fresh) > 50
    known = {each.lower() for pair in TRAIN for text in (pair.source, pair.target) for each in SPLIT(text)}
    words = [each.lower() for pair in UNSEEN for text in (pair.source, pair.target) for each in SPLIT(text)]
    assert sum(each not in known for each in words) < 0.001 * len(words)
    assert {noun for _, noun in fresh} <= {noun for _, noun in met}
    assert {first for first, _ in fresh} <= {first for first, _ in met}


def test_an_unknown_part_is_named():
    with pytest.raises(SettingError, match="no part test"):
        pairs(1, part="test")
    with pytest.raises(SettingError, match="did you mean valid"):
        pairs(1, part="vaild")
    assert PARTS == ("train", "valid", "unseen")


# ------------------------------------------------------------------------------------------------ shown and written
def test_a_pair_is_shown_word_above_word():
    king_and_queen = g.both(noun_phrase(NOUN["roi"]), noun_phrase(NOUN["reine"]))
    pair = finish(statement(JE, group(VERB["voir"], JE, negation="pas"), king_and_queen))
    assert show(pair).splitlines() == [
        "Je ne vois pas le roi et la reine.",
        "I do not see the king and the queen.",
        "    Je  ne   vois    pas  le   roi   et   la     reine  .",
        "    I   not  do+see  not  the  king  and  the#2  queen  ."]
    assert all(len(row) <= 120 for pair in SOME[:300] for row in show(pair).splitlines()[2:])


def test_the_phrasebook_is_listed_shown_and_written(tmp_path):
    def run(*arguments):
        done = CliRunner().invoke(command, arguments, catch_exceptions=False)
        assert done.exit_code == 0
        return done.stdout

    assert "phrasebook" in {row["name"] for row in json.loads(run("list", "--json"))}
    first = next(embedded.pairs("phrasebook"))
    assert run("show", "phrasebook", "--lines", "1") == show(first) + "\n\n"
    prefix = tmp_path / "small"
    assert run("get", "phrasebook", "--out", str(prefix), "--lines", "30").startswith("30 pairs in ")
    written = [(tmp_path / f"small.{end}").read_text().splitlines() for end in ("fr", "en", "align")]
    wanted = list(islice(embedded.pairs("phrasebook"), 30))
    assert written == [[p.source for p in wanted], [p.target for p in wanted], [p.pharaoh for p in wanted]]
