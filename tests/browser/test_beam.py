"""The Beam tab in a real browser: the tree that is drawn is the search, and everything works from the keyboard."""

import re
from urllib.parse import urlencode

import pytest

from tests.browser.conftest import serious, shot

LINE = "Le chat noir dort."
ROOT, COLUMN, BOX, HEAD, ROW = 76, 158, 124, 26, 24           # beam_tree.js


def opened(page, served, **state):
    page.goto(f"{served}/#{urlencode({'tab': 'beam', **state})}")
    page.wait_for_selector(".beam-body:not([hidden]):not(.busy)", timeout=60_000)       # the first loads the model
    return page


def asked(page, served, **ask):
    """What the server says, asked from the page itself."""
    return page.evaluate("""async ask => (await fetch('/api/beam', {method: 'POST', headers: {'Content-Type':
        'application/json'}, body: JSON.stringify(ask)})).json()""", ask)


def shown(number):
    """A number as the page writes it, up to its digits."""
    return float(number.replace("−", "-"))


def rows(page):
    return page.eval_on_selector_all(
        ".beam-table tbody tr", "all => all.map(row => [...row.children].map(cell => cell.textContent))")


def test_the_tree_shows_the_search(page, served):
    opened(page, served, models="phrasebook", source=LINE, width=4)
    tree = asked(page, served, model="phrasebook", text=LINE, width=4)
    assert page.get_attribute(".beam-scroll", "data-columns") == str(len(tree["columns"]))
    for step, column in enumerate(tree["columns"]):
        page.evaluate("step => { const slider = document.getElementById('beam-step'); slider.value = step;"
                      "slider.dispatchEvent(new Event('input')); }", step + 1)
        told = rows(page)
        assert [row[5] for row in told] == [node["why"] for node in column]
        for row, node in zip(told, column, strict=True):
            assert [shown(cell) for cell in row[2:5]] == pytest.approx(
                [node["log_prob"], node["total"], node["score"]], abs=6e-4)
    best = tree["finished"][0]
    assert page.text_content(".beam-best b") == best["text"].strip()
    page.wait_for_selector(".beam-alignment:not([hidden]) .read-ribbons path")        # what each word read
    shot(page, "beam")


