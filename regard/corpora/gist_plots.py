"""The plots behind the gists: stories of the small world whose point no single sentence tells.

A plot gives its sentences and its gist, with square brackets around key words: in the gist every word that is to be
found in the story, in the story the one mention that tells it. Other people, things and places stand about, of the same
kinds as those that count. No word is drawn for two of them, and the fixed text uses none that could be drawn, so that
every mention of a key word speaks of the same person or thing.
"""

from __future__ import annotations

from collections.abc import Callable

from regard.corpora.stories import TOOLS, aside
from regard.corpora.story_world import ANIMALS, COATS, COLOURS, FOODS, HIDING, PLACES, ROOMS, TIMES, TOYS, World, a, up

Told = tuple[list[str], str]               # the sentences and the gist, marked

WHEN = tuple(time for time in TIMES if time != "After school")       # the school is a place here


def found(w: World) -> Told:
    """Whose thing it was stands at the beginning, who found it and where in the middle, what became of it later."""
    owner, finder = w.pair()
    other = w.person()
    colour, thing, ends = w.pick(COLOURS), w.pick(TOYS), w.chance.choice(list(FOUND))
    home, lost, searched, place = (w.pick(PLACES) for _ in range(4))
    he = up(owner.he)
    return [
        *shuffled(
            w,
            [w.one_of(f"[{owner}] lived near the {home}.", f"[{owner}] came from a house by the {home}."),
             w.one_of(f"{he} had {an(colour, thing)} from {owner.his} grandmother.",
                      f"The best thing {owner.he} had was {an(colour, thing)}.")],
            [f"{other} had {a(f'{w.pick(COLOURS)} {w.pick(TOYS)}')}, and {finder} had {a(w.pick(TOYS))}."]),
        w.one_of(f"{w.pick(WHEN)}, on the way to the {lost}, it fell out of a pocket.",
                 f"{w.pick(WHEN)}, on a walk to the {lost}, it was suddenly gone."),
        *aside(w),
        w.one_of(f"{other} searched the {searched} from end to end and saw nothing.",
                 f"{owner} and {other} looked in the {searched}, but it was not there."),
        w.one_of(f"It lay {w.pick(HIDING)} in the [{place}], and there [{finder}] saw it.",
                 f"The next day [{finder}] went to the [{place}], and there it lay {w.pick(HIDING)}."),
        w.one_of(*FOUND[ends]).format(he=up(finder.he), own=finder.his),
        *aside(w),
        w.one_of(f"{owner} thought of it for a long time.", f"{other} never heard of it."),
    ], f"[{finder}] found [{owner}'s] [{colour}] [{thing}] in the [{place}] and {ends}."


FOUND = {
    "gave it back": ("{he} ran at once to the one who missed it.",
                     "{he} asked whose it was, and soon it was home again."),
    "kept it": ("{he} hid it under {own} bed and told nobody.", "{he} thought that it was {own} now, and so it was."),
    "sold it": ("{he} took three coins for it from a sailor.",
                "{he} met a sailor, and now {own} pocket is full of coins."),
}


def passed_on(w: World) -> Told:
    """The thing goes through one pair of hands or two, and the last sentence has only a pronoun for its keeper."""
    maker = w.person()
    first, second = w.pair()
    colour, thing = w.pick(COLOURS), w.pick(TOYS)
    workshop, room, place = w.pick(ROOMS), w.pick(ROOMS), w.pick(PLACES)
    goes_on = w.chance.random() < 0.5
    holder = second if goes_on else first
    hands = [
        w.one_of(f"There {first} met {second}, who was ill and sad.",
                 f"In that place lived {second}, who had nothing."),
        w.one_of(f"So {first} gave it to [{second}], who could not believe it.",
                 f"It was soon agreed that [{second}] should have it."),
    ] if goes_on else [
        w.one_of(f"There {second} offered {a(w.pick(FOODS))} for it.", f"There {second} begged for it."),
        w.one_of(f"But [{first}] would not part with it.",
                 f"But nothing in the world could make [{first}] give it away."),
    ]
    return [
        *shuffled(
            w,
            [w.one_of(f"[{maker}] worked in the {workshop} all week.", f"All week [{maker}] sat in the {workshop}."),
             w.one_of(f"On Friday {an(colour, thing)} was ready.", f"What came of it was {an(colour, thing)}.")],
            [w.one_of(f"{second} had bought {a(f'{w.pick(COLOURS)} {w.pick(TOYS)}')} for a friend.",
                      f"In the {w.pick(ROOMS)} {second} had {a(f'{w.pick(COLOURS)} {w.pick(TOYS)}')}.")]),
        *aside(w),
        w.one_of(f"{first} had a birthday, and that was the present.", f"It was a present for {first}, who was ten."),
        w.one_of(f"{up(first.he)} took it along to the {place}.", f"With it {first} went on a journey to the {place}."),
        *hands,
        *aside(w),
        w.one_of(f"That evening {holder.he} put it {w.pick(HIDING)} in the [{room}].",
                 f"Since then {holder.he} has had it in the [{room}]."),
    ], f"The [{colour}] [{thing}] that [{maker}] made ended up with [{holder}] in the [{room}]."


