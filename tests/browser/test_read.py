"""Read: every family has its map, every pixel and number is the model's, and all of it works by keyboard."""

import json
import re
from urllib.parse import urlencode

import numpy as np
import pytest

from regard.corpora import stories
from regard.look.render.colours import ABOVE, BELOW, MOST, between
from tests.browser.conftest import serious, shot
from tests.browser.waiting import until
from tests.serve.unpacking import unpack

SHORT = "Mia had a red ball."
STORY = " ".join(stories.generate(4))
FRENCH = "Le chat noir dort."
HAS_DOG = "[...document.querySelectorAll('.token')].some(each => each.textContent.includes('dog'))"


def open_view(page, served, model, **state):
    page.goto("about:blank")                                   # a new address alone would not begin anew
    page.goto(f"{served}/#{urlencode({'models': model, **state})}")
    page.wait_for_selector("#panel[data-ready]", timeout=60_000)                  # the first one loads the model
    return page


def settled(page, layer, head):
    page.wait_for_selector(f'#panel[data-ready$=" {layer} {head}"]')


def numbers(page, served, what, **asked):
    """(header, array) of the view that is drawn, as the server has it."""
    id, track = page.locator("#panel").get_attribute("data-ready").split(" ")[:2]
    answer = page.request.get(f"{served}/api/look/{id}/{track}/{what}?{urlencode(asked)}")
    assert answer.ok, answer.text()
    header, arrays = unpack(answer.body())
    return header, next(iter(arrays.values()))


def cell_colours(page):
    """The colour in the middle of every cell of the canvas, as it is drawn."""
    told = page.evaluate("""() => {
      const canvas = document.querySelector(".read-cells");
      const place = Object.fromEntries(Object.entries(canvas.dataset).map(([name, value]) => [name, +value]));
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
      copy.drawImage(canvas, 0, 0);
      const { data } = copy.getImageData(0, 0, canvas.width, canvas.height), found = [];
      const low = place.down > 14 ? .12 : .5;              // beside the number that is printed in a large cell
      for (let r = 0; r < place.rows; r++) for (let c = 0; c < place.columns; c++) {
        const x = Math.floor((place.left + (c + .5) * place.across) * place.ratio);
        const y = Math.floor((place.top + (r + low) * place.down) * place.ratio);
        found.push([...data.slice(4 * (y * canvas.width + x), 4 * (y * canvas.width + x) + 3)]);
      }
      return { found: JSON.stringify(found), rows: place.rows, columns: place.columns };
    }""")
    colours = ["#{:02x}{:02x}{:02x}".format(*each) for each in json.loads(told["found"])]
    return np.array(colours).reshape(told["rows"], told["columns"])


def wanted_colour(byte, signed, theme):
    if not signed:
        return between(MOST[theme], byte / 255)
    return between((BELOW if byte < 0 else ABOVE)[theme], abs(byte) / 127)


# ------------------------------------------------------------------------------------------- every family


@pytest.mark.parametrize(("model", "asked", "badge"), [
    ("stories-transformer", {"text": SHORT}, "weights, rows sum to 1"),
    ("stories-rnn", {"text": SHORT}, "influence (gradient × embedding), signed"),
    ("stories-mamba", {"text": SHORT}, "implicit kernel, signed"),
    ("stories-ngram", {"text": SHORT}, "back-off"),
    ("phrasebook", {"source": FRENCH}, "weights, rows sum to 1"),
    ("phrasebook-transformer", {"source": FRENCH}, "weights, rows sum to 1"),
    ("gists", {"source": "Mia lost her ball. Tom found it in the garden."}, "weights, rows sum to 1"),
    ("shapes", {}, "weights, rows sum to 1")])
def test_every_family_has_its_map_and_badge(page, served, model, asked, badge):
    open_view(page, served, model, **asked)
    assert badge in page.locator(".badge").inner_text()
    assert len(page.locator(".read-badge").inner_text()) > len(badge) + 40          # and a sentence about it
    assert page.locator(".top-ten tbody tr").count() > 0 and page.locator(".read-cells").is_visible()
    shot(page, f"read-{model}")


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
@pytest.mark.parametrize(("model", "text"), [("stories-transformer", STORY), ("stories-transformer", SHORT),
                                             ("stories-mamba", SHORT)])
