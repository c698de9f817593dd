"""From text to a trained model in a folder: what `regard train` does, in one call.

    model = regard.train("notes.txt", minutes=2)
    model = regard.train("notes.txt", family="rnn", out="runs/small", settings={"model": {"hidden": 512}})
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.config import as_values, fill
from regard.errors import RunError, SettingError
from regard.families import Family, family
from regard.models.neural import NeuralLM
from regard.run_folder import RunFolder
from regard.sizes import Scale, Tables
from regard.tasks.lm import HeldOut, training_batches
from regard.text.corpus import Corpus, DataSettings, TokenizerSettings, prepare
from regard.text.tokenizers import Tokenizer
from regard.trained import Trained, load, pick_device, run_family
from regard.training import budget
from regard.training.choose import DEFAULT_MINUTES, Chosen, changed_settings, check_tables, choose
from regard.training.describe import describe_model, describe_place, describe_text, describe_training
from regard.training.job import Job, out_of_memory
from regard.training.log import Metrics, Progress, TensorBoard
from regard.training.loop import At, fit
from regard.training.settings import TrainingSettings

# What may be changed when a run is resumed; the rest would make it another run.
CHANGEABLE = ("steps", "learning_rate", "muon_rate", "clip", "valid_every", "checkpoint_every", "keep", "patience",
              "log_every", "micro_batch")

DEFAULT_FAMILY = "transformer"



@dataclass(frozen=True)
class Order:
    """What the user asked for."""

    files: tuple[str, ...]
    family: str | None = None              # None: a transformer, or what the run resumed or begun with is
    out: str | None = None
    settings: Tables | None = None         # tables of changed settings: {"training": {"batch": 8}}
    resume: bool = False
    base: str | None = None                # a run whose weights to begin with
    device: str = "auto"
    tensorboard: bool = False
    quiet: bool = False


def train(
    files: str | Sequence[str], *, minutes: float | None = None, steps: int | None = None, **options: Any
) -> Trained:
    """Train a language model on text files (or an embedded corpus) and give it back, ready to use."""
    tables = {table: dict(values) for table, values in dict(options.pop("settings", None) or {}).items()}
    for name, value in (("minutes", minutes), ("steps", steps)):
        if value is not None:
            tables.setdefault("training", {})[name] = value
    names = (files,) if isinstance(files, str) else tuple(str(name) for name in files)
    return carry_out(Order(names, settings=tables, **options))


def carry_out(order: Order) -> Trained:
    began = time.monotonic()
    wanted = order.settings or {}
    check_tables(wanted)
    say = (lambda text: None) if order.quiet else (lambda text: print(text, file=sys.stderr, flush=True))
    folder = RunFolder(order.out or free_name(order))
    if folder.settings_path.exists():
        if not order.resume:
            raise RunError(f"{folder.path} already holds a run: go on with --resume, "
                           "or choose another folder with --out")
        return resume(order, folder, say)
    if order.resume:
        say(f"nothing to resume at {folder.path}: starting anew")
    return start(order, folder, say, began)


def free_name(order: Order) -> Path:
    """runs/NAME-FAMILY, with a number behind it if that is taken; the newest of them when resuming."""
    name = order.family or DEFAULT_FAMILY
    stem = Path(order.files[0]).name.split(".")[0] if order.files and order.files[0] != "-" else "text"
    numbers = ("", *(f"-{n}" for n in range(2, 10_000)))
    names = [Path("runs") / f"{stem or 'text'}-{name}{number}" for number in numbers]
    taken = [name for name in names if name.exists()]
    if order.resume and taken:
        return taken[-1]
    return next(name for name in names if name not in taken)


# ---------------------------------------------------------------------------------------------- a new run


def start(order: Order, folder: RunFolder, say: Callable[[str], None], began: float) -> Trained:
    wanted = order.settings or {}
    kind, base = family(order.family or DEFAULT_FAMILY), None
    data = fill(DataSettings, {"files": order.files, **wanted.get("data", {})}, "data")
    tokens: TokenizerSettings | Tokenizer = fill(TokenizerSettings, wanted.get("tokenizer", {}), "tokenizer")
    if order.base is not None:
        base = load(order.base, device="cpu")
        require_family(order, base.family, f"--from {order.base}")
        kind, tokens = family(base.family), base.tokenizer
        wanted = from_base(base, wanted)
    check_early(kind, wanted)
    device = pick_device(order.device) if kind.build is not None else torch.device("cpu")
    corpus = prepare(data, tokens, say=say)
    chosen = choose(kind, corpus, wanted, device)
    if kind.count is not None:
        return count(order, kind, corpus, chosen, data, folder, say, began)
    torch.manual_seed(chosen.training.seed)
    model = new_model(kind, chosen, corpus, base, device)
    folder.create()
    corpus.tokenizer.save(folder.tokenizer_path)
    job = make_job(model, corpus, chosen, folder, order)
    describe_text(corpus, say)
    describe_model(kind.name, chosen.model, model, say)
    job.settings = with_steps(job, corpus, began)
    job.validation = replace(job.validation, every=job.settings.valid_one_in)
    describe_training(job.settings, budget.step_tokens(job), len(corpus.train.tokens), say)
    describe_place(device, job.settings, folder, say)
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


def require_family(order: Order, name: str, what: str) -> None:
    if order.family is not None and order.family != name:
        raise SettingError(f"--family {order.family}: {what} goes on with a {name}; leave --family out")


def new_model(kind: Family, chosen: Chosen, corpus: Corpus, base: Trained | None, device: torch.device) -> NeuralLM:
    assert kind.build is not None
    try:
        model = kind.build(chosen.model, corpus.tokenizer.vocab_size)
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        raise SettingError("a model of this size does not fit into memory: use a smaller --width, --layers, --hidden "
                           "or --vocab") from None
    model.head.smoothing = chosen.training.label_smoothing
    if base is not None:
        assert isinstance(base.language_model, NeuralLM)
        model.load_state_dict(base.language_model.state_dict())
    return model.to(device)


def from_base(base: Trained, wanted: Tables) -> Tables:
    """Fine-tuning keeps the base's model and tokenizer; only dropout may differ."""
    if not isinstance(base.language_model, nn.Module):
        raise SettingError(f"--from {base.path}: a {base.family} is counted, not trained; train on both texts together")
    if wanted.get("tokenizer"):
        raise SettingError("--from keeps the run's tokenizer: leave --tokenizer and --vocab out")
    before: Any = fill(family(base.family).settings, base.tables["model"], "model")
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
    folder.create()
    corpus.tokenizer.save(folder.tokenizer_path)
    folder.save_weights(model.saved_tensors())
    tables = all_tables(order, kind, corpus, data, chosen)
    folder.save_settings(tables)
    trained = Trained(model, corpus.tokenizer, tables, folder.path)
    surprise = trained.score_shard(corpus.valid)
    row = {"step": 1, "tokens": len(corpus.train.tokens), "seconds": round(time.monotonic() - began, 3)}
    Metrics(folder.metrics_path).row({**row, "valid_loss": surprise.loss})
    describe_text(corpus, say)
    describe_model(kind.name, chosen.model, model, say)
    say(f"done in {row['seconds']:.1f} s · validation loss {surprise.loss:.4f} · {folder.path}")
    return trained


