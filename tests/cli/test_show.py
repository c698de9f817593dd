"""`regard show` and `regard.show`: the same map in the terminal, in files and in a notebook."""

import csv
import io
import json
import re
from html import unescape

import numpy as np
import pytest

import regard
from regard.look.render.drawing import Drawing
from tests.served_runs import shared_folder, train

TEXT = "the cat number 3 sat"


@pytest.fixture(scope="session")
def pairs(tmp_path_factory):
    """A translator and a captioner, trained once for all tests of serving."""
    folder = shared_folder(tmp_path_factory)
    train(folder, ("phrasebook", "shapes"))
    return folder


def held(page):
    return json.loads(re.search(r'<script type="application/json" id="held">(.*?)</script>', page, re.S)[1])


# ------------------------------------------------------------------------------------------- in the terminal


def test_a_map_is_drawn_in_the_terminal(regard, runs):
    out = regard("show", runs / "transformer", "the cat", "--layer", 1, "--head", 2, "--width", 60).done()
    assert out.startswith("transformer · self · head 2") and "<bos>" in out
    assert "weights, rows sum to 1. How much each position reads" in out
    assert max(map(len, out.splitlines()[:-1])) <= 60


def test_a_file_and_standard_input_are_read_too(regard, runs, here):
    (here / "small.txt").write_text(TEXT)
    drawn = regard("show", runs / "rnn", TEXT).done()
    assert regard("show", runs / "rnn", "small.txt").done() == drawn
    assert regard("show", runs / "rnn", "-", stdin=TEXT.encode()).done() == drawn


def test_one_row_is_told_with_what_it_predicts(regard, runs):
    out = regard("show", runs / "ngram", "the cat", "--row", 2).done()
    assert out.startswith("ngram · back-off: row 2 of ")
    assert re.search(r"(predicts|guesses) '.*': [\d.]+ bits, rank \d+", out)


def test_a_long_text_is_not_drawn_but_told(regard, runs, here):
    told = regard("show", runs / "rnn", "text.txt")
    assert "rows are too many to draw here: give --row, or write -o map.html" in told.err and "bits, rank" in told.out


def test_influence_of_any_model(regard, runs):
    for run in ("transformer", "rnn", "ngram"):
        out = regard("show", runs / run, "the cat", "--influence", "occlusion").done()
        assert "influence (log-probability lost" in out


def test_json_has_the_tokens_what_is_predicted_and_the_numbers(regard, runs):
    told = json.loads(regard("show", runs / "transformer", "the cat", "--json").done())
    values = np.array(told["view"]["values"])
    assert values.shape == (len(told["view"]["rows"]), len(told["view"]["columns"])) == (8, 8)
    np.testing.assert_allclose(values.sum(1), 1, atol=1e-5)
    assert told["sides"]["text"]["tokens"][0][1] == "<bos>" and len(told["said"]) == 8


# --------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("ending", ["html", "svg", "png", "csv", "npz", "txt", "json"])
def test_it_is_written_in_every_form(regard, runs, here, ending):
    told = regard("show", runs / "transformer", "the cat", "-o", f"map.{ending}")
    assert told.done() == "" and told.err == f"(written: map.{ending})\n"
    assert (here / f"map.{ending}").stat().st_size > 200


def test_every_form_has_the_same_numbers(regard, runs, here):
    for ending in ("csv", "npz", "html"):
        regard("show", runs / "transformer", "the cat", "--layer", 1, "--head", 2, "-o", f"map.{ending}").done()
    rows = list(csv.reader(io.StringIO((here / "map.csv").read_text())))
    cells = np.array([row[1:] for row in rows[1:]], float)
    whole = np.load(here / "map.npz")
    np.testing.assert_allclose(cells, whole["values"][0, 1], rtol=1e-6)
    np.testing.assert_array_equal(whole["view"], whole["values"][0, 1])
    assert rows[0][1:] == whole["columns"].tolist()
    told = held((here / "map.html").read_text())
    assert told["first"]["head"] == "2" and told["looks"]["1"]["tracks"][0]["name"] == "self"


def test_a_translation_is_shown_with_its_own_target_or_a_given_one(regard, pairs):
    run = pairs / "runs" / "phrasebook"
    told = json.loads(regard("show", run, "Le chat dort.", "--json").done())
    assert told["view"]["track"] == "cross" and told["sides"]["source"]["text"] == "Le chat dort."
    forced = json.loads(regard("show", run, "Le chat dort.", "--target", "the dog sleeps.", "--json").done())
    assert forced["view"]["rows"][:2] == ["the", "dog"]