def test_pixels_are_the_colours_of_the_payload(page, served, theme, model, text):
    open_view(page, served, model, text=text, layer=1, head=1)
    header, bytes_ = numbers(page, served, "map", layer=1, head=1)
    drawn = cell_colours(page)
    assert drawn.shape == bytes_.shape
    wanted = np.vectorize(lambda byte: wanted_colour(int(byte), header["signed"], theme))(bytes_)
    assert (drawn == wanted).all(), np.argwhere(drawn != wanted)[:5]


def test_numbers_are_the_models_own(page, served):
    open_view(page, served, "stories-transformer", text=STORY, layer=2, head=1, row=20, column=7)
    _, cells = numbers(page, served, "cells", layer=2, head=1)
    rows = [row.locator("td").last.inner_text() for row in page.locator(".top-ten tbody tr").all()]
    assert [float(text) for text in rows] == pytest.approx(sorted(cells[20], reverse=True)[:10], rel=6e-3)
    line = page.locator(".read-line").inner_text()
    value, rank = re.search(r", ([\d.e−]+), rank (\d+) of", line).groups()
    assert float(value.replace("−", "-")) == pytest.approx(cells[20, 7], rel=6e-3)
    assert int(rank) == 1 + (cells[20] > cells[20, 7]).sum()
    shares = cells[20][cells[20] > 0]
    entropy = re.search(r"entropy is ([\d.]+) bits", line)[1]
    assert float(entropy) == pytest.approx(-(shares * np.log2(shares)).sum(), abs=0.006)


def test_a_row_of_a_long_text_is_asked_for_when_it_is_pointed_at(page, served):
    """Of more numbers than come at once, each row comes by itself, exact."""
    text = " ".join(stories.generate(14))
    open_view(page, served, "stories-ngram", text=text, row=200)
    assert page.locator(".read-minimap").is_visible() and page.locator(".read-ribbons").is_hidden()
    until(page, "document.querySelector('.top-ten')")
    _, row = numbers(page, served, "row", row=200)
    rows = page.locator(".top-ten tbody tr").all_inner_texts()
    assert len(rows) == int(row[0, 0].sum())
    tinted = page.locator(".token").evaluate_all(
        "all => all.filter(each => each.style.backgroundColor).map(each => +each.dataset.at)")
    assert tinted == np.flatnonzero(row[0, 0]).tolist()                              # the text shows the same
    shot(page, "read-long")


# ----------------------------------------------------------------------------------------------- pointing


def middle_of(page, row, column):
    place = page.locator(".read-cells").evaluate("node => ({...node.dataset})")
    box = page.locator(".read-over").bounding_box()
    return (box["x"] + float(place["left"]) + (column + .5) * float(place["across"]),
            box["y"] + float(place["top"]) + (row + .5) * float(place["down"]))


def test_hovering_tells_clicking_pins_and_escape_lets_go(page, served):
    open_view(page, served, "stories-transformer", text=SHORT)
    page.mouse.move(*middle_of(page, 3, 1))
    until(page, "/reads.*rank/.test(document.querySelector('.read-line').textContent)")
    hovered = page.locator(".read-line").inner_text()
    page.mouse.down()
    page.mouse.up()
    page.wait_for_url(re.compile("row=3&column=1"))
    page.mouse.move(5, 5)
    assert page.locator(".read-line").inner_text() == hovered
    page.keyboard.press("Escape")
    page.wait_for_url(lambda url: "row=" not in url)


def test_dragging_zooms_and_a_double_click_shows_all_again(page, served):
    open_view(page, served, "stories-transformer", text=STORY)
    whole = page.locator(".read-cells").get_attribute("data-columns")
    page.mouse.move(*middle_of(page, 10, 5))
    page.mouse.down()
    page.mouse.move(*middle_of(page, 20, 12))
    page.mouse.move(*middle_of(page, 29, 16))
    page.mouse.up()
    page.wait_for_selector('.read-cells[data-columns="12"][data-rows="20"][data-first-row="10"][data-first-column="5"]')
    shot(page, "read-zoomed")
    page.locator(".read-over").dblclick(position={"x": 200, "y": 200})
    page.wait_for_selector(f'.read-cells[data-columns="{whole}"]')


