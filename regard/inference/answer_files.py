"""Many inputs answered: one line out for each line in, in order, by this process, by several, or by torchrun's.

    regard.answer_files("runs/fr-en", ["news.fr"], "news.en", workers=2)
    regard.answer_files("runs/fr-en", ["articles/"], "translated/", beam=1)        # a file for each file

Inputs are cut into pieces of a fixed size, whatever the number of workers, and each piece is answered by itself. Its
part lies on disk at once: the same call after a kill goes on, and ends with the same bytes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from regard import storage
from regard.data.pictures.picture_files import SUFFIXES
from regard.data.reading.readers import TextFile, check_choice, find_files, find_sources, lines_in
from regard.data.reading.text_cache import content_hash, key_of
from regard.data.workers import Order, WorkerPool, check_workers
from regard.errors import DataError, RunError, SettingError, did_you_mean
from regard.inference import answer_parts
from regard.inference.answer_worker import answer, answering_of
from regard.inference.placement import Rank, count_workers, device_of_rank, place_workers, this_rank
from regard.run_folder import RunFolder
from regard.run_lock import LOCK, hold_lock
from regard.tasks import run_task
from regard.tasks.answering import Answering
from regard.trained import list_gpus

MODULE = "regard.inference.answer_worker"
PIECE = 512                   # inputs answered at once; a fixed number, so that no result depends on the workers
SHOWN = 3                     # inputs that failed, in the message
SOON = 10.0                   # seconds between two lines on how far the work is

Say = Callable[[str], None]


@dataclass(frozen=True)
class InputFile:
    """One output and the inputs that it answers."""

    out: Path
    name: str
    content: str
    inputs: Callable[[], Iterator[str]]

    def pieces(self) -> Iterator[list[str]]:
        coming = self.inputs()
        while piece := list(islice(coming, PIECE)):
            yield piece


def answer_files(
    run: str | Path, files: Sequence[str | Path], out: str | Path, *, workers: int | None = None,
    task: str | None = None, device: str = "auto", trust: bool = False, engine: str = "own",
    on_bad_text: str = "fail", say: Say = print, **options: Any,
) -> list[Path]:
    """Answer each line of the files (or each picture) with a run's model, and return the files that were written.

    `out` is a file; for several files of a translator, or a folder of them, a folder with a file for each. `workers`
    None: one a GPU, or this process alone. Options are those of the task's command.
    """
    check_workers(workers)
    check_choice("on_bad_text", on_bad_text, ("fail", "replace"))            # none is dropped: a line in, a line out
    rank, gpus = this_rank(), list_gpus(device)
    with joined(rank) as wait_for_others:
        if rank.world > 1 and workers is not None:
            raise SettingError(f"--workers {workers}: torchrun started {rank.world} processes already; leave it out")
        folder = RunFolder.open(run)
        kind = run_task(folder.read_settings())
        if task not in (None, kind.name):
            raise RunError(f"{run} is a run of the task {kind.name}: use it with {kind.card.used_by}")
        answering = answering_of(kind)
        refuse_unknown(options, answering)
        inputs = find_inputs([str(name) for name in files], Path(out), answering, on_bad_text)
        model = {"run": str(run), "task": task, "device": device_of_rank(device, rank, gpus), "trust": trust,
                 "engine": engine}
        job = {"run": key_of(folder.adopted().files), "task": kind.name, "engine": engine, "piece": PIECE,
               "options": dict(sorted(options.items())),
               "inputs": [[each.name, each.content] for each in inputs], "outputs": [str(each.out) for each in inputs]}
        count = 1 if rank.world > 1 else count_workers(workers, gpus)
        progress = PieceProgress(say if rank.number == 0 else lambda text: None, count * rank.world)
        with claimed(Path(out), job, rank, say) as work:
            wait_for_others()
            orders = missing_orders(inputs, work, {"model": model, "options": dict(options)}, rank, progress)
            for _ in carry_out(orders, count, gpus):
                progress.add()
            wait_for_others()
            failed = finish(inputs, work, say) if rank.number == 0 else ""
        if rank.number == 0:
            work.rmdir()
        if failed:
            raise DataError(failed)
    return [each.out for each in inputs]


def refuse_unknown(options: Mapping[str, Any], answering: Answering) -> None:
    for name in options:
        if name not in answering.options:
            raise SettingError(f"{name} means nothing here{did_you_mean(name, answering.options)}")


# ------------------------------------------------------------------------------------------------ inputs


def find_inputs(files: Sequence[str], out: Path, answering: Answering, on_bad_text: str) -> list[InputFile]:
    """Return what is answered into which output."""
    if answering.pictures:
        names = [str(path) for name in files for path in pictures_in(Path(name))]
        facts = [(name, os.stat(name).st_size if os.path.exists(name) else -1) for name in names]
        return [InputFile(out, "pictures", key_of(facts), lambda: iter(names))]
    named = [(name, source) for name in files for source in texts_in(name)]
    if answering.together:
        sources = [source for _, source in named]
        refuse_own_input(out, sources)
        return [InputFile(out, "lines", content_hash(sources),
                          lambda: (line for source in sources for line in lines_in(source, on_bad_text)))]
    single = len(files) == 1 and not Path(files[0]).is_dir() and len(named) == 1
    found = [InputFile(out if single and not out.is_dir() else out / name_in(name, source), source.name,
                       content_hash([source]), partial(lines_in, source, on_bad_text))
             for name, source in named]
    outputs = [each.out for each in found]
    for each in found:
        if outputs.count(each.out) > 1:
            raise SettingError(f"two of the files would be written to {each.out}: give their folder, or other names")
        refuse_own_input(each.out, [source for _, source in named])
    return found


def refuse_own_input(out: Path, sources: Sequence[TextFile]) -> None:
    for source in sources:
        if not source.address and out.resolve() == source.path.resolve():
            raise SettingError(f"--out {out}: {source.name} would be written over; choose another")


def texts_in(name: str) -> list[TextFile]:
    sources = find_sources([name])
    plain = [source for source in sources if source.format == "text"]
    if not plain or (len(plain) < len(sources) and not Path(name).is_dir()):
        raise DataError(f"{name} is not a file of lines: give text files, .gz of them, folders, or - for stdin")
    return plain


def pictures_in(path: Path) -> list[Path]:
    """Return the pictures of a folder, or the picture itself."""
    if not path.is_dir():
        return [path]
    found = list(find_files(path, lambda name: Path(name).suffix.lower() in SUFFIXES))
    if not found:
        raise DataError(f"{path} has no pictures in it: a folder is searched for {' '.join(sorted(SUFFIXES))}")
    return found


def name_in(given: str, source: TextFile) -> Path:
    """Return the name of a file's output in the folder of outputs: where it lies in the folder that was given."""
    inside = source.path.relative_to(given) if Path(given).is_dir() else Path(source.path.name)
    name = "stdin.txt" if given == "-" else inside.name.removesuffix(".gz")
    return inside.with_name(name)


