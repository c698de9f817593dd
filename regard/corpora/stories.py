"""Stories of a small world, one a line: what is told early is needed later.

Each plot states facts (who has the thing, what colour it is, where it was put, who knows what), lets some
time pass, and ends as those facts demand. Nouns and verbs agree across clauses, pronouns agree with names.
Here is what a plot draws; its sentences stand in stories.toml.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.corpora.story_world import (
    ANIMALS,
    COATS,
    COLOURS,
    FOODS,
    HIDING,
    PLACES,
    ROOMS,
    SIZES,
    TOYS,
    World,
    a,
    count,
    many,
)

SENTENCES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
WEATHER, TOOLS, VOICES = (SENTENCES[name] for name in ("weather", "tools", "voices"))
HIDING_PLACES = ("behind the door", "under the table", "behind the curtain", "under the stairs")


def generate(count: int, seed: int = 0) -> Iterator[str]:
    """So many stories of four to nine sentences, the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        world, plot = World(chance), chance.choice(PLOTS)
        yield " ".join(world.tell(SENTENCES[plot.__name__], plot(world) | {"aside": aside}))


def lost_and_found(w: World) -> dict[str, Any]:
    """The thing is where its owner put it, though a friend looks elsewhere first."""
    owner, friend = w.pair()
    colour, thing, size = w.pick(COLOURS), w.pick(TOYS), w.pick(SIZES)
    room, other, spot, wrong = w.pick(ROOMS), w.pick(ROOMS), w.pick(HIDING), w.pick(HIDING)
    it = f"{colour} {thing}"
    return locals()


def fair_trade(w: World) -> dict[str, Any]:
    """Two people swap, and the end says who has what now."""
    first, second = w.pair()
    mine, yours = w.pick(TOYS), w.pick(TOYS)
    colour, other = w.pick(COLOURS), w.pick(COLOURS)
    return locals()


def coloured_key(w: World) -> dict[str, Any]:
    """The key opens the door of its own colour, and no other."""
    hero, friend = w.pair()
    colour, wrong = w.pick(COLOURS), w.pick(COLOURS)
    place, room, thing = w.pick(PLACES), w.pick(ROOMS), w.pick(TOYS)
    doors = [f"{colour} door", f"{wrong} door"]
    w.chance.shuffle(doors)
    door, next_door, key = *doors, f"{colour} key"
    return locals()


def what_was_packed(w: World) -> dict[str, Any]:
    """Whoever packed the right thing comes through; whoever left it at home does not."""
    wise, other = w.pair()
    place, animal = w.pick(PLACES), w.pick(ANIMALS)
    trouble = w.chance.choice(list(WEATHER))
    came, thing, well, badly = WEATHER[trouble]
    food = w.pick(FOODS)
    return locals()


def sharing(w: World) -> dict[str, Any]:
    """Some are given away, and the rest can be counted."""
    giver, friend = w.pair()
    third = w.person()
    food = w.pick(FOODS)
    had = w.chance.randint(3, 6)
    gave = w.chance.randint(1, had - 2)
    ate = w.chance.choice([True, False])
    rest = had - gave - ate
    eaten = [f"Then {giver} ate one {food} too."] if ate else []
    return locals()


def borrowed_tool(w: World) -> dict[str, Any]:
    """The one who was said to have the tool is the one who helps."""
    hero, helper = w.pair()
    other = w.person()
    broken = w.chance.choice(list(TOOLS))
    tool, thing, colour = TOOLS[broken], w.pick(TOYS), w.pick(COLOURS)
    return locals()


def hide_and_seek(w: World) -> dict[str, Any]:
    """An animal gives away the hider, who is where the story said."""
    hider, seeker = w.pair()
    room, wrong, spot = w.pick(ROOMS), w.pick(ROOMS), w.pick(HIDING_PLACES)
    animal, colour = w.pick(tuple(VOICES)), w.pick(COATS)
    voice = VOICES[animal]
    return locals()


def letter(w: World) -> dict[str, Any]:
    """The way over the water depends on what the messenger owns."""
    sender, bearer = w.pair()
    receiver = w.person()
    place, other = w.pick(("village", "castle", "forest", "mill")), w.pick(PLACES)
    animal = w.pick(("horse", "donkey"))
    rides = w.chance.random() < 0.5
    owned = a(w.pick(COATS), animal) if rides else "a small boat"
    crossed = f"rode the {animal} through the water" if rides else "took the boat and crossed the river"
    return locals()


def three_friends(w: World) -> dict[str, Any]:
    """Three people, three things, and a question about one of them."""
    people = [w.person() for _ in range(3)]
    things = [w.pick(TOYS) for _ in range(3)]
    colours = [w.pick(COLOURS) for _ in range(3)]
    asked = w.chance.randrange(3)
    stranger = w.chance.choice(("teacher", "farmer", "sailor", "baker", "doctor"))
    one, two, three = (f"{who} had {a(*it)}" for who, *it in zip(people, colours, things, strict=True))
    has = f"{one}, {two}, and {three}"
    who, thing, colour = people[asked], things[asked], colours[asked]
    return locals()


def hungry_animals(w: World) -> dict[str, Any]:
    """One animal or several: every verb has to remember which."""
    keeper = w.person()
    plural = w.chance.random() < 0.5
    animal, chased, place, food = w.pick(ANIMALS), w.pick(ANIMALS), w.pick(PLACES), w.pick(FOODS)
    colour = w.pick(COATS)
    herd, they, them = (many(animal), "they", "them") if plural else (animal, "it", "it")
    owned = count(w.chance.randint(2, 5), f"{colour} {animal}") if plural else a(colour, animal)
    return locals()


def aside(w: World) -> list[str]:
    """Now and then something that has nothing to do with the plot, so that the facts lie further apart."""
    if w.chance.random() < 0.6:
        return []
    plural = w.chance.random() < 0.5
    animal, other = w.pick(ANIMALS), w.pick(ANIMALS)
    beast = many(animal) if plural else animal
    nearby = many(other) if w.chance.random() < 0.5 else other
    return w.tell(SENTENCES["aside"], locals())


PLOTS = (lost_and_found, fair_trade, coloured_key, what_was_packed, sharing, borrowed_tool, hide_and_seek, letter,
         three_friends, hungry_animals)
