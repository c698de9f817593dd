"""Stories of a small world, one a line: what is told early is needed later.

Each plot states facts (who has the thing, what colour it is, where it was put, who knows what), lets some
time pass, and ends as those facts demand. Nouns and verbs agree across clauses, pronouns agree with names.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from regard.corpora.story_world import (
    ANIMALS,
    COATS,
    COLOURS,
    FEELINGS,
    FOODS,
    HIDING,
    LOW,
    PLACES,
    ROOMS,
    SIZES,
    TIMES,
    TOYS,
    World,
    a,
    count,
    many,
    up,
    was,
)


def generate(count: int, seed: int = 0) -> Iterator[str]:
    """So many stories of four to nine sentences, the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        yield " ".join(chance.choice(PLOTS)(World(chance)))


def lost_and_found(w: World) -> list[str]:
    """The thing is where its owner put it, though a friend looks elsewhere first."""
    owner, friend = w.pair()
    colour, thing, size = w.pick(COLOURS), w.pick(TOYS), w.pick(SIZES)
    room, other, spot, wrong = w.pick(ROOMS), w.pick(ROOMS), w.pick(HIDING), w.pick(HIDING)
    it = f"{colour} {thing}"
    return [
        w.one_of(f"{owner} had {a(f'{size} {it}')}.", f"{w.pick(TIMES)}, {owner} was given {a(f'{size} {it}')}."),
        w.one_of(f"{up(owner.he)} put it {spot} in the {room}.", f"{up(owner.he)} hid it {spot} in the {room}."),
        *aside(w),
        w.one_of(f"The next day {friend} wanted to play with the {thing}.",
                 f"Later {friend} asked {owner.him} for the {thing}."),
        w.one_of(f"{up(friend.he)} looked {wrong} in the {other}, but it was not there.",
                 f"{up(friend.he)} searched the whole {other}, but found nothing."),
        w.one_of(f'"I remember," said {owner}. "It is in the {room}."',
                 f"Then {owner} remembered where {owner.he} had left it."),
        w.one_of(f"They went to the {room}, and there, {spot}, was the {it}.",
                 f"So they ran to the {room} and found the {it} {spot}."),
        *w.maybe(f"{friend} was {w.pick(FEELINGS)}, and {owner} was too.",
                 f"{friend} thanked {owner.him} and took the {thing} outside."),
    ]


def fair_trade(w: World) -> list[str]:
    """Two people swap, and the end says who has what now."""
    first, second = w.pair()
    mine, yours = w.pick(TOYS), w.pick(TOYS)
    colour, other = w.pick(COLOURS), w.pick(COLOURS)
    return [
        f"{first} had {a(f'{colour} {mine}')}, and {second} had {a(f'{other} {yours}')}.",
        *aside(w),
        w.one_of(f"{first} had always wanted {a(yours)}.", f"{first} liked the {yours} more than anything."),
        w.one_of(f'"Will you give me your {yours} for my {mine}?" asked {first}.',
                 f"{up(first.he)} asked {second} to trade it for the {mine}."),
        w.one_of(f"{second} thought about it and said yes.", f"{second} looked at the {mine} and smiled."),
        w.one_of(f"Now {first} has the {other} {yours}, and {second} has the {colour} {mine}.",
                 f"So {second} took the {colour} {mine}, and {first} went home with the {other} {yours}."),
        *w.maybe(f"Both of them were {w.pick(FEELINGS)}."),
    ]


