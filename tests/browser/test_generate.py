"""Generate: the browser's filters are Python's, stepping is generation, and what is left is kept."""

import json
import re

import numpy as np
import pytest
import torch

import regard
from regard.decoding.sampling import Sampling, cut_distribution
from tests.browser.conftest import serious, shot
from tests.browser.waiting import until

START = "#tab=generate&models={}&text=Tom+had+a"


def opened(page, served, model="stories-transformer", more=""):
    page.goto(f"{served}/{START.format(model)}{more}")
    page.wait_for_selector("#gen-bars button, .gen-ended", timeout=90_000)              # the model is loaded first
    return page


def said(page, count):
    """The ids in the address, once there are so many of them and they are drawn."""
    until(page, f"document.querySelectorAll('.gen-token').length === {count}")
    until(page, f"(new URLSearchParams(location.hash.slice(1)).get('said') ?? '').split(',').length === {count}")
    text = page.evaluate("new URLSearchParams(location.hash.slice(1)).get('said')")
    return [int(id) for id in re.findall(r"\d+", text)]


def filtered(page, log_probs, ways, banned=()):
    """(ways, V): the probability of each token after each of the filters, as the page works it out."""
    found = page.evaluate("""async ([values, ways, banned]) => {
      const {generateOrder, generateKept} = await import("/tab_generate.js");
      const sorted = generateOrder(Float32Array.from(values), banned);
      return JSON.stringify(ways.map(how => {
        const kept = generateKept(sorted, how), by = new Array(values.length);
        sorted.order.forEach((id, rank) => { by[id] = kept[rank]; });
        return by;
      }));
    }""", [[float(value) for value in log_probs], ways, list(banned)])
    return np.array(json.loads(found))


def by_python(log_probs, how, banned=()):
    values = torch.from_numpy(np.asarray(log_probs, np.float32)).clone()[None]
    values[:, list(banned)] = -torch.inf
    if how["temperature"] == 0:
        return np.eye(len(log_probs))[int(values.argmax())]
    weights, tokens = cut_distribution(values, Sampling(**how))
    found = np.zeros(len(log_probs))
    found[tokens[0].numpy()] = weights[0].numpy()
    return found


def test_the_browsers_filters_are_pythons_over_the_whole_vocabulary(page, served):
    opened(page, served)
    rng = np.random.default_rng(0)
    sharp = torch.from_numpy(rng.normal(size=3000) * 4).log_softmax(-1).float().numpy()
    ties = np.log(np.array([0.25, 0.125, 0.25, 0.125, 0.125, 0.125], np.float32))
    even = np.log(np.full(8, 1 / 8, np.float32))
    edge = np.log(np.array([0.5, 0.25, 0.25], np.float32))
    ways = [dict(temperature=temperature, top_k=top_k, top_p=top_p) for temperature in (0, 0.3, 1, 1.7)
            for top_k in (0, 1, 3, 50) for top_p in (1, 0.9, 0.5, 0.01)]
    for values in (sharp, ties, even, edge):
        for how, found in zip(ways, filtered(page, values, ways), strict=True):
            np.testing.assert_allclose(found, by_python(values, how), atol=1e-5, err_msg=str(how))
    half, one, most = (dict(temperature=1, top_k=0, top_p=0.5), dict(temperature=1, top_k=1, top_p=1),
                       dict(temperature=0.7, top_k=0, top_p=0.95))
    assert (filtered(page, even, [half])[0] > 0).sum() == 4                           # at the edge: no fifth
    assert (filtered(page, ties, [one])[0] > 0).tolist() == [True] + [False] * 5
    some = filtered(page, sharp, [most], banned=[0, 1, 3])[0]
    np.testing.assert_allclose(some, by_python(sharp, most, [0, 1, 3]), atol=1e-5)
    assert some[[0, 1, 3]].tolist() == [0, 0, 0]