def test_pixels_of_the_best_path_and_of_the_rest(page, served):
    opened(page, served, models="phrasebook", source=LINE, width=3)
    tree = asked(page, served, model="phrasebook", text=LINE, width=3)
    byid = {node["id"]: (node, step, place) for step, column in enumerate(tree["columns"])
            for place, node in enumerate(column)}
    path, at = set(), tree["finished"][0]["node"]
    while at != -1:
        path.add(at)
        at = byid[at][0]["parent"]
    accent = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--accent').trim()")
    wanted = [int(accent[n:n + 2], 16) for n in (1, 3, 5)]
    places = [[ROOT + step * COLUMN + BOX - 3, HEAD + place * ROW + ROW // 2] for _, step, place in byid.values()]
    pixels = page.evaluate("""places => { const canvas = document.querySelector('.beam-canvas'),
        ratio = canvas.width / canvas.clientWidth, {width, height} = canvas;
        const {data} = canvas.getContext('2d').getImageData(0, 0, width, height);
        return places.map(([x, y]) => 4 * (Math.round(y * ratio) * width + Math.round(x * ratio)))
          .map(at => [...data.slice(at, at + 3)]); }""", places)
    for (node, _, _), pixel in zip(byid.values(), pixels, strict=True):
        assert (pixel == wanted) == (node["id"] in path), node


def test_a_click_chooses_a_candidate_and_shows_its_arithmetic(page, served):
    opened(page, served, models="phrasebook", source=LINE, width=3, length_penalty="0.5")
    tree = asked(page, served, model="phrasebook", text=LINE, width=3, length_penalty=0.5)
    place, node = next((place, node) for place, node in enumerate(tree["columns"][1]) if not node["kept"])
    page.locator(".beam-canvas").click(position={"x": ROOT + COLUMN + 40, "y": HEAD + place * ROW + 12})
    page.wait_for_selector(".beam-detail button.strong")
    detail = page.text_content(".beam-detail")
    assert "pruned" in detail and node["why"] in detail and "/ 2^0.5" in detail
    sums = page.eval_on_selector_all(".beam-sum", "all => all.map(each => each.lastChild.textContent)")
    assert shown(re.findall(r"= (\S+)$", sums[0])[0]) == pytest.approx(node["total"], abs=6e-4)
    assert shown(re.findall(r"= (\S+)$", sums[1])[0]) == pytest.approx(node["score"], abs=6e-4)


def test_a_prefix_is_forced_and_let_go_by_the_keyboard_alone(page, served):
    opened(page, served, models="phrasebook", source=LINE, width=3)
    page.locator(".beam-scroll").focus()
    for key in ("Home", "ArrowDown", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    chosen = rows(page)[2]
    assert page.get_attribute(".beam-table tbody tr:nth-child(3) button", "aria-pressed") == "true"
    assert chosen[0] in page.text_content("#said")                                 # told to those who cannot see it
    token = asked(page, served, model="phrasebook", text=LINE, width=3)["columns"][0][2]["token"]
    page.keyboard.press("f")
    page.wait_for_selector(".beam-forced")
    page.wait_for_selector(".beam-body:not(.busy)")
    page.wait_for_url(re.compile(rf"force={token}\b"))
    page.locator(".beam-scroll").focus()
    page.keyboard.press("Home")
    assert "forced" in [row[5] for row in rows(page)]
    assert page.text_content("#beam-forced").strip("“”⁨⁩") == chosen[0].strip()
    page.keyboard.press("u")
    page.wait_for_selector(".beam-forced", state="detached")
    page.wait_for_url(re.compile(r"^(?!.*force=)"))


def test_an_address_opens_the_same_view(page, served):
    opened(page, served, models="phrasebook", source=LINE, width=3, step=1, node=4)
    assert page.input_value("#beam-step") == "1" and page.text_content(".beam-detail h3").startswith("Up to")
    assert page.locator(".beam-table tr.on").count() == 1


def test_a_wide_tree_is_clipped_and_quick(page, served):
    opened(page, served, models="stories-transformer", text="Once upon a time", width=16, new_tokens=96)
    columns = int(page.get_attribute(".beam-scroll", "data-columns"))
    assert columns > 20
    box, canvas = page.evaluate("[document.querySelector('.beam-scroll').clientWidth, "
                                "document.querySelector('.beam-canvas').clientWidth]")
    assert canvas <= box < ROOT + columns * COLUMN                                 # only what is in view is drawn
    worst = page.evaluate("""async () => { const scroller = document.querySelector('.beam-scroll'), took = [];
        const frame = () => new Promise(done => requestAnimationFrame(done));
        for (let n = 0; n < 20; n++) { scroller.scrollLeft = n * 200; scroller.dispatchEvent(new Event('scroll'));
          const began = performance.now(); await frame(); await frame(); took.push(performance.now() - began); }
        return took.sort((a, b) => a - b)[17]; }""")
    assert worst < 300, f"{worst} ms for two frames"
    shot(page, "beam-wide")


def test_captioners_and_mistakes(page, served):
    opened(page, served, models="shapes", image="shapes-1", width=2)
    page.wait_for_selector(".beam-picture:not([hidden])")
    page.goto(f"{served}/#{urlencode({'tab': 'beam', 'models': 'phrasebook', 'source': '  '})}")
    page.get_by_text("Write something to translate").wait_for()


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
def test_nobody_is_barred(page, served, theme):
    opened(page, served, models="phrasebook", source=LINE, width=3, step=1, node=1)
    page.wait_for_selector(".beam-alignment:not([hidden])")
    assert not serious(page)
    shot(page, f"beam-{theme}")
    page.set_viewport_size({"width": 800, "height": 600})
    page.wait_for_timeout(200)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    shot(page, f"beam-{theme}-small")
