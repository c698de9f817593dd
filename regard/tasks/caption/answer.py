"""The lines of captions, as commands print them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.storage import format_json
from regard.tasks.answering import Answering, InputAnswers, Options

BREAKS = {ord("\n"): r"\n", ord("\r"): r"\r", ord("\t"): r"\t"}
SEARCH = ("beam", "n_best", "length_penalty")


def answer(trained: Any, names: Sequence[str], first: int, options: Options) -> InputAnswers:
    pictures, bad = trained.load_good(names)
    captions = iter(trained.caption(pictures, **{name: options[name] for name in SEARCH if name in options}))
    failed = {place: str(mistake) for place, mistake in bad.items()}
    return InputAnswers(["" if place in bad else format_caption(name, next(captions), options)
                    for place, name in enumerate(names)], failed=failed)


def format_caption(name: str, each: Any, options: Options) -> str:
    """Return the caption of a picture as JSON, as a line for each of the n best, or behind the picture's name."""
    if options.get("as_json"):
        return format_json({"image": name, "text": each.text, "score": each.score, "log_prob": each.log_prob,
                            "n_best": [{"text": text, "score": score} for text, score in each.n_best]})
    if options.get("n_best", 1) > 1:
        return "\n".join(f"{on_one_line(name)} ||| {text} ||| {score:.4f}" for text, score in each.n_best)
    return f"{on_one_line(name)}\t{each.text}"


def on_one_line(name: str) -> str:
    """Return the name of a file, which may have line breaks and tabs in it, without them."""
    return name.translate(BREAKS)


def empty_line(options: Options, name: str, reason: str) -> str:
    if options.get("as_json"):
        return format_json({"image": name, "text": "", "error": reason})
    return f"{on_one_line(name)}\t"


ANSWER = Answering(answer, empty_line, (*SEARCH, "as_json"), pictures=True)
