"""Bad pictures and captions through the commands: one clear line each, nothing lost, nothing left half done."""

import io
import json
import os
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from regard.cli import main
from regard.tasks.caption.score import measure

RUN = ["--tokenizer", "word", "--image", "16", "--patch", "4", "--width", "16", "--hidden", "8", "--batch", "128",
       "--steps", "1", "--device", "cpu", "--quiet"]
GOOD = 6


def coded(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def noise(seed=0, size=24):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8))


def bomb():
    """A PNG of some bytes that says it has 3.6 billion pixels."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(9))) + chunk(b"IEND", b"")


def folder_of(path):
    path.mkdir()


def link_to_itself(path):
    path.symlink_to(path.name)


def device(path):
    os.mkfifo(path)


BAD = {                                                    # what stands under the name, what is said, how it is counted
    "truncated.png": (coded(noise())[:300], "is broken", "picture broken"),
    "truncated.jpg": (coded(noise(size=64), "JPEG")[:900], "is broken", "picture broken"),
    "animated.gif": (coded(noise(), "GIF", save_all=True, append_images=[noise(1)]), "an animation of 2 frames",
                     "picture animated"),
    "empty.png": (b"", "is an empty file", "picture empty"),
    "drawing.svg": (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "not a picture of a "
                    "known kind", "not a picture"),
    "drawing.png": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a picture of a known kind", "not a picture"),
    "bomb.png": (bomb(), "at most 50 million pixels are read", "picture too large"),
    "folder.png": (folder_of, "is a folder, not a picture", "picture not a file"),
    "ring.png": (link_to_itself, "", None),
    "pipe.png": (device, "is a pipe or a device", "picture not a file"),
    "missing.png": (None, "does not exist", "picture missing"),
}
ODD = {                                                    # strange, and pictures all the same
    "deep.png": lambda: coded(Image.fromarray(np.arange(0, 57600, 100, dtype=np.uint16).reshape(24, 24))),
    "ink.jpg": lambda: coded(Image.new("CMYK", (24, 24), (0, 255, 255, 0)), "JPEG"),
    "palette.png": lambda: coded(noise().convert("P", palette=Image.Palette.ADAPTIVE), transparency=1),
    "turned.jpg": lambda: coded(noise(), "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0"
                                b"\0\0\0\0"),
    "grey.webp": lambda: coded(noise().convert("L"), "WEBP"),
}


def lay(path, what):
    if callable(what):
        what(path)
    elif what is not None:
        path.write_bytes(what)


def good(folder):
    """A few good pictures with captions."""
    folder.mkdir()
    for at in range(GOOD):
        noise(at).save(folder / f"{at}.png")
    (folder / "captions.tsv").write_text("".join(f"{at}.png\tnumber {at}\n" for at in range(GOOD)))
    return folder


@pytest.fixture
def pictures(here):
    return good(here / "pictures")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captioner")
    good(folder / "set")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        main(["train", "caption", str(folder / "set"), *RUN, "--out", str(folder / "run")])
    return folder / "run"


def add(folder, *lines, name="captions.tsv"):
    with open(folder / name, "a", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))


# ------------------------------------------------------------------------------------------------ bad pictures


@pytest.mark.parametrize("name", BAD)
def test_a_bad_picture_is_one_line_for_every_command(regard, pictures, run, name):
    what, said, reason = BAD[name]
    lay(pictures / name, what)
    line = regard("caption", run, pictures / name).mistake()
    assert name in line and said in line
    add(pictures, f"{name}\tsomething")
    for command in (["train", "caption", pictures, *RUN, "--out", "new"], ["score", run, pictures]):
        line = regard(*command).mistake()
        assert name in line and said in line and f"captions.tsv line {GOOD + 1}" in line
    assert not os.path.exists("new")
    told = regard("train", "caption", pictures, *[word for word in RUN if word != "--quiet"], "--on-bad-image", "drop",
                  "--out", "new")
    assert told.done() == ""
    counted = f"{GOOD + 1} captions read: {GOOD} kept, 1 dropped (1 "
    assert counted + (f"{reason})" if reason else "") in told.err, told.err


@pytest.mark.parametrize("name", ODD)
def test_a_strange_picture_is_a_picture(regard, pictures, run, name):
    (pictures / name).write_bytes(ODD[name]())
    add(pictures, f"{name}\tsomething")
    assert regard("caption", run, pictures / name).done().count("\n") == 1
    assert json.loads(regard("score", run, pictures, "--json").done())["sentences"] == GOOD + 1


def test_one_bad_picture_loses_no_other(regard, pictures, run):
    for name in ("empty.png", "bomb.png"):
        lay(pictures / name, BAD[name][0])
    files = [pictures / name for name in ("0.png", "empty.png", "1.png", "bomb.png", "2.png")]
    told = regard("caption", run, *files)
    assert told.code == 1 and "Traceback" not in told.err
    assert [line.split("\t")[0] for line in told.out.splitlines()] == [str(files[at]) for at in (0, 2, 4)]
    assert [line.split("picture ")[1].split(" ")[0] for line in told.err.splitlines()] == [str(files[1]), str(files[3])]
    assert all(line.startswith("regard: ") for line in told.err.splitlines())
    rows = [json.loads(line) for line in regard("caption", run, *files, "--json").out.splitlines()]
    alone = json.loads(regard("caption", run, files[4], "--json").done())
    assert (rows[2]["image"], rows[2]["text"]) == (alone["image"], alone["text"])
    assert rows[2]["log_prob"] == pytest.approx(alone["log_prob"], rel=1e-4)


def test_nothing_is_painted_of_what_is_no_picture(regard, here, run):
    (here / "empty.png").write_bytes(b"")
    assert "is an empty file" in regard("caption", run, "empty.png", "-o", "map.png").mistake()
    assert not (here / "map.png").exists()


def test_what_was_left_out_of_a_score_is_counted(pictures, run):
    import regard as library

    add(pictures, "0.png\tnumber 0", "0.png\t ", "missing.png\tone", "0.png\t" + "long " * 150)
    wanted = dict(on_bad_text="fail", on_bad_image="drop", beam=1, length_penalty=1.0, first=None, part=None)
    told = []
    assert measure(library.load(run), (str(pictures),), wanted, told.append).values["sentences"] == GOOD
    assert told == [                                       # what is measured on is never too long
        f"{GOOD + 4} captions read: {GOOD + 1} kept, 3 dropped (1 duplicate, 1 empty caption, 1 picture missing)"]


# ------------------------------------------------------------------------------------------------ bad captions


@pytest.mark.parametrize("file, line, said", [
    ("captions.tsv", "../text.txt\tsecret", "lies outside"),
    ("captions.tsv", "/etc/passwd\tsecret", "/etc/passwd lies outside"),
    ("captions.tsv", "no tab here", "has no tab: a line is a file name, a tab and a caption"),
    ("captions.tsv", "0.png\tone\ttwo", "has 3 columns, not 2"),
    ("more.jsonl", '{"image": "0.png", "title": "one"}', "has no 'image' and 'caption' (it has: 'image', 'title')"),
    ("more.jsonl", '{"picture": "0.png", "caption": "one"}', "(it has: 'picture', 'caption')"),
    ("more.jsonl", '{"image": "0.png", "caption": {"en": "one"}}', "holds dict {'en': 'one'} as 'caption'"),
    ("more.jsonl", "{", "is not JSON"),
])
def test_a_bad_line_is_told_with_its_place(regard, pictures, file, line, said):
    add(pictures, line, name=file)
    place = GOOD + 1 if file == "captions.tsv" else 1
    told = regard("train", "caption", pictures / file, *RUN, "--out", "new").mistake()
    assert said in told and f"{file} line {place}" in told
    assert not os.path.exists("new")


def test_nothing_but_empty_captions_is_one_line(regard, pictures):
    (pictures / "captions.tsv").write_text("0.png\t\n1.png\t  \n")
    told = regard("train", "caption", pictures, *RUN, "--out", "new").mistake()
    assert "no captions left" in told and "2 captions read: 0 kept, 2 dropped (2 empty caption)" in told


def test_a_mark_in_front_and_other_line_ends_change_nothing(regard, pictures, here):
    plain = (pictures / "captions.tsv").read_bytes()
    quiet = [word for word in RUN if word != "--quiet"]
    first = regard("train", "caption", pictures, *quiet, "--out", "one")
    (pictures / "captions.tsv").write_bytes(b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n"))
    second = regard("train", "caption", pictures, *quiet, "--out", "two")
    assert first.done() == second.done() == ""
    assert (here / "one" / "model.safetensors").read_bytes() == (here / "two" / "model.safetensors").read_bytes()
    assert (here / "one" / "tokenizer.json").read_bytes() == (here / "two" / "tokenizer.json").read_bytes()


def test_arrays_that_are_no_pictures_and_single_names_are_one_line(run, here):
    import regard as library
    from regard.errors import DataError

    model = library.load(run)
    for wrong in (np.zeros((16, 16, 3), np.uint8), np.zeros((1, 16, 16, 3)), np.zeros((1, 8, 8, 3), np.uint8)):
        with pytest.raises(DataError, match=r"is no list of pictures: give bytes \(N, 16, 16, 3\)"):
            model.caption(wrong)
    for single in ("a.png", here / "a.png"):
        with pytest.raises(DataError, match="give a list of pictures, not a single one"):
            model.caption(single)
    assert model.caption([]) == []
