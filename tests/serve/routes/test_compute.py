"""/api/compute and /api/presets: the arithmetic of a cell over HTTP, and one line for whatever is asked wrongly."""

import base64
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="serving needs the extra `web`")

TEXT = "Tom had a red kite"


@pytest.fixture
def seen(client):
    return client.post("/api/look", json={"model": "stories-transformer", "text": TEXT}).json()


@pytest.fixture
def cell(seen):
    return {"look": seen["id"], "track": "self", "layer": 1, "head": 2, "row": 4, "column": 1}


def numbers(sheet, name):
    found = next(each for each in sheet["quantities"] if each["name"] == name)
    kind = "<f4" if found["dtype"] == "float32" else "<f8"
    return np.frombuffer(base64.b64decode(found["values"]), kind).reshape(found["shape"])


def test_a_cell_is_told_with_its_steps_and_what_follows(client, seen, cell):
    from tests.serve.unpacking import unpack

    sheet = client.post("/api/compute", json=cell).json()
    assert [step["title"] for step in sheet["steps"]][-1] == "Values, weighed and added up"
    _, row = unpack(client.get(f"/api/look/{seen['id']}/self/row", params={"row": 4}).content)
    np.testing.assert_array_equal(numbers(sheet, "alpha"), next(iter(row.values()))[0, 1])
    said = max(sheet["next"]["tokens"], key=lambda each: each["before"])
    assert said["before"] == pytest.approx(seen["said"][4]["p"], abs=1e-6) or not seen["said"][4]["guess"]
    assert sheet["next"]["moved"] is None and sheet["names"]["columns"][1] == "Tom"


def test_edited_scores_move_what_follows_and_the_same_ones_do_not(client, cell):
    sheet = client.post("/api/compute", json=cell).json()
    own = [float(e) if np.isfinite(e) else None for e in numbers(sheet, "e")]
    same = client.post("/api/compute", json=cell | {"scores": own}).json()
    assert same["next"]["moved"] == 0
    hidden = client.post("/api/compute", json=cell | {"scores": [None, *own[1:]]}).json()
    assert hidden["next"]["moved"] > 0 and hidden["edited"]["alpha"][0] == 0


def test_an_ngram_and_a_translator_are_told_too(client):
    for model, more in (("stories-ngram", {"text": TEXT}), ("phrasebook", {"source": "le chat dort"})):
        seen = client.post("/api/look", json={"model": model, **more}).json()
        for track in seen["tracks"]:
            answer = client.post("/api/compute", json={
                "look": seen["id"], "track": track["name"], "layer": 1, "head": 1, "row": 0, "column": 0})
            assert answer.status_code == 200 and answer.json()["steps"]


@pytest.mark.parametrize(("change", "status", "message"), [
    ({"row": 99}, 400, "row = 99: self has 6, counted from 0"), ({"layer": 0}, 422, "layer"),
    ({"track": "other"}, 404, "this look has no track other"), ({"look": "0" * 32}, 404, "no longer held"),
    ({"scores": [0.0]}, 400, "1 scores were given for a row of 6"), ({"scores": [1e30] * 6}, 422, "scores"),
    ({"track": "influence-occlusion", "head": 1, "scores": [0.0] * 6}, 400, "scores can be edited of attention only"),
    ({"more": 1}, 422, "more")])
def test_what_cannot_be_done_is_said_in_a_line(client, cell, change, status, message):
    answer = client.post("/api/compute", json=cell | change)
    assert answer.status_code == status and message in answer.json()["error"]["message"]


def test_presets_are_listed_and_told_with_their_fractions(client):
    listed = client.get("/api/presets").json()["presets"]
    assert listed[0]["name"] == "aaba" and listed[0]["bases"] == ["e", "3"]
    for preset in listed:
        assert client.get(f"/api/presets/{preset['name']}").status_code == 200
    sheet = client.get("/api/presets/aaba", params={"column": 2}).json()
    assert next(each for each in sheet["quantities"] if each["name"] == "alpha")["exact"] == ["1/6", "1/6", "1/2",
                                                                                              "1/6"]
    assert client.get("/api/presets/other").json()["error"]["code"] == "preset_unknown"
    assert client.get("/api/presets/aaba", params={"column": 9}).status_code == 400
    assert client.get("/api/presets/aaba", params={"base": "2"}).status_code == 422


def test_every_worked_example_is_a_preset_and_told_line_by_line(client):
    from regard.lab.worked import examples

    listed = client.get("/api/presets").json()
    rows = {each["name"] for each in listed["presets"]}
    assert [each["name"] for each in listed["worked"]] == [f"worked-{name}" for name in examples()]
    for each in listed["worked"]:
        told = client.get(f"/api/presets/{each['name']}/lines").json()
        assert {name: told[name] for name in each} == each and each["about"] and set(each["presets"]) <= rows
        assert told["lines"] and all(line["equal"] and line["by"] for line in told["lines"])


def test_lines_have_their_fractions_and_a_matrix_its_rows(client):
    told = client.get("/api/presets/worked-location/lines").json()
    assert told["lines"][-1] == {"what": "in numbers", "by": "fractions", "ours": "378/37 168/37",
                                 "expected": "378/37 168/37", "row": 0, "equal": True}
    assert told["title"] == "Location-linear attention is a special case" and told["source"] == "lecture 003"
    table = client.get("/api/presets/worked-sinusoids/lines").json()["lines"][0]
    assert table["row"] == 6 and len(table["expected"].split()) == 30


def test_what_is_no_worked_example_has_no_lines(client):
    for name in ("other", "aaba"):
        answer = client.get(f"/api/presets/{name}/lines")
        assert answer.status_code == 404 and answer.json()["error"]["code"] == "preset_unknown"
        assert answer.json()["error"]["message"] == f"there is no worked example {name}"
    assert client.get("/api/presets/WORKED/lines").status_code == 422


def test_worked_examples_are_worked_out_once_in_a_worker_and_told_as_they_came_out(client, monkeypatch):
    from regard.lab import worked
    from regard.serve.routes import compute

    ran = []
    wrong = worked.Example("wrong", "Wrong", "nowhere", lambda: [worked.line("1 = 2", "nobody", 1, 2)])

    def examples():
        ran.append(threading.current_thread().name)
        return {"wrong": wrong}

    monkeypatch.setattr(worked, "examples", examples)
    compute._work_out_examples.cache_clear()
    try:
        with ThreadPoolExecutor(4) as four:
            answers = list(four.map(client.get, ["/api/presets/worked-wrong/lines"] * 8))
    finally:
        compute._work_out_examples.cache_clear()
    assert [answer.json()["lines"][0]["equal"] for answer in answers] == [False] * 8
    assert len(ran) == 1 and ran[0].startswith("regard")
