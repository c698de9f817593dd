"""One turn of a campaign in a process of its own: `python -m tests.soak.worker NAME FIRST COUNT SECONDS FOLDER HANDLE`.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.soak.campaign import find_campaigns
from tests.soak.cases import teller, work


def seeds_until(first: int, count: int, seconds: float) -> Iterator[int]:
    """Seeds from the first one on, until the turn is over; one at least."""
    until = None
    for seed in range(first, first + count):
        if until is not None and time.monotonic() > until:
            return
        yield seed
        until = until or time.monotonic() + seconds


def main() -> None:
    name, first, count, seconds, folder, handle = sys.argv[1:]
    campaign = find_campaigns()[name]
    work(campaign, seeds_until(int(first), int(count), float(seconds)), Path(folder), teller(int(handle)))


if __name__ == "__main__":
    main()
