"""From text to a trained model in a folder: what `regard train` does, in one call.

    model = regard.train("notes.txt", minutes=2)
    model = regard.train("notes.txt", family="rnn", out="runs/small", settings={"model": {"hidden": 512}})
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isinf
from typing import Any

import torch

from regard.config import as_values, fill
from regard.data.reading.corpus import Corpus, DataSettings
from regard.errors import RunError, SettingError
from regard.families import Family
from regard.families.sizes import Scale, Tables
from regard.look.samples import sampler
from regard.metrics.perplexity import impossible
from regard.run_folder import RunFolder
from regard.run_lock import use_folder
from regard.tasks import task_named
from regard.trained import Trained, load, pick_device
from regard.training import budget
from regard.training.assemble import all_tables, finish, make_job, new_model, with_steps
from regard.training.choose import DEFAULT_MINUTES, Chosen, changed_settings, check_tables, choose
from regard.training.conditions import kept_conditions
from regard.training.describe import (
    describe_kernels,
    describe_model,
    describe_pairs,
    describe_place,
    describe_text,
    describe_training,
)
from regard.training.log import Metrics, Samples
from regard.training.loop import At
from regard.training.order import Order, claim_folder, refuse_params, require_family
from regard.training.resume import resume
from regard.training.settings import TrainingSettings


def train(
    files: str | Sequence[str], *, minutes: float | None = None, steps: int | None = None, **options: Any
) -> Any:
    """Train a model on text files (or an embedded corpus) and give it back, ready to use: a language model, a Trained,
    unless another `task` is given."""
    tables = {table: dict(values) for table, values in dict(options.pop("settings", None) or {}).items()}
    for name, value in (("minutes", minutes), ("steps", steps)):
        if value is not None:
            tables.setdefault("training", {})[name] = value
    names = (files,) if isinstance(files, str) else tuple(str(name) for name in files)
    return carry_out(Order(names, settings=tables, **options))


def carry_out(order: Order) -> Any:
    began = time.monotonic()
    check_tables(order.settings or {})
    say = (lambda text: None) if order.quiet else (lambda text: print(text, file=sys.stderr, flush=True))
    path, made = claim_folder(order)
    folder = RunFolder(path)
    refuse_taken(order, folder)
    with kept_conditions(), use_folder(path, made, folder.settings_path):
        refuse_taken(order, folder)                          # it may have become one while we asked for the lock
        if folder.settings_path.exists():
            return resume(order, folder, say)
        if order.resume:
            say(f"nothing to resume at {path}: starting anew")
        return start(order, folder, say, began)


def refuse_taken(order: Order, folder: RunFolder) -> None:
    if folder.settings_path.exists() and not order.resume:
        raise RunError(f"{folder.path} already holds a run: go on with --resume, or choose another folder with --out")
    if remains := folder.remains():
        raise RunError(f"{folder.path} holds {', '.join(remains)} of a run, but its run.toml is lost: put that back "
                       "from a copy, or choose another folder with --out")


def start(order: Order, folder: RunFolder, say: Callable[[str], None], began: float) -> Any:
    wanted = order.settings or {}
    task = task_named(order.task)
    kind, base = task.family(order.family or task.usual), None
    data = fill(task.data, {"files": order.files, **wanted.get("data", {})}, "data")
    tokens: Any = fill(task.tokenizer, wanted.get("tokenizer", {}), "tokenizer")
    if order.base is not None:
        base = load(order.base, device="cpu", trust=order.trust, task=order.task)
        require_family(order, base.family, f"--from {order.base}")
        refuse_params(order, "--from")
        kind, tokens = task.family(base.family), base.tokenizer
        wanted = from_base(base, kind, wanted)
    check_early(kind, wanted)
    device = pick_device(order.device) if kind.build is not None else torch.device("cpu")
    corpus = task.prepare(data, tokens, say=say)
    vocab = task.vocab(corpus.tokenizer)
    chosen = choose(kind, corpus, wanted, device, order.params, vocab)
    if kind.count is not None:
        return count(order, kind, corpus, chosen, data, folder, say, began)
    torch.manual_seed(chosen.training.seed)
    model = new_model(kind, chosen, vocab, device, base)
    folder.begin()
    folder.save_tokenizer(corpus.tokenizer)
    job = make_job(model, corpus, chosen, folder, order)
    describe_text(corpus, say)
    describe_pairs(job.batches, job.validation, chosen.model.context, say)
    describe_model(kind.name, chosen.model, model, say)
    job.settings = with_steps(job, corpus, began)
    job.validation = replace(job.validation, every=job.settings.valid_one_in)
    describe_training(job.settings, budget.step_tokens(job), len(corpus.train.tokens), say)
    describe_kernels(job, budget.step_tokens(job), say)
    describe_place(job, say)
    tables = all_tables(order, kind, corpus, data, replace(chosen, training=job.settings))
    at = At(micro_batch=job.settings.micro_batch)
    if base is not None:
        job.save(at)                                # the weights begun with belong to the run, which may be moved
    folder.save_settings(tables)
    return finish(job, at, tables, folder, say)


def check_early(kind: Family, wanted: Tables) -> None:
    """Refuse what is wrong whatever the text says, before it is read: that may take a while."""
    fill(TrainingSettings, wanted.get("training", {}), "training")
    scale = Scale(tokens=10**6, vocab=256, minutes=DEFAULT_MINUTES, gpu=False)
    sizes = kind.sizes(scale, wanted)
    fill(kind.settings, {**sizes.model, **wanted.get("model", {})}, "model")


def from_base(base: Any, kind: Family, wanted: Tables) -> Tables:
    """Fine-tuning keeps the base's model and tokenizer; only dropout may differ."""
    if base.learner is None:
        raise SettingError(f"--from {base.path}: a {base.family} is counted, not trained; train on both texts together")
    if wanted.get("tokenizer"):
        raise SettingError("--from keeps the run's tokenizer: leave --tokenizer and --vocab out")
    before = kind.settings_of_run(base.tables["model"])
    after, _ = changed_settings(before, wanted.get("model", {}), "model", ("dropout", "attention_dropout"))
    rates = {name: base.tables["training"][name] / 3 for name in ("learning_rate", "muon_rate")}
    training = {**rates, "optimizer": base.tables["training"]["optimizer"], **wanted.get("training", {})}
    return {**wanted, "model": as_values(after), "training": training}