@pytest.mark.parametrize("ending", ["html", "png", "svg"])
def test_a_caption_is_painted(regard, pairs, here, ending):
    picture = sorted((pairs / "shapes").rglob("*.png"))[0]
    regard("show", pairs / "runs" / "shapes", picture, "-o", f"seen.{ending}").done()
    assert (here / f"seen.{ending}").stat().st_size > 2000
    if ending == "html":
        told = held((here / "seen.html").read_text())
        assert told["pictures"]["1"].startswith("data:image/png;base64,")
        assert told["looks"]["1"]["sides"]["image"]["patches"]


def test_a_look_too_large_for_a_file_keeps_what_is_in_view(runs, monkeypatch):
    seen = regard.show(str(runs / "transformer"), "the cat", layer=1, head=2)
    monkeypatch.setattr("regard.look.render.saved_page.MOST_NUMBERS", 100)
    told = held(seen.drawing.html())
    assert told["looks"]["1"]["tracks"][0]["shape"] == [1, 1, 8, 8] and told["first"]["head"] == "1"
    assert "Only this view is in the file" in told["looks"]["1"]["tracks"][0]["about"]


# ------------------------------------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(("options", "message"), [
    (["--track", "selff"], "unknown track selff: did you mean self?"),
    (["--layer", "7"], "layer = 7: there are 1, counted from 1; or one of mean, max, rollout"),
    (["--head", "best"], "head = best (there are: max, mean)"),
    (["--row", "99"], "row = 99: there are 8, counted from 0"),
    (["-o", "map.jpg"], "--out map.jpg must end in .html, .svg, .png, .csv, .npz, .txt, .json"),
    (["--target", "x"], "target = 'x': this model reads one text; only a translator has a target"),
    (["--influence", "gradient", "--track", "self"], "--influence gradient and --track self: give one of them")])
def test_a_mistake_is_one_line(regard, runs, options, message):
    assert regard("show", runs / "transformer", "the cat", *options).mistake() == message


def test_an_ngram_has_no_gradient(regard, runs):
    assert "influence = gradient" in regard("show", runs / "ngram", "the cat", "--influence", "gradient").mistake()


def test_a_picture_that_is_not_there_is_said(regard, pairs):
    assert "missing.png" in regard("show", pairs / "runs" / "shapes", "missing.png").mistake()


# --------------------------------------------------------------------------------------------- in a notebook


def test_a_notebook_gets_a_frame_that_reaches_nothing(runs):
    seen = regard.show(str(runs / "transformer"), 'a "quoted" <b>&amp;</b>', head=2, height=500)
    html = seen._repr_html_()
    assert html.count("<iframe") == 1 and 'sandbox="allow-scripts allow-downloads"' in html and "height: 500px" in html
    page = unescape(re.search(r'srcdoc="([^"]*)"', html)[1])
    assert page == seen.drawing.html() and "default-src 'none'" in page
    assert "·" in repr(seen).splitlines()[0] and seen.look.task == "lm"


def test_a_model_that_is_loaded_is_shown_and_saved(runs, here):
    model = regard.load(runs / "transformer")
    path = regard.show(model, "the cat", words=True).save("seen.csv")
    assert path.read_text().splitlines()[0] == ",<bos>,the, ,cat"
    assert isinstance(regard.show(model, "the cat", influence="gradient").drawing, Drawing)


@pytest.mark.parametrize("pick", [{"head": "max"}, {"layer": "max", "head": "max", "words": True}])
def test_the_largest_weight_of_several_heads_is_drawn_though_rows_sum_to_more_than_one(runs, here, pick):
    seen = regard.show(runs / "transformer", "the cat sat on the mat", **pick)
    drawn = seen.drawing.map()
    assert drawn.shown.sum(1).max() > 1.02 and drawn.kind == "largest weight"
    assert "largest weight: strongest at" in repr(seen) and seen.save("seen.png").stat().st_size > 1000


def test_a_cell_of_a_real_notebook(runs):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    cell = nbformat.v4.new_code_cell(f"import regard\nregard.show({str(runs / 'transformer')!r}, 'the cat')")
    done = nbclient.NotebookClient(nbformat.v4.new_notebook(cells=[cell]), timeout=120).execute()
    (output,) = done.cells[0].outputs
    assert "<iframe" in output["data"]["text/html"]
