"""The Compare tab in a real browser: tints, tables and difference maps are the numbers that the server gave."""

import re
from urllib.parse import urlencode

import pytest

from tests.browser.conftest import serious, shot

TEXT = "Tom had a red ball, and Mia had a dog."
FOUR = "stories-transformer,stories-rnn,stories-ngram,stories-mamba"


def opened(page, served, **state):
    page.goto(f"{served}/#{urlencode({'tab': 'compare', **state})}")
    page.wait_for_selector(".compare-body:not([hidden]):not(.busy)", timeout=60_000)    # the first loads the models
    return page


def asked(page, path, **ask):
    return page.evaluate("""async ([path, ask]) => (await fetch(path, {method: 'POST', headers: {'Content-Type':
        'application/json'}, body: JSON.stringify(ask)})).json()""", [path, ask])


def shown(number):
    return float(number.replace("−", "-"))


def cells(page, selector):
    return page.eval_on_selector_all(
        f"{selector} tbody tr", "all => all.map(row => [...row.children].map(cell => cell.textContent))")


def test_four_models_on_one_text(page, served):
    opened(page, served, models=FOUR, text=TEXT)
    told = asked(page, "/api/side-by-side", models=FOUR.split(","), text=TEXT)
    table = cells(page, ".compare-totals > :nth-child(1)")
    for row, model in zip(table, told["models"], strict=True):
        assert model["id"] in row[0] and int(row[2]) == len(model["tokens"])
        assert shown(row[3]) == pytest.approx(model["bits"], rel=1e-3)
        assert shown(row[4]) == pytest.approx(model["bits_per_character"], abs=6e-4)
    pairs = cells(page, ".compare-meetings")
    for row, pair in zip(pairs, told["pairs"], strict=True):
        assert row[3] == pair["why_not"] if pair["js"] is None else shown(row[3]) == pytest.approx(
            sum(pair["js"]) / len(pair["js"]), abs=6e-4)
    assert page.locator(".compare-curve path").count() == sum(pair["js"] is not None for pair in told["pairs"])
    shot(page, "compare")


def test_tints_are_bits_per_character_on_one_scale(page, served):
    opened(page, served, models=FOUR, text=TEXT)
    told = asked(page, "/api/side-by-side", models=FOUR.split(","), text=TEXT)
    top = max(max(model["per_character"]) for model in told["models"])
    found = page.evaluate("""async top => { const {colourOf, shadeOf, css} = await import('/colours.js');
        const made = document.createElement('i');
        return [...document.querySelectorAll('.compare-text')].map(text => [...text.children].map(span => {
          made.style.background = css(colourOf(shadeOf(+span.dataset.bits, top)));
          const same = span.style.background === made.style.background;
          return [+span.dataset.at, +span.dataset.bits, same, span.textContent]; })); }""", top)
    for spans, model in zip(found, told["models"], strict=True):
        assert "".join(text for *_, text in spans) == TEXT
        for at, bits, same, _ in spans:
            assert bits == pytest.approx(model["per_character"][at], rel=1e-9) and same


def test_the_keyboard_moves_along_the_text_and_says_what_is_there(page, served):
    opened(page, served, models=FOUR, text=TEXT)
    told = asked(page, "/api/side-by-side", models=FOUR.split(","), text=TEXT)
    page.locator(".compare-text").first.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    piece, start, _, bits, expected = told["models"][0]["tokens"][2]
    page.locator("#said", has_text=f"{piece}").wait_for()
    assert page.locator(".compare-expected article").count() == 4
    first = page.locator(".compare-expected article").first
    assert first.locator("tbody tr").count() == 10
    assert first.locator("tbody th").all_text_contents() == [one[1].strip() for one in expected]
    assert shown(first.locator(".compare-token").first.text_content().split()[1]) == pytest.approx(bits, abs=6e-4)
    assert page.locator(".compare-text .here").count() >= 4
    page.wait_for_url(re.compile(rf"char={start}\b"))
    # Letters: tokens that another model has among its ten, having read the same.
    pair = next(pair for pair in told["pairs"] if (pair["a"], pair["b"]) == tuple(FOUR.split(",")[:2]))
    place = next(n for n, (_, mine, _) in enumerate(pair["at"]) if mine == 2)
    shared = first.locator(".compare-shared", has_text="B").count()
    assert shared == pair["overlap"][place]
    page.keyboard.press("Escape")
    page.wait_for_selector(".compare-expected", state="detached")


