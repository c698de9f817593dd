"""`regard score` of a translator: loss, BLEU, chrF, exact match, alignment error, and a paired test."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from regard.metrics.intervals import SENTENCES

PART_OF_PHRASEBOOK = 1000      # pairs, unless told


@dataclass
class Test:
    """What is measured on: pairs, and the gold alignments of their words where they are known."""

    sources: list[str]
    references: list[str]
    golds: list[Any] = field(default_factory=list)
    words: str = "word"


def score_pairs(model: Any, files: tuple[str, ...], as_json: bool, wanted: dict[str, Any]) -> None:
    """Measure and print."""
    from regard.cli.output import print_json

    test = read_test(model, files, wanted)
    told, quality, translations = measured(model, test, wanted)
    if wanted["against"]:
        from regard.metrics.translation import paired

        theirs, names = others(model, test, wanted)
        told["against"] = paired(
            translations, theirs, test.references, lang=model.languages[1], names=names).as_dict()
    if as_json:
        print_json(told)
    else:
        show(told, quality, wanted)


# ------------------------------------------------------------------------------------------------- data


def read_test(model: Any, files: tuple[str, ...], wanted: dict[str, Any]) -> Test:
    from regard.data import embedded
    from regard.data.reading.corpus import refuse_files

    if embedded.known_pairs(files):
        test = built_in(str(files[0]), wanted)
    else:
        if wanted["part"]:
            refuse_files(wanted["part"], files)
        test = Test(*read_files(model, files, wanted), words="whitespace")
    if wanted["words"]:
        test.words = wanted["words"]
    first = wanted["first"]
    test.sources, test.references, test.golds = (each[:first] for each in (test.sources, test.references, test.golds))
    if wanted["gold"]:
        test.golds = read_golds(wanted["gold"])[:first]
    return test


def built_in(name: str, wanted: dict[str, Any]) -> Test:
    from itertools import islice

    from regard.data import embedded
    from regard.metrics.alignment import Gold

    pairs = list(islice(embedded.pairs(name, wanted["part"] or "test"), wanted["first"] or PART_OF_PHRASEBOOK))
    return Test([pair.source for pair in pairs], [pair.target for pair in pairs],
                [Gold(frozenset(pair.alignment)) for pair in pairs])


def read_files(model: Any, files: tuple[str, ...], wanted: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Two aligned files with every line that is in them, or the pairs of a file of pairs."""
    from regard.data.pairs.pairs import PairSettings, check_aligned, find_pair_sources, read_pairs
    from regard.data.reading.every_line import every_line
    from regard.data.reading.tally import Tally

    if find_pair_sources(files)[0].format == "text":
        check_aligned(files)
        source, target = (list(every_line(name, wanted["on_bad_text"])) for name in files)
        return source, target
    tally = Tally()
    settings = PairSettings(tuple(files), "-".join(filter(None, model.languages)), max_words=0, max_characters=0,
                            max_ratio=0.0, drop_duplicates=False, on_bad_text=wanted["on_bad_text"])
    pairs = list(read_pairs(settings, tally))
    if tally.dropped:
        click.echo(f"({tally.line()})", err=True)
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def read_golds(name: str) -> list[Any]:
    from regard.data.reading.every_line import every_line
    from regard.metrics.alignment import read_pharaoh

    return [read_pharaoh(line, f"{name} line {number}") for number, line in enumerate(every_line(name), 1)]


# --------------------------------------------------------------------------------------------- measuring


def measured(model: Any, test: Test, wanted: dict[str, Any]) -> tuple[dict[str, Any], Any, list[str]]:
    """Everything as one dictionary, the Quality, and the translations."""
    from regard.decoding.fast.ways import ways
    from regard.metrics.lengths import by_length
    from regard.metrics.translation import measure

    def say(text: str) -> None:
        click.echo(f"({text})", err=True)

    surprise = model.score_pairs(test.sources, test.references, notice=say)
    began = time.perf_counter()
    translations = translated(model, test, wanted, say)
    seconds = time.perf_counter() - began
    quality = measure(translations, test.references, lang=model.languages[1])
    told = {**quality.as_dict(), **surprise.as_dict(), "beam": wanted["beam"], "seconds": seconds,
            "sentences_per_second": len(translations) / seconds, "kernels": ways(model.model.device)}
    if test.golds and (model.attends or wanted["gold"]):
        told |= model.alignment_error(test.sources, test.references, test.golds, test.words, notice=say).as_dict()
    elif test.golds:
        told["aer"] = None                 # a model without attention aligns nothing
    if wanted["by_length"]:
        bins = by_length(test.sources, translations, test.references, lang=model.languages[1])
        told["by_length"] = [each.as_dict() for each in bins]
    return told, quality, translations


