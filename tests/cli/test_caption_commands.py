"""`train caption`, `caption`, and `score` of captions, through the command line."""

import json
from dataclasses import replace

import numpy as np
import pytest

from regard.cli import main
from regard.corpora import shapes
from regard.data import embedded
from tests.cli.scores import WARNING, warned

RUN = ["--tokenizer", "word", "--image", "16", "--patch", "4", "--width", "16", "--batch", "128", "--steps", "3",
       "--device", "cpu", "--quiet"]


def write(folder, number=24):
    """Small squares of a colour, as PNG files with captions.tsv."""
    from PIL import Image

    folder.mkdir()
    rows = []
    for at in range(number):
        name, colour = (("red", (200, 0, 0)), ("blue", (0, 0, 200)), ("green", (0, 160, 0)))[at % 3]
        pixels = np.zeros((20, 20, 3), np.uint8)
        pixels[4 + at % 5:14, 4:14] = colour
        Image.fromarray(pixels).save(folder / f"{at}.png")
        rows.append(f"{at}.png\ta {name} square\n")
    (folder / "captions.tsv").write_text("".join(rows))
    return folder


@pytest.fixture(scope="session")
def captioners(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captioners")
    write(folder / "squares")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        for family, options in {"rnn-attention": ["--hidden", "16"],
                                "transformer": ["--layers", "1", "--heads", "2", "--encoder-layers", "1"]}.items():
            main(["train", "caption", str(folder / "squares"), "--family", family, *RUN, *options,
                  "--out", str(folder / family)])
    return folder


@pytest.mark.parametrize("family", ["rnn-attention", "transformer"])
def test_a_line_comes_out_for_each_picture(regard, captioners, family):
    files = [captioners / "squares" / f"{at}.png" for at in range(3)]
    told = regard("caption", captioners / family, *files, "--beam", 2).done()
    assert [line.split("\t")[0] for line in told.splitlines()] == [str(file) for file in files]
    rows = [json.loads(line) for line in regard("caption", captioners / family, *files, "--json", "--n-best", 2).done()
            .splitlines()]
    assert len(rows) == 3 and all(len(row["n_best"]) == 2 for row in rows)


@pytest.mark.parametrize("suffix", ["png", "svg", "html"])
def test_what_each_word_read_is_painted(regard, captioners, here, suffix):
    picture = captioners / "squares" / "0.png"
    regard("caption", captioners / "rnn-attention", picture, "-o", f"map.{suffix}").done()
    data = (here / f"map.{suffix}").read_bytes()
    assert data[:5] in (b"\x89PNG\r", b"<?xml", b"<!doc")
    assert data.count(b"<script") == (2 if suffix == "html" else 0)           # its numbers, and what draws them


def test_mistakes_are_one_line(regard, captioners, here):
    run, picture = captioners / "rnn-attention", captioners / "squares" / "0.png"
    (here / "broken.png").write_bytes(picture.read_bytes()[:60])
    assert "broken.png" in regard("caption", run, "broken.png").mistake()
    assert "nowhere.png" in regard("caption", run, "nowhere.png").mistake()
    assert "layer = 7: there are 1, counted from 1" in regard("caption", run, picture, "-o", "a.png", "--layer", 7).err
    assert "a picture is painted as .png, .svg, .html" in regard("caption", run, picture, "-o", "map.pdf").err
    assert "paints one picture, and 2 were given" in regard("caption", run, picture, picture, "-o", "a.png").mistake()
    assert "is a run of the task caption: use it with regard caption" in regard("translate", run).mistake()


def test_missing_pictures_and_captions_are_one_line_or_counted(regard, here):
    folder = write(here / "pictures", 12)
    with open(folder / "captions.tsv", "a") as captions:
        captions.write("gone.png\ta yellow square\n")
    train = ["train", "caption", str(folder), "--family", "rnn-attention", *RUN, "--hidden", 8]
    assert "gone.png" in regard(*train, "--out", "one").mistake()
    regard(*train, "--on-bad-image", "drop", "--out", "two").done()
    (folder / "captions.tsv").unlink()
    assert "captions.tsv" in regard(*train, "--out", "three").mistake()


@pytest.mark.parametrize("family", ["rnn-attention", "transformer"])
def test_scores_of_a_folder(regard, captioners, family):
    told = json.loads(regard("score", captioners / family, captioners / "squares", "--beam", 1, "--json").done())
    assert {"exact_match", "bleu", "loss", "pictures_per_second"} <= set(told) and told["sentences"] == 24
    assert "exactly right" in regard("score", captioners / family, captioners / "squares", "--beam", 1).done()


def test_the_gaze_on_shapes_is_measured_beside_chance(regard, here, monkeypatch):
    from regard.data.pictures import picture_corpus

    monkeypatch.setattr(picture_corpus, "DRAWN", {"train": 60, "valid": 20, "unseen": 20})
    regard("train", "caption", "shapes", "--steps", 2, "--batch", 128, "--width", 16, "--hidden", 16, "--device", "cpu",
           "--out", "run", "--quiet").done()
    told = json.loads(regard("score", "run", "shapes", "--first", 20, "--part", "unseen", "--beam", 1, "--json").done())
    assert 0 < told["attention_inside"] < 1 and told["attention_words"] > 40
    assert told["attention_times_chance"] == pytest.approx(
        told["attention_inside"] / told["attention_chance"], rel=1e-6)
    by_part = {part: json.loads(regard("score", "run", "shapes", "--first", 20, *flags, "--beam", 1, "--json").done())
               for part, flags in ((None, ()), ("test", ("--part", "test")), ("valid", ("--part", "valid")))}
    assert by_part[None]["loss"] == by_part["test"]["loss"] != by_part["valid"]["loss"]
    words = {word for picture in shapes.pictures(20, 0, "unseen") for word in picture.words}
    assert set(told["attention_by_word"]) <= words


def test_unknown_words_of_captions_are_warned_of(regard, captioners):
    lines = (captioners / "squares" / "captions.tsv").read_text().splitlines()[:4]
    (captioners / "squares" / "other.tsv").write_text("".join(f"{line.replace('red', 'scarlet')}\n" for line in lines))
    rows, found = warned(regard, captioners / "transformer", captioners / "squares" / "other.tsv", "--beam", 1)
    assert len(rows) == 1 and rows[0].endswith(WARNING) and found["oov"] == 2 and not found["comparable"]


def test_captions_longer_than_the_context_are_left_out_of_the_loss_and_of_the_gaze(regard, here, monkeypatch):
    monkeypatch.setitem(embedded.PICTURED, "shapes", replace(embedded.PICTURED["shapes"], count=300, smaller=6))
    regard("train", "caption", "shapes", *RUN[:2], "--patch", "8", *RUN[6:], "--context", "7", "--out", "run",
           "--family", "transformer", "--heads", "2", "--set", "model.positions=learned").done()
    outcome = regard("score", "run", "shapes", "--first", 40, "--beam", 1, "--json")
    found = json.loads(outcome.done())
    assert "captions are longer than the 7 tokens that the model writes, and not in the loss" in outcome.err
    assert 0 < found["tokens"] <= 7 * 40 and found["attention_times_chance"] > 0
