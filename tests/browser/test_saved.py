"""Files that were saved, and the frame of a notebook, in Chromium: the same map without a server, in all its views."""

import base64
import json
import re

import numpy as np
import pytest

import regard
from regard.look.look import Look, LookSide, Prediction, Request, Token
from regard.look.render.colours import MOST, between
from regard.look.render.maps import Map
from regard.look.render.painting import painted_page
from regard.look.render.saved_page import as_plain_script, page
from regard.look.track import Track
from regard.look.views import join_words, row_spans, thumbnails, view, word_spans
from regard.serve.payload import shade
from regard.watching import Recorder
from tests.look.test_render import CAT, EMPTY, HARD, SIGNED
from tests.look.test_saved_page import caption

LONG = Map([f"r{n}" for n in range(50)], [f"c{n}" for n in range(45)], np.eye(50, 45) * 0.5 + 0.005)


@pytest.fixture
def opened(shared_tab, tmp_path):
    """Opens a file, waits until it is drawn, and fails at the end if the console said anything."""
    tab, troubles, asked = shared_tab, [], []
    tab.listen_to("console", lambda said: troubles.append(said.text))
    tab.listen_to("pageerror", lambda error: troubles.append(str(error)))
    tab.listen_to("request", lambda request: asked.append(request.url))

    def open_file(text, address=""):
        path = tmp_path / "map.html"
        path.write_text(text)
        tab.goto(f"{path.as_uri()}{address}")
        tab.wait_for_selector("#panel[data-ready]", timeout=60_000)
        return tab

    yield open_file
    tab.goto("about:blank")
    assert not troubles, troubles
    assert all(url.startswith(("file:", "data:", "blob:", "about:")) for url in asked), asked


def top_ten(tab):
    rows = tab.locator(".top-ten tbody tr")
    return [(cells[1], float(cells[2].replace("−", "-"))) for cells in
            (row.locator("td, th").all_inner_texts() for row in rows.all())]


@pytest.mark.parametrize(("layer", "head"), [("mean", "max"), ("1", "2"), ("max", "mean"), ("2", "3")])
def test_the_file_draws_the_view_that_its_address_asks_for(opened, layer, head):
    tab = opened(page([CAT, HARD]), f"#models=2&layer={layer}&head={head}&row=3&column=5")
    shown = HARD.at(layer, head).shown[3]
    told = top_ten(tab)
    assert [value for _, value in told] == pytest.approx(sorted(shown, reverse=True)[:10], rel=6e-3)
    line = tab.locator(".read-line").inner_text()
    value = re.search(r"reads .*, ([\d.e−]+), rank", line)[1].replace("−", "-")
    assert float(value) == pytest.approx(shown[5], rel=6e-3)
    assert line.endswith("a gold link") and f"rank {1 + (shown > shown[5]).sum()} of {len(shown)}" in line


def test_the_canvas_has_the_colour_of_every_cell(opened):
    tab = opened(page([LONG]))
    pixels = tab.evaluate("""() => {
      const canvas = document.querySelector(".read-cells");
      const { left, top, across, down, rows, columns, ratio } = canvas.dataset;
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height), found = [];
      for (let r = 0; r < +rows; r++) for (let c = 0; c < +columns; c++) {
        const x = Math.floor((+left + (c + .5) * +across) * +ratio), y = Math.floor((+top + (r + .5) * +down) * +ratio);
        found.push([...data.slice(4 * (y * canvas.width + x), 4 * (y * canvas.width + x) + 4)]);
      }
      return found;
    }""")
    shades = np.rint(255 * LONG.shades) / 255
    wanted = [between(MOST["light"], float(shade)) for shade in shades.ravel()]
    assert len(pixels) == len(wanted) == 50 * 45
    assert ["#{:02x}{:02x}{:02x}".format(*pixel[:3]) for pixel in pixels] == wanted


def test_a_signed_map_and_an_empty_one_are_drawn(opened):
    tab = opened(page([SIGNED, EMPTY]), "#row=0")
    assert top_ten(tab) == [("x", 1.0), ("y", -0.5)] and "orange above" in tab.locator(".badge").inner_text()
    tab.get_by_role("button", name="What target read").last.click()
    tab.wait_for_selector('#panel[data-ready^="2 "]')
    assert tab.locator(".read-map").is_hidden()


def test_keys_move_and_the_status_says_what_is_read(opened):
    tab = opened(page([CAT]))
    tab.locator(".read-grid").focus()
    for key in ("ArrowRight", "ArrowUp", "ArrowRight", "ArrowRight"):
        tab.keyboard.press(key)
    said = tab.locator("#said").inner_text()
    assert said.startswith("“\u2068black\u2069” reads “\u2068noir\u2069”, 0.800, rank 1 of 3")
    tab.keyboard.press("Escape")
    tab.wait_for_url(lambda url: "row=" not in url)


