"""A plan: figures that were measured, what fits, the choice, and one line for each wish that cannot be."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from regard.errors import SettingError
from regard.planning import figures, rank_memory, run_plan
from regard.planning.blueprint import Blueprint
from regard.planning.figures import Figure, find_speed
from regard.planning.machines import GPUS, PCIE_5, find_machines, parse_link
from regard.planning.plan_text import as_text
from regard.planning.run_plan import as_dict, find_warnings, plan_training

BENCH = Path(__file__).parents[2] / "bench"
GPT2 = {"layers": 12, "width": 768, "heads": 12, "context": 1024, "positions": "learned", "tied": True,
        "activation": "gelu-tanh"}
SMALL = {"layers": 2, "width": 64, "heads": 2, "context": 128}


def small(gpus="8xH200", link=None, family=None, model=SMALL, tokens=10**9, **training):
    return plan_training(tokens, gpus, link=link, family=family,
                         settings={"model": model, "training": training, "tokenizer": {"vocab": 1000}})


# ---------------------------------------------------------------------------------------------- measured figures


def measured_rows():
    return json.loads((BENCH / "results" / "gpt2.json").read_text())["runs"]


def gpt2_row(run):
    return plan_training(10**9, "1xH200", settings={"model": GPT2, "training": {
        "optimizer": "adamw", "batch": run["rows"], "recompute": run["recompute"]}})


@pytest.mark.parametrize("run", measured_rows(), ids=lambda run: f"{run['rows']} rows")
def test_gpt2_on_one_gpu_takes_what_was_measured(run):
    (way,) = gpt2_row(run).ways
    assert gpt2_row(run).blueprint.parameters == run["parameters"]
    assert 1e3 * way.step == pytest.approx(run["ms_a_step"], rel=0.05)
    assert sum(way.held.values()) / 1e9 == pytest.approx(run["peak_gb"], rel=0.05)


def muon_rows():
    path = BENCH / "results" / "plan.json"
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    return [run for run in runs if run["optimizer"] == "muon"]


@pytest.mark.parametrize("run", muon_rows(), ids=lambda run: run["case"])
def test_muon_takes_about_what_was_measured(run):
    found = plan_training(10**9, "1xH200", family=run["family"], settings={
        "model": run["model"], "training": {"optimizer": "muon", "batch": run["rows"]},
        "tokenizer": {"vocab": run["vocab"]}})
    assert found.blueprint.parameters == run["parameters"]
    assert 1e3 * found.chosen.step == pytest.approx(run["ms_a_step"], rel=0.15)


@pytest.mark.parametrize("bug", [
    (Blueprint, "operations", property(lambda self: 4 * sum(rows * columns for rows, columns in self.products))),
    (Blueprint, "state_bytes", property(lambda self: 0)),
    (run_plan, "step_seconds", lambda *given, **shares: 0.05)])
def test_a_wrong_count_is_seen_there(monkeypatch, bug):
    monkeypatch.setattr(*bug)
    with pytest.raises(AssertionError):
        for run in measured_rows():
            test_gpt2_on_one_gpu_takes_what_was_measured(run)


def test_the_table_of_the_package_is_the_one_that_the_results_give():
    sys.path.insert(0, str(BENCH))
    spec = importlib.util.spec_from_file_location("plan_table", BENCH / "plan_table.py")
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    assert table.format_table(table.find_figures()) == figures.PATH.read_text("utf-8"), (
        "run `python bench/plan_table.py --write`")


def figure(parameters, operations, family="transformer"):
    return Figure(family, "adamw", "no", "NVIDIA H200", parameters, 32_768, 50.0, 12.0, 4e12, operations, 2.0, ("x",))


def test_between_two_measured_sizes_the_speed_follows_the_logarithm():
    known = [figure(10**8, 4e14), figure(10**9, 6e14)]
    sizes = (10**7, 10**8, 10**8 * 10**0.5, 10**9, 10**11)
    speeds = [find_speed("transformer", "no", size, known).operations for size in sizes]
    assert speeds == pytest.approx([4e14, 4e14, 5e14, 6e14, 6e14])
    other = find_speed("gru", "no", 10**8, known)
    assert other.operations is None and other.activations_of == "transformer"


# ------------------------------------------------------------------------------------------------- the arithmetic


def test_a_transformer_has_six_operations_a_weight_and_token_and_those_of_attention():
    blueprint = small().blueprint
    (layers, width, context), vocab = (SMALL[name] for name in ("layers", "width", "context")), 1000
    assert sum(rows * columns for rows, columns in blueprint.products) == 12 * layers * width**2 + vocab * width
    attention = layers * context / 2 * 2 * width
    assert blueprint.operations == 6 * (12 * layers * width**2 + vocab * width + attention)
    assert blueprint.channels == layers * 16 * width                   # qkv 4, out 2, feed-forward 5 and 5


def test_the_optimizer_decides_what_is_remembered():
    states = {name: small(optimizer=name).blueprint for name in ("adamw", "muon", "sgd")}
    weights, matrices = states["adamw"].parameters, 12 * SMALL["layers"] * SMALL["width"] ** 2
    assert {name: blueprint.state_bytes for name, blueprint in states.items()} == {
        "adamw": 8 * weights, "muon": 8 * weights - 4 * matrices, "sgd": 4 * weights}
    assert small(optimizer="sgd", momentum=0.0).blueprint.state_bytes == 0
    assert rank_memory.everything(small(ema=0.99).blueprint)["averaged weights"] == 4 * weights


def test_fsdp_holds_a_share_and_data_parallel_a_message():
    one, several = small("1xH200"), small("4xH200")
    (alone,), (data, sharded) = one.ways, several.ways
    assert "message" not in alone.held and data.held["message"] == data.held["gradients"] == alone.held["gradients"]
    gains = sum(weight.numel() for weight in several.blueprint.replicated)
    assert 0 < gains < 0.01 * several.blueprint.parameters                  # what every rank holds whole
    assert sharded.held["optimizer"] == pytest.approx(
        data.held["optimizer"] / 4 * (1 + 3 * gains / several.blueprint.parameters))
    assert not alone.messages and [(each.kind, each.during_work) for each in sharded.messages] == [
        ("all-gather", True), ("reduce-scatter", True), ("all-reduce", False), ("all-to-all", False)]
    assert "all-to-all" not in {each.kind for each in small("4xH200", optimizer="adamw").ways[1].messages}


def test_two_machines_with_a_slow_link_spend_their_time_on_it():
    near, far = small("8xH200", optimizer="adamw"), small("2x4xH200", "1G", optimizer="adamw")
    assert far.chosen.leaving == near.chosen.leaving                       # eight ranks each
    assert far.chosen.communicate == pytest.approx(450 * 8 * near.chosen.communicate)
    assert any(line.startswith("the link is the limit") for line in find_warnings(far))
    assert far.chosen.hours > near.chosen.hours and far.chosen.compute == near.chosen.compute


# ----------------------------------------------------------------------------------------------------- the choice


def wide(width, gpus, link=None, layers=4, **training):
    """A model of few layers is built quickly, however wide it is."""
    return plan_training(20 * 10**9, gpus, link=link, settings={
        "model": {"layers": layers, "width": width, "heads": 8}, "training": training})


def test_what_fits_one_gpu_is_data_parallel_and_what_does_not_is_fsdp():
    little, large = wide(4096, "8xH200"), wide(16384, "8xH200")
    assert little.chosen.name == "data parallel" and little.chosen.fits
    assert little.blueprint.parameters == pytest.approx(1e9, rel=0.02) and large.blueprint.parameters > 13e9
    assert large.chosen.name == "fsdp" and large.chosen.fits and not large.ways[0].fits
    assert "--parallel fsdp" in as_text(large)


def test_what_fits_nowhere_is_said_with_the_gpus_that_it_takes():
    huge = wide(16384, "8xH100", layers=5)
    assert not huge.chosen.fits
    line = next(line for line in find_warnings(huge) if line.startswith("does not fit"))
    assert f"it takes {huge.fewest} GPUs with FSDP" in line and huge.fewest > 8
    assert wide(16384, f"{huge.fewest}xH100", "400G", layers=5).chosen.fits
    assert not wide(16384, f"{huge.fewest // 2}xH100", "400G", layers=5).chosen.fits
    line, *_ = find_warnings(wide(16384, "8xH100", layers=16))
    assert "at validations each rank gathers all weights, 209 GB, on any number of GPUs" in line


def test_rows_at_once_are_halved_until_they_fit_and_a_number_that_was_given_is_kept():
    (way,) = wide(4096, "1xA100", batch=1024).ways
    assert way.fits and way.at_once < way.rows == 1024
    assert way.held["activations"] > (rank_memory.usable(80e9) - sum(way.held.values()) + way.held["activations"]) / 2
    line = find_warnings(wide(16384, "8xH200", batch=1024))[0]
    assert line.startswith("FSDP does not halve the rows by itself") and line.endswith("training.micro_batch=16")
    (kept,) = wide(4096, "1xA100", batch=1024, micro_batch=1024).ways
    assert kept.at_once == 1024 and not kept.fits


@pytest.mark.parametrize(("wish", "said"), [
    (dict(family="gru", model={"hidden": 32}), "no figure of the family gru"),
    (dict(gpus="8xA100"), "measured on NVIDIA H200, not on the A100"),
    (dict(batch=12), "--batch 12 rows do not divide among 8 GPUs: some ranks wait"),
    (dict(batch=4), "--batch 4 rows do not divide among 8 GPUs: 4 of 8 ranks have none"),
    (dict(batch=8), "a rank reads 128 tokens at once"), (dict(tokens=5), "--tokens 5 are less than one step of")])
def test_what_to_beware_of_is_said(wish, said):
    found = small(**wish)
    assert any(line.startswith(said) for line in find_warnings(found)), find_warnings(found)
    assert said in as_text(found)


def test_a_usual_plan_warns_of_nothing_and_names_its_sources():
    found = plan_training(10**9, "8xH200", settings={"model": GPT2})
    assert find_warnings(found) == []
    text = as_text(found)
    assert "bench/results/gpt2.json" in text and "900 GB/s both ways" in text and "989 TFLOP/s" in text


def test_the_json_has_every_number_of_the_text():
    found = small("4xH200", optimizer="muon")
    told = json.loads(json.dumps(as_dict(found)))
    assert told["choice"] == "data parallel" and told["gpus"] == 4 and told["parameters"] == found.blueprint.parameters
    way = told["ways"]["data parallel"]
    assert way["memory_together"] == sum(way["memory"].values())
    assert way["step_seconds"] == way["compute_seconds"] + way["communicate_seconds"]
    assert way["hours"] == pytest.approx(way["step_seconds"] * told["steps"] / 3600)


# ------------------------------------------------------------------------------------------------------- machines


def test_gpus_and_links_are_read_as_people_write_them():
    assert {text: (find_machines(text, "100G").count, find_machines(text, "100G").gpu.name) for text in (
        "8xH200", "8 x h200", "H200", "2x8xH200", "4xrtx4090")} == {
            "8xH200": (8, "H200"), "8 x h200": (8, "H200"), "H200": (1, "H200"), "2x8xH200": (16, "H200"),
            "4xrtx4090": (4, "RTX4090")}
    assert find_machines("8xH200", None).link.speed == 450e9 and find_machines("8xL40S", None).link.name == "PCIe"
    assert find_machines("1xH200", "100G").link is None
    assert parse_link("100G", GPUS["H200"]).speed == 12.5e9
    assert 62.9e9 < PCIE_5 < 63.1e9


@pytest.mark.parametrize(("wish", "said"), [
    (dict(gpus="8"), "--gpus 8: write it as 8xH200, or 2x8xH200 for two machines"),
    (dict(gpus="8xH20"), "--gpus 8xH20: no figures of a GPU H20: did you mean H200?; known: H200"),
    (dict(gpus="0xH200"), "--gpus 0xH200: give 1 to 65,536 GPUs"),
    (dict(gpus="16xH200"), "--gpus 16xH200 stand in several machines: give what connects these, e.g. --link 400G"),
    (dict(gpus="2x8xH200"), "--gpus 2x8xH200 stand in several machines"),
    (dict(link="nvlnk"), "--link nvlnk: give nvlink, pcie, or gigabits a second, e.g. 100G: did you mean nvlink?"),
    (dict(link="0G"), "--link 0G: give nvlink"),
    (dict(gpus="8xL40S", link="nvlink"), "--link nvlink: the L40S has none"),
    (dict(family="ngram", model={}), "--family ngram is counted by one process, on a CPU: there is nothing to plan"),
    (dict(family="rrn"), "unknown family rrn: did you mean rnn?"),
    (dict(recompute="cheap"), "training.recompute = cheap: its memory was not measured; a plan knows no and some"),
    (dict(tokens=0), "--tokens 0: give at least 1"), (dict(batch=0), "training.batch = 0: must be at least 1")])
def test_a_wish_that_cannot_be_is_one_line(wish, said):
    with pytest.raises(SettingError, match="(?s)^" + said.replace("(", "\\(").replace("?", "\\?")):
        small(**wish)


def test_a_run_is_planned_with_its_own_settings(tmp_path, monkeypatch):
    from regard.training.run import train

    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a.txt").write_text("the cat sat on the mat\n" * 40)
    train(str(tmp_path / "a.txt"), family="gru", steps=1, quiet=True, out=str(tmp_path / "run"), device="cpu",
          settings={"model": {"hidden": 12}, "training": {"batch": 4, "optimizer": "adamw", "samples": False}})
    found = plan_training(10**6, "2xH200", run=tmp_path / "run")
    assert (found.model.name, found.blueprint.settings.hidden, found.blueprint.training.batch) == ("gru", 12, 4)
    again = plan_training(10**6, "2xH200", run=tmp_path / "run" / "run.toml")
    assert again.blueprint.parameters == found.blueprint.parameters
    wider = plan_training(10**6, "2xH200", run=tmp_path / "run", settings={"training": {"batch": 8}})
    assert wider.tokens_a_step == 2 * found.tokens_a_step
    with pytest.raises(SettingError, match=r"--params 1000: the model is that of .*run; leave it out"):
        plan_training(10**6, "2xH200", run=tmp_path / "run", params=1000)


def test_a_larger_model_is_deeper_and_has_the_parameters_that_were_wanted():
    found = plan_training(10**9, "8xH200", params=1_300 * 10**6)
    assert found.blueprint.settings.layers == 24                     # as GPT-3's of that size
    assert found.blueprint.parameters == pytest.approx(1.3e9, rel=0.05)
