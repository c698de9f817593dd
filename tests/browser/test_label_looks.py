"""Looks at a classifier and a tagger on the page: the labels that they give stand beside what was read for them."""

from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.browser.conftest import Served, shot

RUNS = Path(__file__).parents[1] / "fixtures" / "runs"
TEXT = "the cat sat on the mat"


@pytest.fixture(scope="module")
def labellers(tmp_path_factory):
    server = Served(RUNS / "classify-transformer", RUNS / "tag-transformer", lab=tmp_path_factory.mktemp("none"))
    yield server.url
    server.stop()


@pytest.mark.parametrize("run", ["classify-transformer", "tag-transformer"])
def test_the_labels_are_shown_with_what_was_read_for_them(page, labellers, run):
    page.goto(f"{labellers}/#{urlencode({'models': run, 'text': TEXT})}")
    page.wait_for_selector("#panel[data-ready]", timeout=60_000)
    id, track = page.locator("#panel").get_attribute("data-ready").split(" ")[:2]
    told = page.request.post(f"{labellers}/api/look", data={"model": run, "text": TEXT}).json()
    assert told["id"] == id and track in [each["name"] for each in told["tracks"]]
    shown = page.locator("#panel").inner_text()
    labels = {each["piece"] for each in told["said"]}
    assert labels and any(label in shown for label in labels), (labels, shown)
    shot(page, f"look-{run}")
