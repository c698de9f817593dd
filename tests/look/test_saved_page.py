"""Maps in one file: any text is safe, every number is in it, nothing comes from outside. Chromium opens them in
tests/browser/test_saved.py."""

import base64
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from regard.errors import SettingError
from regard.look.render import save
from regard.look.render.painting import paint, painted_page
from regard.look.render.saved_page import MOST_NUMBERS, page, saved_map, saved_page
from tests.look.test_render import CAT, HARD, HOSTILE


def held(text):
    return json.loads(re.search(r'<script type="application/json" id="held">(.*?)</script>', text, re.S)[1])


def numbers(told, id, track, shape):
    return np.frombuffer(base64.b64decode(told["numbers"][id][track]), "<f4").reshape(shape)


def test_hostile_text_stays_text_in_the_page():
    text = page([HARD])
    assert text.count("<script") == 2 and text.count("</script>") == 2 and "<img" not in text
    assert "<title>&lt;script&gt;alert(1)&lt;/script&gt;</title>" in text
    look = held(text)["looks"]["1"]
    assert [token[1] for token in look["sides"]["rows"]["tokens"]] == HOSTILE
    text.encode()                                                                  # halves of characters are escaped


def test_the_page_asks_for_nothing_outside_it():
    text = page([CAT])
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|<link|<[a-z]+ [^>]*\bsrc=|@import|url\(", text)
    assert "default-src 'none'" in text and "unsafe" not in text and "connect-src" not in text


def test_the_policy_allows_the_script_and_the_style_that_are_in_it():
    import hashlib

    text = page([CAT])
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    for part in (re.search(r"<style>(.*?)</style>", text, re.S)[1],
                 re.search(r'<script type="module">(.*?)</script>', text, re.S)[1]):
        assert base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() in policy


def test_the_page_holds_every_weight():
    told = held(page([CAT, HARD.at("max", 1)]))
    np.testing.assert_allclose(numbers(told, "2", "weights", HARD.weights.shape), HARD.weights, atol=1e-7)
    assert [model["name"] for model in told["models"]] == ["le chat noir", "<script>alert(1)</script>"]
    track = told["looks"]["2"]["tracks"][0]
    assert (track["layers"], track["heads"], track["top"]) == (2, 3, 1.0) and track["links"] == [[0, 0], [3, 5]]
    assert held(page([HARD.at("max", 1)]))["first"] == {"layer": "max", "head": "1"}


def test_too_many_numbers_are_refused(monkeypatch):
    assert MOST_NUMBERS == 4_000_000
    monkeypatch.setattr("regard.look.render.saved_page.MOST_NUMBERS", 8)
    with pytest.raises(SettingError, match="9 weights do not fit in one page, which holds 8"):
        page([CAT])


# ---------------------------------------------------------------------------------------------- pictures


def caption(words=3, grid=(2, 4)):
    weights = np.random.default_rng(1).dirichlet(np.ones(grid[0] * grid[1]), (2, 2, words)).astype(np.float32)
    return SimpleNamespace(text="a <b>red</b> star", pieces=("a", "<b>", "star")[:words], weights=weights)


def test_a_painted_page_has_the_picture_and_every_weight():
    told = caption()
    saved = held(painted_page(np.full((16, 32, 3), 255, np.uint8), told, (2, 4), layer=2))
    assert saved["first"] == {"layer": "2", "head": "mean"}
    assert saved["pictures"]["1"].startswith("data:image/png;base64,")
    np.testing.assert_array_equal(numbers(saved, "1", "patches", told.weights.shape), told.weights)


@pytest.mark.parametrize("ending", ["png", "svg", "html"])
def test_a_picture_is_painted_in_every_form(tmp_path, ending):
    path = paint(np.zeros((16, 32, 3), np.uint8), caption(), (2, 4), tmp_path / f"seen.{ending}", layer=1)
    assert path.stat().st_size > 1000


def test_a_map_as_a_look_is_what_the_page_expects():
    saved = saved_map(CAT)
    assert saved.look["sides"]["rows"]["text"] == "the black cat "
    assert saved.look["tracks"][0]["badge"].startswith("weights: each row sums to 1")
    assert saved_page([saved], "A <title>").count("<title>") == 1
    with pytest.raises(SettingError, match="13 maps do not fit"):
        save([CAT] * 13, "map.png")
