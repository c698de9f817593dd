"""Large files of pairs and of labelled texts, cleaned segment by segment: by several processes, or by this one.

What comes out is what one process gives, byte for byte, with any number of workers. A segment's duplicates are found
afterwards, in order, by the hashes of all pairs. Each segment's result lies in the cache, under `segments`, until all
are done: an interrupted process goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import compress, islice, zip_longest
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from regard.data.cleaning.clean_worker import AT_ONCE, HASHES, SIDES, TALLY, answer
from regard.data.cleaning.cuts import can_be_shared, cut_labelled, cut_pairs
from regard.data.pairs.pairs import check_sides
from regard.data.reading.in_segments import LARGE, Say, carry_out, work_folder
from regard.data.reading.readers import TextFile
from regard.data.reading.seals import check_folder
from regard.data.reading.segments import Segment, size_of
from regard.data.reading.tally import Tally
from regard.data.reading.text_cache import Cache, key_of
from regard.data.reading.two_fields import DUPLICATE
from regard.data.workers import worker_count

MODULE = "regard.data.cleaning.clean_worker"
BLOCK = 2**22
Sides = tuple[bytes, bytes]                       # some lines of one side, and of the other


@dataclass(frozen=True)
class CleanJob:
    """Files to clean, and how: as pairs, or as labelled texts of this unit."""

    unit: str                                     # pair · text · word
    sources: Sequence[TextFile]
    settings: Mapping[str, Any]                   # of the [data] table
    refuse_none: Callable[[Tally], None]
    arrange: Callable[[int], Iterable[int]] | None = None     # the order of so many pairs, where it is not the files'

    def cut(self) -> list[Segment]:
        """Return the segments; none where the files are too small, or cannot be read by others."""
        if not can_be_shared(self.sources) or sum(map(size_of, self.sources)) < LARGE:
            return []
        if self.unit == "pair":
            check_sides(self.sources)
        found = (cut_pairs if self.unit == "pair" else cut_labelled)(self.sources)
        return found if len(found) > 1 else []


@contextmanager
def cleaned(
    job: CleanJob, segments: Sequence[Segment], key: str, tally: Tally, store: Cache, say: Say
) -> Iterator[Iterator[Sides]]:
    """Give both sides of all that is fit, in order and without duplicates, and count it; `key` tells the files."""
    cuts = [[(file.start, file.stop) for file in segment.files] for segment in segments]
    with work_folder(store, key_of("clean", key, cuts)) as folder:
        parts = [folder / str(number) for number in range(len(segments))]
        orders = {part: {"path": str(part), "files": segment.to_json(), "unit": job.unit,
                         "settings": dict(job.settings)} for part, segment in zip(parts, segments, strict=True)}
        carry_out(orders, segments, check_folder, "cleaning", say, worker_count(), MODULE, answer)
        kept = find_firsts(parts) if job.settings["drop_duplicates"] else [None] * len(parts)
        for part, mask in zip(parts, kept, strict=True):
            add_tally(tally, part, mask)
        job.refuse_none(tally)
        sides = (lines for part, mask in zip(parts, kept, strict=True) for lines in kept_lines(part, mask))
        yield sides if job.arrange is None else arranged(sides, job.arrange(tally.kept))


# ------------------------------------------------------------------------------------------------ duplicates


def find_firsts(parts: Sequence[Path]) -> list[NDArray[np.bool_]]:
    """Return for each pair of each part whether none before it, in any part, was the same."""
    hashes = [np.fromfile(part / HASHES, "<u8").reshape(-1, 2) for part in parts]
    whole = np.concatenate(hashes)
    order = np.lexsort((whole[:, 1], whole[:, 0]))           # stable: of equal ones the first comes first
    again = (whole[order[1:]] == whole[order[:-1]]).all(1)
    firsts = np.ones(len(whole), bool)
    firsts[order[1:][again]] = False
    return np.split(firsts, np.cumsum([len(each) for each in hashes])[:-1])


def add_tally(tally: Tally, part: Path, mask: NDArray[np.bool_] | None) -> None:
    """Add what was read of a part; its duplicates were fit, and are dropped."""
    counts = Tally.from_dict(json.loads((part / TALLY).read_text("utf-8")))
    again = 0 if mask is None else len(mask) - int(mask.sum())
    if again:
        counts.kept -= again
        counts.dropped[DUPLICATE] += again
    tally.add(counts)


# ------------------------------------------------------------------------------------------------ together


def kept_lines(part: Path, mask: NDArray[np.bool_] | None) -> Iterator[Sides]:
    """Yield both sides of what is kept of a part, some lines at a time."""
    with open(part / SIDES[0], "rb") as one, open(part / SIDES[1], "rb") as other:
        if mask is None or mask.all():
            yield from zip_longest(blocks_of(one), blocks_of(other), fillvalue=b"")
        else:
            yield from zip(chosen_lines(one, mask), chosen_lines(other, mask), strict=True)


def blocks_of(file: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: file.read(BLOCK), b"")


def chosen_lines(file: BinaryIO, mask: NDArray[np.bool_]) -> Iterator[bytes]:
    lines = compress(file, mask)
    while some := b"".join(islice(lines, AT_ONCE)):
        yield some


def arranged(sides: Iterable[Sides], order: Iterable[int]) -> Iterator[Sides]:
    """Yield the lines in another order; it holds them all."""
    both = [BytesIO(b"".join(side)).readlines() for side in zip(*sides, strict=True)]
    places = iter(order)
    while some := list(islice(places, AT_ONCE)):
        one, other = (b"".join(side[place] for place in some) for side in both)
        yield one, other
