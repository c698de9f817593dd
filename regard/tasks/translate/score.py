"""The score of a translator: loss, BLEU, chrF, exact match, alignment error, and a paired test."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from regard.data import embedded
from regard.data.pairs.pairs import PairSettings, check_aligned, find_pair_sources, read_pairs
from regard.data.reading.corpus import refuse_files
from regard.data.reading.readers import every_line
from regard.data.reading.tally import Tally
from regard.decoding.fast.fast_paths import describe_fast_paths
from regard.metrics.alignment_error import Gold, read_pharaoh
from regard.metrics.intervals import SENTENCES
from regard.metrics.translation_quality import by_length, paired
from regard.metrics.translation_quality import measure as measure_texts
from regard.tasks.score import OF_SOURCES, Options, Outcome, Row, Say, Scoring, warning_rows
from regard.tasks.translate.trained import TrainedTranslator

PART_OF_PHRASEBOOK = 1000      # pairs, unless told


@dataclass
class Test:
    """The test data: pairs, and the gold alignments of their words where they are known."""

    sources: list[str]
    references: list[str]
    golds: list[Gold] = field(default_factory=list)
    words: str = "word"


# ------------------------------------------------------------------------------------------------- data


def read_test(model: TrainedTranslator, files: tuple[str, ...], options: Options, say: Say) -> Test:
    if embedded.known_pairs(files):
        test = read_embedded(str(files[0]), options)
    else:
        if options["part"]:
            refuse_files(options["part"], files)
        test = Test(*read_files(model, files, options, say), words="whitespace")
    if options["words"]:
        test.words = options["words"]
    first = options["first"]
    test.sources, test.references, test.golds = test.sources[:first], test.references[:first], test.golds[:first]
    if options["gold"]:
        test.golds = read_golds(options["gold"])[:first]
    return test


def read_embedded(name: str, options: Options) -> Test:
    pairs = list(islice(embedded.pairs(name, options["part"] or "test"), options["first"] or PART_OF_PHRASEBOOK))
    return Test([pair.source for pair in pairs], [pair.target for pair in pairs],
                [Gold(frozenset(pair.alignment)) for pair in pairs])


def read_files(
    model: TrainedTranslator, files: tuple[str, ...], options: Options, say: Say
) -> tuple[list[str], list[str]]:
    """Return every line of two aligned files, or the pairs of a file of pairs."""
    if find_pair_sources(files)[0].format == "text":
        check_aligned(files)
        source, target = (list(every_line(name, options["on_bad_text"])) for name in files)
        return source, target
    tally = Tally()
    settings = PairSettings(tuple(files), "-".join(filter(None, model.languages)), max_words=0, max_characters=0,
                            max_ratio=0.0, drop_duplicates=False, on_bad_text=options["on_bad_text"])
    pairs = list(read_pairs(settings, tally))
    if tally.dropped:
        say(tally.line())
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def read_golds(name: str) -> list[Gold]:
    return [read_pharaoh(line, f"{name} line {number}") for number, line in enumerate(every_line(name), 1)]


# --------------------------------------------------------------------------------------------- measuring


def measure(model: TrainedTranslator, files: tuple[str, ...], options: Options, say: Say) -> Outcome:
    test, lang = read_test(model, files, options, say), model.languages[1]
    translations, common = measure_writing(model, test, options, say)
    values = {**measure_texts(translations, test.references, lang=lang).as_dict(), **common}
    if test.golds and (model.attends or options["gold"]):
        values |= model.alignment_error(test.sources, test.references, test.golds, test.words, notice=say).as_dict()
    elif test.golds:
        values["aer"] = None                 # a model without attention aligns nothing
    if options["by_length"]:
        values["by_length"] = by_length(test.sources, translations, test.references, lang=lang)
    if options["against"]:
        theirs, names = translate_by_other(model, test, options)
        values["against"] = paired(translations, theirs, test.references, lang=lang, names=names).as_dict()
    return Outcome(values, make_rows(values, options))


def measure_writing(
    model: TrainedTranslator, test: Test, options: Options, say: Say
) -> tuple[list[str], dict[str, Any]]:
    """Return the translations, and what is measured of any task with pairs: the loss on references, and the speed."""
    surprise = model.score_pairs(test.sources, test.references, notice=say)
    began = time.perf_counter()
    texts = translate_test(model, test, options, say)
    seconds = time.perf_counter() - began
    return texts, {**surprise.as_dict(), "beam": options["beam"], "seconds": seconds,
                   "sentences_per_second": len(texts) / seconds, "kernels": describe_fast_paths(model.model.device)}


def translate_test(model: TrainedTranslator, test: Test, options: Options, say: Say | None = None) -> list[str]:
    translations = model.translate(test.sources, beam=options["beam"], length_penalty=options["length_penalty"],
                                   batch=options["batch"], notice=say)
    return [each.text for each in translations]


def translate_by_other(model: TrainedTranslator, test: Test, options: Options) -> tuple[list[str], tuple[str, str]]:
    """Return translations of the same sources by another run or from a file, and the names of the two."""
    other = options["against"]
    if isinstance(other, TrainedTranslator):
        theirs, path = translate_test(other, test, options), other.path
    else:
        theirs, path = list(every_line(other, options["on_bad_text"]))[:options["first"]], Path(other)
    names = (model.path.name if model.path is not None else "this run", "the other" if path is None else path.name)
    return theirs, names if names[0] != names[1] else (str(model.path), str(path))


# ---------------------------------------------------------------------------------------------- showing


def make_rows(values: dict[str, Any], options: Options) -> list[Row]:
    rows = [
        ("BLEU", f"{values['bleu']:.2f}{interval(values.get('bleu_interval'))}   {values['signature']}"),
        ("chrF", f"{values['chrf']:.2f}{interval(values.get('chrf_interval'))}   {values['chrf_signature']}"),
        ("exact match", f"{values['exact_match']:.2%} of {values['sentences']:,} sentences"),
        ("loss", f"{values['loss']:.4f} nats a token"),
        ("perplexity", f"{values['perplexity']:.4f} a token, over {values['tokens']:,} tokens"),
        *warning_rows(values),
    ]
    if "aer_best" in values:
        rows.append(("alignment error", f"{values['aer']:.4f} mean of all heads · {values['aer_max']:.4f} max · "
                     f"{values['aer_best']:.4f} best (layer {values['aer_best_layer']}, head "
                     f"{values['aer_best_head']})"))
        if options["heads"]:
            rows += [(f"  layer {number}", "  ".join(f"{aer:.4f}" for aer in heads) + f"   mean {mean:.4f}") for
                     number, (heads, mean) in enumerate(zip(values["aer_heads"], values["aer_layers"], strict=True), 1)]
    elif "aer" in values:
        rows.append(("alignment error", "none: this model has no attention to its source"))
    rows.append(("speed", f"{values['sentences_per_second']:.1f} sentences a second, beam {values['beam']}; "
                          f"{values['kernels']}"))
    if values.get("note"):
        rows.append(("note", values["note"]))
    rows += [(f"  {each['words']} words", f"BLEU {each['bleu']:6.2f}  exact match {each['exact_match']:7.2%}  of "
              f"{each['sentences']:,}") for each in values.get("by_length", ())]
    return rows + against_rows(values, {"bleu": "BLEU", "chrf": "chrF"}, SENTENCES)


def against_rows(values: dict[str, Any], metrics: dict[str, str], of: str) -> list[Row]:
    """Return a row for each metric of both runs, where there are two, and one that says which is better."""
    if "against" not in values:
        return []
    test = values["against"]
    ours, theirs = test["names"]
    return [*((name, f"{test[metric]['a']:.2f} {ours} · {test[metric]['b']:.2f} {theirs} · difference "
                     f"{test[metric]['difference']:+.2f}{interval(test[metric]['interval'], of)}, "
                     f"p = {test[metric]['p']:.4f}") for metric, name in metrics.items()), ("so", test["verdict"])]


def interval(between: Any, of: str = SENTENCES) -> str:
    return f" ({between[0]:.2f} to {between[1]:.2f}, {of})" if between else ""


SCORE = Scoring(measure, OF_SOURCES)
