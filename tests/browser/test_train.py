"""Train: a run of 100,000 steps, live, with a spike of one step that must be seen; and what a run wrote."""

import json
import math
import time

import pytest

from regard.config import write_toml
from tests.browser.conftest import Served, serious, shot
from tests.browser.waiting import until

LINES, SPIKE = 100_000, 54_321


def line(step, loss, **more):
    return json.dumps({"step": step, "tokens": 100 * step, "seconds": step / 50, "train_loss": loss, **more}) + "\n"


def loss(step):
    return 1 + 3 * math.exp(-step / 20_000) + 0.05 * math.sin(step / 7)


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "long"
    folder.mkdir()
    (folder / "run.toml").write_text(
        write_toml({"run": {"task": "lm", "family": "rnn"}, "training": {"steps": 200_000}}))
    (folder / "metrics.jsonl").write_text(
        "".join(line(step, 9.0 if step == SPIKE else loss(step)) for step in range(1, LINES + 1)))
    return folder


@pytest.fixture(scope="module")
def growing(runs, long_run):
    server = Served(runs / "stories-ngram", folder=long_run.parent)
    yield server.url
    server.stop()


def plotted(page):
    return page.evaluate("(({x0, x1, left, width}) => ({x0, x1, left, width}))"
                         "(document.getElementById('train-canvas').plot)")


def inked(page, step, value):
    """Whether the pixel column of a step is drawn at the height of a value."""
    return page.evaluate("""([step, value]) => {
      const canvas = document.getElementById("train-canvas"), {toX, toY} = canvas.plot, scale = devicePixelRatio;
      const c = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {willReadFrequently: true});
      c.drawImage(canvas, 0, 0);
      const x = Math.floor(toX(step)), y = Math.round(toY(value));
      const seen = c.getImageData(x * scale, (y + 4) * scale, scale, 6 * scale).data;
      const beside = c.getImageData((x - 12) * scale, (y + 4) * scale, scale, 6 * scale).data;
      const ink = data => data.some((part, at) => at % 4 === 3 && part > 60);
      return [ink(seen), ink(beside)];
    }""", [step, value])


def last_seen(page, step):
    until(page, f"document.querySelector('.train-summary')?.textContent.includes('at {step:,}')")


def test_a_spike_of_one_step_is_drawn_live_and_at_any_zoom(page, growing, long_run):
    page.goto(f"{growing}/#tab=train&runs=long")
    last_seen(page, LINES)
    assert inked(page, SPIKE, 9.0) == [True, False]
    at = LINES
    for _ in range(4):                                     # it goes on while it is looked at, with another spike
        with open(long_run / "metrics.jsonl", "a") as file:
            for _ in range(300):
                at += 1
                file.write(line(at, 7.0 if at == LINES + 450 else loss(at)))
        began = time.monotonic()
        last_seen(page, at)
        assert time.monotonic() - began < 10               # live, however busy the machine is
    assert inked(page, SPIKE, 9.0) == [True, False]
    assert "lowest" in page.inner_text(".train-summary")
    shot(page, "train-long-light")
    box, seen = page.locator("#train-canvas").bounding_box(), plotted(page)

    def across(step):
        return box["x"] + seen["left"] + seen["width"] * (step - seen["x0"]) / (seen["x1"] - seen["x0"])

    page.mouse.move(across(SPIKE - 3000), box["y"] + 100)
    page.mouse.down()
    page.mouse.move(across(SPIKE + 3000), box["y"] + 120, steps=4)
    page.mouse.up()
    until(page, f"(({{x1}}) => x1 < {SPIKE + 5000})(document.getElementById('train-canvas').plot)")
    page.wait_for_timeout(400)                              # the details come
    assert inked(page, SPIKE, 9.0) == [True, False]
    page.locator("#train-canvas").focus()
    page.keyboard.press("0")
    until(page, "(({x0}) => x0 <= 1)(document.getElementById('train-canvas').plot)")
    page.keyboard.press("+")
    until(page, "(({x0}) => x0 > 1)(document.getElementById('train-canvas').plot)")