def coloured_key(w: World) -> list[str]:
    """The key opens the door of its own colour, and no other."""
    hero, friend = w.pair()
    colour, wrong = w.pick(COLOURS), w.pick(COLOURS)
    place, room, thing = w.pick(PLACES), w.pick(ROOMS), w.pick(TOYS)
    doors = [f"a {colour} door", f"a {wrong} door"]
    w.chance.shuffle(doors)
    return [
        w.one_of(f"{w.pick(TIMES)}, {hero} found {a(f'{colour} key')} near the {place}.",
                 f"{hero} found {a(f'{colour} key')} on the road to the {place}."),
        w.one_of(f"{up(hero.he)} showed it to {friend}.", f"{up(hero.he)} gave it to {friend} to look at."),
        f"In the {room} there were two doors, {_an(doors[0])} and {_an(doors[1])}.",
        *aside(w),
        w.one_of(f"{friend} tried the {wrong} door, but the key did not fit.",
                 f'"Let us try the {wrong} door," said {friend}, but it stayed shut.'),
        w.one_of(f"Then {hero} put the key into the {colour} door, and it opened.",
                 f"But the {colour} door opened at once."),
        w.one_of(f"Behind it they found {a(f'{w.pick(SIZES)} {thing}')}.",
                 f"Behind it was nothing but {a(thing)}, and they laughed."),
        *w.maybe(f"{hero} kept the {thing}, and {friend} kept the key.",
                 f"{friend} kept the {thing}, and {hero} kept the key."),
    ]


def _an(door: str) -> str:
    return a(door.removeprefix("a "))


WEATHER = {"rain": ("an umbrella", "stayed dry", "got wet"), "snow": ("a warm coat", "kept warm", "was very cold"),
           "darkness": ("a lantern", "saw the road", "fell into a ditch"),
           "wind": ("a rope", "held on", "was blown over")}


def what_was_packed(w: World) -> list[str]:
    """Whoever packed the right thing comes through; whoever left it at home does not."""
    wise, other = w.pair()
    place, animal = w.pick(PLACES), w.pick(ANIMALS)
    trouble = w.chance.choice(list(WEATHER))
    thing, well, badly = WEATHER[trouble]
    food = w.pick(FOODS)
    came = {"rain": "it began to rain", "snow": "it began to snow", "darkness": "it grew dark",
            "wind": "a strong wind came up"}[trouble]
    return [
        w.one_of(f"{wise} and {other} wanted to walk to the {place}.",
                 f"{w.pick(TIMES)}, {wise} and {other} set out for the {place}."),
        f"{wise} took {thing}, but {other} took only {a(food)}.",
        *aside(w),
        w.one_of(f"On the way they met {a(animal)}, and {other} gave it the {food}.",
                 f"On the way {other} ate the {food} and sang a song."),
        w.one_of(f"When they were far from home, {came}.", f"Halfway there, {came}."),
        f"{wise} {well}, but {other} {badly}.",
        w.one_of(f'"Next time I will bring {thing}," said {other}.',
                 f"{up(other.he)} was {w.pick(LOW)} that {other.he} had not brought {thing}."),
        *w.maybe(f"So {wise} shared with {other.him}, and they reached the {place} together."),
    ]


def sharing(w: World) -> list[str]:
    """Some are given away, and the rest can be counted."""
    giver, friend = w.pair()
    third = w.person()
    food = w.pick(FOODS)
    had = w.chance.randint(3, 6)
    gave = w.chance.randint(1, had - 2)
    left = had - gave
    ate = w.chance.choice([True, False])
    rest = left - 1 if ate else left
    return [
        w.one_of(f"{giver} had {count(had, food)}.", f"{giver} went to the market and bought {count(had, food)}."),
        w.one_of(f"{friend} came by and was hungry.", f"{friend} had nothing to eat."),
        f"{giver} gave {friend.him} {count(gave, food)}.",
        *aside(w),
        w.one_of(f"{up(friend.he)} said thank you and sat down to eat.", f"{friend} was very {w.pick(FEELINGS)}."),
        *([f"Then {giver} ate one {food} too."] if ate else []),
        w.one_of(f"In the evening {third} asked how many {many(food)} were left.",
                 f'"How many {many(food)} do you have now?" asked {third}.'),
        w.one_of(f"{giver} still had {count(rest, food)}.", f'"I have {count(rest, food)}," said {giver}.'),
    ]


TOOLS = {"roof": "ladder", "fence": "hammer", "chair": "saw", "coat": "needle", "bicycle": "wrench", "net": "knife"}


