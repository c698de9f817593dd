"""The verbs of the phrasebook: how they are conjugated in both languages, and who does them to what.

Four tenses. The present is the English simple present; the passé composé, and the imparfait of a state, are the
simple past; the imparfait of an action is `was eating`; the futur proche is `is going to eat`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from regard.text.phrasebook_words import Noun, pool


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
    agrees: bool = False                   # object pronouns and `que` in the passé composé: je l'ai vue

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


IRREGULAR = {                              # the present, then the participle
    "boire": "bois bois boit buvons buvez boivent bu",
    "vendre": "vends vends vend vendons vendez vendent vendu",
    "voir": "vois vois voit voyons voyez voient vu",
    "perdre": "perds perds perd perdons perdez perdent perdu",
    "attendre": "attends attends attend attendons attendez attendent attendu",
    "connaître": "connais connais connaît connaissons connaissez connaissent connu",
    "ouvrir": "ouvre ouvres ouvre ouvrons ouvrez ouvrent ouvert",
    "lire": "lis lis lit lisons lisez lisent lu",
    "écrire": "écris écris écrit écrivons écrivez écrivent écrit",
    "prendre": "prends prends prend prenons prenez prennent pris",
    "choisir": "choisis choisis choisit choisissons choisissez choisissent choisi",
    "faire": "fais fais fait faisons faites font fait",
    "dormir": "dors dors dort dormons dormez dorment dormi",
    "courir": "cours cours court courons courez courent couru",
    "partir": "pars pars part partons partez partent parti",
    "aller": "vais vas va allons allez vont allé",
    "vouloir": "veux veux veut voulons voulez veulent voulu",
    "pouvoir": "peux peux peut pouvons pouvez peuvent pu",
    "devoir": "dois dois doit devons devez doivent dû",
    "savoir": "sais sais sait savons savez savent su",
    "être": "suis es est sommes êtes sont été",
    "avoir": "ai as a avons avez ont eu",
}


def _verb(french: str, english: str, objects: str = "", it: str = "", **more: object) -> Verb:
    """English as `eat ate`, `wait for`, `like` (a regular past is made)."""
    if french in IRREGULAR:
        *present, participle = IRREGULAR[french].split()
    else:
        present, participle = list(_er(french)), french[:-2] + "é"
    first, *other = english.split()
    particle = next((word for word in other if word in ("for", "to")), "")
    past = next((word for word in other if word != particle), first + ("d" if first.endswith("e") else "ed"))
    return Verb(french, tuple(present), participle, first, particle, past, objects=pool(objects), it=it, **more)


TRANSITIVE = (
    _verb("manger", "eat ate", "food meal", "it", ing="eating", animals=True),
    _verb("boire", "drink drank", "drink", "it", ing="drinking", animals=True),
    _verb("acheter", "buy bought", "food meal drink thing container text clothes vehicle", "it", agrees=True),
    _verb("vendre", "sell sold", "food meal drink thing clothes vehicle", "it"),
    _verb("voir", "see saw", "person kin animal vehicle place", "him", agrees=True, animals=True),
    _verb("chercher", "look for", "person kin animal thing container", "him", ing="looking", animals=True),
    _verb("trouver", "find found", "animal thing container text clothes", "it", agrees=True),
    _verb("perdre", "lose lost", "thing container clothes text", "it", agrees=True),
    _verb("aider", "help", "person kin"),
    _verb("attendre", "wait for", "person kin train bus", ing="waiting"),
    _verb("écouter", "listen to", "person kin"),
    _verb("rencontrer", "meet met", "person kin", "him", agrees=True),
    _verb("connaître", "know knew", "person kin place", "him"),
    _verb("laver", "wash", "clothes vehicle assiette tasse verre couteau bouteille chien cheval", "it"),
    _verb("porter", "wear wore", "clothes montre bague", "it", ing="wearing"),
    _verb("ouvrir", "open", "opening container lettre bouteille", "it"),
    _verb("fermer", "close", "opening container livre", "it"),
    _verb("lire", "read read", "text", "it", ing="reading"),
    _verb("écrire", "write wrote", "lettre livre roman poème histoire", "it", ing="writing"),
    _verb("prendre", "take took", "thing container text clothes vehicle", "it", agrees=True),
    _verb("choisir", "choose chose", "thing clothes text food meal drink", "it"),
    _verb("faire", "make made", "gâteau soupe café thé pain sandwich robe"),
    _verb("réparer", "repair", "vehicle téléphone montre lampe ordinateur furniture", "it"),
    _verb("visiter", "visit", "place village ville", "it"),
    _verb("dessiner", "draw drew", "animal fleur furniture vehicle château maison", "it"),
)
GIVING = (_verb("donner", "give gave", "food thing container text clothes animal"),
          _verb("montrer", "show", "thing text clothes animal vehicle"),
          _verb("prêter", "lend lent", "thing text clothes vehicle"))
INTRANSITIVE = (
    _verb("dormir", "sleep slept", ing="sleeping", animals=True),
    _verb("travailler", "work", ing="working"),
    _verb("courir", "run ran", ing="running", animals=True),
    _verb("chanter", "sing sang"),
    _verb("danser", "dance", ing="dancing"),
    _verb("jouer", "play", ing="playing", animals=True),
    _verb("parler", "talk"),
    _verb("nager", "swim swam", animals=True),
    _verb("tomber", "fall fell", by_being=True, animals=True),
    _verb("rester", "stay", by_being=True, animals=True),
    _verb("arriver", "arrive", by_being=True),
    _verb("partir", "leave left", by_being=True),
)
GO = _verb("aller", "go went", by_being=True)
LIVE = _verb("habiter", "live")
LIKE = _verb("aimer", "like", "person kin animal food meal drink text clothes place region")
BE = _verb("être", "be was")
HAVE = _verb("avoir", "have had", "animal thing container text clothes vehicle kin furniture")
WANT = _verb("vouloir", "want", "food meal drink thing clothes vehicle")
CAN = _verb("pouvoir", "can could")
MUST = _verb("devoir", "must must")
THINKING = (_verb("penser", "think thought"), _verb("savoir", "know knew"))
VERBS = (*TRANSITIVE, *GIVING, *INTRANSITIVE, GO, LIVE, LIKE, BE, HAVE, WANT, CAN, MUST, *THINKING)
VERB = {verb.french: verb for verb in VERBS}
STATES = frozenset({"être", "avoir", "aimer", "habiter", "vouloir"})     # their imparfait is the simple past
