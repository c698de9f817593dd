"""The bytes that a plan states are those that torch is given in the steps of training, counted on gloo."""

import json

import pytest

from regard.config import fill
from regard.families import FAMILIES
from regard.layers.stack import stacked_layers
from regard.planning import messages
from regard.planning.blueprint import draw_blueprint
from regard.planning.run_plan import plan_training
from regard.training import sharding
from regard.training.settings import TrainingSettings
from tests.training.ranks import run_ranks

STEPS = 3
LINES = "".join("the cat " * (1 + i * 5 % 7) + f"sat on mat {i * 7 % 13}\n" for i in range(60))


def case(name, family, optimizer, plant=False, parallel="data", rows=0, **model):
    sizes = {"width": 24, "context": 16, "dropout": 0.0, **model}
    training = dict(steps=STEPS, batch=8, valid_every=STEPS, samples=False, optimizer=optimizer, micro_batch=rows)
    return {"name": name, "family": family, "plant": plant, "parallel": parallel,
            "settings": {"model": sizes, "training": training, "tokenizer": {"kind": "char"}}}


TRANSFORMER = dict(heads=2, layers=3)
SHARDED = {"name": "sharded", "family": "transformer", "sharded": True, "vocab": 101, "passes": 2,
           "model": dict(layers=3, width=24, heads=2, context=16)}
AGAIN = {**SHARDED, "name": "again", "unit": 2**12, "kept": 2**14}       # of three layers, each its own, the last stays
FSDP = [case("fsdp-adamw", "transformer", "adamw", parallel="fsdp", rows=1, **TRANSFORMER),
        case("fsdp-muon", "transformer", "muon", parallel="fsdp", **TRANSFORMER),
        case("fsdp-gru", "gru", "muon", parallel="fsdp", hidden=20)]
CASES = {2: [case("adamw", "transformer", "adamw", **TRANSFORMER), case("muon", "transformer", "muon", **TRANSFORMER),
             case("gru", "gru", "muon", hidden=20), case("planted", "gru", "adamw", plant=True, hidden=20), SHARDED,
             AGAIN, *FSDP],
         4: [case("adamw", "transformer", "adamw", **TRANSFORMER), case("muon", "transformer", "muon", **TRANSFORMER),
             SHARDED, AGAIN, *FSDP]}


@pytest.fixture(scope="module", params=CASES, ids=lambda count: f"{count} ranks")
def counted(request, tmp_path_factory):
    """Return the number of ranks, the folder with the runs, and what was counted on rank 0."""
    folder = tmp_path_factory.mktemp("counted")
    (folder / "lines.txt").write_text(LINES)
    (folder / "cases.json").write_text(json.dumps(CASES[request.param]))
    for code, _, err in run_ranks(request.param, ["-m", "tests.planning.message_worker", folder]):
        assert code == 0, err
    return request.param, folder, json.loads((folder / "counted.json").read_text())


def stated(ranks, run):
    """The bytes of each kind of message of a plan for this run, of all its steps; on CPUs Muon's are float32."""
    plan = plan_training(10**6, f"{ranks}xH200", run=run)
    found = {}
    for message in messages.of_data_parallel(plan.blueprint, ranks, gpu=False):
        found[message.kind] = found.get(message.kind, 0) + STEPS * message.size
    return plan, found


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_the_bytes_of_data_parallel_are_those_that_travel(counted, name):
    ranks, folder, found = counted
    plan, expected = stated(ranks, folder / name)
    assert set(expected) == {"all-reduce"} | ({"all-gather"} if name == "muon" else set())
    assert found[name] == pytest.approx(expected, rel=0.01)
    if name == "adamw":                                                    # a GPU sends the same
        (message,) = plan.ways[0].messages
        assert STEPS * message.size == expected["all-reduce"]
        assert plan.ways[0].leaving == pytest.approx(2 * message.size * (ranks - 1) / ranks)


def test_so_are_those_of_a_recurrence_and_a_message_too_many_is_seen(counted):
    ranks, folder, found = counted
    if ranks != 2:
        pytest.skip("counted on two ranks")
    assert found["gru"] == pytest.approx(stated(ranks, folder / "gru")[1], rel=0.01)
    assert found["planted"] != pytest.approx(stated(ranks, folder / "planted")[1], rel=0.01)


@pytest.mark.parametrize("each", FSDP, ids=lambda each: each["name"])
def test_the_bytes_of_fsdp_are_those_that_travel(counted, each):
    ranks, folder, found = counted
    blueprint = plan_training(10**6, f"{ranks}xH200", run=folder / each["name"]).blueprint
    rows = blueprint.training.batch // ranks
    passes = rows // (blueprint.training.micro_batch or rows)
    expected = {sent.kind: STEPS * sent.size for sent in messages.of_fsdp(blueprint, ranks, passes, bytes_a_weight=4)}
    assert ("all-to-all" in expected) == (blueprint.training.optimizer == "muon") and len(expected) > 2
    assert found[each["name"]] == pytest.approx(expected, rel=0.01)


def test_they_are_those_of_each_pass_and_of_half_the_width_in_bfloat16(counted):
    ranks, _, found = counted
    family = FAMILIES["transformer"]
    settings = fill(family.settings, SHARDED["model"], "model")
    blueprint = draw_blueprint(family, settings, TrainingSettings(), SHARDED["vocab"])
    expected, once = ({message.kind: message.size for message in messages.of_fsdp(blueprint, ranks, passes)
                       if message.during_work} for passes in (SHARDED["passes"], 1))
    assert found["sharded"] == pytest.approx(expected, rel=0.01)
    assert found["sharded"] != pytest.approx(once, rel=0.01)


def test_layers_but_the_last_are_gathered_twice_where_they_are_large(counted, monkeypatch):
    ranks, _, found = counted
    family = FAMILIES["transformer"]
    settings = fill(family.settings, SHARDED["model"], "model")
    monkeypatch.setattr(sharding, "UNIT_BYTES", AGAIN["unit"])
    monkeypatch.setattr(sharding, "KEPT_BYTES", AGAIN["kept"])
    blueprint = draw_blueprint(family, settings, TrainingSettings(), SHARDED["vocab"])
    again = sum(weight.numel() for weight in blueprint.gathered_twice(2))
    assert again == 2 * sum(weight.numel() for weight in stacked_layers(blueprint.model)[0].parameters())
    expected = {message.kind: message.size for message in messages.of_fsdp(blueprint, ranks, AGAIN["passes"])
                if message.during_work}
    assert found["again"] == pytest.approx(expected, rel=0.01)
    assert found["again"]["all-gather"] > 1.1 * found["sharded"]["all-gather"]