def borrowed_tool(w: World) -> list[str]:
    """The one who was said to have the tool is the one who helps."""
    hero, helper = w.pair()
    other = w.person()
    broken = w.chance.choice(list(TOOLS))
    tool, thing, colour = TOOLS[broken], w.pick(TOYS), w.pick(COLOURS)
    return [
        f"{helper} had a good {tool}, and {other} had {a(f'{colour} {thing}')}.",
        w.one_of(f"{w.pick(TIMES)}, {hero} saw that {hero.his} {broken} was broken.",
                 f"{w.pick(TIMES)}, {hero}'s {broken} broke."),
        w.one_of(f"{up(hero.he)} needed a {tool} to mend it.", f"Without a {tool} it could not be mended."),
        *aside(w),
        w.one_of(f"First {hero} asked {other}, but {other.he} had only the {thing}.",
                 f"{other} wanted to help, but {a(f'{colour} {thing}')} was of no use."),
        w.one_of(f"Then {hero} went to {helper}, who had the {tool}.", f'"Ask {helper}," said {other}.'),
        w.one_of(f"{helper} brought the {tool}, and soon the {broken} was as good as new.",
                 f"With {helper}'s {tool} they mended the {broken} before dark."),
        *w.maybe(f"{hero} gave {helper.him} {a(w.pick(FOODS))} to say thank you."),
    ]


HIDING_PLACES = ("behind the door", "under the table", "behind the curtain", "under the stairs")


def hide_and_seek(w: World) -> list[str]:
    """An animal gives away the hider, who is where the story said."""
    hider, seeker = w.pair()
    room, wrong, spot = w.pick(ROOMS), w.pick(ROOMS), w.pick(HIDING_PLACES)
    animal, colour = w.pick(("dog", "cat", "goat", "hen", "duck")), w.pick(COATS)
    voice = {"dog": "barked", "cat": "meowed", "goat": "bleated", "hen": "clucked", "duck": "quacked"}[animal]
    return [
        w.one_of(f"{hider} and {seeker} played hide and seek.", f"{seeker} counted to ten while {hider} hid."),
        f"{hider} hid {spot} in the {room}, and {hider.his} {colour} {animal} went with {hider.him}.",
        w.one_of(f"{seeker} looked in the {wrong} first.", f"First {seeker} searched the {wrong}."),
        w.one_of("Nobody was there.", f"{up(seeker.he)} found nobody."),
        *aside(w),
        w.one_of(f"Then the {animal} {voice} in the {room}.", f"Suddenly the {colour} {animal} {voice}."),
        w.one_of(f"{seeker} ran to the {room} and found {hider} {spot}.",
                 f'"I know that {animal}!" said {seeker}, and {seeker.he} found {hider} {spot}.'),
        *w.maybe(f'"It was the {animal}," said {hider}, and both of them laughed.'),
    ]


def letter(w: World) -> list[str]:
    """The way over the water depends on what the messenger owns."""
    sender, bearer = w.pair()
    receiver = w.person()
    place, other = w.pick(("village", "castle", "forest", "mill")), w.pick(PLACES)
    animal = w.pick(("horse", "donkey"))
    rides = w.chance.random() < 0.5
    owned = a(f"{w.pick(COATS)} {animal}") if rides else "a small boat"
    crossing = (f"{up(bearer.he)} rode the {animal} through the water." if rides
                else f"{up(bearer.he)} took the boat and crossed the river.")
    return [
        f"{receiver} lived in the {place}, and {sender} lived near the {other}.",
        f"{bearer} lived next to {sender} and had {owned}.",
        w.one_of(f"{w.pick(TIMES)}, {sender} wrote a letter to {receiver}.", f"{sender} had news for {receiver}."),
        w.one_of(f'"Will you carry my letter to the {place}?" {sender} asked {bearer}.',
                 f"{up(sender.he)} asked {bearer} to carry it to the {place}."),
        *aside(w),
        w.one_of("But the bridge over the river was broken.", "At the river there was no bridge."),
        crossing,
        w.one_of(f"In the {place} {receiver} read the letter and was {w.pick(FEELINGS)}.",
                 f"So {sender}'s letter came to {receiver} in the {place}."),
    ]


