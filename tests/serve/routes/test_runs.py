"""Runs as they grow: nothing is read twice, no spike is lost, and who was cut off goes on where it was."""

import json
import os
import time
from http.client import HTTPConnection

import numpy as np
import pytest

from regard.config import write_toml
from regard.serve.damage import Damaged
from regard.serve.routes.runs import MOST_LINES, news
from regard.serve.run_curves import curves, decimate, shares
from regard.serve.run_logs import FollowedRun, Runs
from regard.serve.server import ServerSettings


def line(step, **values):
    return json.dumps({"step": step, "tokens": 10 * step, "seconds": step / 10, **values}) + "\n"


@pytest.fixture
def run(tmp_path):
    """A run's folder without a model, as one in training has it."""
    folder = tmp_path / "growing"
    folder.mkdir()
    (folder / "run.toml").write_text(write_toml({"run": {"task": "lm", "family": "rnn"}, "training": {"steps": 1000}}))
    (folder / "metrics.jsonl").write_text("".join(line(step, train_loss=2 / step) for step in range(1, 11)))
    return folder


def write(run, text, name="metrics.jsonl"):
    with open(run / name, "a") as file:
        file.write(text)


# --------------------------------------------------------------------------------------------- following


def test_a_line_is_taken_when_it_is_whole_and_never_twice(run, monkeypatch):
    followed = FollowedRun("x", run, False)
    followed.advance()
    assert followed.table.rows == 10
    taken = []
    monkeypatch.setattr(followed.metrics, "take", taken.append)
    followed.advance()
    write(run, '{"step": 11, "train')
    followed.advance()
    assert taken == []
    write(run, '_loss": 0.5}\n')
    followed.advance()
    assert taken == [{"step": 11, "train_loss": 0.5}]


def test_a_log_without_bytes_is_not_read_through_and_a_line_without_end_is_not_kept(run, monkeypatch):
    with open(run / "samples.jsonl", "wb") as file:
        file.truncate(2**40)
    followed = FollowedRun("x", run, False)
    with pytest.raises(Damaged, match=r"samples.jsonl cannot be read .it has more than 536,870,912 bytes"):
        followed.advance()
    (run / "samples.jsonl").unlink()

    monkeypatch.setattr("regard.serve.run_logs.BLOCK", 100)
    for part in ("{" + 250 * " ", '"step": 12, "x": "' + 250 * "y", '", "step": 12}\n' + line(13)):
        write(run, part)
        followed.advance()
        assert len(followed.metrics.rest) <= 100
    assert followed.metrics.bad == 1 and followed.table.column("step")[-2:].tolist() == [10, 13]


def test_a_log_that_was_cut_is_read_again(run):
    followed = FollowedRun("x", run, False)
    followed.advance()
    cursor = followed.cursor
    part = run / "part"
    part.write_text("".join(line(step, train_loss=1.0) for step in range(1, 6)))
    os.replace(part, run / "metrics.jsonl")
    followed.advance()
    assert followed.table.rows == 5 and followed.after(cursor) is None
    (_, (message,)) = news(followed, cursor)
    assert message.startswith(b"event: reset\n")
    # The same number of lines again, but others: the cursor is of another log.
    write(run, "".join(json.dumps({"step": s, "seconds": s / 7, "train_loss": 3.0}) + "\n" for s in range(6, 11)))
    followed.advance()
    assert followed.table.rows == 10 and followed.after(cursor) is None


def test_a_column_that_comes_later_and_what_is_no_number(run):
    followed = FollowedRun("x", run, False)
    write(run, line(11, valid_loss=1.5, note="text", good=True) + "not json\n[1]\n" + line(12, valid_loss=float("inf")))
    followed.advance()
    found = curves(followed, 100, 0)
    assert set(found) == {"train_loss", "valid_loss"}
    assert found["valid_loss"]["step"] == [11.0] and found["valid_loss"]["infinite"] == 1
    assert found["train_loss"]["count"] == 10
    assert curves(followed, 100, 8)["train_loss"]["step"] == [9.0, 10.0]
    assert curves(followed, 100, 0, first=3, last=4)["train_loss"]["step"] == [3.0, 4.0]


@pytest.mark.parametrize("place", [0, 1, 49_999, 77_777, 99_999])
@pytest.mark.parametrize("points", [4, 100, 2000])
def test_a_spike_of_one_step_survives_thinning(place, points):
    values = np.sin(np.arange(100_000) / 500)
    values[place] = 50.0
    chosen = decimate(values, points)
    assert place in chosen and len(chosen) <= points
    assert (np.diff(chosen) > 0).all() and chosen[0] == 0 and chosen[-1] == 99_999
    mean, weight = shares(values, chosen)
    assert weight.sum() == 100_000 and (mean * weight).sum() == pytest.approx(values.sum())


def test_taking_every_hundredth_would_have_lost_it():
    values = np.zeros(100_000)
    values[77_777] = 50.0
    assert values[::100].max() == 0 and values[decimate(values, 1000)].max() == 50