def test_ribbons_hold_the_share_that_is_asked_for(page, served):
    open_view(page, served, "stories-transformer", text=SHORT, layer=1, head=1)
    _, cells = numbers(page, served, "cells", layer=1, head=1)

    def fewest(share):
        return sum(1 + int((np.sort(row)[::-1].cumsum() < share * row.sum() - 1e-9).sum()) for row in cells)

    assert page.locator(".read-ribbons path").count() == fewest(0.9)
    page.get_by_label("Share of a row").fill("50")
    page.locator(".read-ribbons path").nth(fewest(0.5)).wait_for(state="detached")
    assert page.locator(".read-ribbons path").count() == fewest(0.5)
    open_view(page, served, "stories-transformer", text=STORY, row=30)
    until(page, "document.querySelectorAll('.read-ribbons path[data-row]').length > 0")
    rows = page.locator(".read-ribbons path[data-row]").evaluate_all("all => all.map(each => each.dataset.row)")
    assert set(rows) == {"30"}


# ---------------------------------------------------------------------------------------------- by keyboard


def test_a_journey_by_keyboard_alone(page, served):
    open_view(page, served, "stories-transformer", text=SHORT, layer=1, head=1)
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "read-grid":
            break
    assert page.evaluate("document.activeElement.getAttribute('role')") == "application"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    until(page, r"/ reads .*rank \d+/.test(document.querySelector('#said').textContent)")
    said = page.locator("#said").inner_text()
    assert re.search(r"“.*” reads “.*”, .*, rank \d", said)
    assert page.locator("#said").get_attribute("aria-live") == "polite"
    page.keyboard.press("]")
    settled(page, "2", "1")
    page.keyboard.press(".")
    settled(page, "2", "2")
    page.keyboard.press("g")
    settled(page, "2", "mean")
    page.keyboard.press(",")
    settled(page, "2", "2")
    page.keyboard.press("[")
    settled(page, "1", "2")
    page.keyboard.press("Enter")
    page.wait_for_selector('#tab-compute[aria-selected="true"]')


def test_no_key_fires_while_typing_and_slash_goes_to_the_text(page, served):
    open_view(page, served, "stories-transformer", text=SHORT, layer=1, head=1)
    page.locator(".read-grid").focus()
    page.keyboard.press("/")
    page.keyboard.type("]g.")
    assert page.locator("#text").input_value() == f"{SHORT}]g."
    settled(page, "1", "1")
    page.locator("#text").fill("Tom had a dog.")
    page.keyboard.press("Enter")
    until(page, HAS_DOG)


def test_space_plays_through_the_rows(page, served):
    open_view(page, served, "stories-transformer", text=SHORT)
    page.locator(".read-grid").focus()
    page.keyboard.press(" ")
    page.wait_for_url(re.compile("row=2"), timeout=60_000)
    page.keyboard.press(" ")
    assert page.locator("#said").inner_text() == "Stopped."


# ------------------------------------------------------------------------------------------------- views


def test_the_atlas_opens_a_head_by_mouse_and_by_key_and_sorts(page, served):
    open_view(page, served, "stories-transformer", text=SHORT)
    atlas = page.locator(".read-atlas canvas")
    page.wait_for_selector("#panel[data-atlas]")
    place = atlas.evaluate("node => ({...node.dataset})")
    step, edge = float(place["step"]), float(place["edge"])
    atlas.click(position={"x": edge + 1.5 * step, "y": edge - 8 + 0.5 * step})
    settled(page, "1", "2")
    atlas.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    settled(page, "2", "1")
    page.get_by_label("Sort", exact=True).select_option("entropy")
    page.wait_for_selector('#panel[data-atlas$="entropy"]')
    shot(page, "read-atlas-sorted")


def test_thumbnails_have_the_colours_of_the_payload(page, served):
    open_view(page, served, "stories-transformer", text=STORY)
    page.wait_for_selector("#panel[data-atlas]")
    _, thumbs = numbers(page, served, "atlas", size=64)
    assert thumbs.shape[1:] == (64, 64)
    pixels = page.evaluate("""() => {
      const canvas = document.querySelector(".read-atlas canvas");
      const edge = +canvas.dataset.edge, step = +canvas.dataset.step;
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
      copy.drawImage(canvas, 0, 0);
      const { data } = copy.getImageData(edge + step, edge - 8, 64, 64);
      return [...data];
    }""")                                                                            # layer 1, head 2
    drawn = np.array(pixels).reshape(64, 64, 4)[:, :, :3]
    colours = np.array([list(bytes.fromhex(between(MOST["light"], byte / 255)[1:])) for byte in range(256)])
    inner = (slice(2, 62), slice(2, 62))                                             # a frame is drawn around it
    np.testing.assert_array_equal(drawn[inner], colours[thumbs[1]][inner])


