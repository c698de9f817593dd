"""`regard score` of a captioner: how many captions are right, BLEU, and whether the words look where they should."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from regard.cli.score_pairs import warn

PICTURES = 1000                # of the embedded shapes, unless told


def score_captions(model: Any, files: tuple[str, ...], as_json: bool, wanted: dict[str, Any]) -> None:
    """Measure and print."""
    from regard.cli.output import print_json

    told = measured(model, files, wanted)
    if as_json:
        print_json(told)
    else:
        show(told)


def measured(model: Any, files: tuple[str, ...], wanted: dict[str, Any]) -> dict[str, Any]:
    from regard.data.pictures.picture_corpus import is_embedded
    from regard.decoding.fast.ways import ways
    from regard.metrics.translation import measure

    images, references, drawn = embedded(wanted) if is_embedded(files) else from_files(model, files, wanted)
    began = time.perf_counter()
    found = model.caption(images, beam=wanted["beam"], length_penalty=wanted["length_penalty"])
    seconds = time.perf_counter() - began
    texts = [each.text for each in found]
    right = sum(text in each for text, each in zip(texts, references, strict=True)) / len(texts)
    quality = measure(texts, [each[0] for each in references])
    surprise = model.score_captions(images, [each[0] for each in references],
                                    notice=lambda text: click.echo(f"({text})", err=True))
    told = {**quality.as_dict(), **surprise.as_dict(), "exact_match": right, "beam": wanted["beam"], "seconds": seconds,
            "pictures_per_second": len(texts) / seconds, "kernels": ways(model.model.device)}
    if drawn is not None and model.attends:
        told |= gaze(model, drawn).as_dict()
    return told


def embedded(wanted: dict[str, Any]) -> tuple[Any, list[list[str]], Any]:
    import numpy as np

    from regard.corpora import shapes

    drawn = shapes.batch(np.arange(wanted["first"] or PICTURES), 0, wanted["part"] or "test")
    return drawn.images, [[caption] for caption in drawn.captions], drawn


def from_files(model: Any, files: tuple[str, ...], wanted: dict[str, Any]) -> tuple[Any, list[list[str]], None]:
    """Each picture once, with all its captions."""
    from regard.data.pictures.picture_shards import prepare_pictures
    from regard.data.pictures.pictures import CaptionReading
    from regard.data.reading.cache import Cache
    from regard.data.reading.corpus import refuse_files
    from regard.errors import DataError

    if wanted["part"]:
        refuse_files(wanted["part"], files)
    if len(files) != 1:
        raise DataError(f"{len(files)} names were given for pictures: name one folder or one captions file")
    reading = CaptionReading(max_words=0, max_characters=0, on_bad_text=wanted["on_bad_text"],
                             on_bad_image=wanted.get("on_bad_image") or "fail")
    found = prepare_pictures(Path(files[0]), reading, model.size, Cache())
    if found.tally.dropped:
        click.echo(f"({found.tally.line()})", err=True)
    captions: dict[int, list[str]] = {}
    for row, caption in zip(found.rows.tolist(), found.captions, strict=True):
        captions.setdefault(row, []).append(caption)
    rows = list(captions)[:wanted["first"]]
    return found.shard.images[rows], [captions[row] for row in rows], None


def gaze(model: Any, drawn: Any) -> Any:
    """How much of what each word reads, of the captions as they should be, lies on what it names."""
    from regard.corpora.shapes import covered
    from regard.metrics.regions import Gaze

    ids = [row.tolist() for row in model.tokenizer.encode_batch(drawn.captions)]
    fits = [at for at, own in enumerate(ids) if len(own) + 1 <= model.context]           # with its end
    seen = Gaze()
    for at, weights in zip(fits, model.reads(drawn.images[fits], [ids[at] for at in fits]), strict=True):
        words = drawn.picture(at).words
        if len(words) != weights.shape[2]:
            continue                                     # sub-words: a word is not one step of the model
        shares = covered(drawn.regions(at), model.patch)
        seen.add(weights, words, [each if each.any() else None for each in shares])
    return seen


def show(told: dict[str, Any]) -> None:
    def row(name: str, text: str) -> None:
        click.echo(f"{name:<16} {text}")

    row("exactly right", f"{told['exact_match']:.2%} of {told['sentences']:,} pictures")
    row("BLEU", f"{told['bleu']:.2f}   {told['signature']}")
    row("loss", f"{told['loss']:.4f} nats a token")
    warn(told, row)
    if "attention_times_chance" in told:
        row("attention", f"{told['attention_inside']:.1%} of what a content word reads lies on what it names, "
                         f"{told['attention_times_chance']:.1f} times chance; the best head "
                         f"{told['attention_best_head_times_chance']:.1f} times")
    row("speed", f"{told['pictures_per_second']:.1f} pictures a second, beam {told['beam']}; {told['kernels']}")
