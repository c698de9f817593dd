"""The plots behind the gists: stories of the small world whose point no single sentence tells.

A plot gives its sentences and its gist (gist_plots.toml), with square brackets around key words. Other people, things
and places stand about, of the same kinds as those that count. No word is drawn for two of them, and the fixed text uses
none that could be drawn, so that every mention of a key word speaks of the same person or thing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.corpora.stories import TOOLS, aside
from regard.corpora.story_world import ANIMALS, COATS, COLOURS, FOODS, PLACES, ROOMS, TOYS, World, a, an, up

Told = tuple[list[str], str]               # the sentences and the gist, marked

PLOT: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
FOUND, MISHAPS, CAUGHT, GEAR = (PLOT[name]["ends"] for name in ("found", "race", "runaway", "journey"))


def tell(w: World, plot: str, names: dict[str, Any]) -> Told:
    names["aside"] = aside
    return w.tell(PLOT[plot]["story"], names), w.fill(PLOT[plot]["gist"], names)


def found(w: World) -> Told:
    """Whose thing it was stands at the beginning, who found it and where in the middle, what became of it later."""
    owner, finder = w.pair()
    other = w.person()
    colour, thing, ends = w.pick(COLOURS), w.pick(TOYS), w.chance.choice(list(FOUND))
    home, lost, searched, place = (w.pick(PLACES) for _ in range(4))
    turn, he, own = FOUND[ends], up(finder.he), finder.his
    return tell(w, "found", locals())


def passed_on(w: World) -> Told:
    """The thing goes through one pair of hands or two, and the last sentence has only a pronoun for its keeper."""
    maker = w.person()
    first, second = w.pair()
    colour, thing = w.pick(COLOURS), w.pick(TOYS)
    workshop, room, place = w.pick(ROOMS), w.pick(ROOMS), w.pick(PLACES)
    holder, happens = (second, "given") if w.chance.random() < 0.5 else (first, "kept")
    hands = w.tell(PLOT["passed_on"][happens], locals())
    return tell(w, "passed_on", locals())


def race(w: World) -> Told:
    """A race: the prize, who came first, and what had happened to the one who was ahead."""
    winner, leader, third = w.person(), w.person(), w.person()
    colour, thing, place = w.pick(COLOURS), w.pick(TOYS), w.pick(PLACES)
    ends = w.chance.choice(list(MISHAPS))
    names = [winner, leader, third]
    w.chance.shuffle(names)
    (one, two, three), turn, name = names, MISHAPS[ends], f"[{leader}]"
    return tell(w, "race", locals())


def mended(w: World) -> Told:
    """A thing broke; someone had the right tool, and the work was worth something."""
    owner, helper = w.pair()
    other = w.person()
    broken = w.chance.choice(list(TOOLS))
    tool, wrong = TOOLS[broken], w.chance.choice([each for each in TOOLS.values() if each != TOOLS[broken]])
    reward, spare = w.pick(FOODS), w.pick(FOODS)
    tried = w.tell(PLOT["mended"]["tried"], locals())
    return tell(w, "mended", locals())


def runaway(w: World) -> Told:
    """An animal is gone, which tells whose it was; who met it, and where, comes later."""
    keeper, other = w.pair()
    catcher = w.person()
    animal, still = w.pick(ANIMALS), w.pick(ANIMALS)
    place, ends = w.pick(PLACES), w.chance.choice(list(CAUGHT))
    owned = [f"{who} had {a(w.pick(COATS), each)}" for who, each in ((f"[{keeper}]", animal), (other, still))]
    w.chance.shuffle(owned)
    slept = [f"the [{animal}] was gone", f"the {still} was still there"]
    w.chance.shuffle(slept)
    (one, two), (early, late), turn = owned, slept, CAUGHT[ends]
    he, own, him = up(catcher.he), catcher.his, catcher.him
    return tell(w, "runaway", locals())


def journey(w: World) -> Told:
    """The weather decides which of two travellers arrives: the one who took the right thing along."""
    arrives, turns = w.pair()
    weather = w.chance.choice(list(GEAR))
    gear, came = GEAR[weather]
    useless = w.chance.choice([each for each, _ in GEAR.values() if each != gear])
    place, seen = w.pick(PLACES), w.pick(PLACES)
    taken, travellers = [f"[{arrives}] had {an(gear)}", f"[{turns}] had {a(useless)}"], [arrives, turns]
    w.chance.shuffle(taken)
    w.chance.shuffle(travellers)
    (packed, beside), (one, two) = taken, travellers
    return tell(w, "journey", locals())


PLOTS: tuple[Callable[[World], Told], ...] = (found, passed_on, race, mended, runaway, journey)
