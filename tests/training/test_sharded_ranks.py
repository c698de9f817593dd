"""Training with weights dealt out over ranks (--parallel fsdp) is training: the weights of one process.

All cases run in one pair of processes, and then each in one process. `make ranks` does so with 2, 3 and 4, and with
more cases.
"""

import json

import pytest

from regard.families.transformer import TransformerSettings, build_transformer
from regard.layers.stack import stacked_layers
from regard.run_folder import SHARE, RunFolder
from regard.training import sharding
from tests.training.test_ranks import (
    CASES,
    COUNT,
    EXACT,
    LINES,
    NOISY,
    ROUNDED,
    STREAMS,
    TRANSFORMER,
    case,
    difference,
    figures,
    run_cases,
    write_pairs,
)

SHORT = ("transformer", "accumulated", "mamba", "translate", "fewer rows than ranks", "float32")
LONG = COUNT > 2
LAYERS = case("recomputed", "transformer", dict(heads=2, layers=2), optimizer="adamw", recompute="layers",
              micro_batch=1, batch=5)
JOINED = {**case("joined", "transformer", dict(heads=2, layers=3), optimizer="muon"), "unit": 2**15}
KEPT = {**case("kept", "transformer", dict(heads=2, layers=3), optimizer="muon", micro_batch=1), "kept": 2**16}
WHOLE = [*(each for each in CASES if LONG or each["name"] in SHORT), STREAMS, LAYERS, JOINED, KEPT]
PLANTED = ("sharded mean", "rows of another", "sharded parts", "partial norm", "sharded norm", "drift")
RESUMED = {"with one process": ("fsdp", None, "fsdp"), "with data parallel": ("fsdp", "data", "fsdp"),
           "from data parallel": ("data", "fsdp", None)}


def sharded(each, **more):
    return {**each, "parallel": "fsdp", **more}


def resumed(name):
    """A run that is stopped by a signal and taken up twice, each time as another kind."""
    stops = ({"stop": (COUNT - 1, 4)}, {"stop": (0, 7), "resume": True}, {"resume": True})
    parts = []
    for number, (kind, stop) in enumerate(zip(RESUMED[name], stops, strict=True)):
        how = {"parallel": kind} if kind else {"taken up": True}
        parts.append({**TRANSFORMER, **stop, **how, "name": f"{name} {number}", "run": name, "alone": False})
    return parts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("sharded")
    (path / "lines.txt").write_text(LINES)
    write_pairs(path)
    planted = [sharded(TRANSFORMER, name=plant, plant=plant, alone=False) for plant in PLANTED]
    noisy = sharded(NOISY, alone=False)
    again = [sharded(NOISY, name="again 1", run="again", stop=(0, 4), alone=False),
             sharded(NOISY, name="again 2", run="again", resume=True, alone=False)]
    cases = [*map(sharded, WHOLE), *planted, noisy, *again, *(part for name in RESUMED for part in resumed(name))]
    return run_cases(path, [{**each, "files": [str(path / name) for name in each["files"]]} for each in cases],
                     deadline=300)


@pytest.mark.parametrize("each", WHOLE, ids=lambda each: each["name"])
def test_dealt_out_weights_end_as_those_of_one_process(folder, each):
    together, alone = folder / "together" / each["name"], folder / "alone" / each["name"]
    assert json.loads((folder / "errors.json").read_text())[each["name"]] == ""
    limit = EXACT if each["dtype"] == "float64" else ROUNDED
    assert difference(together, alone) < limit
    found, expected = figures(together), figures(alone)
    assert len(found) >= 26 and [row[:2] for row in found] == [row[:2] for row in expected]
    assert [row[2] for row in found] == pytest.approx([row[2] for row in expected], rel=0, abs=limit)


def test_a_checkpoint_has_a_file_for_each_rank_and_no_pickle(folder):
    newest = RunFolder(folder / "together" / "transformer").checkpoints()[-1]
    names = sorted(path.name for path in newest.iterdir())
    assert [name for name in names if name.startswith(SHARE)] == [
        f"{SHARE}{rank:05d}-model-00001-of-00001.safetensors" for rank in range(1, COUNT + 1)]
    assert {name.rpartition(".")[2] for name in names} == {"json", "safetensors"}
    sizes = [path.stat().st_size for path in newest.glob(f"{SHARE}*")]
    assert max(sizes) < 2 * sum(sizes) / COUNT


def test_small_layers_come_and_go_together():
    for least, found in ((1, [1, 1, 1, 1, 1]), (2, [2, 3]), (10, [5])):
        model = build_transformer(TransformerSettings(layers=5, width=16, heads=2, context=8), 9)
        layers, weights = sharding.separate_layers(model), list(model.parameters())
        of_layer = sum(weight.numel() for weight in layers[0].parameters())
        joined = sharding.join_layers(model, sharding.cut_layers(model, least * of_layer))
        assert [len(stacked_layers(each)) or 1 for each in joined] == found
        assert stacked_layers(model) == layers
        assert all(one is other for one, other in zip(weights, model.parameters(), strict=True))


def test_the_last_layers_stay_gathered_as_far_as_they_are_small(monkeypatch):
    model = build_transformer(TransformerSettings(layers=5, width=16, heads=2, context=8), 9)
    layers = stacked_layers(model)
    of_layer = sum(weight.numel() for weight in layers[0].parameters())
    monkeypatch.setattr(sharding, "UNIT_BYTES", 1)
    for kept, again in ((0, 5), (2 * of_layer - 1, 4), (2 * of_layer, 3), (9 * of_layer, 0)):
        monkeypatch.setattr(sharding, "KEPT_BYTES", 2 * kept)
        found = sharding.gathered_twice(model, 2)
        expected = [weight for layer in layers[:again] for weight in layer.parameters()]
        assert [id(each) for each in found] == [id(each) for each in expected]


@pytest.mark.parametrize("plant", PLANTED)
def test_a_planted_bug_is_seen(folder, plant):
    error = json.loads((folder / "errors.json").read_text())[plant]
    if plant in ("drift", "sharded norm"):                   # what every rank holds whole goes apart
        assert "the weights of rank 1 on" in error and "are no longer those of rank 0" in error
    else:
        assert not error and difference(folder / "together" / plant, folder / "alone" / "transformer") > 10 * EXACT


@pytest.mark.parametrize("name", RESUMED)
def test_a_run_goes_on_with_its_weights_held_in_another_way(folder, name):
    parts, errors = resumed(name), json.loads((folder / "errors.json").read_text())
    assert [errors[part["name"]] for part in parts] == [
        f"stopped at step {step} of 12; everything is saved: go on with --resume" for step in (5, 8)] + [""]
    assert difference(folder / "together" / name, folder / "alone" / "transformer") < EXACT


def test_noise_is_the_same_wherever_a_run_was_stopped(folder):
    errors = json.loads((folder / "errors.json").read_text())
    assert "stopped at step 5" in errors["again 1"] and not errors["again 2"]
    assert difference(folder / "together" / "noisy", folder / "together" / "again") == 0.0
