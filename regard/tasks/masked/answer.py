"""A vector for each line: a row of an array, or a line of JSON. An empty line has one, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.storage import format_json
from regard.tasks.answering import Answering, InputAnswers, Options


def answer(trained: Any, lines: Sequence[str], first: int, options: Options) -> InputAnswers:
    vectors = trained.vectors(lines, normalise=bool(options.get("normalise"))).numpy().astype(np.float32)
    if options.get("rows"):
        return InputAnswers(rows=vectors)
    return InputAnswers([format_json({"text": text, "vector": vector})
                    for text, vector in zip(lines, vectors.tolist(), strict=True)])


def empty_line(options: Options, line: str, reason: str) -> str:
    return format_json({"text": line, "vector": None, "error": reason})


ANSWER = Answering(answer, empty_line, ("normalise", "rows"))
