"""The score of a language model: perplexity a token and a word, bits per byte; or of each line, or of each token."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor

from regard.data.embedded import known
from regard.data.reading.corpus import Corpus
from regard.data.reading.shards import Shard
from regard.metrics.perplexity import Surprise, impossible
from regard.metrics.text_units import interval_over, share_of, unit_ends
from regard.tasks.last_measure import MOST_TOKENS, LastFigures, LastMeasure, say_number
from regard.tasks.lm.trained import Trained
from regard.tasks.score import Options, Outcome, Row, Say, Scoring, warning_rows

WHOLE = "mixture"            # the name of the model itself among its parts


def measure(model: Trained, files: tuple[str, ...], options: Options, say: Say) -> Outcome:
    documents = "line" if options["per_line"] else options["documents"]
    shard = model.encode_files(files, on_bad_text=options["on_bad_text"], documents=documents, part=options["part"],
                               field=options["field"])
    if options["per_line"]:
        return Outcome(each=score_lines(model, shard))
    if options["per_token"]:
        return Outcome(each=score_tokens(model, shard, documents))
    surprise, parts = score_whole(model, shard, documents)
    values: dict[str, Any] = surprise.as_dict()
    rows: list[Row] = [
        ("loss", f"{surprise.loss:.4f} nats a token"),
        ("perplexity", f"{surprise.perplexity:.4f} a token · {surprise.word_perplexity:.2f} a word"),
        ("bits per byte", f"{surprise.bits_per_byte:.4f}"),
        ("over", f"{surprise.tokens:,} tokens, {surprise.words:,} words, {surprise.bytes:,} bytes"
                 + (f", {surprise.unknown:,} of the tokens unknown" if surprise.unknown else ""))]
    for name, each in parts.items():
        rows.append((name, f"{each.loss:.4f} nats a token · {each.bits_per_byte:.4f} bits per byte"))
        values[name] = {"loss": each.loss, "bits_per_byte": each.bits_per_byte}
    if known(files):
        rows.append(("of", f"the {options['part'] or 'test'} part of {' and '.join(files)}"))
    never = None
    if math.isinf(surprise.nats):
        never = impossible(model.model, model.held_out(shard, documents), model.tokenizer.token)
    if never:
        values, rows = {**values, **never.as_dict()}, [*rows, ("infinite", str(never))]
    return Outcome(values, rows + warning_rows(values))


def measure_test(model: Trained, corpus: Corpus) -> LastFigures:
    """Return the loss and the bits per byte of the test part; of a mixture also the losses of its parts."""
    assert corpus.test is not None, "there is a test part"
    whole = corpus.test()
    shard = whole.first(MOST_TOKENS)
    scores = {name: -each.double() for name, each in score_parts_of(model, shard).items()}
    losses = {name: float(each.mean()) for name, each in scores.items()}
    surprise = model.surprise(shard, float(scores[WHOLE].sum()))
    values: dict[str, Any] = {"test_loss": surprise.loss, **loss_interval(scores[WHOLE], shard),
                              "test_bits_per_byte": surprise.bits_per_byte}
    alone = {name: loss for name, loss in losses.items() if name != WHOLE}
    values |= {f"test_{name.replace('-', '')}_loss": loss for name, loss in alone.items()}
    beside = f" ({', '.join(f'{name} {loss:.4f}' for name, loss in alone.items())})" if alone else ""
    line = f"loss {surprise.loss:.4f}{beside} · {surprise.bits_per_byte:.4f} bits per byte, on "
    return LastFigures({**values, "test_tokens": len(shard)}, line + say_number(len(shard), len(whole), "tokens"))


def score_parts_of(model: Trained, shard: Shard) -> dict[str, Tensor]:
    """Return the log-probability of every token by the model, and by the parts of a mixture under their names; all on
    the CPU, wherever they were computed."""
    if model.mixture is None:
        return {WHOLE: model.token_scores(shard)}
    return {name: each.cpu() for name, each in model.part_scores(shard).by_name(model.mixture).items()}


def loss_interval(nats: Tensor, shard: Shard) -> dict[str, Any]:
    """Return the 95% interval of the loss, documents or stretches of the text drawn again; nothing of too few."""
    ends, of = unit_ends(shard)
    summed = np.add.reduceat(nats.numpy(), np.append(0, ends[:-1]))
    between = interval_over(np.stack([summed, np.diff(ends, prepend=0)], 1), share_of)
    return {} if between is None else {"test_loss_interval": list(between), "test_interval_over": of}


def score_whole(model: Trained, shard: Shard, documents: str | None) -> tuple[Surprise, dict[str, Surprise]]:
    """Return the surprise of the model, and of a mixture those of its parts by their names."""
    if model.mixture is None:
        return model.score_shard(shard, documents), {}
    scores = model.part_scores(shard, documents).by_name(model.mixture)
    parts = {name: model.surprise(shard, -float(each.double().sum())) for name, each in scores.items()}
    return parts["mixture"], parts


def score_tokens(model: Trained, shard: Shard, documents: str | None) -> Iterator[tuple[dict[str, Any], str]]:
    for id, score in zip(shard.tokens.tolist(), model.token_scores(shard, documents).tolist(), strict=True):
        token = model.tokenizer.token(id)
        yield {"token": token, "log_prob": score}, f"{score:9.4f}  {token}"


def score_lines(model: Trained, shard: Shard) -> Iterator[tuple[dict[str, Any], str]]:
    scores, first = model.token_scores(shard, "line").tolist(), 0
    for end in shard.ends.tolist():
        text, tokens, total = model.tokenizer.decode(shard.tokens[first:end]), end - first, sum(scores[first:end])
        yield ({"log_prob": total, "tokens": tokens, "loss": -total / max(1, tokens), "text": text},
               f"{total:11.4f}  {tokens:5d}  {text}")
        first = end


SCORE = Scoring(measure, options=("documents", "field", "per_line", "per_token"))
TEST = LastMeasure(measure_test)
