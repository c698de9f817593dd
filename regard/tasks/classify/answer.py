"""The labels of each line, as `regard classify` prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.storage import format_json
from regard.tasks.answering import Answering, InputAnswers, Options


def answer(trained: Any, lines: Sequence[str], first: int, options: Options) -> InputAnswers:
    guesses = trained.classify(list(lines), top=options.get("top", 1))
    return InputAnswers([format_guesses(text, each, options) for text, each in zip(lines, guesses, strict=True)])


def format_guesses(text: str, guesses: Any, options: Options) -> str:
    """Return one line: the likeliest labels, or JSON."""
    if options.get("as_json"):
        return format_json({"text": text, "labels": [guess._asdict() for guess in guesses]})
    return "\t".join(f"{guess.label} {guess.probability:.4f}" if options.get("probabilities") else guess.label
                     for guess in guesses)


def empty_line(options: Options, line: str, reason: str) -> str:
    return format_json({"text": line, "labels": [], "error": reason}) if options.get("as_json") else ""


ANSWER = Answering(answer, empty_line, ("top", "probabilities", "as_json"), together=False)