def three_friends(w: World) -> list[str]:
    """Three people, three things, and a question about one of them."""
    people = [w.person() for _ in range(3)]
    things = [w.pick(TOYS) for _ in range(3)]
    colours = [w.pick(COLOURS) for _ in range(3)]
    asked = w.chance.randrange(3)
    stranger = w.chance.choice(("teacher", "farmer", "sailor", "baker", "doctor"))
    has = [f"{people[n]} had {a(f'{colours[n]} {things[n]}')}" for n in range(3)]
    return [
        f"{has[0]}, {has[1]}, and {has[2]}.",
        w.one_of(f"They played together in the {w.pick(PLACES)}.", f"They all met at the {w.pick(PLACES)}."),
        *aside(w),
        w.one_of(f'A {stranger} came by and asked, "Who has the {things[asked]}?"',
                 f"A {stranger} came by and wanted to see the {things[asked]}."),
        w.one_of(f'"I have it," said {people[asked]}.', f"It was {people[asked]} who had it."),
        w.one_of(f"The {stranger} looked at the {colours[asked]} {things[asked]} and smiled.",
                 f'"What a pretty {colours[asked]} {things[asked]}!" said the {stranger}.'),
        *w.maybe(f"{people[asked]} was {w.pick(FEELINGS)} all day."),
    ]


def hungry_animals(w: World) -> list[str]:
    """One animal or several: every verb has to remember which."""
    keeper = w.person()
    plural = w.chance.random() < 0.5
    animal, chased, place, food = w.pick(ANIMALS), w.pick(ANIMALS), w.pick(PLACES), w.pick(FOODS)
    colour = w.pick(COATS)
    herd = many(animal) if plural else animal
    they, them, have = ("they", "them", "had") if plural else ("it", "it", "had")
    return [
        f"{keeper} had {count(w.chance.randint(2, 5), f'{colour} {animal}') if plural else a(f'{colour} {animal}')}.",
        w.one_of(f"The {herd} that chased the {chased} {was(plural)} hungry.",
                 f"The {herd} that lived near the {many(chased)} {was(plural)} always hungry."),
        *aside(w),
        w.one_of(f"{w.pick(TIMES)}, {keeper} left the gate open, and the {herd} ran to the {place}.",
                 f"{w.pick(TIMES)}, the {herd} {was(plural)} gone, for the gate was open."),
        w.one_of(f"{keeper} called and called, but {they} did not come.",
                 f"{keeper} was {w.pick(LOW)} and looked for {them} in the {w.pick(PLACES)}."),
        w.one_of(f"At last {keeper.he} held up {a(food)}, and {they} {was(plural)} back at once.",
                 f"Then {keeper.he} put {a(food)} by the gate, and soon {they} {was(plural)} home."),
        w.one_of(f"The {herd} that had been so hungry {was(plural)} now asleep in the barn.",
                 f"{up(they)} {have} eaten the whole {food} and {was(plural)} {w.pick(FEELINGS)}."),
    ]


def aside(w: World) -> list[str]:
    """Now and then something that has nothing to do with the plot, so that the facts lie further apart."""
    if w.chance.random() < 0.6:
        return []
    plural = w.chance.random() < 0.5
    animal, other = w.pick(ANIMALS), w.pick(ANIMALS)
    beast = many(animal) if plural else animal
    nearby = many(other) if w.chance.random() < 0.5 else other
    return [w.one_of(
        f"The {beast} behind the {nearby} {was(plural)} quiet.",
        f"The {beast} that followed the {nearby} {was(plural)} {w.pick(SIZES[:3])}.",
        f"Outside, the {beast} near the {nearby} {was(plural)} asleep.",
        "The sun was warm, and the birds sang.",
        "Clouds came over the hill.",
        "Somewhere a clock struck four.",
        "It was very quiet.",
    )]


PLOTS = (lost_and_found, fair_trade, coloured_key, what_was_packed, sharing, borrowed_tool, hide_and_seek, letter,
         three_friends, hungry_animals)
