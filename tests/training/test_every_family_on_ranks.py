"""Every neural family of every task on 2, 3 and 4 ranks, with all weights on each and dealt out, by `make ranks`: too
long for every change."""

import json
import os

import pytest

from tests.fixtures.make import family_of
from tests.fixtures.runs import FILES, HERE, TASKS
from tests.training.ranks import run_ranks
from tests.training.test_ranks import EXACT, difference, figures

pytestmark = pytest.mark.skipif("REGARD_RANKS" not in os.environ, reason="make ranks runs it")

NAMES = {f"{task}-{name}": (task, name, model) for task, table in TASKS.items() for name, model in table.items()
         if not name.startswith("ngram")}


def undropped(task, name):
    """No noise: it is drawn for each number of ranks anew."""
    return {"dropout": 0.0, **({"word_dropout": 0.0} if (task, name) == ("classify", "average") else {})}


def case(label, parallel):
    task, name, model = NAMES[label]
    training = dict(steps=6, batch=8 if task in ("lm", "masked", "classify", "tag") else 64, valid_every=3,
                    samples=False, ema=0.5, clip=0.1, optimizer="muon" if len(label) % 2 else "adamw")
    shared = {"shared": False} if "separate" in name else {}
    return {"name": label, "parallel": parallel, "task": task, "family": family_of(task, name), "dtype": "float64",
            "files": [str(HERE / "data" / each) for each in FILES[task]],
            "settings": {"model": {**model, **undropped(task, name)}, "training": training,
                         "tokenizer": {"kind": "word", **shared},
                         "data": {"size": model["image"]} if task == "caption" else {}}}


@pytest.fixture(scope="module", params=[(2, "data"), (4, "data"), (2, "fsdp"), (3, "fsdp")],
                ids=lambda how: f"{how[0]} ranks, {how[1]}")
def folder(tmp_path_factory, request):
    path = tmp_path_factory.mktemp("families")
    count, parallel = request.param
    (path / "cases.json").write_text(json.dumps([case(label, parallel) for label in NAMES]))
    for code, _, err in run_ranks(count, ["-m", "tests.training.rank_worker", path], deadline=900):
        assert code == 0, err
    return path


@pytest.mark.parametrize("label", NAMES)
def test_every_family_ends_with_the_weights_of_one_process(folder, label):
    together, alone = folder / "together" / label, folder / "alone" / label
    assert json.loads((folder / "errors.json").read_text())[label] == ""
    assert difference(together, alone) < EXACT
    found, expected = figures(together), figures(alone)
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    assert [row[2] for row in found] == pytest.approx([row[2] for row in expected], rel=0, abs=EXACT)
