"""Losses on the way, of every family, as they were: what makes training faster must not bend the curve.

The curves in curves.json were made by this test with REGARD_WRITE_CURVES=1, without dropout, as each device draws its
own. On a GPU they are compared too, in float32, by REGARD_TEST_DEVICE=cuda, with the sizes that a CPU would be given.
"""

import json
import os
from pathlib import Path

import pytest

from regard.families import FAMILIES
from regard.families.sizes import Scale
from regard.training import choices
from regard.training.run import TrainRequest, run_training

KEPT = Path(__file__).with_name("curves.json")
TRAINED = [name for name, family in FAMILIES.items() if family.build is not None]
TEXT = "".join(f"the cat number {i * 7 % 13} sat on mat {i * 5 % 11}\n" for i in range(80))
STEPS = 24
DEVICE = os.environ.get("REGARD_TEST_DEVICE", "cpu")


@pytest.fixture(autouse=True)
def as_on_a_cpu(monkeypatch):
    monkeypatch.setattr(choices, "Scale", lambda **scale: Scale(**scale | {"gpu": False}))


def curve(family, folder, **training):
    text = folder / "text.txt"
    text.write_text(TEXT)
    settings = {"tokenizer": {"kind": "char"}, "model": {"dropout": 0.0}, "training": {
        "steps": STEPS, "batch": 8, "valid_every": STEPS, "precision": "float32", "samples": False, **training}}
    run_training(TrainRequest((str(text),), family=family, out=str(folder / "run"), settings=settings, device=DEVICE,
                              quiet=True, params=20_000))
    rows = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    return [row["train_loss"] for row in rows if "train_loss" in row]


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("family", TRAINED)
def test_the_curve_is_the_one_that_was(family, optimizer, tmp_path):
    found = curve(family, tmp_path, optimizer=optimizer, ema=0.9)
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if os.environ.get("REGARD_WRITE_CURVES"):
        kept[f"{family} {optimizer}"] = [round(loss, 6) for loss in found]
        KEPT.write_text(json.dumps(kept, indent=0) + "\n")
        return
    near = 2e-3 if DEVICE == "cpu" else 1e-2
    assert found == pytest.approx(kept[f"{family} {optimizer}"], rel=near), f"{family} learns otherwise than it did"


def test_another_rate_bends_the_curve_visibly(tmp_path):
    kept = json.loads(KEPT.read_text())["transformer adamw"]
    assert curve("transformer", tmp_path, optimizer="adamw", learning_rate=3.3e-3) != pytest.approx(kept, rel=1e-2)
