"""The power goes out at an enumerated call: what was not synced is there or not, in any order that is possible.

A life of a run is recorded call by call, with what each wrote; then the disk is put together as it may be found after
call number k, and the run goes on from that.
"""

import json
from functools import partial
from random import Random
from unittest.mock import patch

from tests.soak.campaign import LIVES, Campaign, Failure

SHORT, BLOCK = 50, 25                    # cases in CI, of three families; then so many of each family and task in turn
UNDISTURBED, FOLDER = None, None
ALL, RECORDED = [], {}


def warm():
    from tests.soak.lives import warm_up

    warm_up()


def prepare(folder):
    global UNDISTURBED, FOLDER
    from tests.soak.lives import Undisturbed, every_variant

    UNDISTURBED, FOLDER = Undisturbed(folder / "undisturbed"), folder
    ALL[:] = every_variant()


def record(variant, out):
    """Train, and return all calls with what they wrote, and a mark behind each promise: a checkpoint of a step, weights
    with their hash."""
    from regard.run_folder import RunFolder
    from regard.storage import digest
    from tests.soak.disk import Call
    from tests.soak.lives import watched_life
    from tests.soak.power import MARK

    calls = []
    save_checkpoint, write_recorded = RunFolder.save_checkpoint, RunFolder.write_recorded

    def save(self, step, files, keep):
        told = save_checkpoint(self, step, files, keep)
        calls.append(Call(MARK, f"checkpoint {step}"))
        return told

    def write(self, name, data):
        calls.append(Call(MARK, f"begin {name} {digest(data)}"))
        write_recorded(self, name, data)
        calls.append(Call(MARK, f"end {name} {digest(data)}"))

    def note(call):
        if call.kind not in ("step", "update", "updated"):
            calls.append(call)

    with patch.object(RunFolder, "save_checkpoint", save), patch.object(RunFolder, "write_recorded", write):
        watched_life(variant, out, note)
    return [{**vars(call), "part": call.part.decode("latin-1")} for call in calls]


def recorded(variant):
    from tests.soak.disk import Call
    from tests.soak.lives import run_apart

    if variant.name not in RECORDED:
        place = FOLDER / f"recorded-{len(RECORDED)}"
        place.mkdir()
        ended = run_apart(partial(record, variant, place / "run"))
        assert ended.how == "done", ended
        RECORDED[variant.name] = place, [Call(**{**each, "part": each["part"].encode("latin-1")})
                                         for each in ended.noted]
    return RECORDED[variant.name]


def disk_after(calls, root):
    from tests.soak.power import Disk

    disk = Disk(root)
    for each in calls:
        disk.see(each)
    return disk


def run(seed, folder):
    from tests.soak.lives import FIRST, difference, live, outcome
    from tests.soak.power import write_state

    chance = Random(f"power {seed}")
    if seed < SHORT:
        variant, place = FIRST[seed % 3], (seed // 3 + chance.random()) / -(-SHORT // 3)
    else:
        variant, place = ALL[(seed - SHORT) // BLOCK % len(ALL)], chance.random()
    root, calls = recorded(variant)
    at = int(place * (len(calls) + 1))
    disk = disk_after(calls[:at], root)
    write_state(disk.crashed(chance), folder)
    out, said = folder / "run", f"{variant.name}, power lost after call {at} of {len(calls)}"
    if lost := lost_promise(out, disk.marks):
        return Failure(f"{said}: {lost}")
    ended = live(variant, out)
    if ended.how != "done":
        return Failure(f"{said}: it does not go on: {ended}")
    differs = difference(outcome(out), UNDISTURBED(variant)[1])
    return Failure(f"{said}: other bits in {differs}") if differs else None


def lost_promise(out, marks):
    """What was promised before and is not there; nothing if all is."""
    from regard.errors import RegardError
    from regard.run_folder import RunFolder

    folder = RunFolder(out)
    steps = [int(each.split()[1]) for each in marks if each.startswith("checkpoint")]
    if steps:
        files, _ = folder.newest_checkpoint()
        if files is None or json.loads(files["at.json"])["step"] < steps[-1]:
            return f"the checkpoint of step {steps[-1]} is gone"
    names = {each.split()[1] for each in marks if each.startswith("end")}
    for name in sorted(names):
        written = [each.split() for each in marks if each.split()[1] == name]
        last = max(at for at, each in enumerate(written) if each[0] == "end")
        allowed = {each[2] for each in written[last:]}       # the one promised last, and one that was being written
        try:
            folder.check_file(name)
            found = folder.adopted()
        except RegardError as error:
            return f"{name}: {error}"
        from regard.storage import file_digest

        if not (out / name).exists() or file_digest(out / name) not in allowed:
            return f"{name} is neither the one before nor the one after"
        if found.checkpointed < bool(steps):
            return "the manifest does not know of the checkpoint"
    return ""


CAMPAIGN = Campaign(
    "power-loss", "the power goes out after a call on the disk: un-synced writes and names are there, torn, or not",
    holds="each file is the old or the new one; what was saved is there; it goes on, and ends with the same bits",
    ci=SHORT, soak=2_000, run=run, prepare=prepare, warm=warm,
    also=(*LIVES, "tests/soak/power.py"))
