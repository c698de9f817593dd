"""`regard data` of pairs and pictures: shown, and written as the commands that train take them."""

import json
import os
import time
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from regard.corpora import shapes
from regard.data import embedded

SMALL = ["--steps", 2, "--width", 16, "--batch", 128, "--device", "cpu", "--quiet", "--out", "run"]


def test_every_corpus_is_listed_with_what_it_is_counted_in(regard):
    listed = json.loads(regard("data", "list", "--json").done())
    rows = {row["name"]: (row["count"], row["unit"]) for row in listed}
    assert rows == {"stories": (20_000, "lines"), "ab": (10_000, "lines"), "sally": (20_000, "lines"),
                    "phrasebook": (100_000, "pairs"), "gists": (30_000, "pairs"), "shapes": (20_000, "pictures"),
                    "origins": (12_000, "texts"), "tagged": (20_000, "texts")}
    heading, *lines = regard("data", "list").done().splitlines()
    assert heading.split() == ["train", "valid", "test", "unseen"]
    assert {tuple(line.split()[:6]) for line in lines} == {
        (row["name"], *(f"{row['parts'][part]:,}" if part in row["parts"] else "–" for part in heading.split()),
         row["unit"]) for row in listed}
    assert all(row["parts"]["train"] == row["count"] and row["parts"]["valid"] == row["parts"]["test"] > 0
               for row in listed)
    assert len({line.index(embedded.every()[line.split()[0]].description) for line in lines}) == 1        # in a column


def test_shapes_are_shown_with_the_place_of_each_thing(regard):
    shown = regard("data", "show", "shapes", "--lines", 4).done().strip("\n").split("\n\n")
    wanted = list(shapes.pictures(4))
    assert [each.splitlines()[0] for each in shown] == [picture.caption for picture in wanted]
    for each, picture in zip(shown, wanted, strict=True):
        drawn = np.array([list(line.strip()) for line in each.splitlines()[1:]])
        assert drawn.shape == (12, 24)
        things = [region for word, region in zip(picture.words, picture.regions, strict=True) if word in shapes.SHAPES]
        assert {*drawn.ravel()} == {"·", *map(str, range(1, len(things) + 1))}
        for number, region in enumerate(things, 1):
            assert np.array_equal(drawn == str(number), region[2::4, 1::2])


@pytest.mark.parametrize("number, sides", [(1, (1, 1)), (5, (2, 3)), (9, (3, 3))])
def test_shapes_are_drawn_on_one_sheet(regard, here, number, sides):
    told = regard("data", "show", "shapes", "--lines", number, "-o", "sheet.png")
    assert told.done() and f"{number} pictures in sheet.png" in told.err
    with Image.open(here / "sheet.png") as image:
        pixels = np.asarray(image)
    tile = 3 * (shapes.SIDE + 4)
    assert pixels.shape == (sides[0] * tile, sides[1] * tile, 3)
    row, column = divmod(number - 1, sides[1])
    last = pixels[row * tile + 6:(row + 1) * tile - 6:3, column * tile + 6:(column + 1) * tile - 6:3]
    assert np.array_equal(last, shapes.draw_pictures(np.array([number - 1])).images[0])
    if sides[0] * sides[1] > number:
        assert (pixels[-tile:, -tile:] == 255).all()


@pytest.mark.parametrize("arguments, said", [
    (["show", "shapes", "-o", "sheet.pdf"], "--out sheet.pdf: the sheet is a PNG file"),
    (["show", "shapes", "--lines", 0, "-o", "sheet.png"], "of at least one picture"),
    (["show", "stories", "-o", "a.png"], "--out a.png: only pictures are drawn, and stories has none; leave it out"),
    (["show", "gists", "-o", "a.png"], "gists has none"),
    (["get", "ab", "--part", "unseen"], "ab has no part unseen: it has train, valid, test"),
    (["get", "shaeps"], "there is no corpus shaeps: did you mean shapes?"),
    (["get", "gist"], "there is no corpus gist: did you mean gists?"),
    (["get", "shapes", "--lines", 1, "--out", "text.txt"], "text.txt exists already: name a new folder"),
])
def test_mistakes_are_one_line(regard, here, arguments, said):
    before = sorted(path.name for path in here.iterdir())
    assert said in regard("data", *arguments).mistake()
    assert sorted(path.name for path in here.iterdir()) == before


