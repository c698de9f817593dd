"""The words of each line with their tags, as `regard tag` prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.corpora.word_split import split_words
from regard.storage import format_json
from regard.tasks.answering import Answering, InputAnswers, Options


def answer(trained: Any, lines: Sequence[str], first: int, options: Options) -> InputAnswers:
    split = str.split if options.get("words") else split_words
    tagged = trained.tag_sentences([split(line) for line in lines])
    return InputAnswers([format_tags(words, options) for words in tagged])


def format_tags(found: Any, options: Options) -> str:
    """Return one line: word/TAG for each word, or JSON."""
    if options.get("as_json"):
        return format_json({"words": [each.word for each in found], "tags": [each.tag for each in found],
                            "probabilities": [each.probability for each in found]})
    return " ".join(f"{each.word}/{each.tag}" for each in found)


def empty_line(options: Options, line: str, reason: str) -> str:
    return format_json({"words": line.split(), "tags": [], "error": reason}) if options.get("as_json") else ""


ANSWER = Answering(answer, empty_line, ("words", "as_json"), together=False)
