"""Damage to a folder of files as disks and copies do it: flipped bits, files cut short, blocks of zeros."""

import warnings
from contextlib import contextmanager
from random import Random

BLOCK = 512                              # bytes: of the smallest piece that a disk writes


def damage(folder, chance: Random) -> tuple[str, str]:
    """Damage one file of a folder; return its name, and how."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size and path.name != "lock")
    path = chance.choice(files)
    before = path.read_bytes()
    kind = chance.choice(("one bit", "one bit", "bits", "cut", "empty", "zeros"))
    after = bytearray(before)
    if kind in ("one bit", "bits"):
        for _ in range(1 if kind == "one bit" else chance.randint(2, 40)):
            at = chance.randrange(8 * len(after))
            after[at // 8] ^= 1 << at % 8
    elif kind == "zeros":
        begin = chance.randrange(len(after)) // BLOCK * BLOCK
        after[begin:begin + BLOCK] = bytes(len(after[begin:begin + BLOCK]))
    else:
        del after[0 if kind == "empty" else chance.randrange(len(after)):]
    path.write_bytes(after)
    where = next((at for at, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(after))
    return str(path.relative_to(folder)), f"{kind} from byte {where:,} of {len(before):,}"


@contextmanager
def notes_of():
    """Collect the notes that are given inside."""
    said = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield said
        finally:
            said += [str(each.message) for each in caught]