def race(w: World) -> Told:
    """A race: the prize, who came first, and what had happened to the one who was ahead."""
    winner, leader, third = w.person(), w.person(), w.person()
    colour, thing, place = w.pick(COLOURS), w.pick(TOYS), w.pick(PLACES)
    why = w.chance.choice(list(MISHAPS))
    names = [str(person) for person in (winner, leader, third)]
    w.chance.shuffle(names)
    return [
        *shuffled(
            w,
            [w.one_of(f"{w.pick(WHEN)}, there was a race to the [{place}].",
                      f"Everybody had come to see the race from the {w.pick(PLACES)} to the [{place}].")],
            [w.one_of(f"{names[0]}, {names[1]} and {names[2]} wanted to run.",
                      f"{names[0]} ran in it, and so did {names[1]} and {names[2]}.")]),
        w.one_of(f"Whoever came first would get {an(colour, thing)}, and whoever came second {a(w.pick(FOODS))}.",
                 f"There was {a(w.pick(FOODS))} for the second one and {an(colour, thing)} for the first."),
        *aside(w),
        w.one_of(f"Soon {leader} was far ahead, and {third} was last.", f"{third} was slow, but {leader} flew along."),
        w.one_of(*MISHAPS[why]).format(name=f"[{leader}]"),
        w.one_of(f"Now nobody was in front of [{winner}], and {third} could not keep up.",
                 f"{third} came close, but it was [{winner}] who ran past."),
        *aside(w),
        w.one_of("The people clapped and sang until it was night.", "Nobody there had ever seen such a thing."),
    ], f"[{winner}] won the [{colour}] [{thing}] at the [{place}] because [{leader}] {why}."


MISHAPS = {
    "fell": ("But then there was a stone, and {name} lay in the mud.",
             "Then {name} stumbled over a root and hurt a knee."),
    "got lost": ("But {name} turned left where all had to turn right.",
                 "Then {name} took the wrong road at the bridge."),
    "stopped to rest": ("But {name} felt so safe as to sit down under a tree.",
                        "Then {name} was out of breath and lay down in the grass."),
    "lost a shoe": ("But one of the shoes {name} wore stayed behind in the mud.",
                    "Then {name} had to go on with one bare foot."),
}


def mended(w: World) -> Told:
    """A thing broke; someone had the right tool, and the work was worth something."""
    owner, helper = w.pair()
    other = w.person()
    broken = w.chance.choice(list(TOOLS))
    tool, wrong = TOOLS[broken], w.chance.choice([each for each in TOOLS.values() if each != TOOLS[broken]])
    reward, spare = w.pick(FOODS), w.pick(FOODS)
    tried = w.one_of(f"{other} tried first, with a {wrong}, and gave up.", f"With a {wrong} {other} could do nothing.")
    return [
        w.one_of(f"[{owner}] lived all alone near the {w.pick(PLACES)}.",
                 f"[{owner}] was poor and slept in the {w.pick(ROOMS)}."),
        w.one_of(f"{w.pick(WHEN)}, there was a storm, and it ruined {owner.his} [{broken}].",
                 f"{w.pick(WHEN)}, {owner.he} saw that {owner.his} [{broken}] was in pieces."),
        *aside(w),
        *shuffled(w, [tried],
                  [w.one_of(f"{helper} had {a(w.pick(TOYS))} and a [{tool}] and knew what to do with both.",
                            f"Besides {a(w.pick(TOYS))} {helper} had a good [{tool}].")]),
        w.one_of(f"So the work was done by [{helper}] before it was night.",
                 f"It took [{helper}] all day, and then everything was as good as new."),
        *aside(w),
        w.one_of(f"On the table stood {a(spare)} and {a(reward)}, and {helper.he} was given the [{reward}].",
                 f"{owner} had nothing but {an(reward)} to say thank you with, for {other} had eaten the {spare}."),
        w.one_of(f"{other} went home hungry.", "Then all of them sat by the fire and talked."),
    ], f"[{helper}] mended [{owner}'s] [{broken}] with a [{tool}] and got {an(reward)}."


