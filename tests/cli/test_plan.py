"""`regard plan`, through the command itself: its table, its JSON, and one line for each mistake."""

import json

import pytest

ASKED = ["plan", "--tokens", "1B", "--gpus", "4xH200", "--layers", "2", "--width", "64", "--heads", "2",
         "--vocab", "500"]


def test_the_table_and_the_json(regard):
    lines = regard(*ASKED).done().splitlines()
    assert lines[0].startswith("model      transformer, ")
    assert lines[2].startswith("machines   4 x H200 of 141 GB, NVLink")
    hours = next(line.split() for line in lines if line.startswith("hours"))
    told = json.loads(regard(*ASKED, "--json").done())
    assert [f"{way['hours']:,.2f}" for way in told["ways"].values()] == hours[1:]
    assert any(line.startswith("choice     data parallel: ") for line in lines)
    assert any(line.startswith("sources    speed") for line in lines)


@pytest.mark.parametrize(("more", "said"), [
    (["--gpus", "8xH201"], "--gpus 8xH201: no figures of a GPU H201: did you mean H200"),
    (["--link", "fast"], "--link fast: give nvlink, pcie, or gigabits a second, e.g. 100G"),
    (["--params", "1M", "--width", "32"], "--params 1,000,000 chooses model.width"),
    (["nowhere"], "there is no run at nowhere"),
    (["--set", "model.widht=8"], "unknown setting model.widht: did you mean model.width?")])
def test_a_mistake_is_one_line(regard, more, said):
    assert regard(*ASKED, *more).mistake().startswith(said)


def test_an_argument_that_is_missing_is_wrong_usage(regard):
    assert regard("plan", "--gpus", "8xH200").code == 2
