"""Sharing a view: its address, PNG, SVG, CSV, and one file that opens without any server."""

import csv
import io
import struct
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from tests.browser.test_read import SHORT, STORY, numbers, open_view
from tests.browser.waiting import until

SVG = "{http://www.w3.org/2000/svg}"


def shared(page, what):
    """The file that an entry of the menu gives."""
    page.locator("#share").click()
    with page.expect_download() as waiting:
        page.get_by_role("menuitem", name=what).click()
    return waiting.value


def test_the_menu_opens_and_closes_by_keyboard(page, served):
    open_view(page, served, "stories-transformer", text=SHORT)
    page.keyboard.press("e")
    assert page.locator("#share").get_attribute("aria-expanded") == "true"
    assert page.evaluate("document.activeElement.textContent") == "Copy the address of this view"
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent").startswith("PNG")
    page.keyboard.press("Escape")
    assert page.locator("#share-menu").is_hidden() and page.evaluate("document.activeElement.id") == "share"


def test_the_address_is_copied(page, served):
    open_view(page, served, "stories-transformer", text=SHORT, layer=2, head=1)
    page.locator("#share").click()
    page.get_by_role("menuitem", name="Copy the address").click()
    until(page, "document.querySelector('#said').textContent.includes('copied')")
    assert "layer=2&head=1" in page.evaluate("navigator.clipboard.readText()")


def test_a_png_is_twice_the_size(page, served, tmp_path):
    open_view(page, served, "stories-transformer", text=SHORT)
    file = shared(page, "PNG, twice")
    data = file.path().read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    assert data.startswith(b"\x89PNG") and width > 700 and height > 300
    assert file.suggested_filename.endswith(".png")


@pytest.mark.parametrize(("text", "vector"), [(SHORT, True), (STORY, False)])
def test_an_svg_has_cells_or_a_picture_and_its_labels_are_text(page, served, text, vector):
    open_view(page, served, "stories-transformer", text=text, layer=1, head=1)
    tree = ElementTree.parse(shared(page, "SVG").path()).getroot()
    _, cells = numbers(page, served, "cells", layer=1, head=1)
    rectangles = len(list(tree.iter(f"{SVG}rect"))) - 1
    pictures = list(tree.iter(f"{SVG}image"))
    assert (rectangles, len(pictures)) == ((cells.size, 0) if vector else (0, 1))
    texts = ["".join(node.itertext()) for node in tree.iter(f"{SVG}text")]
    assert "Mia" in texts and any("weights, rows sum to 1" in each for each in texts)


def test_a_csv_has_every_number(page, served):
    open_view(page, served, "stories-transformer", text=STORY, layer=1, head=2)
    _, cells = numbers(page, served, "cells", layer=1, head=2)
    rows = list(csv.reader(io.StringIO(shared(page, "CSV").path().read_text("utf-8"))))
    assert rows[0][1] == "<bos>" and rows[1][0] == "<bos>"
    np.testing.assert_allclose(np.array([row[1:] for row in rows[1:]], float), cells, rtol=1e-6)


def test_one_file_opens_without_a_server_and_shows_the_same(page, served, browser, tmp_path):
    open_view(page, served, "stories-transformer", text=SHORT, layer=2, head=1)
    _, cells = numbers(page, served, "cells", layer=1, head=2)
    path = tmp_path / "seen.html"
    shared(page, "One HTML file").save_as(path)
    context = browser.new_context(offline=True)
    alone = context.new_page()
    troubles = []
    alone.on("console", lambda said: troubles.append(said.text))
    alone.on("pageerror", lambda error: troubles.append(str(error)))
    alone.goto(path.as_uri())
    alone.wait_for_selector('#panel[data-ready$=" 2 1"]')
    assert alone.locator(".badge").inner_text() == page.locator(".badge").inner_text()
    alone.get_by_label("Layer", exact=True).select_option("1")
    alone.get_by_label("Head", exact=True).select_option("2")
    alone.wait_for_selector('#panel[data-ready$=" 1 2"]')
    shown = [float(row.locator("td").last.inner_text()) for row in alone.locator(".top-ten tbody tr").all()]
    assert shown == pytest.approx(sorted(cells[-1], reverse=True)[:10], rel=6e-3)
    assert not troubles
    context.close()