def test_numbers_of_a_file_are_those_of_the_server(shared_tab):
    """Views, words, rollout and thumbnails, worked out by read_local.js and by look/views.py."""
    size = 70
    values = np.random.default_rng(0).dirichlet(np.ones(size), (2, 3, size)).astype(np.float32)
    tokens = tuple(Token(n, f"t{n}", special=n == 0, word=-1 if n % 5 == 0 else n // 2) for n in range(size))
    tracks = [Track(name, "weights", "b", "a", "text", "text", values.shape, label, held=values)
              for name, label in (("self", "read"), ("own", "writes"))]
    seen = Look(Request(text=""), "f", "lm", {"text": LookSide("text", "text", "", tokens)}, "text",
                tuple(Prediction(n, "x", 1.0, 0.5, 1) for n in range(size)), tuple(tracks), watched=Recorder)
    told = {**seen.as_dict(), "id": "1"}
    raw = {track.name: base64.b64encode(values.tobytes()).decode() for track in tracks}
    tab = shared_tab
    needed = ("dom.js", "payload.js", "colours.js", "read_view.js", "read_local.js")
    script = "\n".join(map(as_plain_script, needed))

    tab.evaluate(f"""([look, numbers]) => {{ {script}
      window.local = localLooks({{ looks: {{ m: look }}, numbers: {{ "1": numbers }} }}); }}""", [told, raw])

    def ask(path):
        found = tab.evaluate("""path => {
          const { data, shape, scale } = Object.values(window.local.numbers(path).arrays)[0];
          return { data: JSON.stringify([...data]), shape, scale }; }""", f"/api/look/1/{path}")
        return np.array(json.loads(found["data"])).reshape(found["shape"]), found["scale"]

    for layer, head in ((1, 2), ("mean", "mean"), ("max", "mean"), ("rollout", "max")):
        cells, _ = ask(f"self/cells?layer={layer}&head={head}&words=0")
        np.testing.assert_allclose(cells, view(tracks[0], layer, head), atol=1e-6)
    for track in tracks:
        cells, _ = ask(f"{track.name}/cells?layer=2&head=1&words=1")
        wanted = join_words(view(track, 2, 1), row_spans(seen, track), word_spans(seen.sides["text"]))
        np.testing.assert_allclose(cells, wanted, atol=1e-6)
    for pool in ("max", "sum"):
        small = thumbnails(values, 64, pool, False)
        atlas, scale = ask(f"self/atlas?size=64&pool={pool}")
        assert scale == pytest.approx(1.0 if pool == "max" else small.max(), rel=1e-6)
        off = np.abs(atlas.astype(int) - shade(small.reshape(6, 64, 64), scale, False).astype(int))
        assert off.max() <= 1 and (off > 0).mean() < 0.001                         # halves may be rounded either way
    row, _ = ask("self/row?row=7")
    np.testing.assert_array_equal(row, values[:, :, 7])


def test_a_painted_picture_lets_one_choose_word_layer_and_head(opened):
    image = np.full((16, 32, 3), 255, np.uint8)
    told = caption()
    tab = opened(painted_page(image, told, (2, 4), layer=2, head=1))
    assert "a &lt;b&gt;red&lt;/b&gt; star" in tab.content()
    tab.locator(".read-words button", has_text="star").click()
    assert tab.locator('.read-words [aria-pressed="true"]').inner_text() == "star"

    def lights():
        return np.array(tab.evaluate("""() => {
          const canvas = document.querySelector(".read-picture"), { width, height } = canvas;
          const copy = new OffscreenCanvas(width, height).getContext("2d");
          copy.drawImage(canvas, 0, 0);
          const { data } = copy.getImageData(0, 0, width, height);
          const at = (r, c) => Math.floor((r + .5) * height / 2) * width + Math.floor((c + .5) * width / 4);
          return [0, 1].map(r => [0, 1, 2, 3].map(c => data[4 * at(r, c)])); }"""))

    def wanted(weights):
        share = np.sqrt(weights / weights.max()).reshape(2, 4)
        return 255 * (1 - 0.88 * (1 - share))

    np.testing.assert_allclose(lights(), wanted(told.weights[1, 0, 2]), atol=2)
    tab.get_by_label("Layer", exact=True).select_option("1")
    tab.wait_for_selector('#panel[data-ready$=" 1 1"]')
    np.testing.assert_allclose(lights(), wanted(told.weights[0, 0, 2]), atol=2)


def test_the_frame_of_a_notebook_is_drawn_by_a_browser(runs, tmp_path, shared_tab):
    html = regard.show(str(runs / "stories-transformer"), "Mia had a red ball.", head=1)._repr_html_()
    (tmp_path / "cell.html").write_text(f"<!doctype html><body>{html}</body>")
    tab, troubles = shared_tab, []
    tab.listen_to("console", lambda said: troubles.append(said.text))
    tab.listen_to("pageerror", lambda error: troubles.append(str(error)))
    tab.goto((tmp_path / "cell.html").as_uri())
    frame = tab.frame_locator("iframe")
    frame.locator("#panel[data-ready]").wait_for(timeout=20_000)
    frame.locator(".read-grid").focus()
    tab.keyboard.press("ArrowUp")
    tab.keyboard.press("ArrowRight")
    assert " reads " in frame.locator("#said").inner_text() and not troubles