def test_whether_it_runs_is_told_by_its_log(run):
    followed = FollowedRun("x", run, False)
    told = followed.about()
    assert (told["state"], told["step"], told["steps"]) == ("running", 10, 1000)
    old = time.time() - 7300
    os.utime(run / "metrics.jsonl", (old, old))
    assert followed.about()["state"] == "stopped" and "2 hours" in followed.about()["how"]
    write(run, line(1000, train_loss=0.1, valid_loss=0.25))
    assert followed.about()["state"] == "finished"
    assert followed.about()["best"] == {"name": "valid_loss", "value": 0.25, "step": 1000}


def test_runs_beside_the_served_ones_are_found_when_they_come(run, tmp_path):
    runs = Runs({"mine": run}, [tmp_path])
    assert [each.id for each in runs.all()] == ["mine"]
    other = tmp_path / "mine"
    other.mkdir()
    (other / "run.toml").write_text("broken = [")
    assert [each.id for each in runs.all()] == ["mine", "mine-2"]
    told = runs.about()
    assert told[0]["state"] == "running" and told[1]["state"] == "damaged"


# ------------------------------------------------------------------------------------------------- routes


@pytest.fixture
def following(running, run):
    """A real server that shows the runs of the folder in which `run` lies."""
    return running(ServerSettings(runs=run.parent))


def get(server, path, **headers):
    connection = HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def told(response):
    """The next event: its name, its cursor and its value."""
    found = {}
    while True:
        text = response.readline().decode().rstrip("\n")
        if text.startswith(":") or text.startswith("retry"):
            continue
        if not text and "data" in found:
            return found["event"], found["id"], json.loads(found["data"])
        if text:
            name, _, value = text.partition(": ")
            found[name] = value


def test_runs_are_listed_with_those_beside_them(client, runs):
    found = client.get("/api/runs").json()["runs"]
    mine = next(each for each in found if each["id"] == "stories-transformer")
    assert mine["served"] and mine["state"] == "finished" and mine["family"] == "transformer"
    assert str(runs) not in json.dumps(found)
    samples = client.get("/api/runs/stories-transformer/samples").json()["samples"]
    assert samples[-1]["step"] == mine["step"] and samples[-1]["map"]["shades"]
    assert client.get("/api/runs/nobody/metrics").status_code == 404
    assert client.get("/api/runs/nobody/events").status_code == 404
    assert client.get("/api/runs/stories-transformer/metrics?points=1").status_code == 422


def test_a_new_line_arrives_soon_and_a_cursor_goes_on_from_it(following, run):
    first = json.loads(get(following, "/api/runs/growing/metrics").read())
    assert first["lines"] == 10
    listening = get(following, f"/api/runs/growing/events?after={first['cursor']}")
    assert listening.getheader("content-type").startswith("text/event-stream")
    began = time.monotonic()
    write(run, line(11, train_loss=9.0))
    name, cursor, value = told(listening)
    assert time.monotonic() - began < 10
    assert (name, value["step"], value["train_loss"]) == ("metrics", 11, 9.0)
    write(run, json.dumps({"step": 11, "seconds": 1.1, "took": 0.1, "kind": "lm", "text": "é"}) + "\n", "samples.jsonl")
    name, _, value = told(listening)
    assert (name, value["text"]) == ("sample", "é")
    listening.close()
    write(run, line(12, train_loss=8.0) + line(13, train_loss=7.0))
    again = get(following, "/api/runs/growing/events", **{"Last-Event-ID": cursor})
    assert [told(again)[2]["step"] for _ in range(2)] == [12, 13]
    assert told(again)[0] == "sample"


def test_a_cursor_of_another_log_and_one_far_behind_are_told_to_begin_anew(following, run):
    assert told(get(following, "/api/runs/growing/events?after=nonsense"))[0] == "reset"
    first = json.loads(get(following, "/api/runs/growing/metrics").read())
    write(run, "".join(line(step, train_loss=1.0) for step in range(11, 13 + MOST_LINES)))
    name, cursor, value = told(get(following, f"/api/runs/growing/events?after={first['cursor']}"))
    assert (name, value["lines"]) == ("reset", 12 + MOST_LINES)
    write(run, line(99_999, train_loss=1.0))
    assert told(get(following, f"/api/runs/growing/events?after={cursor}"))[2]["step"] == 99_999


def test_listeners_that_leave_are_forgotten_and_too_many_are_refused(following, run, monkeypatch):
    monkeypatch.setattr("regard.serve.routes.runs.LISTENERS", 3)
    open_ones = [get(following, "/api/runs/growing/events") for _ in range(3)]
    for each in open_ones:
        each.readline()
    assert get(following, "/api/runs/growing/events").status == 429
    for each in open_ones:
        each.close()
    until = time.monotonic() + 5
    while following.app.state.listening and time.monotonic() < until:
        time.sleep(0.05)
    assert following.app.state.listening == 0


def test_a_hundred_thousand_lines_are_read_once(run):
    (run / "metrics.jsonl").write_text("".join(line(s, train_loss=1.0 + (s == 54_321) * 40) for s in range(1, 100_001)))
    followed = FollowedRun("x", run, False)
    followed.advance()
    began = time.monotonic()
    for _ in range(200):
        followed.advance()
    assert time.monotonic() - began < 10                   # a look at a log that has not grown costs one stat
    found = curves(followed, 2000, 0)["train_loss"]
    assert 54_321 in found["step"] and max(found["value"]) == 41
    assert len(found["value"]) <= 2000
