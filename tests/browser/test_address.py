"""An address that names what there is not is told so, in one line; what there is is opened."""

import shutil

import pytest

from tests.browser.conftest import serve_to, sync_api

expect = sync_api.expect
SOON = 60_000                  # milliseconds: the first look loads the model
TEXT = "models=stories-transformer&text=Tom had a red kite."


def opened(page, url, address):
    page.goto("about:blank")
    page.goto(f"{url}/#{address}")
    page.wait_for_selector("#panel[data-tab]")
    return page.locator("#notice")


@pytest.mark.parametrize("tab", ["", "&tab=read", "&tab=compute"])
def test_an_unknown_example_is_said(page, served, tab):
    notice = opened(page, served, f"{TEXT}&preset=nobody{tab}")
    expect(notice).to_have_text("There is no example nobody: the Lab tab lists them.", timeout=SOON)
    if tab != "&tab=read":
        expect(page.locator("#panel")).to_have_attribute("data-tab", "compute", timeout=SOON)
        expect(page.locator("#panel")).to_contain_text("there is no example nobody", timeout=SOON)
    page.evaluate("location.hash = '#tab=compute&preset=aaba'")
    page.wait_for_selector("#panel[data-ready=aaba]")
    expect(notice).to_be_hidden(timeout=SOON)


def test_a_known_example_opens_where_it_can_be_seen(page, served):
    notice = opened(page, served, "preset=aaba")
    page.wait_for_selector("#panel[data-tab=compute][data-ready=aaba]")
    expect(notice).to_be_hidden(timeout=SOON)


def test_an_unknown_model_is_said_and_another_is_shown(page, served):
    notice = opened(page, served, "models=nobody")
    expect(notice).to_have_text("There is no model nobody here: stories-transformer is shown.", timeout=SOON)
    expect(page.locator("#panel")).to_have_attribute("data-tab", "read", timeout=SOON)
    page.locator("#chips button", has_text="stories-rnn").click()
    expect(notice).to_be_hidden(timeout=SOON)


@pytest.mark.parametrize(("address", "line"), [
    ("tab=nowhere", "There is no view nowhere: this is Read."),
    ("track=nothing", "This look has no map nothing: this is self."),
    ("track=nothing&tab=compute", "This look has no map nothing: this is self."),
    ("tab=train&runs=nobody,stories-rnn", "There is no run nobody here."),
])
def test_what_else_is_unknown_is_said(page, served, address, line):
    notice = opened(page, served, f"{TEXT}&{address}")
    expect(notice).to_have_text(line, timeout=SOON)
    page.evaluate(f"location.hash = '#{TEXT}'")
    expect(notice).to_be_hidden(timeout=SOON)


def test_a_damaged_run_is_said_and_the_first_good_one_is_shown(page, runs, tmp_path):
    for name in ("a-damaged", "good"):
        shutil.copytree(runs / "stories-ngram", tmp_path / name)
    (tmp_path / "a-damaged" / "run.toml").write_text("[run")
    with serve_to(page, folder=tmp_path) as url:
        notice = opened(page, url, "text=Tom had a red kite.")
        expect(page.locator("#chips button[aria-pressed=true]")).to_contain_text("good", timeout=SOON)
        expect(notice).to_be_hidden(timeout=SOON)
        page.locator("#tab-train").click()
        expect(notice).to_contain_text("The run a-damaged is damaged: run.toml is not a TOML file", timeout=SOON)
        page.locator("#tab-read").click()
        expect(notice).to_be_hidden(timeout=SOON)
        page.wait_for_selector("#panel[data-tab=read][data-ready]")