def runaway(w: World) -> Told:
    """An animal is gone, which tells whose it was; who met it, and where, comes later."""
    keeper, other = w.pair()
    catcher = w.person()
    animal, still = w.pick(ANIMALS), w.pick(ANIMALS)
    place, ends = w.pick(PLACES), w.chance.choice(list(CAUGHT))
    owned = [f"{who} had {a(f'{w.pick(COATS)} {each}')}" for who, each in ((f"[{keeper}]", animal), (other, still))]
    w.chance.shuffle(owned)
    slept = [f"the [{animal}] was gone", f"the {still} was still there"]
    w.chance.shuffle(slept)
    return [
        *shuffled(
            w,
            [f"{owned[0]}, and {owned[1]}."],
            [w.one_of(f"{catcher} had just come back from the {w.pick(PLACES)}.",
                      f"Not far away {catcher} had {a(f'{w.pick(COLOURS)} {w.pick(TOYS)}')} to sell.")]),
        w.one_of(f"{w.pick(WHEN)}, somebody left the gate open.", f"{w.pick(WHEN)}, a strong wind broke the gate."),
        w.one_of(f"In the morning {slept[0]}, and {slept[1]}.", f"A little later {slept[0]}, but {slept[1]}."),
        *aside(w),
        w.one_of(f"They called all day and looked in the {w.pick(PLACES)} and in the {w.pick(ROOMS)}.",
                 f"{w.one_of(str(keeper), str(other))} heard something in the {w.pick(ROOMS)}, but that was a mouse."),
        w.one_of(f"It stood in the [{place}] and ate, and that was where [{catcher}] met it.",
                 f"[{catcher}] came through the [{place}] with {a(w.pick(FOODS))}, and suddenly there it stood."),
        w.one_of(*CAUGHT[ends]).format(he=up(catcher.he), own=catcher.his, him=catcher.him),
        w.one_of("The gate has been shut ever since.", "The day after that there was a new gate."),
    ], f"The [{animal}] of [{keeper}] ran to the [{place}], and [{catcher}] {ends}."


CAUGHT = {
    "brought it home": ("{he} knew where it belonged and led it there.",
                        "{he} put a string around its neck, and the two walked back slowly."),
    "kept it": ("{he} led it into {own} own stable and said not a word.", "It lives with {him} now."),
    "could not catch it": ("{he} ran after it, but it was too quick.",
                           "It looked at {him} once and was away over the fields."),
}


def journey(w: World) -> Told:
    """The weather decides which of two travellers arrives: the one who took the right thing along."""
    arrives, turns = w.pair()
    weather = w.chance.choice(list(GEAR))
    gear, came = GEAR[weather]
    useless = w.chance.choice([each for each, _ in GEAR.values() if each != gear])
    place, seen = w.pick(PLACES), w.pick(PLACES)
    packed = [f"[{arrives}] had {an(gear)}", f"[{turns}] had {a(useless)}"]
    names = [str(arrives), str(turns)]
    w.chance.shuffle(packed)
    w.chance.shuffle(names)
    return [
        w.one_of(f"{names[0]} and {names[1]} were expected at the [{place}], a long way off.",
                 f"{w.pick(WHEN)}, {names[0]} and {names[1]} set out for the [{place}]."),
        w.one_of(f"{packed[0]} along, and {packed[1]}.", f"{packed[0]}, but {packed[1]}."),
        w.one_of(f"{w.person()} stayed at home with {a(f'{w.pick(COLOURS)} {w.pick(TOYS)}')} and waved.",
                 f"{w.person()} gave each of them {a(w.pick(FOODS))} for the way."),
        *aside(w),
        w.one_of(f"They went past the {seen} and sang.", f"At the {seen} they stopped to eat."),
        w.one_of(f"Before they were halfway there, {came}.", f"When the {seen} was out of sight, {came}."),
        *aside(w),
        w.one_of("One of them was ready for that and went on to the end.",
                 "For one of them this was no trouble at all."),
        w.one_of(f"The other slept in the {w.pick(ROOMS)} of a stranger and went home.",
                 "The other was back before supper and did not want to talk about it."),
    ], f"With {an(gear)} [{arrives}] reached the [{place}] in the [{weather}], but [{turns}] turned back."


GEAR = {"rain": ("umbrella", "it began to [rain]"), "snow": ("coat", "it began to [snow]"),
        "dark": ("lantern", "it grew [dark]"), "wind": ("rope", "there came a strong [wind]")}

PLOTS: tuple[Callable[[World], Told], ...] = (found, passed_on, race, mended, runaway, journey)


def an(*words: str) -> str:
    """`a [red] [kite]`, `an [egg]`: key words with their article."""
    return " ".join([a(words[0]).split()[0], *(f"[{word}]" for word in words)])


def shuffled(w: World, *parts: list[str]) -> list[str]:
    """Parts of a story in any order, each with its sentences together."""
    order = list(parts)
    w.chance.shuffle(order)
    return [sentence for part in order for sentence in part]