def translated(model: Any, test: Test, wanted: dict[str, Any], say: Any = None) -> list[str]:
    found = model.translate(test.sources, beam=wanted["beam"], length_penalty=wanted["length_penalty"],
                            batch=wanted["batch"], notice=say)
    return [each.text for each in found]


def others(model: Any, test: Test, wanted: dict[str, Any]) -> tuple[list[str], tuple[str, str]]:
    """What another run, or a file, says of the same sources; and what to call the two."""
    from regard.data.reading.every_line import every_line
    from regard.trained import load

    other = wanted["against"]
    if Path(other).is_dir():
        task = model.tables["run"]["task"]
        theirs = translated(load(other, wanted["device"], trust=wanted["trust"], task=task), test, wanted)
    else:
        theirs = list(every_line(other, wanted["on_bad_text"]))[:wanted["first"]]
    names = (model.path.name if model.path is not None else "this run", Path(other).name)
    return theirs, names if names[0] != names[1] else (str(model.path), other)


# ---------------------------------------------------------------------------------------------- showing


def show(told: dict[str, Any], quality: Any, wanted: dict[str, Any]) -> None:
    def row(name: str, text: str) -> None:
        click.echo(f"{name:<16} {text}")

    row("BLEU", f"{quality.bleu:.2f}{interval(quality.bleu_interval)}   {quality.signature}")
    row("chrF", f"{quality.chrf:.2f}{interval(quality.chrf_interval)}   {quality.chrf_signature}")
    row("exact match", f"{quality.exact_match:.2%} of {quality.sentences:,} sentences")
    row("loss", f"{told['loss']:.4f} nats a token")
    row("perplexity", f"{told['perplexity']:.4f} a token, over {told['tokens']:,} tokens")
    warn(told, row)
    if "aer_best" in told:
        row("alignment error", f"{told['aer']:.4f} mean of all heads · {told['aer_max']:.4f} max · "
                               f"{told['aer_best']:.4f} best (layer {told['aer_best_layer']}, head "
                               f"{told['aer_best_head']})")
        if wanted["heads"]:
            for number, (heads, mean) in enumerate(zip(told["aer_heads"], told["aer_layers"], strict=True), 1):
                row(f"  layer {number}", "  ".join(f"{aer:.4f}" for aer in heads) + f"   mean {mean:.4f}")
    elif "aer" in told:
        row("alignment error", "none: this model has no attention to its source")
    row("speed", f"{told['sentences_per_second']:.1f} sentences a second, beam {told['beam']}; {told['kernels']}")
    if told.get("note"):
        row("note", told["note"])
    for each in told.get("by_length", ()):
        row(f"  {each['words']} words", f"BLEU {each['bleu']:6.2f}  exact match {each['exact_match']:7.2%}  of "
                                        f"{each['sentences']:,}")
    if "against" in told:
        show_against(told["against"], row)


def warn(told: dict[str, Any], row: Any) -> None:
    """What makes the loss mean less than it seems to."""
    if "warning" in told:
        row("warning", told["warning"])


def show_against(told: dict[str, Any], row: Any) -> None:
    ours, theirs = told["names"]
    for name, metric in (("BLEU", "bleu"), ("chrF", "chrf")):
        each = told[metric]
        row(name, f"{each['a']:.2f} {ours} · {each['b']:.2f} {theirs} · difference {each['difference']:+.2f}"
                  f"{interval(each['interval'])}, p = {each['p']:.4f}")
    row("so", told["verdict"])


def interval(between: Any, of: str = SENTENCES) -> str:
    return f" ({between[0]:.2f} to {between[1]:.2f}, {of})" if between else ""
