"""`regard score` of a summariser: ROUGE beside that of the first sentences, loss, and a paired test."""

from __future__ import annotations

import time
from typing import Any

import click

from regard.cli.score_pairs import Test, interval, others, read_test, translated, warn
from regard.metrics.intervals import TEXTS

KINDS = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}


def score_summaries(model: Any, files: tuple[str, ...], as_json: bool, wanted: dict[str, Any]) -> None:
    """Measure and print."""
    from regard.cli.output import print_json

    told = measured(model, read_test(model, files, wanted), wanted)
    if as_json:
        print_json(told)
    else:
        show(told)


def measured(model: Any, test: Test, wanted: dict[str, Any]) -> dict[str, Any]:
    from regard.decoding.fast.ways import ways
    from regard.metrics.summary import lead, measure, paired

    def say(text: str) -> None:
        click.echo(f"({text})", err=True)

    surprise = model.score_pairs(test.sources, test.references, notice=say)
    began = time.perf_counter()
    summaries = translated(model, test, wanted, say)
    seconds = time.perf_counter() - began
    first = lead(test.sources)
    told = {**measure(summaries, test.references).as_dict(), **surprise.as_dict(), "beam": wanted["beam"],
            "seconds": seconds, "sentences_per_second": len(summaries) / seconds, "kernels": ways(model.model.device),
            "lead": measure(first, test.references).as_dict(),
            "against_lead": paired(first, summaries, test.references, names=("the first sentence", "it")).as_dict()}
    if test.golds and model.attends:
        errors = model.alignment_error(test.sources, test.references, test.golds, test.words, notice=say)
        told |= {name: value for name, value in errors.as_dict().items() if name.startswith("aer")}
    if wanted["against"]:
        theirs, names = others(model, test, wanted)
        told["against"] = paired(summaries, theirs, test.references, names=names).as_dict()
    return told


def show(told: dict[str, Any]) -> None:
    def row(name: str, text: str) -> None:
        click.echo(f"{name:<16} {text}")

    for kind, name in KINDS.items():
        row(name, f"{told[kind]:.2f}{interval(told[f'{kind}_interval'], TEXTS)}   the first sentence alone: "
                  f"{told['lead'][kind]:.2f}{interval(told['lead'][f'{kind}_interval'], TEXTS)}")
    row("so", told["against_lead"]["verdict"])
    row("exact match", f"{told['exact_match']:.2%} of {told['sentences']:,} documents")
    row("loss", f"{told['loss']:.4f} nats a token")
    warn(told, row)
    row("signature", told["signature"])
    row("speed", f"{told['sentences_per_second']:.1f} documents a second, beam {told['beam']}; {told['kernels']}")
    if "against" in told:
        ours, other = told["against"]["names"]
        for kind, name in KINDS.items():
            each = told["against"][kind]
            row(name, f"{each['a']:.2f} {ours} · {each['b']:.2f} {other} · difference {each['difference']:+.2f}"
                      f"{interval(each['interval'], TEXTS)}, p = {each['p']:.4f}")
        row("so", told["against"]["verdict"])
