"""A large text, counted and encoded segment by segment: by several processes, or by this one.

What comes out is what the serial reading gives, byte for byte, with any number of workers. Each segment's result lies
in the cache, under `segments`, until all are done: an interrupted process goes on where it was.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from regard import storage
from regard.data.reading import seals
from regard.data.reading.readers import ReadSettings, TextFile
from regard.data.reading.segment_worker import answer
from regard.data.reading.segments import Segment, can_be_cut, find_segments, read_segment, size_of
from regard.data.reading.shards import Shard, join_parts
from regard.data.reading.split import WHOLE, TextSpan, take
from regard.data.reading.tally import Tally
from regard.data.reading.text_cache import Cache, key_of
from regard.data.tokens.characters import CODES
from regard.data.tokens.vocabulary import Tokenizer
from regard.data.workers import Order, WorkerPool, worker_count
from regard.errors import DataError

Say = Callable[[str], None]
Stretch = tuple[int | None, Callable[[], Iterator[str]]]     # so many characters, where that is known, and the texts

MODULE = "regard.data.reading.segment_worker"
LARGE = 2**25                 # bytes of text from which it is read in segments; below, starting workers costs more
LARGE_SURVEY = 2**28          # counting is quick: bytes from which it is worth other processes
SOON = 10.0                   # seconds between two lines on how far the work is


@dataclass
class SegmentUsage:
    """The CPU seconds of all segments worked on so far, and the most memory of one process, in bytes."""

    cpu: float = 0.0
    memory: int = 0
    reused: int = 0           # segments that an earlier process had done


usage = SegmentUsage()               # of everything that this process has asked for, for measurements


def is_large(sources: Sequence[TextFile]) -> bool:
    """True if a text is worth cutting into segments."""
    return can_be_cut(sources) and sum(map(size_of, sources)) >= LARGE


@dataclass(frozen=True)
class SegmentCounts:
    """The characters and documents of each segment, and of the whole text what `survey_of` tells."""

    characters: list[int]
    documents: list[int]
    survey: dict[str, Any]

    def before(self, unit: str) -> Iterator[int]:
        """Yield how many of these units stand before each segment."""
        total = 0
        for count in self.characters if unit == "characters" else self.documents:
            yield total
            total += count


def count_segments(
    sources: Sequence[TextFile], settings: ReadSettings, key: str, store: Cache, say: Say
) -> SegmentCounts:
    """The counts of a text's segments; `key` tells the text and how it is read."""
    segments = find_segments(sources)

    def make() -> dict[str, Any]:
        with work_folder(store, key_of("survey", key)) as folder:
            paths = [folder / f"{number}.sealed" for number in range(len(segments))]
            orders = {path: {"do": "survey", "path": str(path), "files": segment.to_json(),
                             "settings": asdict(settings)} for path, segment in zip(paths, segments, strict=True)}
            many = sum(segment.size for segment in segments) >= LARGE_SURVEY
            carry_out(orders, segments, seals.load_value, "counting the text", say, worker_count() if many else 1)
            return asdict(add_counts([seals.load_value(path) for path in paths], sources))

    cuts = [[(file.start, file.stop) for file in segment.files] for segment in segments]
    found, _ = store.json("surveys", key_of("segments", cuts, key), make)
    return SegmentCounts(**found)


def add_counts(each: Sequence[dict[str, Any]], sources: Sequence[TextFile]) -> SegmentCounts:
    whole, seen = Tally(), np.zeros(CODES, dtype=bool)
    for counts in each:
        whole.add(Tally.from_dict(counts["tally"]))
        for first, stop in counts["seen"]:
            seen[first:stop] = True
    if all(source.format == "parquet" for source in sources):
        whole.noun = "record"
    characters = [counts["characters"] for counts in each]
    return SegmentCounts(characters, [counts["tally"]["documents"] for counts in each],
                         {"characters": sum(characters), "distinct": int(seen.sum()), "tally": whole.to_dict()})


def encode_segments(
    path: Path, sources: Sequence[TextFile], settings: ReadSettings, part: TextSpan, tokenizer: Tokenizer,
    counts: Callable[[], SegmentCounts], store: Cache, say: Say, name: str,
) -> Shard:
    """Encode a part of a text into a new shard at `path`; `counts` are asked for where the part is not the whole."""
    segments = find_segments(sources)
    spans = [WHOLE] * len(segments) if part == WHOLE else list(spans_in(part, counts()))
    with work_folder(store, path.name) as folder:
        if path.exists() and seals.opens(Shard.open, path):  # another process was at it
            return Shard.open(path)
        named = folder / "tokenizer.sealed"
        seals.write_value(named, tokenizer.to_json())
        orders, chosen = {}, []
        for number, (segment, span) in enumerate(zip(segments, spans, strict=True)):
            if span is not None:
                orders[folder / str(number)] = {
                    "do": "encode", "path": str(folder / str(number)), "files": segment.to_json(),
                    "settings": asdict(settings), "part": asdict(span), "tokenizer": str(named)}
                chosen.append(segment)
        carry_out(orders, chosen, seals.check_folder, f"encoding {name}", say, worker_count())
        return join_parts(path, orders, tokenizer)


