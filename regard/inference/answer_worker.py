"""One process that answers pieces of the inputs: it loads the model once, and writes each piece's part."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from regard.data.workers import Order, serve_orders
from regard.errors import RegardError, RunError
from regard.inference import answer_parts
from regard.storage import format_json
from regard.tasks.answering import Answering, InputAnswers, Options


class Answerer:
    """A loaded model that answers pieces."""

    def __init__(self, run: str, task: str | None, device: str, trust: bool, engine: str):
        from regard.trained import load

        self.trained = load(run, device, trust=trust, task=task)
        self.answering = answering_of(self.trained.task)
        if engine != "own":
            from regard.interop.ct2_engine import open_engine

            self.trained.engine = open_engine(self.trained, engine, lambda text: None)

    def write_part(self, path: Path, inputs: Sequence[str], first: int, options: Options) -> None:
        """Answer some inputs, the first of which has this number in its file, and write the part."""
        answers = self.answer(inputs, first, options)
        lines = list(answers.lines)
        for place, reason in answers.failed.items() if answers.rows is None else ():
            lines[place] = self.answering.empty(options, inputs[place], reason)
        answers.lines = lines
        answer_parts.write_part(path, answers)

    def answer(self, inputs: Sequence[str], first: int, options: Options) -> InputAnswers:
        """Return the answers; where the piece fails as a whole, each input is tried alone, and those that fail are
        marked. If all fail it is the model or the machine, and not the inputs."""
        try:
            return self.answering.answer(self.trained, inputs, first, options)
        except RegardError:
            raise
        except Exception as error:
            if is_for_want_of_memory(error):
                raise
            return self.answer_each(inputs, first, options, error)

    def answer_each(self, inputs: Sequence[str], first: int, options: Options, error: Exception) -> InputAnswers:
        lines: list[str] = []
        rows: list[Any] = []
        failed: dict[int, str] = {}
        notices: dict[str, int] = {}
        for place, one in enumerate(inputs):
            try:
                found = self.answering.answer(self.trained, [one], first + place, options)
            except Exception as reason:
                failed[place] = f"{type(reason).__name__}: {(str(reason).strip().splitlines() or [''])[0]}"
                lines.append("")
                rows.append(None)
                continue
            lines += found.lines
            rows.append(None if found.rows is None else found.rows[0])
            for text, number in found.notices.items():
                notices[text] = notices.get(text, 0) + number
        if len(failed) == len(inputs):
            raise error
        return InputAnswers(lines, stack(rows), failed, notices)


def stack(rows: Sequence[Any]) -> Any:
    """Return rows as one array, zeros where there is none; None if there are none at all."""
    import numpy as np

    there = next((row for row in rows if row is not None), None)
    return None if there is None else np.stack([np.zeros_like(there) if row is None else row for row in rows])


def is_for_want_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or "out of memory" in str(error)


def answering_of(task: Any) -> Answering:
    """Return how a task answers; one that does not is a RunError."""
    if task.answer is None:
        raise RunError(f"a run of the task {task.name} is not used over files: use it with {task.card.used_by}")
    return task.answer


@cache
def open_answerer(setup: str) -> Answerer:
    return Answerer(**json.loads(setup))


def answer(order: Order) -> None:
    """Carry out one order."""
    answerer = open_answerer(format_json(order["model"]))
    answerer.write_part(Path(order["path"]), order["inputs"], order["first"], order["options"])


def main() -> None:
    serve_orders(answer)


if __name__ == "__main__":
    main()
