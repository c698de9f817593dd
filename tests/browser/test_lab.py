"""Lab: cards with their verdicts, charts that can run nothing, and worked examples to step through."""

import json

import pytest

from tests.browser.conftest import Served, serious, shot
from tests.browser.waiting import until

SVG = ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 320 160"><script>window.parent.ran = 1</script>'
       '<rect width="320" height="160" fill="#fff"/><path d="M20 140 L160 60 L300 30" fill="none" stroke="#0072b2" '
       'stroke-width="3"/><text x="30" y="24" font-size="12">quality over length</text></svg>')


RULE = {"says": "it is more, by", "median": 0.75, "low": 0.5, "high": 1.0, "bound": 0.1, "side": "above",
        "verdict": "holds", "cause": "mask", "condition": "", "unit": " nats"}
FLIPS = {"mask": {"quick": True, "seeds": 3, "does": "no mask", "rules": [
    {"says": RULE["says"], "before": "holds", "after": "fails", "median": -0.25}]}}


def card(number, name, verdict, **more):
    return {"name": name, "number": number, "title": name.title(), "claim": f"The claim of {name}.", "source": "a book",
            "rule": "above 0.1", "verdict": verdict, "seconds": 31.5, "flip": "no mask",
            "where": {"device": "2 CPU cores", "when": "2026-01-01"}, "fixed": {"on": "2026-01-02", "after": ""},
            "command": f"regard lab run {name} --seeds 5", "rules": [RULE],
            "table": {"columns": ["family", "loss"], "rows": [["rnn", 1.25], ["transformer", 0.5]]},
            "plots": [{"title": "quality over length", "file": "chart.svg"}], **more}


@pytest.fixture(scope="module")
def on_two_machines(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab-of-two")
    for machine, verdict, more in (("cpu", "holds", {"flips": FLIPS}), ("cuda", "unclear", {})):
        (folder / machine).mkdir()
        for each in (card(1, "bottleneck", "holds"), card(2, "masking", verdict, **more)):
            (folder / machine / f"{each['name']}.json").write_text(json.dumps(each))
    server = Served(runs / "stories-ngram", lab=folder)
    yield server.url
    server.stop()


def test_machines_stand_side_by_side_and_it_is_said_where_they_disagree(page, on_two_machines):
    page.goto(f"{on_two_machines}/#tab=lab")
    page.wait_for_selector(".lab-presets a")
    ids = page.locator(".lab-card").evaluate_all("all => all.map(each => each.id)")
    assert ids == ["lab-bottleneck-cpu", "lab-bottleneck-cuda", "lab-masking-cpu", "lab-masking-cuda"]
    every = page.locator("[id]").evaluate_all("all => all.map(each => each.id)")
    assert len(every) == len(set(every))
    agreed, apart = page.locator("#lab-bottleneck h2").inner_text(), page.locator("#lab-masking h2").inner_text()
    assert "cpu: holds" in agreed and "cuda: holds" in agreed and "disagree" not in agreed
    assert "cpu: holds" in apart and "cuda: unclear" in apart and "machines disagree" in apart
    assert page.locator("#lab-masking >> text=stand since 2026-01-02").count() == 1     # what is common is told once
    assert "no mask: 1 of 1 rules changed (quick, 3 seeds)" in page.inner_text("#lab-masking-cpu")
    rows = [page.locator(f"#lab-masking-{on} .lab-rules tbody td").all_inner_texts() for on in ("cpu", "cuda")]
    common = ["it is more, by", "0.750 nats", "0.500 to 1.000", "above 0.100", "holds"]
    assert rows == [[*common, "fails: −0.250 (mask)"], [*common, "not run"]]
    assert serious(page) == []
    page.click("button:has-text('machines disagree 1')")
    assert page.locator(".lab-claim").count() == 1 and page.locator(".lab-card").count() == 2
    page.click("button:has-text('on cuda')")
    assert page.locator(".lab-card").evaluate_all("all => all.map(each => each.id)") == ["lab-masking-cuda"]
    assert "machine=cuda" in page.url
    page.click("button:has-text('machines disagree 1')")
    assert page.locator(".lab-card").count() == 2 and page.locator("button:has-text('holds 1')").count() == 1
    shot(page, "lab-machines")


@pytest.fixture(scope="module")
def measured(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    (folder / "cpu").mkdir()
    (folder / "cpu" / "chart.svg").write_text(SVG)
    for each in (card(1, "bottleneck", "holds"), card(2, "cheating", "fails"),
                 card(3, "scaling", "unclear", claim="<b>no markup</b>", rules=[
                     {**RULE, "cause": "", "condition": "else <i>nothing</i> was learned"}])):
        (folder / "cpu" / f"{each['name']}.json").write_text(json.dumps(each))
    server = Served(runs / "stories-ngram", lab=folder)
    yield server.url
    server.stop()


def test_cards_tell_the_claim_the_verdict_and_the_command(page, measured):
    page.goto(f"{measured}/#tab=lab")
    page.wait_for_selector(".lab-card")
    assert page.locator(".lab-card").count() == 3
    first = page.locator("#lab-bottleneck")
    assert "holds" in first.inner_text() and "regard lab run bottleneck --seeds 5" in first.inner_text()
    assert "<b>no markup</b>" in page.locator("#lab-scaling").inner_text()
    assert "Condition: else <i>nothing</i> was learned." in page.locator("#lab-scaling .lab-rules").inner_text()
    assert page.locator("#panel svg").count() == 0                     # charts are pictures, not part of the page
    until(page, "[...document.querySelectorAll('.lab-card img')].every(each => each.naturalWidth > 0)")
    assert page.evaluate("window.ran") is None
    first.locator("summary").click()
    assert first.locator("details tbody tr").count() == 2
    with page.expect_download() as saved:
        first.locator("text=CSV").click()
    assert saved.value.suggested_filename == "bottleneck.csv"
    page.click("button:has-text('fails 1')")
    assert page.locator(".lab-card").count() == 1 and "verdict=fails" in page.url
    assert serious(page) == []
    page.click("button:has-text('fails 1')")
    shot(page, "lab-light")


def test_without_results_it_says_how_they_come_and_examples_open_in_compute(page, served):
    page.goto(f"{served}/#tab=lab&models=stories-transformer")
    page.wait_for_selector(".lab-presets a")
    assert "regard lab run all" in page.inner_text("#panel")
    assert serious(page) == []
    page.locator(".lab-presets a").first.focus()
    page.keyboard.press("Enter")
    until(page, "location.hash.includes('tab=compute') && location.hash.includes('preset=worked-aaba')")


def test_every_worked_example_has_its_link_and_so_has_every_row_in_it(page, served):
    page.goto(f"{served}/#tab=lab&models=stories-transformer")
    page.wait_for_selector(".lab-presets a")
    assert page.locator(".lab-presets > li").count() == 15
    page.click(".lab-presets a:text-is('The loss: the average over all tokens of a batch')")
    page.wait_for_selector("#panel[data-ready=worked-loss]")
    page.click("#tab-lab")
    page.click(".lab-presets ul a:text-is('A location score as keys (W, b)')")
    page.wait_for_selector("#panel[data-ready=location]")


@pytest.mark.parametrize("theme", ["dark"], indirect=True)
def test_in_the_dark_it_can_be_read(page, measured):
    page.goto(f"{measured}/#tab=lab")
    page.wait_for_selector(".lab-card")
    assert serious(page) == []
    shot(page, "lab-dark")
