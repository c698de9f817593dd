"""Compute: every step with the model's own numbers, done again by the browser; scores that can be moved."""

import re

import pytest
import torch

from regard.layers.scores import SCORES
from regard.layers.self_attention import SelfAttention
from regard.look import Request, look
from regard.look.arithmetic import arithmetic
from regard.look.arithmetic_attention import attention_sheet
from regard.look.presets import PRESETS
from regard.serve.result_json import as_json
from regard.watching import watch
from tests.browser.conftest import serious, shot, sync_api
from tests.look import models

expect = sync_api.expect
TEXT = "Tom had a red kite. He lost it."
REDO = "async sheet => (await import('/compute_redo.js')).redo(sheet).difference"


def opened(page, served, **state):
    address = "&".join(f"{name}={value}" for name, value in {"tab": "compute", **state}.items())
    page.goto(f"{served}/#{address}")
    page.wait_for_selector("#panel[data-tab=compute][data-ready]")


def difference(page) -> float:
    return float(page.inner_text("#compute-difference").replace("−", "-"))


def ready(page, cell):
    page.wait_for_selector(f"#panel[data-ready='{cell}']")


def test_the_browser_finds_what_pytorch_has_for_every_score_and_every_kind(page, served):
    page.goto(served)
    torch.set_num_threads(1)
    for score in SCORES:
        for positions, how in (("rotary", {"kv_heads": 2}), ("alibi", {"softcap": 2.0, "window": 3})):
            torch.manual_seed(0)
            layer = SelfAttention(16, heads=4, score=score, positions=positions, **how)
            with torch.no_grad(), watch(closely=True) as seen:
                layer(torch.randn(1, 7, 16))
            sheet = attention_sheet(seen.readings[0], 3, 5, 4)
            assert page.evaluate(REDO, as_json(sheet)) < 1e-5, score
    for name in ("linear-rnn", "mamba", "mamba2", "ngram", "hybrid", "rnn"):
        trained = models.language_model(name)
        seen = look(trained, Request(text=models.TEXT))
        for track in seen.tracks:
            told = arithmetic(trained, seen, track, 1, 1, 6, 3)
            assert page.evaluate(REDO, as_json(told)) < 1e-5, (name, track.name)
    for preset in PRESETS.values():
        assert page.evaluate(REDO, as_json(preset.sheet())) < 1e-15


def test_a_number_that_is_not_pytorchs_is_noticed(page, served):
    page.goto(served)
    torch.manual_seed(0)
    with torch.no_grad(), watch(closely=True) as seen:
        SelfAttention(16, heads=4)(torch.randn(1, 7, 16))
    seen.readings[0].values += 1e-3
    assert page.evaluate(REDO, as_json(attention_sheet(seen.readings[0], 3, 5, 4))) > 5e-4


def test_all_steps_by_the_keyboard_alone(page, served):
    opened(page, served, models="stories-transformer", text=TEXT, layer=1, head=2, row=5, column=2)
    assert difference(page) < 1e-5
    titles = page.locator(".compute-steps li button")
    for step in range(5):
        expect(titles.nth(step)).to_have_attribute("aria-current", "step")
        assert page.inner_text(".compute-step h3").startswith(f"{step + 1}. ")
        page.keyboard.press("ArrowRight")                           # at the last step there is no next one
    page.keyboard.press("ArrowLeft")
    expect(titles.nth(3)).to_have_attribute("aria-current", "step")
    shot(page, "compute-steps")
    rows = page.locator(".compute-step .table tbody tr")
    assert rows.count() == 11 and rows.nth(7).locator(".hidden-score").inner_text() == "−∞"
    weights = [float(text.replace("−", "-")) for text in page.locator(".compute-step td.barred").all_inner_texts()]
    assert sum(weights) == pytest.approx(1, abs=1e-3)
    page.keyboard.press("ArrowDown")
    ready(page, "self 1 2 5 3")
    page.keyboard.press("Shift+ArrowUp")
    ready(page, "self 1 2 4 3")
    page.keyboard.press("]")
    page.keyboard.press(",")
    ready(page, "self 2 1 4 3")
    page.reload()
    ready(page, "self 2 1 4 3")
    assert page.locator(".compute-steps [aria-current=step]").inner_text().startswith("4")


def test_the_lectures_example_comes_out_in_sixths(page, served):
    opened(page, served, models="stories-rnn")
    page.select_option("select[aria-label='Numbers of']", "aaba")
    ready(page, "aaba")
    page.click("button[aria-label^='Step 4']")
    assert page.locator(".compute-step td.barred").all_inner_texts() == ["1/6", "1/6", "1/2", "1/6"]
    page.click("button[aria-label^='Step 5']")
    assert page.locator(".compute-step .strip[aria-label='Σ α v'] li").all_inner_texts() == ["1\n1/2", "2\n1/2"]
    assert difference(page) < 1e-15
    page.select_option("select[aria-label='Base of the powers']", "e")
    page.click("button[aria-label^='Step 4']")
    expect(page.locator(".formula")).to_contain_text("exp")
    shot(page, "compute-preset")


