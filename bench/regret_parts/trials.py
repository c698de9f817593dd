"""One trial of the regret table: some settings, trained on so many tokens, and judged on valid and on test.

A trial costs tokens, not minutes: the tokens that its settings would read in the budget on the machine that the budget
is for, whose speed was timed. So a trial may run on any machine, and a busy one does not change its result.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from regard.config import as_values
from regard.families.fit import parameters
from regard.run_folder import RunFolder
from regard.trained import load
from regard.training.choices import measure_pace, time_steps
from regard.training.parts import Parts as JobParts
from regard.training.parts import build_model
from regard.training.report import TrainingProgress
from regard.training.request import TrainRequest, plan_new
from regard.training.run import run_training
from regard.training.step import tokens_a_step
from regret_parts.texts import Parts

Trial = dict[str, Any]                     # family, and the tables model, training and tokenizer
TASKS = {"text": "lm", "pairs": "translate"}
RECORDED_FROM = 1_500_000      # tokens of pairs


def resolve_trial(parts: Parts, trial: Trial, **budget: float) -> Trial:
    """Return a trial with all that its own settings leave to the defaults."""
    with patch("regard.training.choices.measure_pace", lambda: 1.0):
        plan = plan_new(request(parts, trial, "cpu", **budget), lambda text: None)
    timed = ("minutes", "tokens", "steps", "compile", "threads", "reading")  # the trial says these itself
    return {"family": plan.family.name, "tokenizer": trial.get("tokenizer", {}), "model": as_values(plan.model),
            "training": {name: value for name, value in as_values(plan.training).items() if name not in timed}}


def request(parts: Parts, trial: Trial, device: str, **training: Any) -> TrainRequest:
    tables = {name: dict(trial.get(name, {})) for name in ("model", "training", "tokenizer")}
    tables["training"] |= training
    if not tables["tokenizer"]:
        del tables["tokenizer"]
    return TrainRequest(parts.files("train"), task=TASKS[parts.kind], family=trial.get("family"), mix=None,
                        settings=tables | {"data": {"valid": parts.files("valid"), "halve": False}}, device=device,
                        quiet=True)


def time_trial(parts: Parts, trial: Trial, clock: Callable[[], float]) -> dict[str, float]:
    """Return how many tokens a second one thread of this machine's CPU reads, and how many weights there are."""
    torch.set_num_threads(1)
    plan = plan_new(request(parts, trial, "cpu", steps=10, compile="no"), lambda text: None)
    model = build_model(plan)
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder(Path(folder) / "run")
        run.begin()
        job = JobParts(plan, model, run, TrainingProgress(True))
        seconds = time_steps(job.make_step(plan.training), 0, clock)
        read = tokens_a_step(job.batches)
    return {"tokens_a_second": round(read / seconds, 1), "tokens_a_step": read,
            "weights": sum(each.numel() for each in model.parameters()), "pace": round(measure_pace(), 4)}


def measure_trial(parts: Parts, trial: Trial) -> tuple[int, int]:
    """Return the weights of these settings, and the tokens that they read in a step."""
    plan = plan_new(request(parts, trial, "cpu", steps=10, compile="no"), lambda text: None)
    batches = plan.task.batches(plan.corpus, plan.training, plan.model.context)
    assert plan.family.build is not None
    return parameters(plan.family, plan.model, plan.task.vocab(plan.corpus.tokenizer)), tokens_a_step(batches)


def run_trial(
    parts: Parts, trial: Trial, tokens: int, device: str, seed: int = 0, judged: Sequence[str] = ("valid", "test")
) -> dict[str, Any]:
    """Train on so many tokens; return what it scores on the parts that are judged, and the seconds this took.

    On a GPU steps are recorded; those of pairs, padded to few shapes, only in a run that is long enough.
    """
    began = time.monotonic()
    recorded = device != "cpu" and (parts.kind == "text" or tokens > RECORDED_FROM)
    with tempfile.TemporaryDirectory() as folder:
        asked = request(parts, trial, device, tokens=tokens, seed=seed, samples=False,
                        **dict(compile="capture", widths=8) if recorded else dict(compile="no"))
        mixed = parts.kind == "text"
        model = run_training(replace(asked, out=str(Path(folder) / "run"), mix=mixed or None))
        found = score_text(model, parts, judged) if mixed else score_pairs(parts, Path(folder) / "run", judged)
        steps, tokenizer = model.tables["training"]["steps"], model.tables["tokenizer"]
    kept = {name: tokenizer[name] for name in ("kind", "vocab")}
    return {**found, "tokenizer": kept, "steps": steps, "tokens": tokens,
            "seconds": round(time.monotonic() - began, 1)}


def score_text(model: Any, parts: Parts, judged: Sequence[str]) -> dict[str, Any]:
    from regard.tasks.lm.score import score_whole

    found = {}
    for part in judged:
        _, surprises = score_whole(model, model.encode_files(parts.files(part)), None)
        found[part] = {name: round(each.bits_per_byte, 5) for name, each in surprises.items()}
    return found


def score_pairs(parts: Parts, folder: Path, judged: Sequence[str]) -> dict[str, Any]:
    """Return BLEU of a greedy search on the parts that are judged, and the loss on valid.

    It is asked on a CPU: of many small models that share a GPU each would wait for the others at every token.
    """
    from regard.metrics.translation_quality import bleu

    found: dict[str, Any] = {}
    model = load(folder, device="cpu")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    losses = [row["valid_loss"] for row in rows if "valid_loss" in row]
    for part in judged:
        sources, references = (Path(name).read_text("utf-8").splitlines() for name in parts.files(part))
        texts = [line.text for line in model.translate(sources, beam=1)]
        found[part] = {"bleu": round(bleu(texts, references), 3)}
    found["valid"]["loss"] = round(min(losses), 5)
    return found