# ------------------------------------------------------------------------------------------------ resume


def resume(order: Order, folder: RunFolder, say: Callable[[str], None]) -> Trained:
    """Go on with a run: its settings, tokenizer and text, from its newest good checkpoint."""
    folder.create()
    tables = folder.read_settings()
    kind = run_family(tables, folder)
    require_family(order, kind.name, f"--resume {folder.path}")
    if kind.count is not None:
        raise RunError(f"{folder.path} was counted in one go: there is nothing to resume")
    wanted = order.settings or {}
    data = resumed_data(order, tables)
    model_settings, _ = changed_settings(
        fill(kind.settings, tables["model"], "model"), wanted.get("model", {}), "model", ())
    training, changes = changed_settings(
        fill(TrainingSettings, tables["training"], "training"), wanted.get("training", {}), "training", CHANGEABLE)
    device = pick_device(order.device)
    tokenizer = Tokenizer.load(folder.tokenizer_path)
    corpus = prepare(data, tokenizer, say=say)
    if data.content and corpus.content != data.content:
        raise RunError(f"the text has changed since {folder.path} began: resume with the same text, "
                       "or start a new run with --from")
    torch.manual_seed(training.seed)
    chosen = Chosen(model_settings, training)
    job = make_job(new_model(kind, chosen, corpus, None, device), corpus, chosen, folder, order)
    files, damaged = folder.newest_checkpoint()
    at = At(micro_batch=training.micro_batch) if files is None else At(**job.restore(files))
    for name in damaged:
        say(f"checkpoint {name} is damaged: passed over")
    job.metrics.cut(at.step)
    if changes:
        tables["training"] = as_values(training)
        folder.save_settings(tables)
    say(f"resuming {folder.path} at step {at.step:,} of {training.steps:,}: settings, tokenizer, weights, optimizer "
        "and place in the text are kept" + (f"; changed: {', '.join(changes)}" if changes else ""))
    return finish(job, at, tables, folder, say)