def test_shapes_are_written_as_training_takes_them(regard, here):
    assert regard("data", "get", "shapes", "--lines", 30).done() == \
        "30 pictures in shapes-pictures, with captions.tsv and regions.jsonl\n"
    assert "exists already" in regard("data", "get", "shapes", "--lines", 30).mistake()
    regard("train", "caption", "shapes-pictures", "--hidden", 16, *SMALL).done()
    told = json.loads(regard("score", "run", "shapes-pictures", "--beam", 1, "--json").done())
    assert told["sentences"] == 30


def mask_of(lengths, side):
    """The region that has these runs."""
    return np.repeat(np.arange(len(lengths)) % 2 == 1, lengths).reshape(side, side)


def test_gold_regions_stand_beside_the_captions(regard, here):
    regard("data", "get", "shapes", "--lines", 30, "--out", "some").done()
    rows = [json.loads(line) for line in (here / "some" / "regions.jsonl").read_text().splitlines()]
    captions = [line.split("\t") for line in (here / "some" / "captions.tsv").read_text().splitlines()]
    assert [[row["image"], row["caption"]] for row in rows] == captions and len(rows) == 30
    for row, picture in zip(rows, shapes.pictures(30), strict=True):
        masks = [mask_of(thing["runs"], shapes.SIDE) for thing in row["things"]]
        for thing, mask in zip(row["things"], masks, strict=True):
            left, top, right, bottom = thing["box"]
            assert mask[top:bottom, left:right].sum() == mask.sum() > 0
            assert thing["box"] == shapes.box(mask)
        for meant, region in zip(row["words"], picture.regions, strict=True):
            assert not meant if region is None else np.array_equal(np.any([masks[at] for at in meant], axis=0), region)


@pytest.mark.parametrize("mask", [np.zeros((4, 4), bool), np.ones((4, 4), bool), np.eye(4, dtype=bool),
                                  ~np.eye(4, dtype=bool), np.arange(16).reshape(4, 4) % 5 > 1])
def test_runs_tell_a_region(mask):
    assert np.array_equal(mask_of(shapes.runs(mask), 4), mask)
    assert sum(shapes.runs(mask)) == 16 and all(length > 0 for length in shapes.runs(mask)[1:])


def test_gists_are_written_as_training_takes_them(regard, here):
    assert regard("data", "get", "gists", "--lines", 40).done() == \
        "40 pairs in gists.document, gists.gist and gists.align\n"
    wanted = [pair for pair, _ in zip(embedded.pairs("gists"), range(40), strict=False)]
    assert (here / "gists.document").read_text().splitlines() == [pair.source for pair in wanted]
    assert (here / "gists.gist").read_text().splitlines() == [pair.target for pair in wanted]
    regard("train", "summarise", "gists.document", "gists.gist", "--family", "rnn-attention", "--hidden", 16,
           "--tokenizer", "word", *SMALL).done()
    told = json.loads(regard("score", "run", "gists.document", "gists.gist", "--beam", 1, "--json").done())
    assert told["sentences"] == 40 and told["lead"]["rougeL"] > 0


@pytest.mark.parametrize("part", ["train", "valid", "test"])
def test_a_part_is_written_under_its_own_name(regard, here, part):
    told = regard("data", "get", "ab", "--part", part).done()
    name = "ab.txt" if part == "train" else f"ab-{part}.txt"
    assert told == f"{embedded.size('ab', part):,} lines in {name}\n"
    assert (here / name).read_text().splitlines() == list(embedded.lines("ab", part))


