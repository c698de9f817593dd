"""What is written and read again: checkpoints, run folders, logs as they are followed, cards of the lab."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from regard.config import write_toml
from regard.lab.claims_page import make_page
from regard.lab.outcome import load_cards
from regard.run_folder import RunFolder, mapped, pack, unpack
from regard.serve.run_curves import curves as followed_curves
from regard.serve.run_logs import FollowedRun
from regard.training.report import Metrics
from scaling_parts.curve import Curve, Setting, Work, doubling


def folder() -> Path:
    """A new one; `scaling.py` sweeps them up."""
    return Path(tempfile.mkdtemp())


def curves(setting: Setting) -> Iterator[Curve]:
    yield from of_checkpoints()
    yield from of_logs()
    yield from of_the_lab()


# ------------------------------------------------------------------------------------------ checkpoints


def of_checkpoints() -> Iterator[Curve]:
    def tensors(parameters: int, count: int = 4) -> dict[str, torch.Tensor]:
        return {f"stack.{number}.weight": torch.randn(parameters // count) for number in range(count)}

    def save(own: dict[str, torch.Tensor]) -> Work:
        run = RunFolder(folder())
        run.create()
        return Work(lambda: run.save_checkpoint(1, {"model.safetensors": pack(own)}, keep=2), lambda: len(pack(own)))

    def read(parameters: int) -> Work:
        run = RunFolder(folder())
        run.create()
        run.save_checkpoint(1, {"model.safetensors": pack(tensors(parameters))}, keep=2)

        def again() -> None:
            files, _ = run.newest_checkpoint()
            assert files is not None
            unpack(files["model.safetensors"], "the checkpoint")

        return Work(again)

    def load(parameters: int) -> Work:
        run = RunFolder(folder())
        run.create()
        run.save_weights(tensors(parameters))
        return Work(lambda: [float(each.sum()) for each in mapped(run.weights_path).values()])

    sizes = doubling(2**18, 2**25)
    yield Curve("checkpoint: saved and verified", "parameters", sizes, lambda n: save(tensors(n)), 1.0, 1.0)
    yield Curve("checkpoint: found, verified and read", "parameters", sizes, read, 1.0)
    yield Curve("weights: read", "parameters", sizes, load, 1.0)
    yield Curve("checkpoint: saved and verified", "tensors", doubling(256, 2**15),
                lambda n: save(tensors(16 * n, n)), 1.0, 1.0)


# ------------------------------------------------------------------------------------------------- logs


def of_logs() -> Iterator[Curve]:
    rows = doubling(512, 2**16)
    yield Curve("log: rows written one by one", "rows", doubling(128, 2**15), _written, 1.0, fresh=True)
    yield Curve("log: rows cut off for resuming", "rows", rows, _cut, 1.0)
    yield Curve("log: read from its beginning", "rows", rows, lambda n: Work(_follower(n)), 1.0)
    yield Curve("log: followed, one row more", "rows", rows, _one_more, 1.0)
    yield Curve("log: curves of 1,000 points", "rows", rows, _drawn, 1.0, 0.0)


def _row(step: int) -> dict[str, float]:
    return {"step": step, "tokens": 64 * step, "seconds": 0.1 * step, "train_loss": 1 / (1 + step % 100),
            "gradient_norm": 1.0, "rate": 0.001} | ({"valid_loss": 2.0} if step % 50 == 0 else {})


def _run(rows: int) -> Path:
    path = folder()
    (path / "metrics.jsonl").write_text("".join(json.dumps(_row(step)) + "\n" for step in range(1, rows + 1)))
    (path / "run.toml").write_text(write_toml({"run": {"task": "lm", "family": "rnn"}, "training": {"steps": rows + 9}},
                                              heading="a run"))
    return path


def _written(rows: int) -> Work:
    log = Metrics(folder() / "metrics.jsonl")

    def run() -> None:
        for step in range(rows):
            log.row(_row(step))

    return Work(run)


def _cut(rows: int) -> Work:
    log = Metrics(_run(rows) / "metrics.jsonl")
    return Work(lambda: log.cut(rows))


def _follower(rows: int) -> Callable[[], Any]:
    path = _run(rows)
    return lambda: FollowedRun("run", path, False).about()


def _one_more(rows: int) -> Work:
    """What the page asks for again and again."""
    path = _run(rows)
    run = FollowedRun("run", path, False)
    run.about()
    log = Metrics(path / "metrics.jsonl")
    last = iter(range(rows + 1, 2**40))

    def again() -> None:
        log.row(_row(next(last)))
        run.about()

    return Work(again)


def _drawn(rows: int) -> Work:
    run = FollowedRun("run", _run(rows), False)
    run.about()
    return Work(lambda: followed_curves(run, 1000, 0), lambda: len(json.dumps(followed_curves(run, 1000, 0))))


# ---------------------------------------------------------------------------------------------- the lab


def of_the_lab() -> Iterator[Curve]:
    yield Curve("lab: cards read", "cards", doubling(16, 1024), lambda n: Work(_lab(n)), 1.0)
    yield Curve("lab: the report", "cards", doubling(16, 1024), _report, 1.0, 1.0)
    yield Curve("lab: one card read", "arms", doubling(64, 2**14), lambda n: Work(_lab(1, n)), 1.0)


def _lab(count: int, arms: int = 20) -> Callable[[], Any]:
    path = folder()
    (path / "cpu").mkdir()
    for number in range(count):
        (path / "cpu" / f"claim{number}.json").write_text(json.dumps(_card(number, arms)))
        (path / "cpu" / f"claim{number}-1.svg").write_text("<svg/>" * 1000)
    return lambda: load_cards(path)


def _card(number: int, arms: int) -> dict[str, Any]:
    rule = {"says": "it grows", "mean": 1.0, "low": 0.9, "high": 1.1, "side": "above", "bound": 0.5, "verdict": "holds"}
    return {"name": f"claim{number}", "number": number, "title": "A claim", "claim": "It is so.", "source": "lecture 1",
            "equation": "a = b", "refuted": "a > b", "rule": "above 0.5", "flip": "takes it away", "notes": "",
            "verdict": "holds", "rules": [rule] * 4, "seeds": 5, "quick": False, "seconds": 1.0, "command": "lab",
            "table": {"columns": ["", "a"], "rows": [["b", "1.0"]] * 8}, "version": "0", "where": {"device": "CPU"},
            "plots": [{"title": "a chart", "file": f"claim{number}-1.svg"}],
            "arms": {f"arm {at}": {"values": {"x": [0.5] * 20}, "seconds": 1.0} for at in range(arms)}}


def _report(count: int) -> Work:
    known = _lab(count)()
    return Work(lambda: make_page(known), lambda: len(make_page(known)))
