import base64
import json
import threading
from contextlib import contextmanager

import numpy as np
import pytest
import torch

pytest.importorskip("fastapi", reason="serving needs the extra `web`")

from fastapi import FastAPI
from fastapi.testclient import TestClient

from regard.look import Request, look
from regard.look.views import join_words, rollout, row_spans, statistics, thumbnails, view, word_spans
from regard.serve import refusals
from regard.serve.held_looks import ROOM, HeldLook, HeldLooks
from regard.serve.limits import FairLock, Gate
from regard.serve.payload import shade
from regard.serve.registry import UnknownModel
from regard.serve.routes.look import router
from tests.look.models import TEXT, captioner, language_model, masked_model, pair_model, picture
from tests.serve.unpacking import unpack

TRAINED = {
    "transformer": lambda: language_model("transformer"), "rnn": lambda: language_model("rnn"),
    "mamba": lambda: language_model("mamba"), "ngram": lambda: language_model("ngram"),
    "translator": lambda: pair_model("transformer"), "prefix": lambda: pair_model("prefix"),
    "captioner": lambda: captioner("rnn-attention"), "masked": lambda: masked_model()}
ASKED = {name: {"text": TEXT} for name in ("transformer", "rnn", "mamba", "ngram", "masked")}
ASKED |= {name: {"source": "un deux trois", "target": "three two one"} for name in ("translator", "prefix")}
ASKED |= {"captioner": {"image": "shapes-2", "target": "a red square"}}


class Model:
    def __init__(self, id):
        self.id, self.lock = id, FairLock()

    @property
    def trained(self):
        return TRAINED[self.id]()


class Models:
    def get(self, id):
        if id not in TRAINED:
            raise UnknownModel(id, list(TRAINED))
        return Model(id)

    def without_paths(self, text):
        return text


@contextmanager
def serving(room=ROOM):
    torch.set_num_threads(1)
    app = FastAPI()
    app.state.registry, app.state.gate, app.state.looks = Models(), Gate(), HeldLooks(room)
    refusals.install(app)
    app.include_router(router, responses=refusals.RESPONSES)
    with TestClient(app) as client:
        client.looks = app.state.looks
        yield client
    app.state.gate.close()


@pytest.fixture(scope="module")
def client():
    with serving() as client:
        yield client


