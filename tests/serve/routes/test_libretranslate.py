"""Translations by the real client against a real server; what `auto` stands for; what is refused."""

import json
import shutil
import urllib.error

import pytest

import regard
from regard.serve.registry import Registry

from ..conftest import client_of, line_of

libretranslatepy = pytest.importorskip("libretranslatepy", reason="the real client, of the extra `dev`")

LINES = ["Le chat noir dort.", "Où est la gare ?"]


@pytest.fixture(scope="module")
def told(runs):
    return regard.load(runs / "phrasebook", "cpu")


@pytest.fixture
def asked(running):
    return libretranslatepy.LibreTranslateAPI(running().url)


# ------------------------------------------------------------------------------------------ the client


def test_the_client_translates(asked, told):
    for line in LINES:
        assert asked.translate(line, "fr", "en") == told.translate([line])[0].text
        assert asked.translate(line, "auto", "en") == told.translate([line])[0].text


def test_the_client_lists_the_languages(asked):
    assert asked.languages() == [{"code": "fr", "name": "French", "targets": ["en"]}]


def test_the_client_hears_that_languages_are_not_detected(asked):
    with pytest.raises(urllib.error.HTTPError) as refused:
        asked.detect("Où est la gare ?")
    assert refused.value.code == 400
    assert "languages are not detected here: name the source" in refused.value.read().decode()


def test_the_client_hears_of_a_mistake(asked):
    with pytest.raises(urllib.error.HTTPError) as refused:
        asked.translate("Oui.", "fr", "de")
    assert refused.value.code == 400
    assert "nothing translates from 'fr' to 'de' here (there are: fr to en)" in refused.value.read().decode()


# ---------------------------------------------------------------------------------------- forms and JSON


def test_forms_and_json_say_the_same(client, told):
    asked = {"q": LINES[0], "source": "fr", "target": "en"}
    answers = [client.post("/translate", json=asked), client.post("/translate", data=asked),
               client.post("/translate", files={name: (None, value) for name, value in asked.items()})]
    for answer in answers:
        assert answer.json() == {"translatedText": told.translate([LINES[0]])[0].text}


def test_a_list_gives_a_list(client, told):
    expected = [each.text for each in told.translate(LINES)]
    for sent in ({"json": {"q": LINES, "source": "auto", "target": "en"}},
                 {"data": {"q": LINES, "source": "auto", "target": "en"}}):
        answer = client.post("/translate", **sent).json()
        assert answer["translatedText"] == expected
        assert answer["detectedLanguage"] == [{"confidence": 0.0, "language": "fr"}] * 2


def test_lines_stay_lines(client, told):
    answer = client.post("/translate", json={"q": "\n".join(["", *LINES, ""]), "source": "fr", "target": "en"})
    assert answer.json()["translatedText"].split("\n") == ["", *(each.text for each in told.translate(LINES)), ""]


def test_alternatives_are_the_next_best(client, told):
    answer = client.post("/translate", data={"q": LINES[0], "source": "fr", "target": "en", "alternatives": "3"}).json()
    best = [each.text for each in told.translate([LINES[0]], beam=5, n_best=4)[0].n_best]
    assert [answer["translatedText"], *answer["alternatives"]] == list(dict.fromkeys(best))


def test_an_empty_text_stays_empty(client):
    assert client.post("/translate", json={"q": "", "source": "fr", "target": "en"}).json() == {"translatedText": ""}


@pytest.mark.parametrize(("change", "status", "says"), [
    ({"target": "fr"}, 400, "nothing translates from 'fr' to 'fr'"),
    ({"source": "de"}, 400, "nothing translates from 'de'"),
    ({"source": "auto", "target": "xx"}, 400, "to 'xx'"),
    ({"format": "html"}, 400, "only text"),
    ({"format": "docx"}, 422, "format"),
    ({"alternatives": 10_000}, 422, "alternatives"),
    ({"alternatives": "many"}, 422, "alternatives"),
    ({"q": "a" * 10_001}, 422, "q"),
    ({"q": ["a" * 6_000] * 2}, 400, "10,000"),
    ({"q": ["a"] * 101}, 422, "q"),
    ({"q": None}, 422, "q"),
    ({"q": "half \udfff of a pair"}, 422, "q"),
])
def test_what_cannot_be_done_is_one_line(client, change, status, says):
    body = json.dumps({"q": "Oui.", "source": "fr", "target": "en", **change})
    answer = client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert says in line_of(answer, status)


@pytest.mark.parametrize(("kind", "body"), [
    ("application/json", b""), ("application/json", b"{"), ("application/json", b"[]"), ("application/json", b"\xff"),
    ("application/json", b"[" * 50_000),
    ("multipart/form-data", b"no boundary"), ("multipart/form-data; boundary=x", b"--x\r\nbroken"),
    ("application/x-www-form-urlencoded", b"q=%ff%fe&target=%"), ("application/x-www-form-urlencoded", b"&" * 1000),
])
def test_a_body_that_is_no_request_is_one_line(client, kind, body):
    answer = client.post("/translate", content=body, headers={"content-type": kind})
    assert answer.status_code in (400, 422), answer.text
    line_of(answer, answer.status_code)


def test_a_file_in_a_form_is_refused(client):
    answer = client.post("/translate", data={"target": "en"}, files={"q": ("a.txt", b"Oui.")})
    line_of(answer, answer.status_code)
    assert answer.status_code in (400, 422)


def test_without_a_translator_it_is_said(runs):
    client = client_of(Registry([runs / "stories-ngram"]))
    assert "no translator is served" in line_of(client.post("/translate", json={"q": "Oui.", "target": "en"}), 400)
    assert "no translator is served" in line_of(client.get("/languages"), 400)


# ------------------------------------------------------------------------------------------------- auto


def test_auto_is_refused_where_it_may_be_several_languages(runs, tmp_path):
    other = tmp_path / "german"
    shutil.copytree(runs / "phrasebook", other)
    settings = other / "run.toml"
    settings.write_text(settings.read_text("utf-8").replace('"fr-en"', '"de-en"'), "utf-8")
    client = client_of(Registry([runs / "phrasebook", other]))
    answer = client.post("/translate", json={"q": "Oui.", "source": "auto", "target": "en"})
    assert "languages are not detected here; name one of de, fr" in line_of(answer, 400)
    assert client.post("/translate", json={"q": "Oui.", "source": "de", "target": "en"}).status_code == 200