def test_what_is_hidden_pooled_or_scaled_is_said(page, served):
    open_view(page, served, "stories-mamba", text=SHORT)
    rows = int(page.locator(".read-cells").get_attribute("data-rows"))
    page.get_by_label("hide specials").check()
    page.wait_for_selector(f'.read-cells[data-rows="{rows - 1}"]')
    assert "nothing is renormalised" in page.locator("#panel").inner_text()
    page.get_by_label("autoscale").check()
    until(page, "document.querySelector('.read-legend').textContent.includes('autoscaled')")
    page.get_by_label("whole words").check()
    until(page, f"+document.querySelector('.read-cells').dataset.rows < {rows - 5}")
    assert "all its pieces together" in page.locator("#panel").inner_text()


def test_an_address_opens_the_same_view_again(page, served):
    open_view(page, served, "stories-transformer", text=SHORT, layer=2, head=2, row=4, column=2, specials=0)
    page.keyboard.press("c")
    address = page.evaluate("navigator.clipboard.readText()")
    line = page.locator(".read-line").inner_text()
    again = page.context.new_page()
    again.goto(address)
    again.wait_for_selector('#panel[data-ready$=" 2 2"]')
    assert again.locator(".read-line").inner_text() == line and "rank" in line
    again.close()


# ------------------------------------------------------------------------------------------ what is written


def test_the_model_writes_on_and_each_token_has_its_surprise(page, served):
    open_view(page, served, "stories-transformer", text="Mia had")
    before = page.locator(".token").count()
    page.get_by_label("Tokens to write").fill("6")
    page.get_by_role("button", name="Write", exact=True).click()
    until(page, f"document.querySelectorAll('.token').length > {before}")
    assert "bits" in page.locator(".token").last.get_attribute("title")


def test_a_translator_reads_the_target_that_it_is_given(page, served):
    open_view(page, served, "phrasebook", source=FRENCH)
    page.get_by_label("Target: edit it").fill("the dog is black .")
    page.get_by_role("button", name="Read this target").click()
    until(page, HAS_DOG)
    page.get_by_role("button", name="The model’s own").click()
    until(page, f"!{HAS_DOG}")


def test_a_captioner_paints_the_picture_for_each_word(page, served):
    open_view(page, served, "shapes", image="shapes-2")
    words = page.locator(".read-words button")
    assert words.count() >= 2
    words.first.click()
    light = page.locator(".read-picture").evaluate("node => node.toDataURL()")
    page.get_by_label("heat").check()
    until(page, f"document.querySelector('.read-picture').toDataURL() !== {json.dumps(light)}")
    assert "reads most of the patch in row" in page.locator(".read-painted").inner_text()
    shot(page, "read-picture")


def test_influence_stands_beside_weights(page, served):
    open_view(page, served, "stories-transformer", text=SHORT)
    page.get_by_label("Shows", exact=True).select_option("influence-occlusion")
    until(page, "document.querySelector('.badge').textContent.includes('influence')")
    assert "is moved by" in page.locator(".read-line").inner_text() or page.locator(".top-ten tbody tr").count() > 0


def test_what_cannot_be_read_is_said_in_one_line(page, served):
    page.goto(f"{served}/#models=phrasebook&source=+")
    until(page, "document.querySelector('#said').textContent.includes('blank')")
    assert page.locator(".read-empty").inner_text() == page.locator("#said").inner_text()
    page.troubles.clear()                            # the browser itself notes the refused request on its console


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
@pytest.mark.parametrize("model", ["stories-transformer", "shapes"])
def test_nothing_bars_anybody(page, served, theme, model):
    open_view(page, served, model, row=1, column=1)
    assert serious(page) == []
    shot(page, f"read-{model}-{theme}")
