"""Looking: one look at ever longer texts, and what the page is sent of it: atlas, map, words, a row, the arithmetic.

A map of attention has a number for each two positions, so that n^2 is to draw it; a single row of it is n, and so is a
look at a model without maps. Bytes are those that are sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

from regard.data.tokens.characters import CharTokenizer
from regard.data.tokens.vocabulary import FIRST
from regard.look import Look, Request, look
from regard.look.arithmetic import arithmetic
from regard.look.next_token import Continuations
from regard.look.views import statistics
from regard.serve.completion import CompletionRow, Prompt
from regard.serve.look_numbers import PACKERS
from regard.serve.result_json import as_json
from regard.serve.routes.look import LookRequest, describe_look
from regard.tasks.lm.trained import Trained
from regard.tasks.masked.trained import TrainedMasked
from scaling_parts.curve import Curve, Setting, Work, doubling
from scaling_parts.families import VOCAB, Kind, kinds
from scaling_parts.ngrams import counted

LETTERS = CharTokenizer([" ", *(chr(ord("A") + at) for at in range(VOCAB - FIRST - 2))])      # one less: for <mask>
# n^2 numbers to show; and a masked model is asked for each token with that one hidden, so that it reads all n times.
SHOWN = {"lm transformer": 2.0, "lm hybrid": 2.0, "lm linear-rnn": 2.0, "lm mamba": 2.0, "lm mamba2": 2.0,
         "masked rnn": 2.0, "masked transformer": 3.0}
LONGEST = 1024


def text(length: int) -> str:
    return ("the cat sat on the mat " * (length // 20 + 1))[:length]


def trained(kind: Kind, length: int) -> Any:
    """A model of drawn weights that reads so much at once."""
    model = kind.build(Setting(), length=length).eval()
    tables = {"run": {"family": kind.family.name, "task": kind.task}, "model": {"context": length},
              "data": {"documents": "file"}, "training": {"reading": "windows"}}
    return (Trained if kind.task == "lm" else TrainedMasked)(model, LETTERS, tables)          # type: ignore[arg-type]


@cache
def ngram() -> Trained:
    return Trained(counted(vocab=VOCAB), LETTERS, {"run": {"family": "ngram", "task": "lm"}, "model": {},
                                                   "data": {"documents": "file"}})


def seen(kind: Kind, length: int) -> tuple[Any, Look]:
    model = trained(kind, length)
    return model, look(model, Request(text=text(length - 1)))


def curves(setting: Setting) -> Iterator[Curve]:
    own = [kind for kind in kinds() if kind.task in ("lm", "masked") and not kind.form]
    for kind in own:
        yield Curve(f"{kind.name}: a look", "length", doubling(32, LONGEST), partial(_looked, kind),
                    SHOWN.get(kind.name, 1.0), 1.0)
    yield Curve("lm ngram: a look", "length", doubling(64, 4096), _counted, 2.0, 1.0)
    attention = next(kind for kind in own if kind.name == "lm transformer")
    yield from of_payloads(attention)
    recurrent = next(kind for kind in own if kind.name == "lm rnn")
    yield from of_next(recurrent)


def _looked(kind: Kind, length: int) -> Work:
    model = trained(kind, length)
    request = Request(text=text(length - 1))
    return Work(lambda: look(model, request), lambda: len(json.dumps(look(model, request).as_dict())))


def _counted(length: int) -> Work:
    request = Request(text=text(length - 1))
    return Work(lambda: look(ngram(), request), lambda: len(json.dumps(look(ngram(), request).as_dict())))


# --------------------------------------------------------------------------------------------- payloads


def of_payloads(kind: Kind) -> Iterator[Curve]:
    sizes = doubling(128, 2 * LONGEST)

    def sent(maker: str, *how: Any) -> Callable[[int], Work]:
        def prepare(length: int) -> Work:
            _, made = seen(kind, length)
            track = made.track("self")
            return Work(lambda: PACKERS[maker](made, track, *how), lambda: len(PACKERS[maker](made, track, *how)))

        return prepare

    def header(length: int) -> Work:
        _, made = seen(kind, length)
        asked = LookRequest(model="a model", text=made.sides["text"].text)
        return Work(lambda: json.dumps(describe_look(made, asked)), lambda: len(json.dumps(describe_look(made, asked))))

    def heads(length: int) -> Work:
        track = seen(kind, length)[1].track("self")
        return Work(lambda: statistics(track))

    def cell(length: int) -> Work:
        model, made = seen(kind, length)

        def run() -> str:
            return json.dumps(as_json(arithmetic(model, made, "self", 1, 1, length - 1, 0)))

        return Work(run, lambda: len(run()))

    yield Curve("page: a look without its numbers", "length", sizes, header, 2.0, 1.0)
    yield Curve("page: statistics of heads", "length", sizes, heads, 2.0)
    yield Curve("page: atlas", "length", sizes, sent("atlas", 64, "max"), 2.0, 0.0)
    yield Curve("page: map", "length", sizes, sent("map", "mean", "mean", False), 2.0, 2.0)
    yield Curve("page: map of words", "length", sizes, sent("map", "1", "1", True), 2.0, 2.0)
    yield Curve("page: map rolled out", "length", sizes, sent("map", "rollout", "mean", False), 3.0, 2.0)
    yield Curve("page: cells", "length", doubling(128, LONGEST), sent("cells", "1", "1", False), 2.0, 2.0)
    yield Curve("page: row", "length", sizes, sent("row", 3), 1.0, 1.0)
    yield Curve("page: the arithmetic of one cell", "length", sizes, cell, 2.0, 1.0)


def of_next(kind: Kind) -> Iterator[Curve]:
    """The next token after a prompt: asked for anew, and once more with one token said."""

    def anew(length: int) -> Work:
        model, prompt = trained(kind, 64), text(length)
        return Work(lambda: Continuations(model).after(prompt))

    def one_more(said: int) -> Work:
        texts, tokens = Continuations(trained(kind, 64)), [FIRST + at % 9 for at in range(said)]
        texts.after("a", tokens)
        return Work(lambda: texts.after("a", tokens))

    def completed(length: int) -> Work:
        ids = [FIRST + at % 9 for at in range(length)]

        def run() -> None:
            row = CompletionRow(0, LETTERS, Prompt("", [], []), stop=("no such end", "nor this"))
            for id in ids:
                row.push(id, (0.0, {}))
                row.take()

        return Work(run)

    yield Curve("page: a completion as it comes, with stops", "tokens", doubling(512, 2**16), completed, 1.0)
    yield Curve("page: the next token after a prompt", "length", doubling(256, 2**14), anew, 1.0)
    yield Curve("page: the next token, asked again", "tokens said", doubling(32, 512), one_more, 1.0)
