"""The verbs of the phrasebook: how they are conjugated in both languages, and who does them to what.

Four tenses. The present is the English simple present; the passé composé, and the imparfait of a state, are the
simple past; the imparfait of an action is `was eating`; the futur proche is `is going to eat`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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


IRREGULAR = {                              # the present, then the participle
    "boire": "bois bois boit buvons buvez boivent bu",
    "vendre": "vends vends vend vendons vendez vendent vendu",
    "voir": "vois vois voit voyons voyez voient vu",
    "perdre": "perds perds perd perdons perdez perdent perdu",
    "attendre": "attends attends attend attendons attendez attendent attendu",
    "connaître": "connais connais connaît connaissons connaissez connaissent connu",
    "ouvrir": "ouvre ouvres ouvre ouvrons ouvrez ouvrent ouvert",
    "lire": "lis lis lit lisons lisez lisent lu",
    "prendre": "prends prends prend prenons prenez prennent pris",
    "choisir": "choisis choisis choisit choisissons choisissez choisissent choisi",
    "faire": "fais fais fait faisons faites font fait",
    "dormir": "dors dors dort dormons dormez dorment dormi",
    "courir": "cours cours court courons courez courent couru",
    "partir": "pars pars part partons partez partent parti",
    "vivre": "vis vis vit vivons vivez vivent vécu",
    "aller": "vais vas va allons allez vont allé",
    "vouloir": "veux veux veut voulons voulez veulent voulu",
    "pouvoir": "peux peux peut pouvons pouvez peuvent pu",
    "devoir": "dois dois doit devons devez doivent dû",
    "savoir": "sais sais sait savons savez savent su",
    "être": "suis es est sommes êtes sont été",
    "avoir": "ai as a avons avez ont eu",
}


OWNABLE = "voiture vélo bateau camion"


def _verb(french: str, english: str, objects: str = "", it: str = "", adjuncts: str = "", **more: Any) -> Verb:
    """English as `eat ate`, `wait for`, `like` (a regular past is made)."""
    if french in IRREGULAR:
        *present, participle = IRREGULAR[french].split()
    else:
        present, participle = list(_er(french)), french[:-2] + "é"
    first, *other = english.split()
    particle = next((word for word in other if word in ("for", "to")), "")
    past = next((word for word in other if word != particle), first + ("d" if first.endswith("e") else "ed"))
    return Verb(french, tuple(present), participle, first, particle, past, objects=pool(objects), it=it,
                adjuncts=tuple(adjuncts.split()), **more)


TRANSITIVE = (
    _verb("manger", "eat ate", "food meal", "it", "at with", ing="eating", animals=True),
    _verb("boire", "drink drank", "drink", "it", "at with"),
    _verb("acheter", "buy bought", f"food meal drink thing container text clothes {OWNABLE}", "it", "at for",
          agrees=True),
    _verb("vendre", "sell sold", f"food meal drink thing clothes {OWNABLE}", "it", "at", few=True),
    _verb("voir", "see saw", "person kin animal vehicle place", "him", agrees=True, animals=True),
    _verb("chercher", "look for", "person kin animal thing container", "him", "at for", animals=True),
    _verb("trouver", "find found", "animal thing container text clothes", "it", "at", agrees=True, few=True),
    _verb("perdre", "lose lost", "thing container clothes text", "it", "at", few=True),
    _verb("aider", "help", "person kin", "", "at", few=True),
    _verb("attendre", "wait for", "person kin train bus", "", "at with", few=True),
    _verb("rencontrer", "meet met", "person kin", "him", "at", few=True),
    _verb("connaître", "know knew", "person kin place", "him", few=True),
    _verb("laver", "wash", "clothes voiture vélo camion tasse verre couteau chien cheval", "it", "at for", few=True),
    _verb("porter", "wear wore", "clothes montre bague", "it", "at", few=True),
    _verb("ouvrir", "open", "opening sac boîte valise lettre bouteille", "it", "for", few=True),
    _verb("fermer", "close", "opening sac boîte valise livre", "it", few=True),
    _verb("lire", "read read", "text", "it", "at with", ing="reading"),
    _verb("prendre", "take took", "thing container text clothes train bus bateau", "it", "for", agrees=True),
    _verb("choisir", "choose chose", "thing clothes text food meal drink", "it", "for", few=True),
    _verb("faire", "make made", "gâteau soupe café thé pain sandwich robe", "", "at for"),
    _verb("réparer", "repair", "vehicle téléphone montre lampe chaise table", "it", "at for", few=True),
    _verb("visiter", "visit", "place village ville", "it", "with", few=True),
)
GIVING = (_verb("donner", "give gave", "food thing container text clothes chien chat lapin"),
          _verb("montrer", "show", f"thing text clothes animal {OWNABLE}", few=True),
          _verb("prêter", "lend lent", f"thing livre journal roman clothes {OWNABLE}", few=True))
INTRANSITIVE = (
    _verb("dormir", "sleep slept", adjuncts="at", ing="sleeping", animals=True),
    _verb("travailler", "work", adjuncts="at with for", ing="working"),
    _verb("jouer", "play", adjuncts="at with", ing="playing", animals=True, few=True),
    _verb("marcher", "walk", adjuncts="in with", animals=True, few=True),
    _verb("courir", "run ran", adjuncts="in", animals=True, few=True),
    _verb("chanter", "sing sang", adjuncts="at with for", few=True),
    _verb("danser", "dance", adjuncts="at with", few=True),
    _verb("parler", "talk", adjuncts="with", few=True),
    _verb("rester", "stay", adjuncts="at with", by_being=True, animals=True, few=True),
    _verb("tomber", "fall fell", adjuncts="in", by_being=True, animals=True, few=True),
    _verb("partir", "leave left", adjuncts="with", by_being=True, few=True),
)
GO = _verb("aller", "go went", by_being=True)
LIVE = _verb("vivre", "live", few=True)
LIKE = _verb("aimer", "like", "person kin animal food meal drink text clothes place region")
BE = _verb("être", "be was")
HAVE = _verb("avoir", "have had", f"chien chat cheval vache lapin poule thing container text clothes {OWNABLE} "
             "frère sœur ami amie cousin cousine fils voisin")
WANT = _verb("vouloir", "want", f"food meal drink thing clothes {OWNABLE}")
CAN = _verb("pouvoir", "can could")
MUST = _verb("devoir", "must must")
THINKING = (_verb("penser", "think thought"), _verb("savoir", "know knew"))
VERBS = (*TRANSITIVE, *GIVING, *INTRANSITIVE, GO, LIVE, LIKE, BE, HAVE, WANT, CAN, MUST, *THINKING)
VERB = {verb.french: verb for verb in VERBS}
STATES = frozenset({"être", "avoir", "aimer", "vivre", "vouloir", "connaître"})     # their imparfait is the simple past
