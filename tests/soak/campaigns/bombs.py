"""Bombs of XML, gzip and pictures, entities and paths from elsewhere: refused soon, with little memory."""

import random
import traceback
from contextlib import suppress

from tests.soak.campaign import Campaign, Failure

SECONDS = 1.5                            # of a CPU: a second, and half of one for what a good file needs
WARM = ("TMX.gz", "PO", "MO", "jsonl", "tsv", "parquet", "PNG", "WebP", "GIF", "BMP", "ARPA.gz")


def prepare(folder):
    """Everything is imported before anything is measured."""
    from tests.fuzz.kinds import KINDS
    from tests.hostile.bombs import ask
    from tests.hostile.trying import Trial

    Trial(folder)
    for at, name in enumerate(WARM):
        KINDS[name].use(KINDS[name].path(KINDS[name].prepare(folder / str(at))))
    from regard.errors import RegardError

    with suppress(RegardError):
        ask("/nowhere")


def attempt(bomb, folder, chance):
    """What was wrong, if anything."""
    from regard.errors import RegardError, one_line
    from tests.hostile.trying import bounded

    made = bomb.make(folder, chance)
    try:
        with bounded(SECONDS):
            bomb.use(made)
    except RegardError as error:
        line = one_line(str(error))
        return "" if line.isprintable() and len(line) < 2100 else f"no plain line: {line[:300]!r}"
    except BaseException:
        return "traceback: " + traceback.format_exc().replace("\n", " | ")[-1000:]
    return "" if bomb.harmless else "it was read"


def run(seed, folder):
    from tests.hostile.bombs import BOMBS

    bomb = BOMBS[seed % len(BOMBS)]
    wrong = attempt(bomb, folder, random.Random(seed))
    return Failure(f"{bomb.name}: {wrong}") if wrong else None


CAMPAIGN = Campaign(
    "bombs", "a small file asks for gigabytes, for what lies elsewhere, or for ever", ci=47, soak=400, run=run,
    prepare=prepare, holds="refused in one plain line within a second and 256 MB",
    also=("tests/hostile", "tests/fuzz/kinds.py"))