def test_parts_of_pairs_and_pictures_are_written_too(regard, here, monkeypatch):
    monkeypatch.setitem(embedded.PAIRED, "gists", replace(embedded.PAIRED["gists"], count=200))
    assert regard("data", "get", "gists", "--part", "test").done() == \
        "20 pairs in gists-test.document, gists-test.gist and gists-test.align\n"
    gists = (here / "gists-test.gist").read_text().splitlines()
    assert gists == [pair.target for pair in embedded.pairs("gists", "test")]
    regard("data", "get", "shapes", "--part", "test", "--lines", 3).done()
    captions = (here / "shapes-test-pictures" / "captions.tsv").read_text().splitlines()
    assert [line.split("\t")[1] for line in captions] == [picture.caption for picture in shapes.pictures(3, 0, "test")]


def test_what_is_shown_says_which_parts_there_are_and_what_to_try(regard):
    shown = regard("data", "show", "sally", "--part", "test", "--lines", 2)
    assert shown.done().splitlines() == [line for line, _ in zip(embedded.lines("sally", "test"), "ab", strict=False)]
    assert "train 20,000 · valid 2,000 · test 2,000 lines" in shown.err
    assert "regard generate RUN --greedy --tokens 1 --prompt 'Sally looked around and saw a field." in shown.err


def test_a_gist_is_shown_under_its_document(regard):
    shown = regard("data", "show", "gists", "--lines", 1).done()
    pair = next(iter(embedded.pairs("gists")))
    assert f"\n    {pair.target}\n" in shown and shown.startswith(pair.source[:60])


# ------------------------------------------------------------------------------------------------- the cache


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_cache_is_shown_and_cleared_and_made_again(regard, here, cache):
    (here / "text.txt").write_text("the cat sat on the mat\n" * 50)
    assert regard("data", "cache").done() == f"nothing in {cache}\n"
    train = ("train", "lm", "text.txt", "--family", "rnn", *SMALL)
    regard(*train).done()
    told = json.loads(regard("data", "cache", "--json").done())
    assert {row["kind"] for row in told["kinds"]} == {"surveys", "tokenizers", "shards"} and not told["cleared"]
    on_disk = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
    assert sum(row["bytes"] for row in told["kinds"]) == on_disk
    stranger = cache / "mine.txt"
    stranger.write_text("not of this cache")
    shown = regard("data", "cache", "--clear").done()
    assert "shards" in shown and shown.strip().endswith("removed") and stranger.exists()
    assert [path for path in cache.rglob("*") if path.is_file()] == [stranger]
    assert regard("score", "run", "text.txt").done()                   # a run does not need it
    regard(*train, "--resume").done()                                  # and to go on, it is made again
    assert json.loads(regard("data", "cache", "--json").done())["kinds"]


def test_only_what_was_not_used_for_long_is_cleared(regard, here, cache):
    for name in ("one", "two"):
        (here / f"{name}.txt").write_text(f"{name} cat sat on the mat\n" * 50)
        regard("train", "lm", f"{name}.txt", "--family", "rnn", *SMALL[:-1], name).done()
    week_ago = time.time() - 7 * 86_400
    for path in cache.glob("*/*"):
        os.utime(path, (week_ago, week_ago))
    regard("train", "lm", "two.txt", "--family", "rnn", *SMALL[:-1], "again").done()     # which uses what there is
    count = len(list(cache.glob("*/*")))
    assert f"unused for 8 days in {cache}" in regard("data", "cache", "--older-than", 8).done()
    assert "7 days ago" in regard("data", "cache", "--older-than", 6).done()
    regard("data", "cache", "--clear", "--older-than", 6).done()
    assert len(list(cache.glob("*/*"))) == count // 2
    told = regard("train", "lm", "two.txt", "--family", "rnn", *SMALL[:-1], "once-more")
    assert told.done() is not None and len(list(cache.glob("*/*"))) == count // 2