def count(
    order: Order, kind: Family, corpus: Corpus, chosen: Chosen, data: DataSettings, folder: RunFolder,
    say: Callable[[str], None], began: float,
) -> Trained:
    """A family that is counted needs no loop: fit, save, score once."""
    assert kind.count is not None
    ends = corpus.train.ends if chosen.training.reading == "documents" else None
    model = kind.count(chosen.model, corpus.tokenizer.vocab_size, corpus.train.tokens, ends)
    for note in getattr(model, "notes", ()):
        say(f"note       {note}")
    folder.begin()
    folder.save_tokenizer(corpus.tokenizer)
    folder.save_weights(model.saved_tensors())
    tables = all_tables(order, kind, corpus, data, chosen)
    folder.save_settings(tables)
    trained = Trained(model, corpus.tokenizer, tables, folder.path)
    surprise = trained.score_shard(corpus.valid)
    never = impossible(model, trained.held_out(corpus.valid), corpus.tokenizer.token) if isinf(surprise.loss) else None
    row = {"step": 1, "tokens": len(corpus.train.tokens), "seconds": round(time.monotonic() - began, 3)}
    metrics, samples = Metrics(folder.metrics_path), Samples(folder.samples_path)
    metrics.row({**row, "valid_loss": surprise.loss, **(never.as_dict() if never else {})})
    if chosen.training.samples:
        asked = time.monotonic()
        written = sampler("lm", model, corpus)()
        took = round(time.monotonic() - asked, 3)
        samples.row({"step": 1, "seconds": row["seconds"], "took": took, **written})
    for log in (metrics, samples):
        log.sync()
    describe_text(corpus, say)
    describe_model(kind.name, chosen.model, model, say)
    if never:
        say(f"infinite   {never}")
    say(f"done in {row['seconds']:.1f} s · validation loss {surprise.loss:.4f} · {folder.path}")
    return trained
