"""The library `tokenizers`, asked only for what cannot hurt.

It is a program of its own inside our process: padding to a billion ends the process, a normalizer may make any text as
long as memory, and what it does not expect is a panic and no exception. So a file's padding, truncation and
post-processor never reach it, what rewrites a text may not make it much longer, and a panic becomes a ValueError.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from regard.corpora.word_split import WORDS
from regard.errors import DataError

T = TypeVar("T")

PARTS = 64                       # of what cuts and rewrites a text
GROWTH = 64                      # times as long as it was is the most that a text may become
LONGEST_PATTERN = 10_000         # characters; ours has 500, those of large models 300
LONGEST_ENTRY = 256              # bytes that a table of SentencePiece may put in the place of a character
REPEATED = re.compile(r"\)[*+{]|\\[1-9]|\\k")       # a repeated group, or a reference back: these may take for ever
# Our own pattern, WORDS, has repeated groups that cannot overlap.


def open_library(value: dict[str, Any]) -> Any:
    """Return the tokenizer of a file as an object of the library, in which `<eos>` in a text is ordinary text.

    A ValueError where it would not be safe.
    """
    import tokenizers

    quiet_forks()
    for name in ("normalizer", "pre_tokenizer", "decoder"):
        check_parts(value.get(name))
    model = {**value["model"], **({"dropout": None} if value["model"].get("dropout") else {})}
    safe = {**value, "model": model, "padding": None, "truncation": None, "post_processor": None}
    made = guarded(lambda: tokenizers.Tokenizer.from_str(json.dumps(safe)))
    made.encode_special_tokens = True
    return made


def guarded(call: Callable[[], T]) -> T:
    """Return the call's result; a panic of the library is a ValueError."""
    try:
        return call()
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"the library `tokenizers` gave up ({str(error)[:120]})") from None


def asked(call: Callable[[], T]) -> T:
    """Return what the library answers about a text; where it cannot, the tokenizer is at fault and no text."""
    try:
        return guarded(call)
    except Exception as error:                               # the library raises plain Exception
        raise DataError(f"the tokenizer cannot be used on this text ({' '.join(str(error).split())[:120]}): "
                        "take tokenizer.json from a copy of the run") from None


def check_parts(part: Any) -> None:
    """Refuse what could make a text much longer than it was, or take for ever."""
    growth = 1
    for seen, each in enumerate(walk(part), 1):
        for name in ("content", "prepend", "replacement", "prefix", "suffix"):
            growth *= max(1, len(str(each.get(name) or "")))
        if seen > PARTS or growth > GROWTH:
            raise ValueError("it makes texts many times as long, or in too many steps")
        pattern = each.get("Regex")
        if isinstance(pattern, str) and pattern != WORDS and (
                len(pattern) > LONGEST_PATTERN or REPEATED.search(pattern)):
            raise ValueError("it has a pattern that may take for ever")
        if each.get("precompiled_charsmap") is not None:
            check_table(each["precompiled_charsmap"])


def walk(part: Any) -> Iterator[dict[str, Any]]:
    """Yield each object in a value."""
    if isinstance(part, dict):
        yield part
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from walk(each)


def check_table(packed: Any) -> None:
    """Refuse a table of SentencePiece that puts long texts in the place of single characters: after the size of a trie
    and the trie, texts stand there with a NUL behind each."""
    table = base64.b64decode(packed, validate=True)
    size = int.from_bytes(table[:4], "little")
    if len(table) < 4 or size % 4 or size > len(table) - 4:
        raise ValueError("its table of characters is damaged")
    if max(map(len, table[4 + size:].split(b"\0"))) > LONGEST_ENTRY:
        raise ValueError("its table makes long texts of single characters")


_fork_watched = False


def quiet_forks() -> None:
    """Keep the library from warning when a process forks: in the child it simply runs on one thread."""
    global _fork_watched
    if _fork_watched or not hasattr(os, "register_at_fork") or "TOKENIZERS_PARALLELISM" in os.environ:
        return
    _fork_watched = True
    os.register_at_fork(
        before=lambda: os.environ.__setitem__("TOKENIZERS_PARALLELISM", "false"),
        after_in_parent=lambda: os.environ.__delitem__("TOKENIZERS_PARALLELISM"))
