import dataclasses

import pytest

from regard.compare.plan import ComparisonPlan, Wanted, make_plan
from regard.errors import RunError, SettingError
from regard.families.fit import TOLERANCE

from .conftest import SMALL


def wanted(**changes):
    return Wanted(("text.txt",), **{"families": ("rnn", "transformer"), "device": "cpu", "steps": 2,
                                    "settings": {"tokenizer": {"kind": "char"}}, **changes})


def test_every_trained_family_has_the_parameters_asked_for():
    plan = make_plan(wanted(params=50_000))
    sizes = {entry.family: entry.parameters for entry in plan.entries}
    assert sizes.pop("ngram") is None
    assert sizes.keys() == {"rnn", "transformer"}
    assert all(abs(size - 50_000) <= TOLERANCE * 50_000 for size in sizes.values())


def test_parameters_that_no_size_gives_are_refused_before_anything_is_trained():
    with pytest.raises(SettingError, match="--params 20: the nearest"):
        make_plan(wanted(params=20))


def test_a_size_and_a_number_of_parameters_cannot_both_be_said():
    with pytest.raises(SettingError, match=r"--params 50,000 chooses model.hidden = \d+, not 12: leave one"):
        make_plan(wanted(params=50_000, settings={"rnn": {"hidden": 12}}))


def test_the_baseline_stands_in_every_plan_and_is_counted_first():
    plan = make_plan(wanted(families=("rnn",), seeds=2, orders=(3, 5)))
    assert [trial.name for trial in plan.trials()] == ["ngram-order3", "ngram-order5", "rnn-0", "rnn-1"]


def test_seeds_take_turns():
    names = [trial.name for trial in make_plan(wanted(seeds=2, orders=(2,))).trials()]
    assert names == ["ngram-order2", "rnn-0", "transformer-0", "rnn-1", "transformer-1"]


def test_a_setting_may_be_for_all_or_for_one(tmp_path):
    settings = {"model": {"dropout": "0.5"}, "rnn": {"hidden": "12", "training.batch": "3"}, "training": {"batch": "8"}}
    plan = make_plan(wanted(settings=settings))
    entries = {entry.family: entry.model for entry in plan.entries}
    assert entries["rnn"]["hidden"] == 12 and entries["rnn"]["dropout"] == entries["transformer"]["dropout"] == 0.5
    batches = {t.family: plan.request(t, tmp_path).settings["training"]["batch"] for t in plan.trials()}
    assert batches == {"ngram": "8", "rnn": "3", "transformer": "8"}


@pytest.mark.parametrize("changes, message", [
    (dict(minutes=1.0), "--minutes and --steps: one budget for all"),
    (dict(steps=0), "--steps 0: must be above 0"),
    (dict(seeds=0), "--seeds 0: must be at least 1"),
    (dict(families=("rn",)), "unknown family rn: did you mean rnn"),
    (dict(orders=(9,)), "order 9: an n-gram has between 1 and 7 words"),
    (dict(settings={"lstmm": {"hidden": "1"}}), "--set lstmm.…: there is no such table"),
    (dict(settings={"model": {"hiden": "1"}}), "--set model.hiden: none of the families"),
    (dict(settings={"rnn": {"hiden": "1"}}), "unknown setting model.hiden: did you mean model.hidden"),
    (dict(settings={"training": {"bach": "1"}}), "unknown setting training.bach: did you mean training.batch"),
])
def test_a_mistake_is_one_line(changes, message):
    with pytest.raises(SettingError, match=message.replace(".", r"\.")):
        make_plan(wanted(**changes))


def test_a_plan_is_kept_and_read_back(tmp_path):
    plan = make_plan(wanted(settings=SMALL))
    plan.save(tmp_path)
    again = ComparisonPlan.load(tmp_path)
    assert again == plan and again.trials() == plan.trials()
    with pytest.raises(RunError, match="there is no comparison at"):
        ComparisonPlan.load(tmp_path / "nowhere")
    (tmp_path / "compare.json").write_text("{}")
    with pytest.raises(RunError, match="is damaged"):
        ComparisonPlan.load(tmp_path)


def test_families_seeds_and_orders_may_be_added(tmp_path):
    before = make_plan(wanted(families=("rnn",), seeds=2, orders=(3,)))
    joined = before.joined(make_plan(wanted(families=("transformer",), seeds=1, orders=(2,))), tmp_path)
    assert [entry.family for entry in joined.entries] == ["ngram", "rnn", "transformer"]
    assert joined.seeds == 2 and joined.orders == (2, 3)


@pytest.mark.parametrize("changes, message", [
    (dict(steps=3), "with budget steps 2, not steps 3"),
    (dict(params=40_000), "with params unset, not 40000"),
    (dict(settings={"tokenizer": {"kind": "byte"}}), "with text content|with text documents|with text tokenizer char"),
    (dict(settings={"tokenizer": {"kind": "char"}, "training": {"batch": "4"}}), "with training.batch unset, not 4"),
    (dict(settings={"tokenizer": {"kind": "char"}, "rnn": {"dropout": "0.1"}}), "with rnn.dropout unset, not 0.1"),
])
def test_anything_else_is_refused_and_named(changes, message, tmp_path):
    before = make_plan(wanted(families=("rnn",)))
    with pytest.raises(SettingError, match=message):
        before.joined(make_plan(wanted(**{"families": ("rnn",), **changes})), tmp_path)


def test_another_text_is_refused(tmp_path):
    before = make_plan(wanted())
    (tmp_path / "text.txt").write_text("another text entirely\n" * 100)
    with pytest.raises(SettingError, match="holds a comparison with text content"):
        before.joined(make_plan(wanted()), tmp_path)


def test_the_command_makes_the_same_plan(tmp_path):
    from regard.cli.compare import split_assignments

    plan = make_plan(wanted(params=50_000, settings={"tokenizer": {"kind": "char"}, "rnn": {"dropout": "0.1"}}))
    words = plan.command("out").split()
    sets = tuple(words[n + 1] for n, word in enumerate(words) if word == "--set")
    assert ("rnn", "dropout", "0.1") in split_assignments(sets, ())
    assert words[:4] == ["regard", "compare", "lm", "text.txt"] and words[-2:] == ["--out", "out"]


def test_two_families_that_would_share_a_folder_are_refused(monkeypatch):
    from regard.families import FAMILIES
    from regard.tasks import TASKS

    for name in ("a:b", "a-b"):
        monkeypatch.setitem(FAMILIES, name, dataclasses.replace(FAMILIES["rnn"], name=name))
    monkeypatch.setattr("regard.compare.plan.task_named", lambda name: dataclasses.replace(
        TASKS[name], find_family=FAMILIES.__getitem__))
    with pytest.raises(SettingError, match="share a folder"):
        make_plan(wanted(families=("a:b", "a-b")))