def test_the_difference_map_is_one_map_less_the_other(page, served):
    both = "stories-transformer,stories-rnn"
    opened(page, served, models=both, text="Tom had a red ball.", difference="0-1")
    page.wait_for_selector(".compare-map canvas")
    track = page.locator(".compare-maps select").nth(1).input_value() if page.locator(
        ".compare-maps select").count() > 1 else "influence-gradient"
    found = page.evaluate("""async ([models, track]) => { const {unpack} = await import('/payload.js');
        const {colourOf, shadeOf} = await import('/colours.js'), all = [];
        for (const model of models) {
          const look = await (await fetch('/api/look', {method: 'POST', headers: {'Content-Type': 'application/json'},
            body: JSON.stringify({model, text: 'Tom had a red ball.'})})).json();
          const layer = look.tracks.find(each => each.name === track);
          const query = `layer=${layer.layers > 1 ? 'mean' : 1}&head=${layer.heads > 1 ? 'mean' : 1}&words=0`;
          const message = await fetch(`/api/look/${look.id}/${track}/cells?${query}`);
          all.push(Object.values(unpack(await message.arrayBuffer()).arrays)[0]); }
        const [rows, columns] = all[0].shape, canvas = document.querySelector('.compare-map .read-cells');
        const values = [...all[0].data].map((value, at) => value - all[1].data[at]);
        const top = Math.max(...values.map(Math.abs)), place = canvas.dataset, wrong = [];
        const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) {
          const x = Math.round((+place.left + (column + .12) * place.across) * place.ratio);
          const y = Math.round((+place.top + (row + .2) * place.down) * place.ratio), at = 4 * (y * canvas.width + x);
          const pixel = [...data.slice(at, at + 3)];
          const wanted = colourOf(Math.round(127 * shadeOf(values[row * columns + column], top)) / 127, true);
          if (pixel.some((part, n) => Math.abs(part - wanted[n]) > 1)) wrong.push([row, column, pixel, wanted]); }
        return {wrong, count: values.length, top}; }""", [both.split(","), track])
    assert found["count"] > 30 and found["top"] > 0 and not found["wrong"]
    shot(page, "compare-difference")


def test_translators_judge_each_other(page, served):
    both = "phrasebook,phrasebook-transformer"
    opened(page, served, models=both, source="Le chat noir dort.", difference="0-1")
    told = asked(page, "/api/side-by-side", models=both.split(","), text="Le chat noir dort.")
    for row, model in zip(cells(page, ".compare-totals > :nth-child(1)"), told["models"], strict=True):
        assert row[1] == (model["text"].strip() or "(nothing)")
        assert [shown(cell) for cell in row[6:]] == pytest.approx(model["judged"], rel=1e-3)
    page.wait_for_selector(".compare-map canvas")                                  # what each word read, of both
    shot(page, "compare-translators")


def test_one_model_is_asked_for_another(page, served):
    page.goto(f"{served}/#{urlencode({'tab': 'compare', 'models': 'stories-rnn'})}")
    page.get_by_role("button", name="stories-ngram", exact=True).click()
    page.wait_for_selector(".compare-body:not([hidden])")
    assert page.locator(".compare-column").count() == 2
    page.goto(f"{served}/#{urlencode({'tab': 'compare', 'models': 'stories-rnn,phrasebook'})}")
    page.get_by_text("do different things").wait_for()


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
def test_nobody_is_barred(page, served, theme):
    opened(page, served, models=FOUR, text=TEXT, char=8, of=0, difference="0-1")
    page.wait_for_selector(".compare-map canvas")
    assert not serious(page)
    shot(page, f"compare-{theme}")
    page.set_viewport_size({"width": 800, "height": 600})
    page.wait_for_timeout(200)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    shot(page, f"compare-{theme}-small")