def ask(client, name, **more):
    answer = client.post("/api/look", json={"model": name, **ASKED[name], **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def numbers(client, told, path, **query):
    answer = client.get(f"/api/look/{told['id']}/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return unpack(answer.content)


def held(client, told):
    return client.looks.get(told["id"]).look


# ------------------------------------------------------------------------------------------------ a look


@pytest.mark.parametrize("name", TRAINED)
def test_a_look_is_told_and_its_numbers_come_by_its_id(client, name):
    told = ask(client, name)
    seen = held(client, told)
    assert told["model"] == name and told["request"] == {"model": name, **ASKED[name]}
    assert [track["name"] for track in told["tracks"]] == [track.name for track in seen.tracks]
    assert len(told["said"]) == len(told["sides"][told["written"]]["tokens"])
    for track, about in zip(seen.tracks, told["tracks"], strict=True):
        assert about["lazy"] == (about["stats"] is None) == (track.kind == "influence")
        _, arrays = numbers(client, told, f"{track.name}/cells", layer=1, head=1)
        np.testing.assert_array_equal(arrays["cells"], track.values[0, 0])
        _, arrays = numbers(client, told, f"{track.name}/row", row=1)
        np.testing.assert_array_equal(arrays["row"], track.values[:, :, 1])
        if about["stats"] is not None:
            assert about["stats"] == statistics(track)


@pytest.mark.parametrize("name, track", [("transformer", "self"), ("mamba", "kernel"), ("ngram", "back-off")])
@pytest.mark.parametrize("pool", ["max", "sum"])
def test_the_atlas_has_a_thumbnail_of_every_head(client, name, track, pool):
    told = ask(client, name)
    own = held(client, told).track(track)
    header, arrays = numbers(client, told, f"{track}/atlas", size=7, pool=pool)
    expected = thumbnails(own.values, 7, pool, own.signed).reshape(-1, 7, 7)
    scale = header["arrays"][0]["scale"]
    np.testing.assert_array_equal(arrays["atlas"], shade(expected, scale, own.signed))
    assert arrays["atlas"].dtype == (np.int8 if own.signed else np.uint8)
    assert (header["layers"], header["heads"]) == own.shape[:2]
    assert scale == 1 if pool == "max" and not own.signed else scale == pytest.approx(np.abs(expected).max())


@pytest.mark.parametrize("layer, head", [("1", "2"), ("mean", "mean"), ("max", "max"), ("rollout", "mean")])
@pytest.mark.parametrize("words", [False, True])
def test_a_map_is_its_cells_in_shades(client, layer, head, words):
    told = ask(client, "transformer")
    seen = held(client, told)
    own = seen.track("self")
    expected = rollout(own) if layer == "rollout" else view(own, layer, head)
    rows, columns = row_spans(seen, own), word_spans(seen.sides["text"])
    if words:
        expected = join_words(expected, rows, columns)
    query = dict(layer=layer, head=head, words=int(words))
    header, arrays = numbers(client, told, "self/cells", **query)
    np.testing.assert_array_equal(arrays["cells"], expected)
    header, shades = numbers(client, told, "self/map", **query)
    np.testing.assert_array_equal(shades["map"], shade(expected, 1.0, False))
    assert shades["map"].dtype == np.uint8 and header["arrays"][0]["scale"] == 1
    assert np.abs((shades["map"] / 255.0) ** 2 - expected).max() < 0.004
    assert ("row_groups" in header) == words
    if words:
        assert header["column_groups"] == [list(each) for each in columns]


def test_signed_amounts_come_with_their_sign(client):
    told = ask(client, "mamba")
    own = held(client, told).track("kernel")
    header, arrays = numbers(client, told, "kernel/map", layer=1, head=1)
    assert arrays["map"].dtype == np.int8 and (arrays["map"] < 0).any() and header["signed"]
    np.testing.assert_array_equal(np.sign(arrays["map"]) * (arrays["map"] != 0),
                                  np.sign(own.values[0, 0]) * (arrays["map"] != 0))


def test_a_track_is_worked_out_once_and_a_row_by_itself(client):
    told = ask(client, "rnn", text="the cat sat on mats")
    track = held(client, told).track("influence-gradient")
    numbers(client, told, "influence-gradient/row", row=2)
    assert track.lazy, "one row needs no others"
    numbers(client, told, "influence-gradient/map")
    assert not track.lazy
    track.make = None                                        # would fail if it were asked again
    numbers(client, told, "influence-gradient/atlas")


def test_the_picture_is_sent_as_it_is_read_and_as_it_was_given(client):
    told = ask(client, "captioner", image=base64.b64encode(picture()).decode())
    side = held(client, told).sides["image"]
    for which, expected in (("read", side.png), ("original", side.original)):
        answer = client.get(f"/api/look/{told['id']}/image.png", params={"which": which})
        assert answer.content == expected and answer.headers["content-type"] == "image/png"
    assert told["sides"]["image"]["patches"] == [3, 3]
    url = "data:image/png;base64," + base64.b64encode(picture()).decode()
    assert ask(client, "captioner", image=url)["id"] == told["id"]


def test_what_the_model_writes_is_in_the_look(client):
    told = ask(client, "transformer", text="the cat", new_tokens=4, sampling={"seed": 2, "temperature": 0.5})
    model = language_model("transformer")
    assert told["sides"]["text"]["text"] == "the cat" + model.generate("the cat", new_tokens=4, seed=2, temperature=0.5)


# ------------------------------------------------------------------------------------------------- holding


def test_a_look_has_the_same_id_after_a_restart_and_is_made_once(client, monkeypatch):
    told = ask(client, "rnn")
    with serving() as other:
        assert ask(other, "rnn")["id"] == told["id"]
        assert other.get(f"/api/look/{told['id']}").json()["said"] == told["said"]
    monkeypatch.setattr("regard.look.look", None)    # would fail if it were made again
    assert ask(client, "rnn") == told


def test_old_looks_leave_when_there_is_no_room(client):
    with serving(room=30_000) as small:
        first = ask(small, "transformer")
        for text in ("the mat", "the dog", "a cat", "on the mat", "cats do", "by the cat", "sat on"):
            ask(small, "transformer", text=text)
        gone = small.get(f"/api/look/{first['id']}/self/map")
        assert gone.status_code == 404 and gone.json()["error"]["code"] == "look_gone"
        assert small.looks.nbytes() <= 30_000 and len(small.looks.held) > 1
        again = small.post("/api/look", json=first["request"]).json()
        assert again["id"] == first["id"]
        assert small.get(f"/api/look/{first['id']}/self/map").status_code == 200


def test_one_look_is_held_even_if_it_is_larger_than_the_room():
    with serving(room=1) as small:
        told = ask(small, "transformer")
        assert small.get(f"/api/look/{told['id']}/self/map").status_code == 200
        ask(small, "transformer", text="the mat")
        assert small.get(f"/api/look/{told['id']}/self/map").json()["error"]["code"] == "look_gone"


def test_the_room_is_measured_again_when_a_track_is_worked_out():
    seen = look(language_model("rnn"), Request(text=TEXT))
    kept = HeldLooks(room=2 * (seen.nbytes() + 4096) + 100)
    for id in ("a", "b"):
        each = look(language_model("rnn"), Request(text=TEXT))
        each.id = id
        kept.put(HeldLook(each, Model("rnn"), {}))
    assert list(kept.held) == ["a", "b"]
    _ = kept.get("b").look.track("influence-gradient").values
    kept.trim()
    assert list(kept.held) == ["b"]


def test_the_model_is_kept_from_others_while_it_is_looked_at(monkeypatch):
    model, taken = Model("rnn"), []
    monkeypatch.setattr(Models, "get", lambda self, id: model)
    real = look

    def watched(*given):
        taken.append(model.lock.taken)
        return real(*given)

    monkeypatch.setattr("regard.look.look", watched)
    with serving() as client:
        told = ask(client, "rnn", text="held")
        track = held(client, told).track("influence-gradient")
        make = track.make
        track.make = lambda: (taken.append(model.lock.taken), make())[1]
        numbers(client, told, "influence-gradient/map")
    assert taken == [True, True] and not model.lock.taken


def test_many_who_ask_for_the_same_get_the_same():
    with serving() as client:
        found = []
        threads = [threading.Thread(target=lambda: found.append(ask(client, "transformer")["id"])) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len(set(found)) == 1 and len(found) == 8 and len(client.looks.held) == 1


# ------------------------------------------------------------------------------------------------ mistakes


@pytest.mark.parametrize("body, status, message", [
    ({"model": "nobody", "text": "x"}, 404, "there is no model 'nobody'"),
    ({"model": "rnn"}, 400, "a language model reads a text: give one"),
    ({"model": "rnn", "text": "x" * 10_001}, 422, "text: String should have at most 10000 characters"),
    ({"model": "rnn", "text": "x", "new_tokens": 1000}, 422, "new_tokens: "),
    ({"model": "rnn", "text": "x", "sampling": {"top_p": 0}}, 422, "sampling.top_p: "),
    ({"model": "rnn", "text": "x", "beams": 3}, 422, "beams: "),
    ({"model": "translator", "source": "un", "beam": 17}, 422, "beam: "),
    ({"model": "translator", "source": "  "}, 400, "there is nothing to read: the source is blank"),
    ({"model": "captioner", "image": "shapes-0!"}, 400, "the image is neither an example nor base64"),
    ({"model": "captioner", "image": "QUJD"}, 400, "the picture is not a picture of a known kind"),
    ({"model": "rnn", "text": "\ud800"}, 422, "text: "),
    ({"model": "rnn", "text": "x", "source": "\ud800"}, 422, "source: "),
    ({"text": "x"}, 422, "model: Field required")])
def test_mistakes_are_one_line(client, body, status, message):
    answer = client.post("/api/look", content=json.dumps(body), headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert answer.json()["error"]["message"].startswith(message) and "\n" not in answer.json()["error"]["message"]


@pytest.mark.parametrize("path, status, message", [
    ("self/map?layer=9", 400, "layer = 9: there are 2, counted from 1; or one of mean, max, rollout"),
    ("self/map?head=rollout", 422, "head: "), ("self/map?layer=first", 422, "layer: "),
    ("cross/map", 404, "this look has no track cross"), ("self/row?row=99", 400, "row = 99: there are"),
    ("self/row?row=-1", 422, "row: "), ("self/row", 422, "row: Field required"),
    ("self/atlas?pool=mean", 422, "pool: "), ("self/atlas?size=0", 422, "size: "),
    ("influence-gradient/map?layer=rollout", 400, "layer = rollout: influence-gradient is not the attention"),
    ("image.png", 404, "this look has no picture")])
def test_numbers_that_are_not_there_are_one_line(client, path, status, message):
    told = ask(client, "transformer")
    answer = client.get(f"/api/look/{told['id']}/{path}")
    assert answer.status_code == status and answer.json()["error"]["message"].startswith(message)


def test_an_unknown_look_is_gone(client):
    for path in ("", "/self/map", "/image.png"):
        answer = client.get(f"/api/look/{'0' * 32}{path}")
        assert answer.status_code == 404 and answer.json()["error"]["code"] == "look_gone"
    assert client.get("/api/look/nonsense").status_code == 422


def test_too_many_cells_are_refused(client, monkeypatch):
    told = ask(client, "transformer")
    monkeypatch.setattr("regard.serve.look_numbers.MOST_CELLS", 100)
    answer = client.get(f"/api/look/{told['id']}/self/cells")
    assert answer.status_code == 400 and answer.json()["error"]["message"].endswith("ask for one row at a time")