def test_a_worked_example_is_read_line_by_line_by_its_address_and_by_choice(page, served):
    opened(page, served, models="stories-rnn", preset="worked-location")
    ready(page, "worked-location")
    heading = page.inner_text(".compute-heading")
    assert "Location-linear attention is a special case" in heading and "lecture 003" in heading
    assert "5 of 5 lines equal" in heading and "K = (W, b)" in heading
    last = page.locator(".worked > li").last
    assert last.locator(".worked-row").all_inner_texts() == ["378/37\n168/37"] * 2
    assert [mark.strip() for mark in page.locator(".worked .lab-verdict").all_inner_texts()] == ["equal"] * 5
    for key in ("ArrowRight", "ArrowDown", "]", "."):                  # there are no steps, columns or layers here
        page.keyboard.press(key)
    page.click("button:has-text('Step by step: A location score')")
    ready(page, "location")
    assert "preset=location" in page.url
    page.click("button[aria-label^='Step 5']")
    assert page.locator(".strip[aria-label='Σ α v'] li").all_inner_texts() == ["1\n378/37", "2\n168/37"]
    page.click("button:has-text('All lines: Location-linear')")
    ready(page, "worked-location")
    groups = page.locator("select[aria-label='Numbers of'] optgroup")
    assert groups.evaluate_all("all => all.map(each => each.label)") == [
        "Rows of attention", "Worked examples, line by line"]
    page.select_option("select[aria-label='Numbers of']", "worked-sinusoids")
    ready(page, "worked-sinusoids")
    assert "preset=worked-sinusoids" in page.url
    assert page.locator(".worked-matrix").first.locator("tr").count() == 5
    page.select_option("select[aria-label='Numbers of']", "")
    page.wait_for_selector("#compute-difference")
    assert page.locator(".worked").count() == 0


def test_a_line_that_does_not_come_out_says_so_in_words(page, served):
    line = {"what": "1 = 2", "by": "nobody", "ours": "1", "expected": "2", "row": 0, "equal": False}
    told = {"name": "worked-loss", "title": "Loss", "source": "nowhere", "about": "", "presets": [], "lines": [line]}
    page.route("**/api/presets/worked-loss/lines", lambda route: route.fulfill(json=told))
    opened(page, served, models="stories-rnn", preset="worked-loss")
    assert "0 of 1 lines equal" in page.inner_text(".compute-heading")
    assert "NOT EQUAL" in page.inner_text(".worked > li") and "≠ expected" in page.inner_text(".worked > li")


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
def test_matrices_of_an_example_scroll_on_a_small_screen(page, served, theme):
    opened(page, served, models="stories-rnn", preset="worked-heads")
    shot(page, f"compute-worked-{theme}")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    widths = page.locator(".worked-matrix").evaluate_all("all => all.map(each => [each.scrollWidth, each.clientWidth])")
    assert len(widths) == 4 and all(whole > seen for whole, seen in widths)
    assert serious(page) == []
    shot(page, f"compute-worked-small-{theme}")


def test_moving_a_score_moves_what_follows(page, served):
    opened(page, served, models="stories-transformer", text=TEXT, layer=2, head=1, row=5, column=2)
    before = page.locator(".next td.number").all_inner_texts()
    field = page.locator("input[type=number][aria-label^='score of column 0,']")
    field.fill("9")
    field.press("Tab")
    page.wait_for_selector(".compute-edit[data-moved]")
    expect(page.locator(".next thead th")).to_have_count(4)
    shares = page.locator(".compute-edit .table tbody tr td:last-child")
    assert float(shares.nth(0).inner_text()) > 0.9
    assert re.search(r"moves .*% of the probability", page.inner_text(".next"))
    assert float(page.get_attribute(".compute-edit", "data-moved")) > 0
    assert page.locator("input[type=range]").nth(8).is_disabled()                    # masked
    shot(page, "compute-edited")
    page.click("text=Reset")
    assert page.locator(".next td.number").all_inner_texts() == before
    slider = page.locator("input[type=range][aria-label^='score of column 1,']")
    slider.focus()
    slider.press("End")
    expect(page.locator(".next thead th")).to_have_count(4)
    assert float(shares.nth(1).inner_text()) > 0.5
    page.uncheck("input[type=checkbox][aria-label^='read column 1,']")
    expect(shares.nth(1)).to_have_text("0")


@pytest.mark.parametrize(("model", "state"), [
    ("stories-ngram", {"text": TEXT}), ("stories-mamba", {"text": "Tom had"}), ("stories-rnn", {"text": TEXT}),
    ("stories-rnn", {"text": TEXT, "track": "influence-occlusion", "row": 4, "column": 2}),
    ("phrasebook", {"source": "le chat dort ."}), ("phrasebook-transformer",
                                                   {"source": "le chat dort .", "track": "encoder"}),
    ("shapes", {})])
def test_every_family_has_its_arithmetic(page, served, model, state):
    opened(page, served, models=model, **state)
    assert difference(page) < 1e-5
    steps = page.locator(".compute-steps li button")
    for step in range(steps.count()):
        steps.nth(step).click()
        assert page.locator(".compute-step .vector").count()
    shot(page, f"compute-{model}-{state.get('track', 'first')}")


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
def test_nobody_is_barred_in_either_theme(page, served, theme):
    for state in ({"models": "stories-transformer", "text": TEXT, "step": 2, "row": 5},
                  {"models": "stories-mamba", "text": "Tom"}):
        opened(page, served, **state)
        assert serious(page) == []
    page.set_viewport_size({"width": 800, "height": 600})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    shot(page, f"compute-small-{theme}")


def test_what_goes_wrong_is_said_in_one_line(page, served):
    page.route("**/api/compute", lambda route: route.fulfill(status=400, content_type="application/json",
                                                             body='{"error": {"message": "row = 99: self has 6"}}'))
    page.goto(f"{served}/#tab=compute&models=stories-transformer&text=Tom")
    expect(page.locator("#said")).to_contain_text("row = 99")
    expect(page.locator("#panel")).to_contain_text("row = 99")
    page.troubles.clear()                                               # the browser itself notes the refusal


def test_an_example_that_is_not_there_is_said(page, served):
    page.goto(f"{served}/#tab=compute&models=stories-rnn&preset=nowhere")
    expect(page.get_by_text("there is no example nowhere: the Lab tab lists them").first).to_be_visible()
    assert not page.troubles                            # a mistake in an address is no fault of the page
