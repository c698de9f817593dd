"""One trial of the regret table: some settings, trained on so many tokens, and judged on valid and on test.

A trial costs tokens, not minutes: the tokens that its settings would read in the budget on the machine that the budget
is for, whose speed was timed. So a trial may run on any machine, and a busy one does not change its result.
"""

from __future__ import annotations

import hashlib
import json
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from regard.config import as_values
from regard.run_folder import RunFolder
from regard.trained import load
from regard.training.choices import time_steps
from regard.training.report import TrainingProgress
from regard.training.request import TrainRequest, plan_new
from regard.training.run import Parts as JobParts
from regard.training.run import build_model, run_training
from regard.training.step import tokens_a_step
from regret_parts.texts import Parts

Trial = dict[str, Any]                     # family, and the tables model, training and tokenizer
TASKS = {"text": "lm", "pairs": "translate"}

STACKS = [dict(layers=2, width=64), dict(layers=3, width=96), dict(layers=4, width=128), dict(layers=6, width=192)]
HEADS = [dict(heads=width // 32) for width in (64, 96, 128, 192)]
ATTENDING = [stack | heads for stack, heads in zip(STACKS, HEADS, strict=True)]
STATES = [dict(hidden=hidden) for hidden in (128, 192, 256, 384)]
PAIR_STATES = [dict(width=96, hidden=128), dict(width=96, hidden=192), dict(width=128, hidden=256),
               dict(width=192, hidden=384)]
PAIR_STACKS = [dict(layers=1, width=96, heads=2), dict(layers=2, width=128, heads=4),
               dict(layers=3, width=128, heads=4), dict(layers=3, width=192, heads=6)]
SIZES = {
    "text": {"transformer": ATTENDING, "lstm": STATES, "gru": STATES, "linear-rnn": STACKS, "mamba": STACKS},
    "pairs": {"transformer": PAIR_STACKS, "rnn-attention": PAIR_STATES},
}
READ_AT_ONCE = (512, 1024, 2048, 4096)     # tokens a step of a text; of pairs, target tokens
PAIRS_AT_ONCE = (128, 256, 512, 1024, 2048)


def key(trial: Trial) -> str:
    """A short name of a trial's settings."""
    return hashlib.sha256(json.dumps(trial, sort_keys=True).encode()).hexdigest()[:10]


def draw_trial(kind: str, number: int, vocabularies: tuple[int, ...]) -> Trial:
    """Draw settings by chance: the same for the same number. Families take turns."""
    chance = random.Random(f"{kind} {number}")
    families = list(SIZES[kind])
    family = families[number % len(families)]
    model = dict(chance.choice(SIZES[kind][family]), dropout=chance.choice((0.0, 0.0, 0.1, 0.2)))
    times = chance.choice((0.5, 1.0, 1.0, 2.0))
    training: dict[str, Any] = {"warmup": chance.choice((0.02, 0.1))}
    if kind == "text":
        context = 64 if "hidden" in model else chance.choice((64, 128))
        model["context"] = context
        training |= {"batch": chance.choice(READ_AT_ONCE) // context, "schedule": chance.choice(("cosine", "wsd"))}
        base = {"lstm": (6e-3, 0.05), "gru": (6e-3, 0.05), "mamba": (6e-3, 0.02)}.get(family, (6e-3, 0.03))
        training |= {"optimizer": "muon", "weight_decay": 0.1}
    else:
        training |= {"batch": chance.choice(PAIRS_AT_ONCE), "optimizer": chance.choice(("adamw", "muon")),
                     "ema": chance.choice((0.99, 0.995))}
        base = (4e-3, 0.02) if family == "rnn-attention" else (3e-3, 0.02)
    training |= {"learning_rate": base[0] * times, "muon_rate": base[1] * times}
    return {"family": family, "model": model, "training": training, "tokenizer": {"vocab": chance.choice(vocabularies)}}


def grid_trials(kind: str, vocabularies: tuple[int, ...]) -> list[Trial]:
    """Return the trials around the best of a first search: small models, in many small steps."""
    small = vocabularies[0]
    if kind == "pairs":
        stacks = [("transformer", dict(layers=layers, width=width, heads=4, dropout=0.0)) for layers, width in
                  ((1, 96), (1, 128), (2, 96), (2, 128))]
        states = [("rnn-attention", dict(width=96, hidden=hidden, dropout=0.0)) for hidden in (128, 192)]
        rates = [dict(optimizer="muon", learning_rate=6e-3, muon_rate=0.04, ema=0.99, warmup=0.02),
                 dict(optimizer="adamw", learning_rate=4e-3, ema=0.99, warmup=0.1)]
        return [{"family": family, "model": model, "training": {**rate, "batch": batch}, "tokenizer": {"vocab": small}}
                for family, model in stacks + states for rate in rates for batch in (256, 512, 1024)
                if not (rate["optimizer"] == "adamw" and batch == 1024)]
    stacks = [("transformer", dict(layers=layers, width=width, heads=width // 32, context=64, dropout=0.0))
              for layers, width in ((2, 64), (3, 96), (4, 128))]
    states = [("lstm", dict(hidden=hidden, context=64, dropout=0.0)) for hidden in (128, 192, 256)]
    rows = [(family, model, batch, vocab) for family, model in stacks + states for batch in (4, 8, 16)
            for vocab in (small, 0)]
    muon = {"lstm": 0.05, "transformer": 0.03}
    return [{"family": family, "model": model, "tokenizer": {"vocab": vocab},
             "training": dict(optimizer="muon", weight_decay=0.1, learning_rate=6e-3, muon_rate=muon[family],
                              batch=batch, schedule="wsd", warmup=0.05)}
            for family, model, batch, vocab in rows]


CANDIDATES = {"text": ("transformer", "lstm", "mamba", "linear-rnn"), "pairs": ("transformer", "rnn-attention")}


def default_trial(parts: Parts, family: str, minutes: float) -> Trial:
    """Return the settings that a family gets by default for so many minutes, on one core of the reference machine."""
    return resolve_trial(parts, {"family": family}, minutes=minutes)


def resolve_trial(parts: Parts, trial: Trial, **budget: float) -> Trial:
    """Return a trial with all that its own settings leave to the defaults."""
    with patch("regard.training.choices.measure_pace", lambda: 1.0):
        plan = plan_new(request(parts, trial, "cpu", **budget), lambda text: None)
    timed = ("minutes", "tokens", "steps", "compile", "threads", "reading")  # the trial says these itself
    return {"family": trial["family"], "model": as_values(plan.model),
            "training": {name: value for name, value in as_values(plan.training).items() if name not in timed}}


def request(parts: Parts, trial: Trial, device: str, **training: Any) -> TrainRequest:
    tables = {name: dict(trial.get(name, {})) for name in ("model", "training", "tokenizer")}
    tables["training"] |= training
    if not tables["tokenizer"].get("vocab"):
        del tables["tokenizer"]
    return TrainRequest(parts.files("train"), task=TASKS[parts.kind], family=trial.get("family"), mix=None,
                        settings=tables | {"data": {"valid": parts.files("valid"), "halve": False}}, device=device,
                        quiet=True)


def time_trial(parts: Parts, trial: Trial, threads: int, clock: Callable[[], float]) -> dict[str, float]:
    """Return how many tokens a second these settings read on this machine's CPU, and how many weights they have."""
    torch.set_num_threads(threads)
    plan = plan_new(request(parts, trial, "cpu", steps=10, compile="no"), lambda text: None)
    model = build_model(plan)
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder(Path(folder) / "run")
        run.begin()
        job = JobParts(plan, model, run, TrainingProgress(True))
        seconds = time_steps(job.make_step(plan.training), 0, clock)
        read = tokens_a_step(job.batches)
    return {"tokens_a_second": round(read / seconds, 1), "tokens_a_step": read,
            "weights": sum(each.numel() for each in model.parameters()), "vocab": plan.corpus.tokenizer.vocab_size
            if parts.kind == "text" else 0}


def run_trial(parts: Parts, trial: Trial, tokens: int, device: str, seed: int = 0) -> dict[str, Any]:
    """Train on so many tokens; return what it scores on the parts valid and test, and the seconds this took.

    On a GPU texts are read by recorded steps. Pairs have too many shapes to record each.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        asked = request(parts, trial, device, tokens=tokens, seed=seed, samples=False,
                        compile="no" if device == "cpu" or parts.kind == "pairs" else "capture")
        mixed = parts.kind == "text"
        model = run_training(replace(asked, out=str(Path(folder) / "run"), mix=mixed or None))
        found = score_text(model, parts) if mixed else score_pairs(parts, Path(folder) / "run")
        steps = model.tables["training"]["steps"]
    return {**found, "steps": steps, "tokens": tokens, "seconds": round(time.monotonic() - began, 1)}


def score_text(model: Any, parts: Parts) -> dict[str, Any]:
    from regard.tasks.lm.score import score_whole

    found = {}
    for part in ("valid", "test"):
        _, surprises = score_whole(model, model.encode_files(parts.files(part)), None)
        found[part] = {name: round(each.bits_per_byte, 5) for name, each in surprises.items()}
    return found


def score_pairs(parts: Parts, folder: Path) -> dict[str, Any]:
    """Return BLEU of a greedy search on both parts, and the loss on valid.

    It is asked on a CPU: of many small models that share a GPU each would wait for the others at every token.
    """
    from regard.metrics.translation_quality import bleu

    found: dict[str, Any] = {}
    model = load(folder, device="cpu")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    losses = [row["valid_loss"] for row in rows if "valid_loss" in row]
    for part in ("valid", "test"):
        sources, references = (Path(name).read_text("utf-8").splitlines() for name in parts.files(part))
        texts = [line.text for line in model.translate(sources, beam=1)]
        found[part] = {"bleu": round(bleu(texts, references), 3)}
    found["valid"]["loss"] = round(min(losses), 5)
    return found
