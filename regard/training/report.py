"""Reports of a run: its logs, its lines on the terminal, the figures of each step, and a table of the choices."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard import kernels, storage
from regard.config import as_values
from regard.contract import LanguageModel, Learner
from regard.errors import TrainingStopped, one_line
from regard.kernels.cross_entropy import keeps_logits
from regard.kernels.cuda import products
from regard.kernels.norm import why_not as why_norms_keep
from regard.ranks import ALONE, Ranks
from regard.run_folder import RunFolder, load_log, parse_row, read_log
from regard.tasks.trained_model import count_parameters
from regard.training.recorded_step import why_updates_are_eager
from regard.training.settings import TrainingSettings
from regard.training.step import TrainingPosition, TrainingStep, tokens_a_step
from regard.training.trackers import OpenTrackers

if TYPE_CHECKING:
    from regard.training.request import TrainingPlan

Say = Callable[[str], None]
TEXT_READS, PAIR_READS = (1.0, 3.0), (3.0, 10.0)     # fewer reads than the first are too few; the second would do
PAIR_TOKENS = 10**6            # target tokens after which sentences were whole, however many pairs there are


def format_seconds(seconds: float) -> str:
    """Write `75` as `1:15`, `4000` as `1:06:40`."""
    minutes, seconds = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class Metrics:
    """metrics.jsonl: one object a line, append-only."""

    def __init__(self, path: Path):
        self.path = path

    def row(self, values: dict[str, Any]) -> None:
        storage.append_line(self.path, json.dumps(values))

    def sync(self) -> None:
        storage.sync_file(self.path)

    def state(self) -> dict[str, Any]:
        """Return the length and hash of the log: a checkpoint keeps them, so that a later change is seen."""
        raw = load_log(self.path)
        return {"bytes": len(raw), "sha256": storage.digest(raw)}

    def unchanged(self, before: dict[str, Any]) -> bool:
        """Return whether the log still begins with its bytes at the checkpoint that stored `before`."""
        raw = load_log(self.path)
        return storage.digest(raw[:before["bytes"]]) == before["sha256"]

    def cut(self, last_step: int) -> int:
        """Drop rows after `last_step`, which training writes again, and lines that are no rows (torn by a kill, or
        damaged); return the number of these lines."""
        if not self.path.exists():
            return 0
        lines = [line for line in load_log(self.path).split(b"\n") if line]
        rows = [(line, row) for line in lines if (row := parse_row(line)) is not None]
        storage.write_file(self.path, b"".join(line + b"\n" for line, row in rows if row["step"] <= last_step))
        return len(lines) - len(rows)


class SampleLog(Metrics):
    """samples.jsonl: what the model wrote at validations, with the seconds it took, so that samples stay cheap."""

    SHARE = 0.01                     # of the time since the last one is the most that another like it may take

    def __init__(self, path: Path):
        super().__init__(path)
        self.last: dict[str, Any] | None = None

    def due(self, seconds: float) -> bool:
        return self.last is None or self.last["took"] <= self.SHARE * (seconds - self.last["seconds"])

    def row(self, values: dict[str, Any]) -> None:
        super().row(values)
        self.last = {name: values[name] for name in ("seconds", "took")}

    def cut(self, last_step: int) -> int:
        damaged = super().cut(last_step)
        rows, _ = read_log(self.path)
        self.last = rows[-1] if rows and {"took", "seconds"} <= set(rows[-1]) else None
        return damaged


class TrainingProgress:
    """Lines on the terminal, with a bar below them while training runs; elsewhere a plain line now and then."""

    PLAIN_SECONDS = 10.0

    def __init__(self, quiet: bool = False):
        self.quiet, self.steps = quiet, 0
        self.bar: Any = None
        self.last_line = time.monotonic()

    def begin(self, steps: int) -> None:
        """Show a bar of so many steps, on a terminal."""
        self.steps = steps
        if not self.quiet and sys.stderr.isatty():
            from rich.progress import BarColumn, Progress, TextColumn

            self.bar = Progress(
                TextColumn("{task.completed}/{task.total}"), BarColumn(), TextColumn("{task.description}"),
                transient=True)
            self.bar.start()
            self.task = self.bar.add_task("", total=steps)

    def change_steps(self, steps: int) -> None:
        """Show another number of steps from now on."""
        self.steps = steps
        if self.bar is not None:
            self.bar.update(self.task, total=steps)

    def step(self, step: int, loss: float, rate: float, left: float) -> None:
        text = f"loss {loss:.4f} · {rate:,.0f} tokens/s · {format_seconds(left)} left"
        if self.bar is not None:
            self.bar.update(self.task, completed=step, description=text)
        elif not self.quiet and time.monotonic() - self.last_line > self.PLAIN_SECONDS:
            self.say(f"step {step:,}/{self.steps:,} · {text}")

    def say(self, text: str) -> None:
        if self.quiet:
            return
        self.last_line, text = time.monotonic(), one_line(text)
        if self.bar is not None:
            self.bar.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


class TrainingReport:
    """Everything a run writes and says while it trains: the logs in its folder, trackers, and the terminal."""

    def __init__(self, folder: RunFolder, progress: TrainingProgress):
        self.metrics, self.samples = Metrics(folder.metrics_path), SampleLog(folder.samples_path)
        self.folder, self.trackers = folder, OpenTrackers((), folder.path, {}, False)
        self.progress, self.say = progress, progress.say
        self.first: TrainingPosition | None = None             # shown in this session: speed counts from there

    def open_trackers(self, plan: TrainingPlan) -> None:
        """Begin to hand each row to the trackers that the plan asks for, too."""
        self.trackers = OpenTrackers(plan.request.log, self.folder.path, plan.tables(), plan.saved is not None)

    def log(self, position: TrainingPosition, **values: Any) -> None:
        self.record({"step": position.step, "tokens": position.tokens, "seconds": position.seconds, **values})

    def record(self, row: dict[str, Any]) -> None:
        self.metrics.row(row)
        self.trackers.row(row)

    def show(self, position: TrainingPosition, loss: float) -> None:
        """Show loss, speed and time left, from the second step of this session on."""
        if self.first is None:
            self.first = position
            return
        per_step = (position.seconds - self.first.seconds) / (position.step - self.first.step)
        if per_step > 0:
            tokens_per_step = position.tokens / position.step
            left = (self.progress.steps - position.step) * per_step
            self.progress.step(position.step, loss, tokens_per_step / per_step, left)

    def close(self) -> None:
        self.progress.close()
        self.trackers.close()


# --------------------------------------------------------------------------------- the figures of a step


class Figures:
    """The loss and the gradient norm of a step, on their way to the host.

    A GPU computes while the host launches. Read at once, the loss would make the host wait for the GPU, and then the
    GPU for the host, in every step. So on a GPU the loop is one step ahead of the figures it reads.
    """

    def __init__(self, step: int, loss: Tensor, norm: Tensor, ranks: Ranks = ALONE):
        self.step, self.ranks = step, ranks
        self.where: str | None = None                          # a number is not finite; not read yet
        both = ranks.with_figures(torch.stack((loss.detach().double(), norm.detach().double())))
        self.held, self.sent = both, None
        if both.is_cuda:
            self.held = torch.empty(len(both), dtype=torch.float64, pin_memory=True).copy_(both, non_blocking=True)
            self.sent = torch.cuda.Event()
            self.sent.record()

    def read(self) -> tuple[float, float]:
        """Wait for loss and norm and return them. One that is not finite ends the training."""
        if self.sent is not None:
            with self.ranks.waiting():
                self.sent.synchronize()
        loss, norm, *said = self.held.tolist()
        if self.where is None:
            self.where = self.ranks.read_figures(said)
        require_finite(self.step, self.where, loss=loss, gradient=norm)
        return loss, norm


def require_finite(step: int, where: str = "", **values: float) -> None:
    """Stop the training before anything is saved: a weight that is not a number never comes back."""
    for name, value in values.items():
        if not math.isfinite(value):
            raise TrainingStopped(
                f"the {name} became {value} at step {step:,}{where}; nothing of it is saved and the last checkpoint is "
                "good: go on with --resume and a lower --rate")


# ----------------------------------------------------------------------------------------- the choices


def describe_text(corpus: Any, say: Say) -> None:
    train = corpus.train.counts
    say(f"text       {say_sizes(corpus, 'characters', ' characters')}")
    say(f"tokenizer  {corpus.tokenizer.kind} · {corpus.tokenizer.vocab_size:,} tokens known · "
        f"{train.tokens:,} to learn from" + (f", {train.unknown:,} unknown" if train.unknown else ""))


def say_sizes(corpus: Any, count: str, unit: str = "") -> str:
    """Return the sizes of the two or three parts of a corpus by one of their counts."""
    train, valid, test = (getattr(counts, count, 0) for counts in (
        corpus.train.counts, corpus.valid.counts, corpus.test_counts()))
    rest = f" to choose by, {test:,} to report on" if test else ""
    return f"{train:,}{unit} to learn from, {valid:,} held out{rest}"


def describe_model(family: str, settings: Any, model: LanguageModel | Learner, say: Say) -> None:
    chosen = ", ".join(f"{name} {value}" for name, value in as_values(settings).items())
    say(f"model      {family} · {count_parameters(model):,} parameters")
    say(f"           {chosen}")
    modules = model.modules() if isinstance(model, nn.Module) else ()
    backends = [str(each.backend) for each in modules if getattr(each, "backend", None) is not None]
    for backend in dict.fromkeys(backends):
        say(f"scan       {backend}")


def describe_training(s: TrainingSettings, per_step: int, tokens: int, say: Say) -> None:
    total = s.steps * per_step
    rates = f"{'SGD' if s.optimizer == 'sgd' else 'AdamW'} {s.learning_rate:g}"
    rates += f" and Muon {s.muon_rate:g}" if s.optimizer == "muon" else ""
    batch = f"{s.batch:,} tokens of" if s.reading == "pairs" else f"{s.batch}"
    say(f"training   {s.steps:,} steps × {batch} {s.reading} = {total:,} tokens, "
        f"{total / max(1, tokens):.1f} times the text")
    pairs = s.reading == "pairs"
    advice = advise_minutes(s.minutes, total / max(1, tokens), PAIR_READS if pairs else TEXT_READS)
    if advice and not (pairs and total >= PAIR_TOKENS):
        say(f"advice     {advice}")
    part = "" if s.valid_one_in == 1 else f" on 1 in {s.valid_one_in:,} of the held-out batches"
    say(f"           {rates}, {s.schedule} schedule; validation every {s.valid_every:,} steps{part}")


def advise_minutes(minutes: float, reads: float, wanted: tuple[float, float]) -> str:
    """Return what to expect where the minutes are too few to read the data often enough, and how many would do."""
    few, enough = wanted
    if not minutes or reads >= few:
        return ""
    asked = minutes * enough / max(reads, 1e-9)
    return (f"{reads:.1f} times the data in {minutes:g} minutes: expect broken sentences; about {asked:,.0f} minutes "
            f"read it {enough:g} times")


def describe_pairs(corpus: Any, batches: Any, held_out: Any, context: int, say: Say) -> None:
    """Say how many pairs or texts there are, and how much is too long: pairs are left out, labelled texts are cut."""
    if noun := {"pair": "pairs", "line": "lines"}.get(corpus.documents):
        say(f"{noun:<10} {say_sizes(corpus, 'documents')}")
    if texts := getattr(batches, "shortened", 0):
        say(f"too long   {texts:,} texts to learn from have more than {context} tokens, and their first {context} are "
            "read: raise --context to read more")
    for name, count in (("to learn from", getattr(batches, "too_long", 0)),
                        ("held out", getattr(held_out, "too_long", 0))):
        if count:
            say(f"too long   {count:,} pairs {name} have a side of more than {context} tokens and are left out: "
                "raise --context to keep them")


def describe_kernels(step: TrainingStep, s: TrainingSettings, say: Say) -> None:
    """Say which fast paths a GPU takes, and why the others are off."""
    model, device = step.model, step.model.device
    if device.type != "cuda":
        return
    lines = []
    if (head := getattr(model, "head", None)) is not None:
        share = 1.0 if s.reading == "pairs" else min(1.0, (s.micro_batch or s.batch) / s.batch)
        reason = kernels.reason_on(device)
        whole = keeps_logits(round(tokens_a_step(step.batches) * share), len(head.weight), gpu=True)
        lines.append("logits kept" if whole else
                     f"loss without logits by {'torch: ' + reason if reason else 'triton'}")
    why = products.why_not(device, step.bfloat16)
    lines.append(f"products as torch takes them: {why}" if why else "large products the quickest way of cuBLAS")
    if any(getattr(module, "saves_output", False) for module in model.modules()):
        why = why_norms_keep(step.forward_backward.compiled, step.bfloat16)
        lines.append(f"norms as torch has them: {why}" if why else "norms keep only what they give")
    why = why_updates_are_eager(model, s.compile)
    lines.append(f"updates as they are: {why}" if why else "updates recorded")
    say(f"kernels    {'; '.join(lines)}")


def describe_machine(step: TrainingStep, folder: RunFolder, say: Say) -> None:
    device = step.model.device
    if device.type == "cuda":
        lines = [torch.cuda.get_device_name(device), "bfloat16" if step.bfloat16 else "float32"]
        lines += ["compiled"] if step.forward_backward.compiled else []
        lines += ["steps recorded"] if step.forward_backward.recorded else []
        say(f"machine    {', '.join(lines)}")
    else:
        say(f"machine    {device.type}, {torch.get_num_threads()} threads on {os.cpu_count()} cores")
    say(f"run        {folder.path}")
