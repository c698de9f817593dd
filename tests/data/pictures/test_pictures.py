"""Captioned pictures from disk: every kind of picture, every kind of captions file, and all that can be wrong."""

import gzip
import io
import json
import os
import struct
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image, ImageFile

from regard import storage
from regard.data.pictures import picture_files, picture_shards
from regard.data.pictures.picture_files import BadPicture, load_picture
from regard.data.pictures.picture_shards import Lost, PictureShard, prepare_pictures
from regard.data.pictures.pictures import PictureDataSettings, read_captioned
from regard.data.reading.tally import Tally
from regard.data.reading.text_cache import Cache
from regard.errors import DataError, SettingError, StorageError

RED, WHITE = [255, 0, 0], [255, 255, 255]


def coded(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def plain(colour="red", size=(8, 8), kind="PNG", **options):
    return coded(Image.new("RGB", size, colour), kind, **options)


def png(width, height, rest=b"", bits=8, colour=2, pixels=b"\0" * 100):
    """A PNG whose header says what it likes."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)) + \
        rest + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")


def deep(colour, pixel, key=b""):
    """A PNG of 8 x 8 pixels with 16 bits for each number of a pixel; `key` is the colour that is transparent."""
    rows = (b"\0" + struct.pack(f">{len(pixel)}H", *pixel) * 8) * 8
    key = struct.pack(">I", len(key)) + b"tRNS" + key + struct.pack(">I", zlib.crc32(b"tRNS" + key)) if key else b""
    return png(8, 8, rest=key, bits=16, colour=colour, pixels=rows)


def complaint(act, *given, **options):
    """The one line that is said, and what it would be counted as."""
    with pytest.raises(DataError) as caught:
        found = act(*given, **options)
        list(found) if not isinstance(found, np.ndarray) else found
    message = str(caught.value)
    assert "\n" not in message and message.isprintable() and len(message) < 600
    return message, getattr(caught.value, "reason", None)


def settings(**options):
    return PictureDataSettings((), **options)


def read(path, tally=None, **options):
    return [(each.path.name, each.caption) for each in read_captioned(path, settings(**options), tally)]


def counted(path, **options):
    tally = Tally()
    found = read(path, tally, **options)
    assert tally.read == tally.kept + tally.dropped.total() and tally.kept == len(found)
    return found, tally.line()


@pytest.fixture
def folder(write, tmp_path):
    """Two pictures, three captions."""
    write("set/a.png", plain("red"))
    write("set/sub/b.jpg", plain("blue", kind="JPEG"))
    write("set/captions.tsv", "a.png\ta red one\nsub/b.jpg\ta blue one\na.png\tit is red\n")
    return tmp_path / "set"


ALL = [("a.png", "a red one"), ("b.jpg", "a blue one"), ("a.png", "it is red")]


# ------------------------------------------------------------------------------------------------ one picture


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP", "GIF"])
def test_every_kind_is_read_whatever_it_is_called(write, kind):
    found = load_picture(write("picture.dat", plain("red", (20, 20), kind)), 12)
    assert found.shape == (12, 12, 3) and found.dtype == np.uint8
    assert abs(found.astype(int) - RED).max() < 4


def test_the_whole_picture_is_kept_with_white_bars(write):
    wide = load_picture(write("wide.png", plain("red", (40, 10))), 16)
    assert (wide[6:10] == RED).all() and (wide[:6] == 255).all() and (wide[10:] == 255).all()
    tall = load_picture(write("tall.png", plain("red", (1, 3))), 12)                    # made larger too
    assert (tall[:, 4:8] == RED).all() and (tall[:, :4] == 255).all()
    assert (load_picture(write("line.png", plain("red", (3000, 1))), 8)[3:4] == RED).all()


def test_a_picture_of_the_right_size_is_left_as_it_is(write):
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    assert np.array_equal(load_picture(write("a.png", coded(Image.fromarray(pixels))), 16), pixels)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("turn", [3, 6, 8])
def test_a_picture_is_turned_as_its_exif_says(write, kind, turn):
    upright = np.full((16, 16, 3), 255, dtype=np.uint8)
    upright[:8] = RED                                                                    # red above
    lying = np.rot90(upright, {3: 2, 6: 1, 8: 3}[turn])
    exif = Image.Exif()
    exif[0x0112] = turn
    found = load_picture(write("a", coded(Image.fromarray(lying), kind, exif=exif)), 16).astype(int)
    assert abs(found[2:6] - RED).max() < 40 and abs(found[10:14] - 255).max() < 40


def test_what_is_transparent_is_white(write):
    clear = Image.new("RGBA", (8, 8), (255, 0, 0, 0))
    half = Image.new("LA", (8, 8), (0, 128))
    keyed = Image.new("P", (8, 8), 1)
    keyed.putpalette([0, 0, 0, 255, 0, 0])
    assert (load_picture(write("a.png", coded(clear)), 8) == 255).all()
    assert (load_picture(write("b.png", coded(half)), 8) == 127).all()
    assert (load_picture(write("c.png", coded(keyed)), 8) == RED).all()
    assert (load_picture(write("d.png", coded(keyed, transparency=1)), 8) == 255).all()
    assert (load_picture(write("e.png", coded(keyed, transparency=b"\xff\x00")), 8) == 255).all()
    assert (load_picture(write("f.gif", coded(keyed, "GIF", transparency=1)), 8) == 255).all()
    assert (load_picture(write("g.png", coded(Image.new("RGB", (8, 8), "red"), transparency=(255, 0, 0))), 8) == 255
            ).all()


def test_grey_black_and_white_cmyk_and_16_bits_become_rgb(write):
    assert (load_picture(write("a.png", coded(Image.new("L", (8, 8), 77))), 8) == 77).all()
    assert (load_picture(write("b.png", coded(Image.new("1", (8, 8), 1))), 8) == 255).all()
    cmyk = load_picture(write("c.jpg", coded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG")), 8)
    assert abs(cmyk.astype(int) - RED).max() < 6
    deep = Image.fromarray(np.full((8, 8), 200 * 256 + 13, dtype=np.uint16))
    assert (load_picture(write("d.png", coded(deep)), 8) == 200).all()                  # not clipped to white


@pytest.mark.parametrize("colour, pixel, key, seen", [
    (0, [200 * 256 + 13], b"", [200] * 3), (0, [200 * 256 + 13], struct.pack(">H", 200 * 256 + 13), WHITE),
    (0, [200 * 256 + 13], struct.pack(">H", 200 * 256 + 12), [200] * 3),
    (2, [200 * 256 + 13, 0, 100 * 256], b"", [200, 0, 100]), (4, [0, 65535], b"", [0] * 3), (4, [0, 0], b"", WHITE),
    (6, [65535, 0, 0, 65535], b"", RED), (6, [65535, 0, 0, 0], b"", WHITE)])
def test_16_bits_of_grey_or_colour_with_and_without_clear_parts(write, colour, pixel, key, seen):
    assert (load_picture(write("a.png", deep(colour, pixel, key)), 8) == seen).all()


def test_a_jpeg_with_a_second_picture_behind_it_is_its_first(write):
    several = coded(Image.new("RGB", (16, 16), "red"), "MPO", save_all=True,
                    append_images=[Image.new("RGB", (16, 16), "blue")])
    assert abs(load_picture(write("a.jpg", several), 16).astype(int) - RED).max() < 4


def test_a_large_photograph_is_decoded_coarsely_and_looks_the_same(write):
    across = np.linspace(0, 255, 1024).astype(np.uint8)
    pixels = np.stack([np.tile(across, (1024, 1)), np.tile(across[:, None], (1, 1024)), np.full((1024, 1024), 90)], -1)
    image = Image.fromarray(pixels.astype(np.uint8))
    exact = load_picture(write("a.png", coded(image)), 32).astype(int)
    assert abs(load_picture(write("a.jpg", coded(image, "JPEG", quality=95)), 32) - exact).max() < 8


# ------------------------------------------------------------------------------------------------ one bad picture


def animation(kind):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue", "green")]
    return coded(frames[0], kind, save_all=True, append_images=frames[1:])


NOISE = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)


@pytest.mark.parametrize("content, reason, said", [
    (b"", "picture empty", "is an empty file: fetch it again"),
    (b"not a picture at all", "not a picture", "is not a picture of a known kind: give a PNG, JPEG, WEBP, BMP or GIF"),
    (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a picture", "known kind"),
    (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(secret) run\n", "not a picture", "known kind"),
    (coded(Image.new("RGB", (8, 8)), "TIFF"), "not a picture", "known kind"),
    (b"\x89PNG\r\n\x1a\n" + bytes(40), "not a picture", "known kind"),
    (plain()[:50], "picture broken", "is broken (image file is truncated"),
    (coded(Image.fromarray(NOISE), "JPEG")[:1500], "picture broken", "is broken"),
    (coded(Image.fromarray(NOISE))[:4000], "picture broken", "fetch it again, or save it anew"),
    (coded(Image.fromarray(NOISE), "GIF")[:900], "picture broken", "is broken"),
    (coded(Image.fromarray(NOISE), "BMP")[:900], "picture broken", "is broken"),
    (coded(Image.fromarray(NOISE), "WEBP", lossless=True)[:900], None, "fetch it again, or save it anew"),
    (animation("GIF"), "picture animated", "is an animation of 3 frames: save the frame that is meant as a PNG file"),
    (animation("PNG"), "picture animated", "animation of 3 frames"),
    (animation("WEBP"), "picture animated", "animation of 3 frames"),
    (png(10_000, 6_000), "picture too large", "is 10,000 x 6,000 pixels, and at most 50 million pixels are read"),
    (png(12_000, 9_000), "picture too large", "at most 50 million pixels"),              # Pillow warns of it
    (png(60_000, 60_000), "picture too large", "at most 50 million pixels"),             # Pillow refuses it
    (png(0, 10), None, "known kind"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_a_bad_picture_is_one_line_that_names_it(write, content, reason, said):
    path = write("the picture.png", content)
    message, counted_as = complaint(load_picture, path, 16)
    assert path in message and said in message, message
    assert reason in (None, counted_as)


def test_a_text_chunk_that_unpacks_to_far_too_much_is_refused(write):
    data = b"key\0\0" + zlib.compress(b"a" * 4_000_000)
    chunk = struct.pack(">I", len(data)) + b"zTXt" + data + struct.pack(">I", zlib.crc32(b"zTXt" + data))
    message, _ = complaint(load_picture, write("bomb.png", png(8, 8, rest=chunk)), 8)
    assert "bomb.png" in message


def test_a_flat_picture_of_many_pixels_in_few_bytes_is_refused(tmp_path):
    """Fifty million pixels of one colour and depth 16 took 700 MB; a scan, of one bit each, may be mostly white."""
    for mode, refused in (("RGB", True), ("I;16", True), ("1", False)):
        Image.new(mode, (2600, 2600)).save(tmp_path / "a.png")
        if refused:
            with pytest.raises(BadPicture, match="would unpack to 2,600 x 2,600 pixels, more than 200 for each"):
                load_picture(tmp_path / "a.png", 16)
        else:
            load_picture(tmp_path / "a.png", 16)


def test_limits_are_judged_before_anything_is_decoded(write, monkeypatch):
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda image: pytest.fail("decoded"))
    assert complaint(load_picture, write("a.png", png(9_000, 6_000)), 8)[1] == "picture too large"
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)                                 # another library's doing
    assert complaint(load_picture, write("b.png", png(60_000, 60_000)), 8)[1] == "picture too large"
    monkeypatch.setattr(picture_files, "MOST_BYTES", 60)
    message, reason = complaint(load_picture, write("c.png", plain()), 8)
    assert "bytes, more than 60: save a smaller copy" in message and reason == "picture too large"


def test_what_is_no_file_is_not_opened(tmp_path):
    assert "is a folder, not a picture" in complaint(load_picture, tmp_path, 8)[0]
    assert complaint(load_picture, tmp_path / "none.png", 8) == (
        f"the picture {tmp_path / 'none.png'} does not exist: check the name", "picture missing")
    os.mkfifo(tmp_path / "pipe.png")
    assert "is a pipe or a device" in complaint(load_picture, tmp_path / "pipe.png", 8)[0]
    (tmp_path / "ring.png").symlink_to("ring.png")
    assert "cannot be reached" in complaint(load_picture, tmp_path / "ring.png", 8)[0]
    assert "cannot be reached" in complaint(load_picture, tmp_path / ("n" * 300), 8)[0]
    assert "\\x1b" in complaint(load_picture, tmp_path / "\x1b[2J.png", 8)[0]
    with pytest.raises(SettingError, match="impossible: give a positive size"):
        load_picture(tmp_path, 0)


def test_no_permission_is_said(write, monkeypatch):
    path = write("a.png", plain())

    def refuse(*given):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(picture_files, "_decoded", refuse)
    assert "no permission to read the picture" in complaint(load_picture, path, 8)[0]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP"])
def test_damage_anywhere_gives_a_picture_or_one_line(write, kind):
    whole = coded(Image.fromarray(NOISE[:24, :24]), kind)
    chance = np.random.default_rng(5)
    for number in range(60):
        raw = bytearray(whole)
        for at in chance.integers(0, len(raw), 1 + number % 6):
            raw[at] = chance.integers(256)
        path = write("a", bytes(raw[:chance.integers(1, len(raw) + 1)] if number % 3 == 0 else raw))
        try:
            assert load_picture(path, 8).shape == (8, 8, 3)
        except BadPicture as bad:
            assert "\n" not in str(bad) and path in str(bad)


def test_files_are_closed_and_warnings_left_as_they_were(write):
    before = (len(os.listdir("/proc/self/fd")), list(warnings.filters), Image.MAX_IMAGE_PIXELS)
    load_picture(write("a.png", plain()), 8)
    for content in (plain()[:50], b"no", animation("GIF"), png(60_000, 60_000)):
        complaint(load_picture, write("b.png", content), 8)
    assert (len(os.listdir("/proc/self/fd")), list(warnings.filters), Image.MAX_IMAGE_PIXELS) == before


# ------------------------------------------------------------------------------------------------ captions


def test_a_folder_or_its_captions_file_gives_the_captions_in_order(folder):
    assert counted(folder) == (ALL, "3 captions read: 3 kept, 0 dropped")
    assert counted(folder / "captions.tsv") == (ALL, "3 captions read: 3 kept, 0 dropped")
    first = next(iter(read_captioned(folder, settings())))
    assert first.path == folder / "a.png" and first.where == f"{folder / 'captions.tsv'} line 1"


@pytest.mark.parametrize("name, content", [
    ("captions.tsv", "\ufeffa.png\ta red one\r\nsub/b.jpg\ta blue one\r\na.png\tit is red"),
    ("captions.tsv", "a.png\ta red one\n./sub/b.jpg\t  a blue one \na.png\tit is red\n"),
    ("captions.jsonl", '{"image": "a.png", "caption": "a red one"}\n{"file": "sub/b.jpg", "caption": "a blue one"}\n'
                       '{"file_name": "a.png", "caption": "it is red", "id": 3}\n'),
    ("metadata.jsonl", '{"file_name": "a.png", "text": "a red one"}\n'
                       '{"file_name": "sub/b.jpg", "text": ["a blue one"]}\n'
                       '{"file_name": "a.png", "text": "it is red"}\n'),
])
@pytest.mark.parametrize("packed", [False, True])
def test_every_captions_file_says_the_same(folder, write, name, content, packed):
    (folder / "captions.tsv").unlink()
    write(f"set/{name}" + ".gz" * packed, gzip.compress(content.encode()) if packed else content)
    assert counted(folder) == (ALL, "3 captions read: 3 kept, 0 dropped")


def test_a_first_line_may_name_the_columns(folder, write):
    write("set/captions.tsv", "caption\tid\tFile\na red one\t1\ta.png\n")
    assert counted(folder / "captions.tsv") == (
        ALL[:1], "2 captions read: 1 kept, 1 dropped (1 header)")


def test_a_first_line_that_names_them_otherwise_is_told_how(folder, write):
    path = write("set/captions.tsv", "filename\tdescription\na.png\ta red one\n")
    message, reason = complaint(read, path)
    assert "line 1" in message and message.endswith(
        "; if this line names the columns, call them image and caption, or pass --on-bad-image drop")
    assert reason == "picture missing" and read(path, on_bad_image="drop") == ALL[:1]
    assert "names the columns" not in complaint(read, write("set/captions.tsv", "b.png\tone\n"))[0]
    assert "names the columns" not in complaint(read, write("set/captions.tsv", "a.png\tone\nfile\ttwo\n"))[0]


def test_a_line_said_twice_is_one_and_said_of_another_picture_two(folder, write):
    path = write("set/captions.tsv", "a.png\tone\r\na.png\t one \nsub/b.jpg\tone\n\n")
    assert counted(path) == ([("a.png", "one"), ("b.jpg", "one")],
                             "4 captions read: 2 kept, 2 dropped (1 duplicate, 1 empty caption)")


def test_a_link_to_its_own_folder_is_not_followed_for_ever(folder, write):
    (folder / "loop").symlink_to(".")
    (folder / "sub" / "up").symlink_to("..")
    assert counted(folder) == (ALL, "3 captions read: 3 kept, 0 dropped")
    write("set/captions.tsv", "loop/loop/a.png\ta red one\n")
    assert read(folder) == ALL[:1]


def test_several_captions_in_one_record(folder, write):
    path = write("set/more.jsonl", json.dumps({"image": "a.png", "captions": ["one", "two", "one", "", None]}))
    assert counted(path) == ([("a.png", "one"), ("a.png", "two")],
                             "5 captions read: 2 kept, 3 dropped (1 duplicate, 2 empty caption)")
    assert len(read(path, drop_duplicates=False)) == 3
    none = write("set/n.jsonl", '{"image": "a.png", "caption": []}\n{"image": "a.png", "caption": "one"}\n')
    assert counted(none)[1] == "2 captions read: 1 kept, 1 dropped (1 empty caption)"


def test_pictures_without_a_caption_are_counted_where_a_folder_was_given(folder, write):
    write("set/c.png", plain())
    write("set/sub/d.JPEG", plain())
    write("set/.hidden/e.png", plain())
    write("set/readme.md", "hello")
    assert counted(folder)[1] == "3 captions read: 3 kept, 0 dropped; mended: 2 pictures without a caption left out"
    assert counted(folder / "captions.tsv")[1] == "3 captions read: 3 kept, 0 dropped"


def test_empty_and_endless_captions_and_line_breaks(folder, write):
    lines = ["", " \t ", "a.png\t ", "a.png\tgood", "a.png\t" + "w " * 101, "a.png\t" + "w" * 1001, "x" * 2**20 + "\ty"]
    path = write("set/c.tsv", "\n".join(lines))
    assert counted(path) == ([("a.png", "good")], "7 captions read: 1 kept, 6 dropped (3 empty caption, 3 too long)")
    assert len(read(path, max_words=0, max_characters=0)) == 3
    path = write("set/c.jsonl", json.dumps({"image": "a.png", "caption": "two\r\n lines\0"}))
    assert counted(path) == ([("a.png", "two lines")], "1 caption read: 1 kept, 0 dropped; mended: 1 NUL characters "
                             "removed, 1 line breaks inside a sentence made spaces")


@pytest.mark.parametrize("name, content, said, reason", [
    ("c.tsv", b"a.png no tab", "has no tab: a line is a file name, a tab and a caption", "wrong number of columns"),
    ("c.tsv", b"a.png\tone\ttwo", "has 3 columns, not 2: is there a tab inside a caption?", "wrong number of columns"),
    ("c.tsv", b"a.png\tcaf\xe9", "line 1, byte 10 (0xe9) is not UTF-8: mend it, or pass --on-bad-text", "bad UTF-8"),
    ("c.jsonl", b"{nonsense", "line 1 is not JSON", "bad JSON"),
    ("c.jsonl", b"[" * 100_000, "line 1 is not JSON", "bad JSON"),
    ("c.jsonl", b'["a.png", "one"]', 'is list, not an object: write {"image": "...", "caption": "..."}',
     "without picture and caption"),
    ("c.jsonl", b'{"image": "a.png"}', "has no 'image' and 'caption' (it has: 'image')", "without picture and caption"),
    ("c.jsonl", b'{"image": "a.png", "caption": 7}', "holds int 7 as 'caption': text was expected",
     "without picture and caption"),
    ("c.jsonl", b'{"image": ["a.png"], "caption": "one"}', "holds list ['a.png'] as 'image'",
     "without picture and caption"),
    ("c.jsonl", b'{"image": "a.png", "caption": "\\ud800"}', "half a surrogate pair", "bad UTF-8"),
    ("c.jsonl", b'{"image": "\\ud800.png", "caption": "one"}', "half a surrogate pair", "bad UTF-8"),
])
def test_a_bad_line_is_one_clear_line_or_counted(folder, write, name, content, said, reason):
    path = write(f"set/{name}", content + b"\n")
    message, _ = complaint(read, path)
    assert said in message and f"{path} line 1" in message
    good = b"a.png\tgood\n" if name.endswith("tsv") else b'{"image": "a.png", "caption": "good"}\n'
    path = write(f"set/{name}", content + b"\n" + good)
    assert counted(path, on_bad_text="drop") == (
        [("a.png", "good")], f"2 captions read: 1 kept, 1 dropped (1 {reason})")


def test_bad_bytes_may_be_replaced_in_a_caption_but_not_in_a_name(folder, write):
    path = write("set/c.tsv", b"a.png\tcaf\xe9\n")
    assert counted(path, on_bad_text="replace") == (
        [("a.png", "caf\ufffd")], "1 caption read: 1 kept, 0 dropped; mended: 1 with bad UTF-8 replaced")
    path = write("set/c.jsonl", b'{"image": "\\ud800.png", "caption": "one"}\n{"image": "a.png", "caption": "good"}')
    assert "1 bad UTF-8" in counted(path, on_bad_text="replace")[1]


@pytest.mark.parametrize("name, said, reason", [
    ("none.png", "does not exist: check the name, or pass --on-bad-image drop", "picture missing"),
    ("../secret.png", "lies outside", "picture outside the folder"),
    ("sub/../../secret.png", "lies outside", "picture outside the folder"),
    ("SECRET", "lies outside", "picture outside the folder"),
    ("link.png", "lies outside", "picture outside the folder"),
    ("linked/secret.png", "lies outside", "picture outside the folder"),
    ("ring.png", "", None),
    ("sub", "is a folder, not a picture", "picture not a file"),
    ("", "is a folder, not a picture", "picture not a file"),
    ("pipe.png", "is a pipe or a device", "picture not a file"),
    ("a.png/b.png", "does not exist", "picture missing"),
    ("n" * 5000, "cannot be reached", "picture missing"),
    ("a\0.png", "cannot be reached", "picture missing"),
    ("a\n.png", "'", "picture missing"),
    ("empty.png", "is an empty file", "picture empty"),
])
def test_a_name_that_leads_to_no_picture_of_the_folder(folder, write, tmp_path, name, said, reason):
    secret = write("secret.png", plain())
    write("outside/secret.png", plain())
    write("set/empty.png", b"")
    (folder / "link.png").symlink_to(secret)
    (folder / "linked").symlink_to(tmp_path / "outside")
    (folder / "ring.png").symlink_to("ring.png")
    os.mkfifo(folder / "pipe.png")
    records = [{"image": secret if name == "SECRET" else name, "caption": "one"}, {"image": "a.png", "caption": "two"}]
    path = write("set/c.jsonl", "\n".join(map(json.dumps, records)))
    message, counted_as = complaint(read, path)
    assert message.startswith(f"{path} line 1: ") and said in message and "--on-bad-image drop" in message
    assert reason in (None, counted_as)
    assert counted(path, on_bad_image="drop") == (
        [("a.png", "two")], f"2 captions read: 1 kept, 1 dropped (1 {counted_as})")


def test_links_that_stay_inside_are_followed_and_so_is_one_to_the_folder(folder, tmp_path, write):
    (folder / "link.png").symlink_to("a.png")
    (tmp_path / "there").symlink_to(folder)
    write("set/captions.tsv", f"link.png\tone\n{folder / 'a.png'}\ttwo\nsub/../a.png\tthree\n")
    assert [caption for _, caption in read(tmp_path / "there")] == ["one", "two", "three"]


def test_what_is_given_must_be_captions(folder, write, tmp_path):
    (tmp_path / "nothing").mkdir()
    assert "has no captions in it: write captions.tsv (a file name, a tab" in complaint(read, tmp_path / "nothing")[0]
    assert "does not exist" in complaint(read, tmp_path / "absent")[0]
    assert "is a picture: name its folder" in complaint(read, folder / "a.png")[0]
    assert "is no captions file: give .tsv or .jsonl" in complaint(read, write("a.csv", "a,b"))[0]
    assert "cannot be read from stdin" in complaint(read, "-")[0]
    assert "looks binary" in complaint(read, write("set/c.tsv", bytes(range(256)) * 10))[0]
    assert "no captions left from" in complaint(read, write("set/c.tsv", ""))[0]
    write("set/captions.jsonl", "")
    assert "several captions files (captions.tsv, captions.jsonl): name the one" in complaint(read, folder)[0]


def test_settings_that_cannot_be_are_named():
    with pytest.raises(SettingError, match=r"unknown data.on_bad_image 'dorp': did you mean drop\?"):
        settings(on_bad_image="dorp")
    with pytest.raises(SettingError, match=r"unknown data.on_bad_text"):
        settings(on_bad_text="never")
    with pytest.raises(SettingError, match=r"data.max_words -1 is impossible"):
        settings(max_words=-1)


# ------------------------------------------------------------------------------------------------ decoded, on disk


def test_a_shard_gives_back_its_pictures(tmp_path):
    pictures = list(NOISE.reshape(-1, 8, 8, 3))
    shard = PictureShard.write(tmp_path / "s", 8, [pictures[0], Lost("broken"), *pictures[1:]])
    again = PictureShard.open(tmp_path / "s")
    for found in (shard, again):
        assert np.array_equal(found.images, pictures) and found.lost == {1: "broken"}
        assert len(found) == len(pictures)
        assert np.array_equal(found.images[[5, 0, 5]], [pictures[5], pictures[0], pictures[5]])
    assert not again.images.flags.writeable and again.content == shard.content
    assert len(PictureShard.write(tmp_path / "none", 8, [])) == 0


def test_a_damaged_shard_is_a_clear_line(tmp_path):
    path = PictureShard.write(tmp_path / "s", 8, [NOISE[:8, :8]]).path
    with open(path / "pictures.bin", "ab") as file:
        file.write(b"x")
    assert "is damaged (pictures.bin does not match): remove it" in complaint(PictureShard.open, path)[0]
    (path / "shard.json").write_text("[]")
    assert "is damaged" in complaint(PictureShard.open, path)[0]
    assert "is damaged" in complaint(PictureShard.open, tmp_path / "absent")[0]


def test_captions_come_with_the_rows_of_their_pictures(folder, own_cache):
    found = prepare_pictures(folder, settings(size=16), Cache())
    assert found.captions == [caption for _, caption in ALL] and found.rows.tolist() == [0, 1, 0]
    batch = found.shard.images[found.rows]
    assert batch.shape == (3, 16, 16, 3) and (batch[0] == RED).all() and (batch[1, :, :, 2] > 250).all()
    assert found.tally.line() == "3 captions read: 3 kept, 0 dropped"


def test_pictures_are_decoded_once_for_each_content(folder, write, monkeypatch):
    first = prepare_pictures(folder, settings(size=16), Cache()).shard
    with monkeypatch.context() as patched:
        patched.setattr(picture_shards, "load_picture", lambda path, size: pytest.fail("decoded again"))
        assert prepare_pictures(folder, settings(size=16), Cache()).shard.content == first.content
    write("set/a.png", plain("green"))
    assert prepare_pictures(folder, settings(size=16), Cache()).shard.path != first.path
    assert prepare_pictures(folder, settings(size=8), Cache()).shard.images.shape[1] == 8


def test_a_damaged_shard_of_the_cache_is_made_again(folder):
    shard = prepare_pictures(folder, settings(size=16), Cache()).shard
    (shard.path / "shard.json").write_text("{}")
    assert prepare_pictures(folder, settings(size=16), Cache()).shard.content == shard.content


def test_a_broken_picture_fails_or_is_counted_with_all_its_captions(folder, write):
    write("set/a.png", plain()[:50])
    message, reason = complaint(lambda: prepare_pictures(folder, settings(size=16), Cache()))
    assert message.startswith(f"{folder / 'captions.tsv'} line 1: the picture {folder / 'a.png'} is broken (")
    assert message.endswith("or pass --on-bad-image drop") and reason == "picture broken"
    for _ in range(2):                                                # decoded, and from the cache
        found = prepare_pictures(folder, settings(size=16, on_bad_image="drop"), Cache())
        assert found.captions == ["a blue one"] and found.rows.tolist() == [0]
        assert found.tally.line() == "3 captions read: 1 kept, 2 dropped (2 picture broken)"
    assert "is broken" in complaint(lambda: prepare_pictures(folder, settings(size=16), Cache()))[0]
    write("set/sub/b.jpg", b"no")
    said = complaint(lambda: prepare_pictures(folder, settings(size=16, on_bad_image="drop"), Cache()))[0]
    assert "there are no pictures left (3 captions read: 0 kept, 3 dropped (1 not a picture, 2 picture broken))" in said
    with pytest.raises(SettingError, match="give a size from 1 to 1024"):
        prepare_pictures(folder, settings(size=5000), Cache())


def test_a_disk_that_refuses_leaves_no_half_shard(tmp_path, monkeypatch):
    operations = []
    monkeypatch.setattr(storage, "before_operation", lambda operation, path: operations.append(operation))
    PictureShard.write(tmp_path / "whole", 8, [NOISE[:8, :8]] * 2)
    for fatal in range(len(operations) - 1):                         # the last sync comes after the rename
        left = iter(range(len(operations)))

        def refuse(operation, path, left=left, fatal=fatal):
            if next(left) == fatal:
                raise OSError(28, "No space left on device")

        monkeypatch.setattr(storage, "before_operation", refuse)
        with pytest.raises(StorageError):
            PictureShard.write(tmp_path / "s", 8, [NOISE[:8, :8]] * 2)
        assert not list(tmp_path.glob("*s")) and not list(tmp_path.glob(".part*")), fatal
