"""Trackers get the rows of metrics.jsonl, the settings and nothing else; one that fails costs a note."""

import json
import os
import sqlite3
import subprocess
import sys
import types
from importlib.util import find_spec
from pathlib import Path

import pytest

import regard
from regard.cli import main
from regard.errors import RegardNote, SettingError
from regard.run_folder import read_log
from regard.training.trackers import OpenTrackers, check_trackers

SMALL = {"model": dict(layers=1, width=16, heads=2, context=16, dropout=0.0), "tokenizer": dict(kind="char"),
         "training": dict(steps=2, batch=4, compile="no")}


@pytest.fixture(autouse=True)
def text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("WANDB_PROJECT", "TRACKIO_PROJECT", "TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "text.txt").write_text("the cat sat on the mat\n" * 100)


def train(out="run", family="transformer", settings=SMALL, **options):
    regard.train("text.txt", out=out, family=family, settings=settings, quiet=True, device="cpu", **options)
    return read_log(Path(out, "metrics.jsonl"))[0]


def figures(rows):
    return [({name: value for name, value in row.items() if name not in ("step", "seconds")}, row["step"])
            for row in rows]


class FakeWandb(types.ModuleType):
    """wandb as far as it is used; every call is written down."""

    def __init__(self):
        super().__init__("wandb")
        self.calls, self.fails = [], ""

    def Settings(self, **given):
        return given

    def init(self, **given):
        self.calls.append(("init", given))
        if self.fails == "init":
            raise RuntimeError("api_key not configured\nmore lines")
        made = self

        class Run:
            id = given["id"] or "abc123"

            def log(self, values, step):
                if made.fails == "log":
                    raise OSError("no space left")
                made.calls.append(("log", values, step))

            def finish(self):
                made.calls.append(("finish",))

        return Run()


class FakeTrackio(FakeWandb):
    def __init__(self):
        super().__init__()
        self.__name__ = "trackio"

    def init(self, **given):
        self.run = super().init(**{**given, "id": None})
        return self.run

    def finish(self):
        self.run.finish()


@pytest.fixture
def wandb(monkeypatch):
    made = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", made)
    return made


@pytest.fixture
def trackio(monkeypatch):
    made = FakeTrackio()
    monkeypatch.setitem(sys.modules, "trackio", made)
    return made


def test_wandb_gets_every_row_the_settings_and_no_path(wandb, tmp_path):
    rows = train(log="wandb")
    (name, given), *rest = wandb.calls
    assert rest[:-1] == [("log", values, step) for values, step in figures(rows)] and rest[-1] == ("finish",)
    assert name == "init" and {key: given[key] for key in ("project", "name", "dir", "id", "resume")} == {
        "project": "regard", "name": "run", "dir": "run", "id": None, "resume": None}
    assert given["settings"] == {"console": "off", "disable_git": True, "disable_code": True, "save_code": False,
                                 "x_disable_stats": True, "x_disable_meta": True, "x_disable_machine_info": True}
    assert set(given["config"]) == {"run", "tokenizer", "model", "training"}
    assert given["config"]["model"]["width"] == 16 and given["config"]["training"]["steps"] == 2
    assert "text.txt" not in str(given["config"]) and str(tmp_path) not in str(given)


def test_a_run_that_goes_on_goes_on_in_the_same_run_of_wandb(wandb, monkeypatch):
    first = train(log=["wandb"])
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    wandb.calls.clear()
    rows = train(log=("wandb",), resume=True, family=None, settings={"training": {"steps": 4}})
    (_, given), *rest = wandb.calls
    assert (given["id"], given["resume"], given["project"]) == ("abc123", "allow", None)
    new = rows[len(first):]
    assert rest[:-1] == [("log", values, step) for values, step in figures(new)] and new
    Path("run/trackers.json").write_text("{torn")
    wandb.calls.clear()
    train(log="wandb", resume=True, family=None, settings={"training": {"steps": 5}})
    assert wandb.calls[0][1]["id"] is None


def test_trackio_stays_on_this_machine_and_does_not_watch_it(trackio):
    rows = train(log="trackio")
    (_, given), *rest = trackio.calls
    config = given.pop("config")
    assert given == {"project": "regard", "name": "run", "resume": "never", "embed": False, "auto_log_cpu": False,
                     "auto_log_gpu": False, "id": None}
    assert config["run"] == {"task": "lm", "family": "transformer"}
    assert rest == [*(("log", values, step) for values, step in figures(rows)), ("finish",)]
    trackio.calls.clear()
    train(log="trackio", resume=True, family=None, settings={"training": {"steps": 3}})
    assert trackio.calls[0][1]["resume"] == "allow"


def test_a_counted_family_is_tracked_by_its_one_row(wandb):
    rows = train(family="ngram", settings={"tokenizer": {"kind": "char"}}, log="wandb")
    assert wandb.calls[1:] == [("log", figures(rows)[0][0], 1), ("finish",)] and "valid_loss" in wandb.calls[1][1]


def test_the_option_may_stand_twice_or_hold_commas(wandb, trackio):
    counted = ["train", "lm", "text.txt", "--family", "ngram", "--quiet"]
    main([*counted, "--out", "a", "--log", "wandb", "--log", "trackio"])
    main([*counted, "--out", "b", "--log", "wandb, trackio,wandb"])
    for made in (wandb, trackio):
        assert [call[0] for call in made.calls] == ["init", "log", "finish"] * 2
    assert check_trackers(["wandb,", "", " trackio"], tensorboard=False) == ("wandb", "trackio")


def test_a_tracker_that_is_unknown_or_missing_is_refused_before_anything_is_read(monkeypatch, capsys):
    with pytest.raises(SettingError, match=r"--log wandbb: there is no such tracker: did you mean wandb\?"):
        train(log="wandbb")
    for name in ("wandb", "trackio", "tensorboard"):
        monkeypatch.setattr("regard.training.trackers.find_spec", lambda package: None)
        with pytest.raises(SettingError, match=rf"--log {name} needs the package {name}: pip install "
                                               rf"'regard\[{name}\]'"):
            train(log=name)
    with pytest.raises(SystemExit):
        main(["train", "lm", "text.txt", "--tensorboard"])
    assert "regard[tensorboard]" in capsys.readouterr().err
    assert not Path("run").exists() and not Path("runs").exists()


def test_a_tracker_that_does_not_start_is_one_line_and_the_others_are_closed(wandb, trackio):
    wandb.fails = "init"
    with pytest.raises(SettingError, match=r"--log wandb: it does not start \(api_key not configured\)$"):
        train(log="trackio,wandb")
    assert trackio.calls[-1] == ("finish",)
    assert not [call for call in trackio.calls if call[0] == "log"]


def test_a_tracker_that_fails_is_left_and_training_goes_on(wandb, trackio):
    wandb.fails = "log"
    with pytest.warns(RegardNote, match=r"--log wandb failed \(no space left\) and is left: metrics\.jsonl has every"):
        rows = train(log="wandb,trackio")
    assert [row["step"] for row in rows if "valid_loss" in row][-1] == 2
    assert len([call for call in trackio.calls if call[0] == "log"]) == len(rows)
    assert [call[0] for call in wandb.calls] == ["init"]


# ------------------------------------------------------------------------------------------ the packages themselves


@pytest.mark.parametrize("option", [["--log", "tensorboard"], ["--tensorboard"]])
def test_tensorboard_holds_the_rows(option):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    main(["train", "lm", "text.txt", "--family", "transformer", "--layers", "1", "--width", "16", "--heads", "2",
          "--context", "16", "--steps", "2", "--batch", "4", "--out", "run", "--quiet", "--device", "cpu", *option])
    found = EventAccumulator("run/tensorboard").Reload()
    rows, _ = read_log(Path("run/metrics.jsonl"))
    wanted = {(name, step): value for values, step in figures(rows) for name, value in values.items()}
    held = {(name, event.step): event.value for name in found.Tags()["scalars"] for event in found.Scalars(name)}
    assert held == pytest.approx(wanted, rel=1e-6)


def test_wandb_itself_keeps_the_rows_offline(monkeypatch, tmp_path):
    pytest.importorskip("wandb", reason="wandb is not installed (regard[wandb])")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    rows = train(log="wandb")
    (file,) = Path("run/wandb").glob("offline-run-*/run-*.wandb")
    held = file.read_bytes()
    assert f"{rows[-1]['valid_loss']:.5f}"[:6].encode() in held and b"text.txt" not in held
    assert str(tmp_path).encode() not in held.replace(str(tmp_path / "run").encode(), b"")
    assert json.loads(Path("run/trackers.json").read_text())["wandb"] in file.name


def test_trackio_itself_keeps_the_rows_on_this_machine(tmp_path):
    """In a process of its own, as the folder is read from the environment when trackio is imported."""
    if find_spec("trackio") is None:
        pytest.skip("trackio is not installed (regard[trackio])")
    done = subprocess.run([sys.executable, "-m", "regard", "train", "lm", "text.txt", "--family", "ngram", "--out",
                           "run", "--quiet", "--json", "--log", "trackio"], capture_output=True, text=True,
                          env={**os.environ, "TRACKIO_DIR": str(tmp_path / "trackio"),
                               "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["run"] == "run"                               # and nothing else stands there
    rows, (file,) = read_log(Path("run/metrics.jsonl"))[0], (tmp_path / "trackio").rglob("regard.db")
    with sqlite3.connect(file) as held:
        kept = sorted(held.execute("SELECT step, metrics FROM metrics"))
    assert [(json.loads(values), step) for step, values in kept] == figures(rows)


def test_a_row_without_figures_is_no_trouble():
    trackers = OpenTrackers((), Path("run"), {}, False)
    trackers.row({"step": 1, "seconds": 0.5, "first_impossible": ["a"]})
    trackers.close()
