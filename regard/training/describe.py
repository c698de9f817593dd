"""What was chosen, told in one short table before training begins."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from regard import kernels
from regard.config import as_values
from regard.contract import LanguageModel
from regard.kernels import Path, products
from regard.layers import norm
from regard.models.head import Head
from regard.models.learner import Learner
from regard.tasks.trained_model import count_parameters
from regard.training import still
from regard.training.job import Job
from regard.training.passes import CapturedPass
from regard.training.settings import TrainingSettings

Say = Callable[[str], None]


def describe_text(corpus: Any, say: Say) -> None:
    train, valid = corpus.train.counts, corpus.valid.counts
    say(f"text       {train.characters:,} characters to learn from, {valid.characters:,} held out")
    say(f"tokenizer  {corpus.tokenizer.kind} · {corpus.tokenizer.vocab_size:,} tokens known · "
        f"{train.tokens:,} to learn from" + (f", {train.unknown:,} unknown" if train.unknown else ""))


def describe_model(family: str, settings: Any, model: LanguageModel | Learner, say: Say) -> None:
    chosen = ", ".join(f"{name} {value}" for name, value in as_values(settings).items())
    say(f"model      {family} · {count_parameters(model):,} parameters")
    say(f"           {chosen}")
    modules = model.modules() if isinstance(model, nn.Module) else ()
    for path in {str(each.path): None for each in modules if isinstance(getattr(each, "path", None), Path)}:
        say(f"scan       {path}")


def describe_training(s: TrainingSettings, tokens_a_step: int, tokens: int, say: Say) -> None:
    total = s.steps * tokens_a_step
    rates = f"{'SGD' if s.optimizer == 'sgd' else 'AdamW'} {s.learning_rate:g}"
    rates += f" and Muon {s.muon_rate:g}" if s.optimizer == "muon" else ""
    batch = f"{s.batch:,} tokens of" if s.reading == "pairs" else f"{s.batch}"
    say(f"training   {s.steps:,} steps × {batch} {s.reading} = {total:,} tokens, "
        f"{total / max(1, tokens):.1f} times the text")
    part = "" if s.valid_one_in == 1 else f" on 1 in {s.valid_one_in:,} of the held-out batches"
    say(f"           {rates}, {s.schedule} schedule; validation every {s.valid_every:,} steps{part}")


def describe_pairs(batches: Any, held_out: Any, context: int, say: Say) -> None:
    """What is too long to be read: of pairs, which are not cut."""
    for name, count in (("to learn from", getattr(batches, "too_long", 0)),
                        ("held out", getattr(held_out, "too_long", 0))):
        if count:
            say(f"too long   {count:,} pairs {name} have a side of more than {context} tokens and are left out: "
                "raise --context to keep them")


def describe_kernels(job: Job, tokens_a_step: int, say: Say) -> None:
    """Which fast ways a GPU takes, and why not where it does not."""
    device = job.model.device
    if device.type != "cuda":
        return
    head = getattr(job.model, "head", None)
    told = []
    if isinstance(head, Head):
        rows = job.settings.micro_batch or job.settings.batch
        share = 1.0 if job.settings.reading == "pairs" else min(1.0, rows / job.settings.batch)
        reason = kernels.reason_on(device)
        told.append("logits kept" if head.keeps_logits(round(tokens_a_step * share), True) else
                    f"loss without logits by {'torch: ' + reason if reason else 'triton'}")
    why = products.why_not(device, job.bfloat16)
    told.append(f"products as torch takes them: {why}" if why else "large products the quickest way of cuBLAS")
    if any(isinstance(layer, (norm.LayerNorm, norm.RMSNorm)) for layer in job.model.modules()):
        why = norm.why_not(job.run.loss != job.model.loss, job.bfloat16)
        told.append(f"norms as torch has them: {why}" if why else "norms keep only what they give")
    why = still.why_not(job.model, job.settings.compile)
    told.append(f"updates as they are: {why}" if why else "updates recorded")
    say(f"kernels    {'; '.join(told)}")


def describe_place(job: Job, say: Say) -> None:
    device = job.model.device
    if device.type == "cuda":
        told = [torch.cuda.get_device_name(device), "bfloat16" if job.bfloat16 else "float32"]
        told += ["compiled"] if job.run.loss != job.model.loss else []
        told += ["steps recorded"] if isinstance(job.run, CapturedPass) else []
        say(f"machine    {', '.join(told)}")
    else:
        say(f"machine    {device.type}, {torch.get_num_threads()} threads on {os.cpu_count()} cores")
    say(f"run        {job.folder.path}")
