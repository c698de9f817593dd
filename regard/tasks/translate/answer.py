"""The lines of translations and summaries, as commands print them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from regard.decoding.sampling import Sampling
from regard.errors import SettingError
from regard.metrics.alignment_error import write_pharaoh
from regard.storage import format_json
from regard.tasks.answering import Answering, InputAnswers, Options
from regard.tasks.translate.translations import Notices, TranslateOptions

BAR = " ||| "                  # between the columns, as in Moses' n-best lists
SEARCH = ("beam", "length_penalty", "coverage", "no_repeat", "n_best", "alignments", "words", "batch")
SAMPLE = ("sample", "temperature", "seed")
SHOWN = ("scores", "as_json")


def options_of(named: Options) -> TranslateOptions:
    """Return the options of a translator, by their names on the command line; refuse what does not go together."""
    sampling = Sampling(named.get("temperature", 1.0), seed=named.get("seed", 0)) if named.get("sample") else None
    options = TranslateOptions.of(sampling=sampling, **{name: named[name] for name in SEARCH if name in named})
    if options.alignments and options.search.n_best > 1 and not named.get("as_json"):
        raise SettingError("--alignments tells what the best translation read: leave --n-best out, or use --json")
    return options


def answer(trained: Any, lines: Sequence[str], first: int, named: Options) -> InputAnswers:
    options, notices = options_of(named), Notices(None)
    results = trained.translate(lines, options=options, first=first)
    notices.count(results)
    texts = ["\n".join(format_lines(first + place, each, options, bool(named.get("scores")),
                                    bool(named.get("as_json")))) for place, each in enumerate(results)]
    return InputAnswers(texts, notices=notices.as_counts(trained.context))


def empty_line(named: Options, line: str, reason: str) -> str:
    return format_json({"source": line, "text": "", "error": reason}) if named.get("as_json") else ""


def format_lines(number: int, each: Any, options: Any, scores: bool, as_json: bool) -> Iterator[str]:
    """Yield the lines of one translation: one, or one for each of the n best."""
    if as_json:
        yield format_json(as_row(each, options.search.n_best, options.alignments))
    elif options.search.n_best > 1:
        for candidate in each.n_best:
            yield BAR.join((str(number), candidate.text, f"{candidate.score:.4f}"))
    else:
        columns = [each.text]
        if scores:
            columns.append(f"{each.score:.4f}")
        if options.alignments:
            columns.append(write_pharaoh(each.links))
        yield BAR.join(columns)


def as_row(each: Any, n_best: int, alignments: bool) -> dict[str, Any]:
    row = {"source": each.source, "text": each.text, "score": each.score, "log_prob": each.log_prob,
           "sentences": each.sentences}
    if n_best > 1:
        row["n_best"] = [asdict(candidate) for candidate in each.n_best]
    if alignments:
        weights = [] if each.weights is None else each.weights.mean((0, 1)).astype(float).round(4).tolist()
        row |= {"alignment": write_pharaoh(each.links), "source_pieces": list(each.source_pieces),
                "target_pieces": list(each.target_pieces), "weights": weights}
    return row


ANSWER = Answering(answer, empty_line, (*SEARCH, *SAMPLE, *SHOWN), together=False)
