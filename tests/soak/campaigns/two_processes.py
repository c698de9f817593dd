"""Two processes on one folder, one cache, one export: the second acts while the first is in the middle of a call on the
disk, so that each moment of the first is met. One is refused in a line, or both are whole.
"""

from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random

from tests.soak.campaign import LIVES, Campaign, Failure

SHORT, PATIENCE = 20, 15.0               # cases in CI; seconds after which the second is taken to wait for a lock
KINDS = ("folder", "resumed", "cache", "cleared", "used", "exported", "folder", "resumed", "cache", "exported")
EXPORTS = (("transformer", "hf"), ("lm-ngram", "arpa"))      # a folder, a file; the same bytes each time
UNDISTURBED, FOLDER = None, None
ALL, KNOWN = [], {}


def warm():
    from tests.soak.lives import warm_up

    warm_up()


def prepare(folder):
    global UNDISTURBED, FOLDER
    from tests.soak.lives import Undisturbed, every_variant

    UNDISTURBED, FOLDER = Undisturbed(folder), folder
    for each in every_variant():                             # threads of OpenMP do not come along into a fork
        training = {**each.settings["training"], **({"threads": 1} if each.settings["training"] else {})}
        ALL.append(replace(each, settings={**each.settings, "training": training}))


def run(seed, folder):
    from tests.soak.lives import FIRST

    chance, kind = Random(f"two {seed}"), KINDS[seed % len(KINDS)]
    variant = FIRST[seed // 2 % 3] if seed < SHORT else ALL[seed // len(KINDS) % len(ALL)]
    if kind == "exported":
        wrong = export_twice(seed, folder, chance)
    elif kind in ("folder", "resumed"):
        wrong = train_twice(variant, folder, chance, kind == "resumed")
    else:
        wrong = train_beside(variant, folder, chance, kind)
    return Failure(wrong) if wrong else None


def meet(act, other, point):
    """Act, and at a point of it let a fork do the other thing while this stands still; return how both ended. One that
    waits for a lock, which this may hold at that moment, ends after it."""
    from threading import Thread

    from tests.soak.lives import Points, act_of, run_apart

    def both():
        others, told = [], []

        def at(points, call):
            if points.count == point:
                others.append(Thread(target=lambda: told.append(vars(run_apart(partial(as_stranger, other))))))
                others[0].start()
                others[0].join(PATIENCE)

        ended = act_of(partial(act, Points(at)))
        for each in others:
            each.join()
        return [list(ended), *(told or [None])]

    return run_apart(both, seconds=110)


def as_stranger(other):
    """Do the other thing without what a fork inherits: a lock is held as long as any copy of its handle is open."""
    import os

    for handle in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):
            path = os.readlink(f"/proc/self/fd/{handle}")
            if handle > 2 and (os.path.isdir(path) or os.path.basename(path) == "lock"):
                os.close(handle)
    return other()


def ends(told):
    """How the first and the second ended."""
    from tests.soak.lives import Ended

    if told.how != "done":
        return told, None
    first, second = told.noted
    return Ended(*first), None if second is None else Ended(**second)


def in_a_line(ended):
    return ended.how == "done" or (ended.how == "refused" and "\n" not in ended.line)


def train_twice(variant, folder, chance, again):
    """Two trainings in one folder: one is refused, or goes on where the other ended."""
    from tests.soak.lives import difference, live, outcome, train, watched_life

    points, expected = UNDISTURBED(variant)
    out, point = folder / "run", 1 + chance.randrange(points)
    first, second = ends(meet(lambda seen: no_value(watched_life(variant, out, seen, resume=again)),
                              partial(train, variant, out, again), point))
    said = f"{variant.name}{' with --resume' * again}, a second one at point {point} of {points}: {first}, {second}"
    if second is None or not (in_a_line(first) and in_a_line(second)):
        return said
    if "done" not in (first.how, second.how):
        return f"{said}: neither came to its end"
    ended = live(variant, out)
    differs = difference(outcome(out), expected) if ended.how == "done" else str(ended)
    return f"{said}: other bits in {differs}" if differs else ""