def resumed_data(order: Order, tables: Tables) -> DataSettings:
    """How the text was read, from wherever it is now; its content is compared later."""
    wanted = order.settings or {}
    before = fill(DataSettings, {**tables["data"], "files": order.files}, "data")
    after, _ = changed_settings(before, wanted.get("data", {}), "data", ("files", "valid"))
    kind = wanted.get("tokenizer", {}).get("kind", "auto")
    if kind not in ("auto", tables["tokenizer"]["kind"]):
        raise SettingError(f"tokenizer.kind cannot change from {tables['tokenizer']['kind']} to {kind} when a run is "
                           "resumed: leave it out, or start a new run")
    return after


# ------------------------------------------------------------------------------------------------ shared


def make_job(model: NeuralLM, corpus: Corpus, chosen: Chosen, folder: RunFolder, order: Order) -> Job:
    torch.set_flush_denormal(True)                  # denormal numbers cost a CPU many times over
    s = chosen.training
    batches = training_batches(corpus, reading=s.reading, context=chosen.model.context, batch=s.batch, seed=s.seed)
    held_out = HeldOut(corpus.valid, chosen.model.context, s.batch, corpus.tokenizer.bos, s.reading == "documents",
                       every=max(1, s.valid_one_in))
    extra = (TensorBoard(folder.path / "tensorboard"),) if order.tensorboard else ()
    return Job(model, batches, held_out, s, folder, Progress(s.steps, order.quiet), extra)


def with_steps(job: Job, corpus: Corpus, began: float) -> TrainingSettings:
    """The number of steps, from whichever budget was given, and all that follows from it."""
    s, tokens = job.settings, budget.step_tokens(job)
    steps = s.steps
    if not steps and s.tokens:
        steps = budget.steps_for_tokens(s.tokens, tokens)
    if not steps:
        left = max(0.3 * s.minutes * 60, s.minutes * 60 - (time.monotonic() - began))
        steps = budget.steps_for_minutes(job, left)
        if s.epochs:
            steps = min(steps, budget.steps_for_tokens(int(s.epochs * len(corpus.train.tokens)), tokens))
    return budget.fixed(s, steps, tokens, len(corpus.valid.tokens))


def finish(job: Job, at: At, tables: Tables, folder: RunFolder, say: Callable[[str], None]) -> Trained:
    job.progress.steps = job.settings.steps
    try:
        at = fit(job, at)
    finally:
        job.progress.close()
        for log in job.logs[1:]:
            log.close()
    say(f"done: {at.tokens:,} tokens in {at.seconds:.0f} s ({at.tokens / max(at.seconds, 1e-9):,.0f} tokens/s) · "
        f"best validation loss {at.best:.4f} · {folder.path}")
    return load(folder.path, device=str(job.model.device))


def all_tables(
    order: Order, kind: Family, corpus: Corpus, data: DataSettings, chosen: Chosen
) -> dict[str, dict[str, Any]]:
    """Every setting of the run, resolved: what run.toml holds."""
    data = replace(data, documents=corpus.documents, content=corpus.content)
    tokenizer = TokenizerSettings(corpus.tokenizer.kind, corpus.tokenizer.vocab_size)
    run = {"task": "lm", "family": kind.name, "from": order.base}
    return {"run": run, "data": as_values(data), "tokenizer": as_values(tokenizer), "model": as_values(chosen.model),
            "training": as_values(chosen.training)}
