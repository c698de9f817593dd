"""Cleaning of one segment of pairs or labelled texts, in this process or, run as a module, in a worker.

Its result is a sealed folder: both sides of what is fit, a hash of each pair by which duplicates are found later, and
the tally.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from regard import storage
from regard.data.labels.labelled_texts import OF_TEXTS, LabelSettings, fit_texts
from regard.data.labels.tagged_sentences import OF_WORDS
from regard.data.pairs.pair_readers import PairSettings
from regard.data.pairs.pairs import TextPair, fit_pairs
from regard.data.reading.readers import TextFile
from regard.data.reading.seals import check_folder, write_folder
from regard.data.reading.segment_worker import peak_memory, with_numbers
from regard.data.reading.segments import files_from_json
from regard.data.reading.tally import Tally
from regard.data.reading.two_fields import short_hash
from regard.data.workers import Order, serve_orders

SIDES, HASHES, TALLY = ("source.txt", "target.txt"), "hashes.bin", "tally.json"
AT_ONCE = 4096                                    # pairs written at once
LABELLINGS = {each.unit: each for each in (OF_TEXTS, OF_WORDS)}


def answer(order: Order) -> dict[str, Any]:
    """Carry out one order; return the seconds of CPU that it took, and the most memory of this process so far."""
    began = time.process_time()
    with_numbers(files_from_json(order["files"]), lambda files: clean_segment(Path(order["path"]), files, order))
    return {"cpu": time.process_time() - began, "memory": peak_memory()}


def clean_segment(path: Path, files: Sequence[TextFile], order: Order) -> None:
    """Write what is fit of a segment, duplicates too; it appears whole or not at all."""

    def fill(folder: Path) -> None:
        tally = Tally()
        storage.perform("write", folder, lambda: write_pairs(folder, read_fit(files, order, tally), tally))
        storage.write_part(folder / TALLY, json.dumps(tally.to_dict()))

    write_folder(path, fill, check_folder)


def read_fit(files: Sequence[TextFile], order: Order, tally: Tally) -> Iterator[TextPair]:
    """Yield the pairs that an order asks for."""
    settings: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value
                                for name, value in order["settings"].items()}
    if order["unit"] == "pair":
        return fit_pairs(files, PairSettings(**settings), tally)
    return fit_texts(files, LabelSettings(**settings), LABELLINGS[order["unit"]], tally)


def write_pairs(folder: Path, pairs: Iterator[TextPair], tally: Tally) -> None:
    names = [folder / name for name in (*SIDES, HASHES)]
    with open(names[0], "wb") as source, open(names[1], "wb") as target, open(names[2], "wb") as hashes:
        while some := list(islice(pairs, AT_ONCE)):
            source.write("".join(f"{pair.source}\n" for pair in some).encode())
            target.write("".join(f"{pair.target}\n" for pair in some).encode())
            hashes.write(b"".join(short_hash("\n".join(pair).encode()) for pair in some))
            tally.keep(len(some))
        for file in (source, target, hashes):
            file.flush()
            os.fsync(file.fileno())


def main() -> None:
    serve_orders(answer)


if __name__ == "__main__":
    main()
