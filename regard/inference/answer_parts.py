"""Parts: the answers to pieces of the inputs, each a sealed file, from which the outputs are put together at the end.

They lie in OUT.parts beside the output, with the manifest of the job. A job of another run, of other options or of
other inputs is not mixed into it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from regard import storage
from regard.data.reading import seals
from regard.errors import DataError, RunError
from regard.tasks.answering import InputAnswers

MANIFEST = "job.json"


@dataclass(frozen=True)
class PartFacts:
    """The facts of a part beside its bytes."""

    inputs: int
    failed: dict[int, str] = field(default_factory=dict)     # by the number in its piece
    notices: dict[str, int] = field(default_factory=dict)
    width: int | None = None                                 # of an array: numbers in a row


def parts_folder(out: Path) -> Path:
    return out.with_name(f"{out.name}.parts")


def part_path(folder: Path, source: int, piece: int) -> Path:
    return folder / f"{source:05d}-{piece:08d}"


def claim_job(folder: Path, job: dict[str, Any]) -> bool:
    """Make the folder of a job's parts, or find it begun: then True. Another job's is refused."""
    manifest = folder / MANIFEST
    if not manifest.exists():
        storage.make_folder(folder)
        storage.write_json(manifest, job)
        return False
    try:
        before = json.loads(manifest.read_text("utf-8"))
    except (OSError, ValueError):
        before = None
    if before != job:
        differs = "it is damaged" if not isinstance(before, dict) else ", ".join(
            name for name in job if before.get(name) != job[name])
        raise RunError(f"{folder} holds the unfinished work of another command (other: {differs}): finish that one, "
                       f"remove the folder, or choose another --out")
    return True


# ------------------------------------------------------------------------------------------------ one part


def write_part(path: Path, answers: InputAnswers) -> PartFacts:
    """Write the answers to a piece, whole or not at all."""
    if answers.rows is None:
        facts = PartFacts(len(answers.lines), answers.failed, answers.notices)
        data = "".join(f"{line}\n" for line in answers.lines).encode("utf-8", "surrogatepass")
    else:
        facts = PartFacts(len(answers.rows), answers.failed, answers.notices, answers.rows.shape[1])
        data = answers.rows.astype("<f4").tobytes()
    seals.write_bytes(path, json.dumps(vars(facts)).encode() + b"\n" + data)
    return facts


def load_part(path: Path) -> tuple[PartFacts, bytes]:
    """Return a part; a damaged one is a DataError."""
    head, _, data = seals.load_bytes(path).partition(b"\n")
    values = json.loads(head)
    return PartFacts(**values | {"failed": {int(place): why for place, why in values["failed"].items()}}), data


def is_part_done(path: Path) -> bool:
    """True if a part is there and whole; a damaged one is removed."""
    if not path.exists():
        return False
    try:
        load_part(path)
    except DataError:
        storage.remove(path)
        return False
    return True


# ------------------------------------------------------------------------------------------------ together


def join(out: Path, paths: Iterable[Path]) -> list[PartFacts]:
    """Put the parts of one output together; it appears whole or not at all."""
    facts: list[PartFacts] = []

    def datas() -> Iterator[bytes]:
        for path in paths:
            fact, data = load_part(path)
            facts.append(fact)
            yield data

    if out.suffix in (".npy", ".safetensors"):
        raw = storage.own_part(out.with_name(f"{out.name}.raw"))
        write_stream(raw, datas(), None)
        shape = (sum(fact.inputs for fact in facts), next((fact.width for fact in facts if fact.width), 0))
        head = npy_head if out.suffix == ".npy" else safetensors_head
        write_stream(out, blocks_of(raw), lambda file: head(file, shape))
        raw.unlink()
    else:
        write_stream(out, datas(), None)
    return facts


def blocks_of(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        yield from iter(lambda: file.read(2**22), b"")


def write_stream(out: Path, blocks: Iterable[bytes], head: Callable[[BinaryIO], None] | None) -> None:
    """Replace a file by these blocks, whole or not at all."""
    storage.make_folder(out.parent)
    part = storage.own_part(out)

    def act() -> None:
        with open(part, "wb") as file:
            if head is not None:
                head(file)
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())

    try:
        storage.perform("write", out, act)
        storage.perform("rename", out, lambda: os.replace(part, out))
    finally:
        part.unlink(missing_ok=True)
    storage.sync_folder(out.parent)


def npy_head(file: BinaryIO, shape: tuple[int, int]) -> None:
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})


def safetensors_head(file: BinaryIO, shape: tuple[int, int]) -> None:
    about = {"vectors": {"dtype": "F32", "shape": list(shape), "data_offsets": [0, 4 * shape[0] * shape[1]]}}
    text = json.dumps(about).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