def train_beside(variant, folder, chance, kind):
    """One trains, and another trains from the same cache, clears it, or uses the run."""
    from tests.soak.lives import difference, outcome, train, watched_life

    points, expected = UNDISTURBED(variant)
    out, point = folder / "run", 1 + chance.randrange(points)
    others = {"cache": partial(train, variant, folder / "other", False), "cleared": clear_cache,
              "used": partial(use, out)}
    first, second = ends(meet(lambda seen: no_value(watched_life(variant, out, seen)), others[kind], point))
    said = f"{variant.name}, {kind} at point {point} of {points}: {first}, {second}"
    if first.how != "done" or second is None or not in_a_line(second) or (second.how != "done" and kind != "used"):
        return said
    for each in (out, *([folder / "other"] if kind == "cache" else [])):
        if differs := difference(outcome(each), expected):
            return f"{said}: other bits in {differs} of {each.name}"
    return ""


def export_twice(seed, folder, chance):
    """Two exports to one path: one is refused, and what is there is the other's."""
    from tests.soak.lives import hash_of

    name, to = EXPORTS[seed // len(KINDS) % len(EXPORTS)]
    points, expected = exported(name, to)
    other = exported("lm-ngram" if to == "arpa" else name, to)[1]
    out, point = folder / "there", 1 + chance.randrange(points)
    first, second = ends(meet(partial(write_export, name, to, out),
                              partial(write_export, "lm-ngram" if to == "arpa" else name, to, out, None), point))
    said = f"{name} to {to} twice, the second at point {point} of {points}: {first}, {second}"
    if second is None or not (in_a_line(first) and in_a_line(second)):
        return said
    if [first.how, second.how].count("done") != 1:
        return f"{said}: both say that they wrote it, or neither does"
    found = {str(each.relative_to(folder)): hash_of(each) for each in sorted(folder.rglob("*")) if each.is_file()}
    if left := [each for each in found if not each.startswith("there")]:
        return f"{said}: {left} are left behind"
    return "" if found == (expected if first.how == "done" else other) else f"{said}: what is there is neither's"


def no_value(value):
    return None


def use(path):
    from regard.errors import RegardError
    from tests.fixtures.runs import measure

    try:
        measure(path)
    except RegardError as error:
        assert "\n" not in str(error)
        raise


def clear_cache():
    from click.testing import CliRunner

    from regard.cli.data import cache

    told = CliRunner().invoke(cache, ["--clear"])
    assert told.exit_code == 0, told.output


def write_export(name, to, out, seen=None):
    """Export an undisturbed run; with `seen`, each call on the disk is shown to it."""
    from contextlib import nullcontext

    from regard.interop.export import export
    from tests.soak.disk import watch_disk

    with nullcontext() if seen is None else watch_disk([out.parent], seen):
        export(run_named(name), to, out, check=False)
    return None if seen is None else seen.count


def run_named(name):
    from tests.soak.lives import FIRST

    variant = next(each for each in (*FIRST, *ALL) if each.name == name)
    UNDISTURBED(variant)
    return FOLDER / name.replace(" ", "-").replace(",", "")


def exported(name, to):
    """The calls of an undisturbed export, and the hashes of what it wrote."""
    from tests.soak.lives import Points, hash_of, run_apart

    if (name, to) not in KNOWN:
        run_named(name)
        place = FOLDER / f"export-{name}-{to}"
        place.mkdir()
        ended = run_apart(partial(write_export, name, to, place / "there", Points()))
        assert ended.how == "done", ended
        KNOWN[name, to] = ended.noted, {str(each.relative_to(place)): hash_of(each)
                                        for each in sorted(place.rglob("*")) if each.is_file()}
    return KNOWN[name, to]


CAMPAIGN = Campaign(
    "two-processes", "while one trains or exports, another trains in the same folder or cache, clears it, uses the run "
    "or exports to the same path", holds="one is refused in a line, or both are whole", ci=SHORT, soak=500, run=run,
    prepare=prepare, warm=warm, also=LIVES)