def test_bars_show_the_models_numbers_and_the_tail_the_rest(page, served, runs):
    opened(page, served, more="&temperature=0.8&top_k=30")
    trained = regard.load(runs / "stories-transformer", device="cpu")
    ids = torch.tensor([[1, *trained.tokenizer.encode("Tom had a").tolist()]])
    with torch.no_grad():
        log_probs, _ = trained.language_model.step(ids, trained.language_model.start(1, 8))
    raw = log_probs[0].double().exp().numpy()
    after = by_python(log_probs[0].numpy(), dict(temperature=0.8, top_k=30, top_p=1.0), (0, 1, 3))
    bars = page.locator("#gen-bars button").evaluate_all("all => all.map(each => ({...each.dataset}))")
    assert len(bars) == 20
    for bar in bars:
        assert float(bar["raw"]) == pytest.approx(raw[int(bar["id"])], abs=1e-5)
        assert float(bar["after"]) == pytest.approx(after[int(bar["id"])], abs=1e-5)
    assert [int(bar["id"]) for bar in bars] == np.argsort(-raw, kind="stable")[:20].tolist()
    assert f"{len(raw) - 20:,} more tokens" in page.inner_text(".gen-tail")
    bits = -(raw * np.log2(raw)).sum()
    assert float(page.inner_text("#gen-entropy").split()[0]) == pytest.approx(bits, abs=0.006)
    page.click("text=Show 50 more")
    assert page.locator("#gen-bars button").count() == 70


def test_stepping_is_generating_and_undo_and_branches_go_back(page, served, runs):
    trained = regard.load(runs / "stories-transformer", device="cpu")
    prompt = [1, *trained.tokenizer.encode("Tom had a").tolist()]

    def draw(seed):
        sampling = Sampling(temperature=0.9, seed=seed)
        return [step[0] for step in trained.steps([prompt], new_tokens=11, sampling=sampling)]

    seed = next(seed for seed in range(7, 40) if len(draw(seed)) == 11 and None not in draw(seed))   # it does not end
    drawn = draw(seed)
    opened(page, served, more=f"&temperature=0.9&seed={seed}")
    page.keyboard.press("s")
    until(page, "document.querySelectorAll('.gen-token').length === 1")
    page.click("text=Step 10")
    until(page, "document.querySelectorAll('.gen-token').length === 11")
    assert said(page, 11) == drawn
    shot(page, "generate-light")
    page.keyboard.press("u")
    until(page, "document.querySelectorAll('.gen-token').length === 10")
    page.locator(f"#gen-bars button:not([disabled]):not([data-id='2']):not([data-id='{drawn[10]}'])").nth(4).click()
    other = said(page, 11)
    assert other[:10] == drawn[:10] and other[10] != drawn[10]
    assert page.locator(".gen-branches button").count() == 1
    page.click(".gen-branches button")
    until(page, f"location.hash.includes('said={'%2C'.join(map(str, drawn))}')")
    assert said(page, 11) == drawn and page.locator(".gen-branches button").count() == 1
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    until(page, "document.querySelectorAll('.gen-token').length === 11")
    assert serious(page) == []


def test_a_slider_moves_the_bars_and_greedy_draws_the_likeliest(page, served):
    opened(page, served)
    before = page.locator("#gen-bars button").first.get_attribute("data-after")
    page.locator("#gen-temperature").focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    until(page, f"document.querySelector('#gen-bars button').dataset.after > {before}")
    page.click("text=Greedy")
    page.wait_for_selector(".gen-drawn")
    assert page.locator("#gen-bars button:not([disabled])").first.get_attribute("class") == "gen-bar gen-drawn"
    assert float(page.locator(".gen-drawn").get_attribute("data-after")) == 1
    page.locator("#gen-bars button").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('.gen-token').length === 1")


def test_the_end_is_said_and_the_next_text_begins_anew(page, served):
    opened(page, served, more="&said=2")
    page.wait_for_selector(".gen-ended")
    assert "ended" in page.inner_text(".gen-ended") and page.locator("#gen-bars").is_hidden()
    page.click("text=Undo")
    page.wait_for_selector("#gen-bars button:visible")
    page.fill("#text", "Rosa lost")
    page.keyboard.press("Enter")
    until(page, "document.getElementById('gen-text')?.textContent.includes('Rosa')")


@pytest.mark.parametrize("address", [
    "models=phrasebook&source=Elle+donne+le+journal.", "models=shapes&image=shapes-1", "models=stories-ngram&text=Tom"])
def test_translators_captioners_and_counts_go_on_too(page, served, address):
    page.goto(f"{served}/#tab=generate&{address}&temperature=0")
    page.wait_for_selector("#gen-bars button", timeout=90_000)
    page.click("text=Step 10")
    page.wait_for_selector(".gen-token")


@pytest.mark.parametrize("theme", ["dark"], indirect=True)
def test_in_the_dark_it_can_be_read(page, served):
    opened(page, served, more="&said=9,8&temperature=0.7")
    page.wait_for_selector(".gen-token")
    assert serious(page) == []
    shot(page, "generate-dark")
    page.set_viewport_size({"width": 800, "height": 600})
    shot(page, "generate-dark-small")
