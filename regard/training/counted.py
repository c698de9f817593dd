"""Counting in the place of training: a family that is counted, and the n-gram that is mixed with a network."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import isinf
from typing import Any

from regard.metrics.perplexity import impossible
from regard.run_folder import RunFolder
from regard.training.report import TrainingProgress, TrainingReport, describe_model, describe_text
from regard.training.request import TrainingPlan
from regard.training.tested_part import measure_test


def count_alone(plan: TrainingPlan, folder: RunFolder, progress: TrainingProgress, began: float) -> Any:
    """Count a model that needs no loop: fit, save, score once."""
    assert plan.family.count is not None
    corpus, say = plan.corpus, progress.say
    ends = corpus.train.ends if plan.training.reading == "documents" else None
    model = plan.family.count(plan.model, corpus.tokenizer.vocab_size, corpus.train.tokens, ends)
    for note in getattr(model, "notes", ()):
        say(f"note       {note}")
    folder.begin()
    report = TrainingReport(folder, progress)
    report.open_trackers(plan)
    folder.save_tokenizer(corpus.tokenizer)
    folder.save_weights(model.saved_tensors())
    tables = plan.tables()
    folder.save_settings(tables)
    trained = plan.task.trained(model, corpus.tokenizer, tables, folder.path)
    surprise = trained.score_shard(corpus.valid)
    never = impossible(model, trained.held_out(corpus.valid), corpus.tokenizer.token) if isinf(surprise.loss) else None
    row = {"step": 1, "tokens": len(corpus.train.tokens), "seconds": round(time.monotonic() - began, 3)}
    report.record({**row, "valid_loss": surprise.loss, **(never.as_dict() if never else {})})
    report.trackers.close()
    if plan.training.samples:
        asked = time.monotonic()
        written = plan.task.sampler(model, corpus)()
        took = round(time.monotonic() - asked, 3)
        report.samples.row({"step": 1, "seconds": row["seconds"], "took": took, **written})
    for log in (report.metrics, report.samples):
        log.sync()
    describe_text(corpus, say)
    describe_model(plan.family.name, plan.model, model, say)
    if never:
        say(f"infinite   {never}")
    say(f"done in {row['seconds']:.1f} s · validation loss {surprise.loss:.4f} · {folder.path}")
    measure_test(plan, trained, folder, say)
    return trained


@contextmanager
def count_beside(plan: TrainingPlan, folder: RunFolder, say: Callable[[str], None]) -> Iterator[None]:
    """Count the n-gram that is mixed in, if one is, save it, and say its score: the line to beat.

    For a GPU that is done while steps are compiled and timed, in the block: the CPU has time. On a CPU it is done
    before, as it would make the steps that are timed slower.
    """
    if plan.ngram is None:
        yield
        return
    if plan.device.type == "cpu":
        say(count_mixed(plan, folder))
        yield
        return
    with ThreadPoolExecutor(1) as beside:
        counted = beside.submit(count_mixed, plan, folder)
        yield
        say(counted.result())


def count_mixed(plan: TrainingPlan, folder: RunFolder) -> str:
    began, mixing = time.monotonic(), plan.task.mixing
    assert mixing is not None and plan.ngram is not None
    model = mixing.count(plan.ngram, plan.corpus, plan.training)
    folder.save_ngram(model.saved_tensors())
    ends = plan.corpus.valid.ends if plan.training.reading == "documents" else None
    loss = -float(model.score_text(plan.corpus.valid.tokens, ends).double().mean())
    return (f"n-gram     {plan.ngram.order}-gram counted in {time.monotonic() - began:.1f} s: "
            f"held-out loss {loss:.4f}, the line to beat; the two are mixed")
