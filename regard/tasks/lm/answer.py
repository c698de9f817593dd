"""The score of each line under a language model, as `regard score --per-line` prints it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.reading.shards import Counts, Shard
from regard.storage import format_json
from regard.tasks.answering import Answering, InputAnswers, Options
from regard.tasks.lm.score import score_lines


def answer(trained: Any, lines: Sequence[str], first: int, options: Options) -> InputAnswers:
    tokens, ends = trained.tokenizer.encode_lines(lines)
    shard = Shard(Path(), tokens, ends, Counts(tokens=len(tokens), documents=len(ends)), "", "")
    return InputAnswers([format_json(values) if options.get("as_json") else shown
                    for values, shown in score_lines(trained, shard)])


def empty_line(options: Options, line: str, reason: str) -> str:
    return format_json({"log_prob": None, "text": line, "error": reason}) if options.get("as_json") else ""


ANSWER = Answering(answer, empty_line, ("as_json",))