def test_pausing_keeps_the_picture_and_what_came_is_there_afterwards(page, growing, long_run):
    page.goto(f"{growing}/#tab=train&runs=long&smooth=0.9")
    until(page, "document.querySelector('.train-summary')?.textContent.includes('last')")
    page.click("text=Pause")
    before = page.inner_text(".train-summary")
    with open(long_run / "metrics.jsonl", "a") as file:
        file.write(line(190_000, 1.25))
    page.wait_for_selector("text=/Go on \\([1-9]/")
    assert page.inner_text(".train-summary") == before
    page.click("text=/Go on/")
    last_seen(page, 190_000)


def test_a_resumed_run_is_read_anew(page, growing, long_run):
    page.goto(f"{growing}/#tab=train&runs=long")
    until(page, "document.querySelector('.train-summary')?.textContent.includes('last')")
    kept = long_run / "kept"
    kept.write_text("".join(line(step, loss(step)) for step in range(1, 501)))
    kept.replace(long_run / "metrics.jsonl")
    last_seen(page, 500)


def test_the_moving_average_is_debiased(page, growing):
    page.goto(f"{growing}/#tab=train")
    found = page.evaluate("""async () => {
      const {trainSmooth, trainColumns, trainTicks} = await import("/train_chart.js");
      return [trainSmooth([2, 2, 2], null, 0.99), trainSmooth([1, 3], null, 0.5), trainSmooth([1, 3], [1, 2], 0.5),
              trainColumns([0, 1, 2, 30], [1, 9, 2, 4], x => x / 10), trainTicks(0, 10, false),
              trainTicks(1, 1000, true)];
    }""")
    assert found[0] == pytest.approx([2, 2, 2])
    assert found[1] == pytest.approx([1, (0.25 * 1 + 0.5 * 3) / 0.75])
    assert found[2] == pytest.approx([1, (0.125 * 1 + 0.75 * 3) / 0.875])
    assert found[3] == [[0, 1, 1, 9, 2], [3, 4, 4, 4, 4]]
    assert found[4] == [0, 2, 4, 6, 8, 10] and found[5] == [1, 10, 100, 1000]


def test_samples_can_be_scrubbed_and_their_map_is_the_files(page, served, runs):
    page.goto(f"{served}/#tab=train&runs=phrasebook")
    page.wait_for_selector(".train-map")
    samples = [json.loads(text) for text in (runs / "phrasebook" / "samples.jsonl").read_text().splitlines()]
    assert f"step {samples[-1]['step']:,}" in page.inner_text("#train-when")
    rows, columns = samples[-1]["map"]["shape"]
    assert page.locator(".train-map rect").count() == rows * columns
    page.locator("#train-scrub").focus()
    page.keyboard.press("Home")
    until(page, f"document.getElementById('train-when').textContent.includes('step {samples[0]['step']:,}')")
    assert samples[0]["prompt"] in page.inner_text(".train-words")
    page.locator("#train-canvas").focus()
    page.keyboard.press("]")
    until(page, f"document.getElementById('train-when').textContent.includes('step {samples[1]['step']:,}')")
    page.click("summary:has-text('Table')")
    until(page, "document.querySelectorAll('#panel table tbody tr').length > 2")
    assert serious(page) == []
    page.locator(".train-sample").scroll_into_view_if_needed()
    shot(page, "train-samples-light")


@pytest.mark.parametrize("theme", ["dark"], indirect=True)
def test_many_runs_in_the_dark(page, served):
    page.goto(f"{served}/#tab=train&runs=phrasebook,stories-transformer,stories-rnn&smooth=0.7&ylog=1")
    until(page, "document.querySelectorAll('.train-summary li').length === 6")
    page.check("label:has-text('shapes') input")
    until(page, "document.querySelectorAll('.train-summary li').length === 8")
    assert serious(page) == []
    shot(page, "train-dark")
    page.set_viewport_size({"width": 800, "height": 600})
    page.wait_for_timeout(150)
    shot(page, "train-dark-small")
