"""Work on one segment of a text, in this process or, run as a module, in a worker: count it, or encode it.

Its result is a sealed entry of the folder of the work, written whole or not at all. So a process that goes on where
another was killed finds what is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.data.reading import seals
from regard.data.reading.readers import ReadSettings, TextFile
from regard.data.reading.segments import files_from_json, read_segment, with_line_numbers
from regard.data.reading.shards import group_by_size, write_part
from regard.data.reading.split import TextSpan, take
from regard.data.reading.tally import Tally
from regard.data.tokens.characters import CODES, code_points
from regard.data.tokens.vocabulary import Tokenizer
from regard.data.workers import Order, serve_orders
from regard.errors import DataError

JOINED = 2**20                # characters counted at once
T = TypeVar("T")


def answer(order: Order) -> dict[str, Any]:
    """Carry out one order; return the seconds of CPU that it took, and the most memory of this process so far."""
    began = time.process_time()
    files, settings = files_from_json(order["files"]), ReadSettings(**order["settings"])
    if order["do"] == "survey":
        with_numbers(files, lambda files: survey_segment(Path(order["path"]), files, settings))
    else:
        part, tokenizer = TextSpan(**order["part"]), load_tokenizer(order["tokenizer"])
        with_numbers(files, lambda files: encode_segment(Path(order["path"]), files, settings, part, tokenizer))
    return {"cpu": time.process_time() - began, "memory": peak_memory()}


def with_numbers(files: Sequence[TextFile], work: Callable[[Sequence[TextFile]], T]) -> T:
    """Do the work; where it meets a mistake, do it again with the line numbers of the whole file in the message."""
    try:
        return work(files)
    except DataError:
        return work(with_line_numbers(files))


def survey_segment(path: Path, files: Sequence[TextFile], settings: ReadSettings) -> None:
    """Write the counts of a segment: characters, which ones occur, and the tally."""
    tally, characters, seen = Tally(), 0, np.zeros(CODES, dtype=bool)
    pieces = (piece.text for piece in read_segment(files, settings, tally))
    for texts in group_by_size(pieces, len, JOINED):
        text = "".join(texts)
        characters += len(text)
        seen[code_points(text)] = True
    seals.write_value(path, {"characters": characters, "seen": runs_of(seen), "tally": tally.to_dict()})


def runs_of(seen: NDArray[np.bool_]) -> list[list[int]]:
    """The first and the one behind the last of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], seen, [False]]).astype(np.int8)))
    return edges.reshape(-1, 2).tolist()


def encode_segment(
    path: Path, files: Sequence[TextFile], settings: ReadSettings, part: TextSpan, tokenizer: Tokenizer
) -> None:
    """Write the tokens of a segment; `part` is counted from its beginning."""
    write_part(path, take(read_segment(files, settings, Tally()), part), tokenizer)


@cache
def load_tokenizer(path: str) -> Tokenizer:
    return Tokenizer.from_json(seals.load_value(Path(path)), path)


def peak_memory() -> int:
    """Bytes of memory that this process held at most; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:                                      # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> Any:
    serve_orders(answer)


if __name__ == "__main__":
    main()
