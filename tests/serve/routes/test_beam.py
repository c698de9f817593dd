"""The routes of the search tree and of the comparison: what the library says, as JSON; one line for each mistake."""

import base64
import math

import pytest
import torch

pytest.importorskip("fastapi", reason="serving needs the extra `web`")

from fastapi.testclient import TestClient

import regard
from regard.decoding.beam import BeamOptions
from regard.look.beam_tree import beam_tree
from regard.look.picture import example_picture
from regard.serve.app import make_app
from regard.serve.registry import Registry
from regard.serve.result_json import as_json
from tests.served_runs import shared_folder, train

NAMES = ("stories-transformer", "stories-rnn", "stories-mamba", "stories-ngram", "phrasebook", "phrasebook-transformer",
         "shapes")
LINE, TEXT = "Le chat noir dort.", "Tom had a red ball."


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = shared_folder(tmp_path_factory)
    train(folder, NAMES)
    return folder / "runs"


@pytest.fixture(scope="module")
def client(runs):
    torch.set_num_threads(1)
    app = make_app(Registry([runs / name for name in NAMES], device="cpu"))
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        yield client


def beam(client, **ask):
    return client.post("/api/beam", json=ask)


def compare(client, *models, **ask):
    return client.post("/api/side-by-side", json={"models": models, **ask})


def refused(response, status, words):
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert words in error["message"] and "\n" not in error["message"]
    assert set(error) == {"message", "type", "param", "code"}


def test_a_translation_is_searched(client, runs):
    told = beam(client, model="phrasebook", text=LINE, width=3, length_penalty=0.5, coverage=0.25).json()
    own = beam_tree(regard.load(runs / "phrasebook", device="cpu"), LINE,
                    BeamOptions(width=3, length=0.5, coverage=0.25))
    assert told == as_json(own)


def test_a_prompt_is_continued_and_a_prefix_forced(client):
    ask = dict(model="stories-transformer", text="Tom had", width=2, new_tokens=4)
    free = beam(client, **ask).json()
    other = next(node for node in free["columns"][0] if not node["kept"] and node["token"] > 3)
    forced = beam(client, **ask, force=[other["token"]]).json()
    assert forced["force"] == [other["token"]] == [each["tokens"][0] for each in forced["finished"]][:1]
    assert forced["columns"][0][0]["why"] in ("forced", "another token was forced here")
    (on,) = [node for node in forced["columns"][0] if node["kept"]]
    assert on["token"] == other["token"] and on["total"] == pytest.approx(other["total"], abs=1e-5)


def test_a_picture_is_captioned_by_name_or_as_a_file(client):
    by_name = beam(client, model="shapes", image="shapes-1", width=2)
    as_file = beam(client, model="shapes", image=base64.b64encode(example_picture("shapes-1")).decode(), width=2)
    assert by_name.status_code == 200 and by_name.json() == as_file.json()


@pytest.mark.parametrize(("ask", "status", "words"), [
    (dict(model="nobody", text="a"), 404, "nobody"),
    (dict(model="phrasebook"), 422, "reads a text"),
    (dict(model="shapes", text="a"), 422, "reads a picture"),
    (dict(model="shapes", image="no picture!"), 400, "base64"),
    (dict(model="shapes", image=base64.b64encode(b"nothing").decode()), 400, "picture"),
    (dict(model="phrasebook", text="   "), 400, "blank"),
    (dict(model="phrasebook", text=LINE, width=17), 422, "width"),
    (dict(model="phrasebook", text=LINE, length_penalty=-1), 422, "length_penalty"),
    (dict(model="phrasebook", text=LINE, force=[2]), 400, "has the end"),
    (dict(model="phrasebook", text=LINE, force=[10**6]), 400, "tokens go from 0"),
    (dict(model="phrasebook", text="a" * 10_001), 422, "text"),
    (dict(model="stories-ngram", text="Tom", coverage=1), 400, "--coverage"),
])
def test_mistakes_of_a_search_are_said_in_one_line(client, ask, status, words):
    refused(beam(client, **ask), status, words)


def test_models_are_compared_on_a_text(client, runs):
    names = ("stories-transformer", "stories-rnn", "stories-ngram", "stories-mamba")
    told = compare(client, *names, text=TEXT).json()
    assert told["kind"] == "text" and [model["id"] for model in told["models"]] == list(names)
    for model in told["models"]:
        surprise = regard.load(runs / model["id"], device="cpu").score(TEXT)
        assert model["bits"] == pytest.approx(surprise.nats / math.log(2), rel=1e-6)
        assert sum(model["per_character"]) == pytest.approx(model["bits"])
        assert len(model["tokens"]) == surprise.tokens and all(len(each[4]) == 10 for each in model["tokens"])
    distances = {(pair["a"], pair["b"]): pair["js"] for pair in told["pairs"]}
    assert len(distances) == 6 and distances[names[0], names[1]] is not None and distances[names[0], names[3]] is None


def test_translators_and_captioners_are_compared_on_a_source(client):
    told = compare(client, "phrasebook", "phrasebook-transformer", text=LINE).json()
    assert told["kind"] == "written" and all(len(model["judged"]) == 2 for model in told["models"])


@pytest.mark.parametrize(("models", "ask", "status", "words"), [
    (["stories-rnn"], dict(text="a"), 422, "models"),
    (["stories-rnn", "stories-rnn"], dict(text="a"), 422, "once"),
    (["stories-rnn", "nobody"], dict(text="a"), 404, "nobody"),
    (["stories-rnn", "phrasebook"], dict(text="a"), 400, "different tasks"),
    (["stories-rnn", "stories-ngram"], dict(text=""), 400, "empty"),
    (["stories-rnn", "stories-ngram"], dict(), 422, "reads a text"),
])
def test_mistakes_of_a_comparison_are_said_in_one_line(client, models, ask, status, words):
    refused(compare(client, *models, **ask), status, words)
