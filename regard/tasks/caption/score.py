"""The score of a captioner: how many captions are right, BLEU, and whether the words look where they should."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from regard.corpora import shapes
from regard.data.pictures.picture_corpus import is_embedded
from regard.data.pictures.picture_shards import prepare_pictures
from regard.data.pictures.pictures import PictureDataSettings
from regard.data.reading.corpus import refuse_files
from regard.data.reading.text_cache import Cache
from regard.decoding.fast.fast_paths import describe_fast_paths
from regard.errors import DataError
from regard.metrics.regions import Gaze
from regard.metrics.translation_quality import measure as measure_texts
from regard.tasks.caption.trained import TrainedCaptioner
from regard.tasks.score import OF_SOURCES, Options, Outcome, Row, Say, Scoring, warning_rows

PICTURES = 1000                # of the embedded shapes, unless told


def measure(model: TrainedCaptioner, files: tuple[str, ...], options: Options, say: Say) -> Outcome:
    embedded = is_embedded(files)
    images, references, drawn = draw_embedded(options) if embedded else read_files(model, files, options, say)
    began = time.perf_counter()
    captions = model.caption(images, beam=options["beam"], length_penalty=options["length_penalty"])
    seconds = time.perf_counter() - began
    texts, first = [each.text for each in captions], [each[0] for each in references]
    right = sum(text in each for text, each in zip(texts, references, strict=True)) / len(texts)
    values = {**measure_texts(texts, first).as_dict(), **model.score_captions(images, first, notice=say).as_dict(),
              "exact_match": right, "beam": options["beam"], "seconds": seconds,
              "pictures_per_second": len(texts) / seconds, "kernels": describe_fast_paths(model.model.device)}
    if drawn is not None and model.attends:
        values |= measure_gaze(model, drawn).as_dict()
    return Outcome(values, make_rows(values))


def draw_embedded(options: Options) -> tuple[Any, list[list[str]], Any]:
    drawn = shapes.draw_pictures(np.arange(options["first"] or PICTURES), 0, options["part"] or "test")
    return drawn.images, [[caption] for caption in drawn.captions], drawn


def read_files(
    model: TrainedCaptioner, files: tuple[str, ...], options: Options, say: Say
) -> tuple[Any, list[list[str]], None]:
    """Return each picture once, with all its captions."""
    if options["part"]:
        refuse_files(options["part"], files)
    if len(files) != 1:
        raise DataError(f"{len(files)} names were given for pictures: name one folder or one captions file")
    data = PictureDataSettings(files, size=model.size, max_words=0, max_characters=0,
                               on_bad_text=options["on_bad_text"], on_bad_image=options.get("on_bad_image") or "fail")
    pictures = prepare_pictures(Path(files[0]), data, Cache())
    if pictures.tally.dropped:
        say(pictures.tally.line())
    captions: dict[int, list[str]] = {}
    for row, caption in zip(pictures.rows.tolist(), pictures.captions, strict=True):
        captions.setdefault(row, []).append(caption)
    rows = list(captions)[:options["first"]]
    return pictures.shard.images[rows], [captions[row] for row in rows], None


def measure_gaze(model: TrainedCaptioner, drawn: Any) -> Gaze:
    """Return the share of each word's weights on what it names, as the right captions are written."""
    ids = [row.tolist() for row in model.tokenizer.encode_batch(drawn.captions)]
    fits = [number for number, caption in enumerate(ids) if len(caption) + 1 <= model.context]       # with its end
    seen = Gaze()
    for number, weights in zip(fits, model.reads(drawn.images[fits], [ids[n] for n in fits]), strict=True):
        words = drawn.picture(number).words
        if len(words) != weights.shape[2]:
            continue                                     # sub-words: a word is not one step of the model
        shares = shapes.covered(drawn.regions(number), model.patch)
        seen.add(weights, words, [each if each.any() else None for each in shares])
    return seen


def make_rows(values: dict[str, Any]) -> list[Row]:
    rows = [
        ("exactly right", f"{values['exact_match']:.2%} of {values['sentences']:,} pictures"),
        ("BLEU", f"{values['bleu']:.2f}   {values['signature']}"),
        ("loss", f"{values['loss']:.4f} nats a token"),
        *warning_rows(values),
    ]
    if "attention_times_chance" in values:
        rows.append(("attention", f"{values['attention_inside']:.1%} of what a content word reads lies on what it "
                     f"names, {values['attention_times_chance']:.1f} times chance; the best head "
                     f"{values['attention_best_head_times_chance']:.1f} times"))
    return [*rows, ("speed", f"{values['pictures_per_second']:.1f} pictures a second, beam {values['beam']}; "
                             f"{values['kernels']}")]


SCORE = Scoring(measure, OF_SOURCES)