def stretches_of(
    sources: Sequence[TextFile], settings: ReadSettings, part: TextSpan, counts: SegmentCounts
) -> Iterator[Stretch]:
    """Yield the texts of each segment of a part, and how many characters these are; None where only some belong."""
    whole = find_segments(sources)
    for segment, span, characters, documents in zip(
            whole, spans_in(part, counts), counts.characters, counts.documents, strict=True):
        if span is not None:
            yield size_in(span, characters, documents), partial(texts_of, segment, settings, span)


def size_in(span: TextSpan, characters: int, documents: int) -> int | None:
    """The characters of a span of a segment that has so many."""
    if span.unit == "characters":
        return max(0, characters if span.stop is None else min(span.stop, characters)) - max(0, span.start)
    whole = span.unit == "documents" and span.start <= 0 and (span.stop is None or span.stop > documents)
    return characters if whole else None


def texts_of(segment: Segment, settings: ReadSettings, span: TextSpan) -> Iterator[str]:
    return (piece.text for piece in take(read_segment(segment.files, settings, Tally()), span))


def spans_in(part: TextSpan, counts: SegmentCounts) -> Iterator[TextSpan | None]:
    """Yield which part of each segment belongs to a part of the whole; None where surely nothing does."""
    unit = "characters" if part.unit == "characters" else "documents"
    for before, count in zip(counts.before(unit), getattr(counts, unit), strict=True):
        stop = None if part.stop is None else part.stop - before
        # A document may go on behind a segment's last end, so that the bounds are of both.
        outside = before + count < part.start or (stop is not None and stop <= 0)
        yield None if outside else replace(part, start=part.start - before, stop=stop)


# --------------------------------------------------------------------------------------------- carrying out


@contextmanager
def work_folder(store: Cache, key: str) -> Iterator[Path]:
    """The folder of the results of some segments, for one process at a time; it goes when the work is done."""
    folder = store.folder / "segments" / key
    while True:
        before = storage.make_folder(folder).stat().st_ino
        with storage.locked(folder):
            if folder.exists() and folder.stat().st_ino == before:       # else its last holder has removed it
                yield storage.make_folder(folder / "done")   # not the locked one: each result takes a lock of its own
                shutil.rmtree(folder, ignore_errors=True)
                return


def carry_out(
    orders: dict[Path, Order], segments: Sequence[Segment], check: Callable[[Path], Any], doing: str, say: Say,
    workers: int, module: str = MODULE, act: Callable[[Order], Any] | None = None,
) -> None:
    """Carry out the orders of which there is no result yet, on so many workers at most: processes of `module`, or this
    one, which acts."""
    missing = [number for number, path in enumerate(orders) if not (path.exists() and is_good(path, check))]
    usage.reused += len(orders) - len(missing)
    if len(missing) < len(orders):
        say(f"{doing}: going on, {len(orders) - len(missing):,} of {len(orders):,} segments are done")
    asked = [list(orders.values())[number] for number in missing]
    sizes = [segments[number].size for number in missing]
    progress = SegmentProgress(doing, sum(sizes), min(workers, len(missing)), say)
    for size, used in zip(sizes, answers(asked, progress.workers, module, act or answer), strict=True):
        usage.cpu += used["cpu"]
        usage.memory = max(usage.memory, used["memory"])
        progress.add(size)


def is_good(path: Path, check: Callable[[Path], Any]) -> bool:
    """True if a result is whole; a damaged one is removed."""
    try:
        check(path)
    except DataError:
        storage.remove(path)
        return False
    return True


def answers(
    orders: Sequence[Order], workers: int, module: str, act: Callable[[Order], Any]
) -> Iterator[dict[str, Any]]:
    if workers <= 1:
        yield from map(act, orders)
        return
    with WorkerPool(module, workers) as pool:
        yield from pool.answers(orders)


class SegmentProgress:
    """Says now and then how far the work is."""

    def __init__(self, doing: str, total: int, workers: int, say: Say):
        self.doing, self.total, self.workers, self.say = doing, total, workers, say
        self.done, self.began = 0, time.monotonic()
        self.told = self.began

    def add(self, size: int) -> None:
        self.done += size
        now = time.monotonic()
        if now - self.told >= SOON and self.done < self.total:
            self.told = now
            speed = self.done / (now - self.began)
            self.say(f"{self.doing}: {self.done / 1e9:.2f} of {self.total / 1e9:.2f} GB, {self.workers} "
                     f"process{'es' * (self.workers > 1)}, {speed / 1e6:.1f} MB/s, "
                     f"about {(self.total - self.done) / speed:.0f} s left")
