"""A small disk of its own, a tmpfs, that is full at some moment of a training; then it grows, and the run goes on.

It is mounted in a namespace of this process: nobody else sees it. Where that is not allowed the campaign rests.
"""

import errno
import os
import shutil
import subprocess
from pathlib import Path
from random import Random

from tests.soak.campaign import LIVES, Campaign, Failure

MAY_MOUNT = 1 << 21                      # CAP_SYS_ADMIN
NEW_NAMESPACE = 0x20000                  # CLONE_NEWNS
UNDISTURBED = None
ALL, NEEDED = [], {}


def may_mount():
    status = Path("/proc/self/status")
    held = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("CapEff")] if (
        status.exists()) else []
    return bool(held) and bool(int(held[0], 16) & MAY_MOUNT) and shutil.which("mount") is not None


def warm():
    from tests.soak.lives import warm_up

    warm_up()


def prepare(folder):
    global UNDISTURBED
    import ctypes

    from tests.soak.lives import Undisturbed, every_variant

    if ctypes.CDLL(None, use_errno=True).unshare(NEW_NAMESPACE):
        raise OSError(ctypes.get_errno(), "a namespace of mounts of its own")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    UNDISTURBED = Undisturbed(folder)
    ALL[:] = every_variant()


def needed(variant, folder):
    """The kilobytes that a run and its cache come to on such a disk."""
    from tests.soak.lives import live

    if variant.name not in NEEDED:
        with disk(folder / "large", 200_000) as place:
            ended = live(variant, place / "run")
            assert ended.how == "done", ended
            found = os.statvfs(place)
            NEEDED[variant.name] = (found.f_blocks - found.f_bfree) * found.f_frsize // 1024
    return NEEDED[variant.name]


class disk:
    def __init__(self, place, kilobytes):
        self.place, self.kilobytes = place, kilobytes

    def __enter__(self):
        self.place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.kilobytes}k", "none", str(self.place)], check=True)
        return self.place

    def __exit__(self, *error):
        subprocess.run(["umount", "-l", str(self.place)], check=True)


def run(seed, folder):
    from tests.soak.campaigns.disk_errors import SAYS, lost_checkpoints
    from tests.soak.lives import FIRST, difference, live, outcome

    chance = Random(f"small disk {seed}")
    variant = FIRST[seed % 3] if seed < 30 else ALL[seed // 5 % len(ALL)]
    _, expected = UNDISTURBED(variant)
    size = max(8, int(needed(variant, folder) * chance.uniform(0.05, 1.1)) // 4 * 4)
    said = f"{variant.name} on a disk of {size} KB"
    with disk(folder / "small", size) as place:
        out = place / "run"
        ended = live(variant, out)
        if ended.how == "refused":
            if "\n" in ended.line or not all(each in ended.line for each in SAYS[errno.ENOSPC]):
                return Failure(f"{said}: the line does not say it: {ended.line!r}")
            if lost := lost_checkpoints(out):
                return Failure(f"{said}: {lost}")
            subprocess.run(["mount", "-o", "remount,size=200000k", str(place)], check=True)
            ended = live(variant, out)
        if ended.how != "done":
            return Failure(f"{said}: {ended}")
        differs = difference(outcome(out), expected)
    return Failure(f"{said}: other bits in {differs}") if differs else None


CAMPAIGN = Campaign(
    "small-disk", "a run and its cache lie on a tmpfs that is too small for them; then it grows",
    holds="one line that says what to free; every checkpoint is whole; it goes on to the same bits", ci=6, soak=400,
    run=run, prepare=prepare, warm=warm, here=may_mount(), also=(*LIVES, "tests/soak/campaigns/disk_errors.py"))
