"""The disk refuses at an enumerated call, once or from then on: one line that says what to do, and nothing is lost."""

import errno
import os
from random import Random

from tests.soak.campaign import LIVES, Campaign, Failure

SHORT, BLOCK = 100, 25                   # cases in CI, of three families; then so many of each family and task in turn
SAYS = {errno.ENOSPC: ("the disk is full", "regard data cache --clear"), errno.EACCES: ("no permission",),
        errno.EIO: ("Input/output error",)}
UNDISTURBED = None
ALL = []


def warm():
    from tests.soak.lives import warm_up

    warm_up()


def prepare(folder):
    global UNDISTURBED
    from tests.soak.lives import Undisturbed, every_variant

    UNDISTURBED = Undisturbed(folder)
    ALL[:] = every_variant()


def fail_at(point, code, lasting, short):
    """Refuse the call at a point, and all later ones if it lasts; a short write lets half out before, or is silent."""
    def act(points, call):
        if call.kind in ("step", "update", "updated", "torn write"):
            return
        if points.count == point or (lasting and points.count > point):
            if call.kind == "write" and short:
                call.first = max(1, len(call.part) // 2)
                if short == "silent" and points.count == point:
                    return
                with open(call.path, "r+b") as file:
                    file.seek(call.at)
                    file.write(call.part[:call.first])
            raise OSError(code, os.strerror(code))
    return act


def run(seed, folder):
    from functools import partial

    from tests.soak.lives import FIRST, Points, difference, live, outcome, run_apart, watched_life

    chance = Random(f"errors {seed}")
    if seed < SHORT:
        variant, place = FIRST[seed % 3], (seed // 3 + 0.5) / -(-SHORT // 3)
    else:
        variant, place = ALL[(seed - SHORT) // BLOCK % len(ALL)], chance.random()
    points, expected = UNDISTURBED(variant)
    code, lasting = chance.choice((errno.ENOSPC, errno.ENOSPC, errno.EIO, errno.EACCES)), chance.random() < 0.5
    short, point, out = chance.choice(("", "half", "silent")), 1 + int(place * points), folder / "run"
    said = f"{variant.name}, {errno.errorcode[code]}{' from then on' * lasting} {short} at point {point} of {points}"
    ended = run_apart(partial(watched_life, variant, out, Points(fail_at(point, code, lasting, short))))
    if ended.how not in ("done", "refused"):
        return Failure(f"{said}: {ended.how} {ended.line}")
    if ended.how == "refused":
        if "\n" in ended.line or not all(each in ended.line for each in SAYS[code]):
            return Failure(f"{said}: the line does not say it: {ended.line!r}")
        if lost := lost_checkpoints(out):
            return Failure(f"{said}: {lost}")
        if seed < SHORT and seed % 2:                        # CI has no time to go on in each case
            return None
        ended = live(variant, out)
        if ended.how != "done":
            return Failure(f"{said}: it does not go on: {ended}")
    differs = difference(outcome(out), expected)
    return Failure(f"{said}: other bits in {differs}") if differs else None


def lost_checkpoints(out):
    """What is wrong with the checkpoints that stand in a folder after the disk refused: every one must be whole."""
    from regard.run_folder import RunFolder

    folder = RunFolder(out)
    files, damaged = folder.newest_checkpoint()
    if damaged:
        return f"damaged checkpoints {damaged}"
    return "no checkpoint, though the manifest says that there was one" if files is None and out.exists() and (
        folder.settings_path.exists() and folder.had_checkpoints()) else ""


CAMPAIGN = Campaign(
    "disk-errors", "ENOSPC, EIO, EACCES or a short write at a call on the disk, once or from then on, in training",
    holds="one line with the cure; every checkpoint is whole; it goes on, and ends with the same bits", ci=SHORT,
    soak=2_000, run=run, prepare=prepare, warm=warm, also=LIVES)