# ------------------------------------------------------------------------------------------------ the work


@contextmanager
def joined(rank: Rank) -> Iterator[Callable[[], Any]]:
    """Give a function that waits until every rank has called it. All end when one of them fails, and one says why."""
    if rank.world == 1:
        yield lambda: None
        return
    from regard.training.joining import join_ranks

    with join_ranks("cpu") as ranks:                           # they send each other no tensors
        yield ranks.wait


@contextmanager
def claimed(out: Path, job: Mapping[str, Any], rank: Rank, say: Say) -> Iterator[Path]:
    """Give the folder of a job's parts, which rank 0 holds."""
    work = answer_parts.parts_folder(out)
    with hold_lock(work) if rank.number == 0 else nullcontext():
        if rank.number == 0:
            answer_parts.claim_job(work, dict(job))
            say_going_on(work, say)
        yield work


def say_going_on(work: Path, say: Say) -> None:
    done = sum(path.name[0].isdigit() for path in work.iterdir())
    if done:
        say(f"going on: {done:,} parts of {PIECE} are done already")


def missing_orders(
    inputs: Sequence[InputFile], work: Path, order: Order, rank: Rank, progress: PieceProgress
) -> Iterator[Order]:
    """Yield an order for each piece of this rank that has no part yet."""
    number = 0
    for source, each in enumerate(inputs):
        for place, piece in enumerate(each.pieces()):
            path = answer_parts.part_path(work, source, place)
            if number % rank.world == rank.number and not answer_parts.is_part_done(path):
                progress.sizes.append(len(piece))
                yield {**order, "path": str(path), "inputs": piece, "first": place * PIECE}
            number += 1


def carry_out(orders: Iterator[Order], workers: int, gpus: list[str]) -> Iterator[Any]:
    if workers <= 1:
        yield from map(answer, orders)
        return
    with WorkerPool(MODULE, workers, each=place_workers(workers, gpus)) as pool:
        yield from pool.answers(orders)


class PieceProgress:
    """Says now and then how many inputs are answered, and how fast."""

    def __init__(self, say: Say, workers: int):
        self.say, self.workers, self.sizes = say, workers, list[int]()
        self.done, self.pieces, self.began = 0, 0, time.monotonic()
        self.told = self.began

    def add(self) -> None:
        self.done += self.sizes[self.pieces]
        self.pieces += 1
        now = time.monotonic()
        if now - self.told >= SOON:
            self.told = now
            self.say(f"{self.done:,} answered, {self.done / (now - self.began):,.1f} a second"
                     + (f" by {self.workers} workers" if self.workers > 1 else ""))


def finish(inputs: Sequence[InputFile], work: Path, say: Say) -> str:
    """Put the outputs together and remove the parts. Return what is to be told of inputs that failed."""
    failed: list[str] = []
    notices: dict[str, int] = {}
    answered = 0
    for source, each in enumerate(inputs):
        facts = answer_parts.join(each.out, sorted(work.glob(f"{source:05d}-*")))
        for place, fact in enumerate(facts):
            answered += fact.inputs
            failed += [f"{each.name} {place * PIECE + number + 1}: {why}" for number, why in fact.failed.items()]
            for text, number in fact.notices.items():
                notices[text] = notices.get(text, 0) + number
    for path in work.iterdir():
        if path.name != LOCK:
            storage.remove(path)
    for text, number in notices.items():
        say(f"{number:,} line{'s' * (number != 1)} {text}")
    more = f"; and {len(failed) - SHOWN:,} more" if len(failed) > SHOWN else ""
    return (f"{len(failed):,} of {answered:,} have no answer, and an empty line in its place ("
            + "; ".join(failed[:SHOWN]) + f"{more})") if failed else ""
