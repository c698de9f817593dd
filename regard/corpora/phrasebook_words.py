"""The words of the phrasebook but its verbs: nouns by kind, adjectives, numerals, names, adverbs, times of day.

A noun's kind says what can be done with it (food is eaten, clothes are worn, one goes to places), so that what
the grammar says is sensible. Words whose translation would depend on more than the sentence are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

ASPIRATED = frozenset({"hibou", "hiboux", "haricot", "haricots", "huit", "onze"})     # no elision before these
VOWELS = frozenset("aeiouàâéèêëîïôùûœh")                # a French h is silent, unless the word is ASPIRATED


def before_vowel(word: str) -> bool:
    """Whether le, de, que ... lose their vowel before this word (`y` alone does it, as in n'y)."""
    return (word[0].lower() in VOWELS and word not in ASPIRATED) or word == "y"


def plural(word: str) -> str:
    """The French plural: gâteaux, chevaux, bus."""
    if word[-1] in "sxz":
        return word
    if word.endswith("al"):
        return word[:-2] + "aux"
    return word + ("x" if word.endswith("eau") or word == "hibou" else "s")


IRREGULAR_PLURALS = {"man": "men", "woman": "women", "child": "children", "mouse": "mice", "sheep": "sheep",
                     "knife": "knives", "wolf": "wolves"}


def english_plural(word: str) -> str:
    """The English plural: boxes, strawberries, men."""
    if word in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[word]
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh", "tomato")) else "s")


@dataclass(frozen=True)
class Noun:
    """A noun of both languages. One that is not counted (bread), or that there is one of (kitchen), has no plural."""

    french: tuple[str, str]      # one, and many
    english: tuple[str, str]
    feminine: bool
    kind: str
    counted: bool                # takes `a`; what is not takes `some`
    plural: bool


class Adjective(NamedTuple):
    """Masculine, feminine, and their plurals; before the noun or after it; said of these kinds of nouns, or these
    nouns."""

    forms: tuple[str, str, str, str]
    english: str
    first: bool
    kinds: frozenset[str]
    vowel: str                   # the masculine before a vowel: bel, nouvel, vieil

    def agree(self, feminine: bool, many: bool) -> str:
        return self.forms[feminine + 2 * many]


def _nouns(kind: str, table: str, counted: bool = True, many: bool = True) -> tuple[Noun, ...]:
    nouns = []
    for row in table.split():
        french, gender, english = row.split(":")
        one = not many or gender.isupper()          # a capital gender: no plural
        nouns.append(Noun((french, plural(french)), (english, english_plural(english)), gender in "fF", kind,
                          counted, counted and not one))
    return tuple(nouns)


NOUNS = {
    "person": _nouns("person", """homme:m:man femme:f:woman garçon:m:boy fille:f:girl enfant:m:child roi:M:king
        reine:F:queen médecin:m:doctor boulanger:m:baker professeur:m:teacher danseuse:f:dancer soldat:m:soldier
        chanteuse:f:singer fermier:m:farmer facteur:M:postman dentiste:m:dentist"""),
    "kin": _nouns("kin", """ami:m:friend amie:f:friend frère:m:brother sœur:f:sister père:M:father mère:F:mother
        oncle:M:uncle tante:F:aunt cousin:m:cousin cousine:f:cousin voisin:m:neighbour voisine:F:neighbour
        fils:m:son"""),
    "animal": _nouns("animal", """chien:m:dog chat:m:cat cheval:m:horse oiseau:m:bird vache:f:cow mouton:m:sheep
        lapin:m:rabbit souris:f:mouse poule:f:hen canard:m:duck hibou:m:owl loup:m:wolf"""),
    "food": _nouns("food", """pomme:f:apple poire:f:pear orange:f:orange gâteau:m:cake œuf:m:egg tomate:f:tomato
        carotte:f:carrot biscuit:m:biscuit sandwich:m:sandwich fraise:f:strawberry citron:m:lemon
        haricot:m:bean"""),
    "meal": _nouns("meal", """pain:m:bread fromage:m:cheese viande:f:meat riz:m:rice soupe:f:soup beurre:m:butter
        sucre:m:sugar confiture:f:jam miel:m:honey chocolat:m:chocolate""", counted=False),
    "drink": _nouns("drink", "eau:f:water lait:m:milk café:m:coffee thé:m:tea vin:m:wine bière:f:beer jus:m:juice",
                    counted=False),
    "thing": _nouns("thing", """clé:f:key stylo:m:pen crayon:m:pencil montre:F:watch lampe:F:lamp couteau:m:knife
        verre:m:glass tasse:f:cup bouteille:f:bottle ballon:m:ball parapluie:M:umbrella téléphone:M:telephone
        photo:f:photo fleur:f:flower cadeau:m:gift miroir:M:mirror bague:F:ring"""),
    "container": _nouns("container", "sac:M:bag boîte:f:box panier:M:basket valise:f:suitcase"),
    "text": _nouns("text", """livre:m:book lettre:f:letter journal:m:newspaper roman:M:novel poème:M:poem
        histoire:f:story carte:F:map"""),
    "clothes": _nouns("clothes", """chapeau:m:hat manteau:M:coat robe:f:dress chemise:f:shirt jupe:F:skirt
        veste:F:jacket cravate:F:tie"""),
    "furniture": _nouns("furniture", "table:f:table chaise:f:chair lit:m:bed bureau:m:desk", many=False),
    "opening": _nouns("opening", "porte:f:door fenêtre:f:window"),
    "vehicle": _nouns("vehicle", """voiture:f:car vélo:M:bicycle train:M:train bus:m:bus bateau:m:boat
        camion:M:truck"""),
    "room": _nouns("room", "maison:f:house jardin:m:garden cuisine:f:kitchen chambre:f:bedroom", many=False),
    "place": _nouns("place", """école:f:school marché:m:market gare:f:station hôpital:m:hospital église:f:church
        musée:m:museum parc:m:park restaurant:m:restaurant boulangerie:f:bakery plage:f:beach hôtel:m:hotel
        banque:f:bank ferme:f:farm château:m:castle cinéma:m:cinema théâtre:m:theatre bibliothèque:f:library""",
                    many=False),
    "region": _nouns("region", "forêt:f:forest village:m:village ville:f:city rue:f:street", many=False),
}
EVERY_NOUN = tuple(noun for nouns in NOUNS.values() for noun in nouns)
NOUN = {noun.french[0]: noun for noun in EVERY_NOUN}
PEOPLE = NOUNS["person"] + NOUNS["kin"]
TRADES = tuple(NOUN[word] for word in ("médecin", "boulanger", "professeur", "soldat", "fermier", "dentiste",
                                       "danseuse", "chanteuse"))
SURFACES = tuple(NOUN[word] for word in ("table", "chaise", "lit", "bureau"))


def pool(names: str) -> tuple[Noun, ...]:
    """The nouns meant by these kinds and words, in their order."""
    return tuple(noun for name in names.split() for noun in (NOUNS[name] if name in NOUNS else (NOUN[name],)))


ELDERS = "homme femme roi reine médecin professeur soldat fermier ami amie oncle tante voisin voisine"
FEMININES = {"beau": "belle", "nouveau": "nouvelle", "vieux": "vieille", "bon": "bonne", "blanc": "blanche",
             "gentil": "gentille", "frais": "fraîche", "cher": "chère"}
BEFORE_VOWELS = {"beau": "bel", "nouveau": "nouvel", "vieux": "vieil"}


def _adjectives(first: bool, table: str) -> tuple[Adjective, ...]:
    made = []
    for line in table.strip().splitlines():
        french, english, *kinds = line.replace("ELDERS", ELDERS).split()
        feminine = FEMININES.get(french, french if french[-1] == "e" else french + "e")
        forms = (french, feminine, plural(french), plural(feminine))
        made.append(Adjective(forms, english, first, frozenset(kinds), BEFORE_VOWELS.get(french, french)))
    return tuple(made)


FIRST = _adjectives(True, """
    petit small animal food thing container text clothes furniture opening vehicle room place region
    grand big animal container furniture opening vehicle room place region
    beau beautiful animal thing clothes vehicle room place region
    nouveau new thing container text clothes furniture vehicle
    vieux old ELDERS animal thing container text clothes furniture vehicle room place region
    bon good food meal drink text
    mauvais bad food meal drink text
    jeune young person kin animal""")
COLOURS = _adjectives(False, """
    rouge red thing container clothes furniture opening vehicle
    jaune yellow thing container clothes furniture vehicle
    bleu blue thing container clothes furniture opening vehicle
    vert green thing container clothes opening vehicle
    noir black animal thing container clothes furniture opening vehicle
    blanc white animal thing container clothes furniture opening vehicle
    gris grey animal thing container clothes furniture opening vehicle""")
QUALITIES = _adjectives(False, """
    triste sad person kin
    malade ill person kin animal
    célèbre famous person place
    riche rich person kin
    fatigué tired person kin animal
    content happy person kin
    gentil kind person kin animal
    chaud hot soupe café thé eau lait chocolat
    frais fresh food pain fromage viande beurre lait
    propre clean thing container clothes room
    sale dirty thing container clothes vehicle room
    rapide fast vehicle
    tranquille quiet place region
    cher expensive thing container clothes vehicle furniture""")
ADJECTIVES = FIRST + COLOURS + QUALITIES
ADJECTIVE = {adjective.forms[0]: adjective for adjective in ADJECTIVES}
ONLY_SAID = frozenset({"ill"})              # `the ill boy` is not said; `the boy is ill` is


def _said_of(noun: Noun, adjectives: tuple[Adjective, ...]) -> tuple[Adjective, ...]:
    return tuple(each for each in adjectives if noun.kind in each.kinds or noun.french[0] in each.kinds)


SAID_OF = {noun.french[0]: _said_of(noun, ADJECTIVES) for noun in EVERY_NOUN}
COLOURS_OF = {noun.french[0]: _said_of(noun, COLOURS) for noun in EVERY_NOUN}


class Name(NamedTuple):
    """Someone, or somewhere, by name."""

    french: str
    english: str
    feminine: bool = False


NAMES = (Name("Paul", "Paul"), Name("Pierre", "Pierre"), Name("Luc", "Luc"), Name("Marc", "Marc"),
         Name("Louis", "Louis"), Name("Marie", "Marie", True), Name("Claire", "Claire", True),
         Name("Sophie", "Sophie", True), Name("Julie", "Julie", True), Name("Anne", "Anne", True))
CITIES = (Name("Paris", "Paris"), Name("Lyon", "Lyon"), Name("Londres", "London"), Name("Genève", "Geneva"),
          Name("Bruxelles", "Brussels"))
NUMBERS = (("deux", "two"), ("trois", "three"), ("quatre", "four"), ("cinq", "five"), ("six", "six"), ("sept", "seven"),
           ("huit", "eight"), ("neuf", "nine"), ("dix", "ten"), ("onze", "eleven"), ("douze", "twelve"),
           ("vingt", "twenty"))


class Saying(NamedTuple):
    """Words that go together, with which French one says which English one (as i-j)."""

    french: str
    english: str
    links: str


OFTEN = (Saying("souvent", "often", "0-0"), Saying("toujours", "always", "0-0"), Saying("rarement", "rarely", "0-0"))
WHEN = {
    "present": (Saying("chaque jour", "every day", "0-0 1-1"), Saying("le matin", "in the morning", "0-0 0-1 1-2"),
                Saying("le soir", "in the evening", "0-0 0-1 1-2"), Saying("le dimanche", "on Sundays", "0-0 1-1"),
                Saying("le lundi", "on Mondays", "0-0 1-1"), Saying("en été", "in summer", "0-0 1-1"),
                Saying("en hiver", "in winter", "0-0 1-1"), Saying("au printemps", "in spring", "0-0 1-1")),
    "past": (Saying("hier", "yesterday", "0-0"), Saying("ce matin", "this morning", "0-0 1-1"),
             Saying("hier soir", "yesterday evening", "0-0 1-1"), Saying("lundi dernier", "last Monday", "0-1 1-0"),
             Saying("la semaine dernière", "last week", "1-1 2-0")),
    "future": (Saying("demain", "tomorrow", "0-0"), Saying("ce soir", "this evening", "0-0 1-1"),
               Saying("lundi prochain", "next Monday", "0-1 1-0"), Saying("bientôt", "soon", "0-0"),
               Saying("demain matin", "tomorrow morning", "0-0 1-1"),
               Saying("la semaine prochaine", "next week", "1-1 2-0")),
}
WHEN["imperfect"] = WHEN["past"][:2]
FEELINGS = (("faim", "hungry"), ("soif", "thirsty"), ("froid", "cold"), ("peur", "afraid"), ("raison", "right"))
