"""/api/next and /api/models/{id}/vocabulary over the application."""

import base64

import numpy as np
import pytest

import regard
from regard.decoding.sampling import Sampling


def ask(client, **body):
    return client.post("/api/next", json={"model": "stories-transformer", "text": "Tom had a", **body})


def numbers(answer):
    return np.frombuffer(base64.b64decode(answer["log_probs"]), "<f4")


def test_the_distribution_covers_the_whole_vocabulary(client, runs):
    answer = ask(client).json()
    pieces = client.get("/api/models/stories-transformer/vocabulary").json()["pieces"]
    assert len(numbers(answer)) == len(pieces)
    assert np.exp(numbers(answer).astype(float)).sum() == pytest.approx(1, abs=1e-4)
    assert pieces[answer["end"]] == "<eos>" and answer["over"] == ""
    assert [piece for _, piece in answer["prefix"]] == ["<bos>", "Tom", " had", " a"]
    assert answer["position"] == 4 and answer["said"] == []
    p = np.exp(numbers(answer).astype(float))
    assert answer["entropy"] == pytest.approx(-(p * np.log2(p, where=p > 0, out=np.zeros_like(p))).sum(), abs=1e-4)


def test_steps_say_what_generate_says(client, runs):
    how = dict(temperature=0.9, top_k=20, top_p=0.9, seed=5)
    answer = ask(client, steps=12, **how).json()
    trained = regard.load(runs / "stories-transformer", device="cpu")
    text = "".join(trained.stream("Tom had a", new_tokens=12, sampling=Sampling(**how)))
    assert "".join(piece for id, piece, _ in answer["said"] if id != answer["end"]) == text
    one = ask(client, said=[id for id, _, _ in answer["said"][:3]], **how).json()
    assert one["chosen"]["id"] == answer["said"][3][0]
    assert answer["said"][3][2] == pytest.approx(float(numbers(one)[one["chosen"]["id"]]), abs=1e-5)


def test_an_end_is_an_end(client):
    first = ask(client).json()
    answer = ask(client, said=[first["end"]]).json()
    assert (answer["over"], answer["log_probs"], answer["chosen"], answer["entropy"]) == ("end", None, None, None)


def test_an_n_gram_and_a_translator_go_on_too(client):
    assert ask(client, model="stories-ngram", steps=3).json()["said"]
    answer = ask(client, model="phrasebook", source="Elle donne le journal à ta mère.", temperature=0, steps=5)
    assert answer.status_code == 200 and answer.json()["prefix"][0] == [1, "<bos>"]


@pytest.mark.parametrize(("change", "status", "line"), [
    ({"said": [0]}, 400, "never said"), ({"said": [10**8]}, 400, "never said"), ({"top_p": 0}, 422, "top_p"),
    ({"temperature": -1}, 422, "temperature"), ({"model": "nobody"}, 404, "no model"), ({"more": 1}, 422, "more"),
    ({"model": "phrasebook"}, 400, "nothing to go on with"), ({"said": [2, 9]}, 400, "nothing follows"),
    ({"steps": 51}, 422, "steps"), ({"text": "x" * 10_001}, 422, "text")])
def test_mistakes_are_one_line(client, change, status, line):
    answer = ask(client, **change)
    assert answer.status_code == status
    assert line in answer.json()["error"]["message"] and "\n" not in answer.json()["error"]["message"]


def test_an_unknown_model_has_no_vocabulary(client):
    assert client.get("/api/models/nobody/vocabulary").status_code == 404
