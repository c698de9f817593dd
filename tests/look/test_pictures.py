import io
import math

import numpy as np
import pytest
import torch
from PIL import Image

from regard.contract import Source
from regard.decoding.source_batches import pixels_of
from regard.errors import DataError
from regard.look import Request, look
from regard.look.picture import as_given, decoded, example_picture
from regard.tasks.caption import PICTURES
from regard.watching import watch
from tests.look.models import CAPTIONERS, captioner, picture

SAID = "a small red square"


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def given(name, target=SAID):
    return look(captioner(name), Request(image=picture(), target=target))


def framed(model, seen):
    source = Source(pixels_of(decoded(picture(), model.size)[None], model.model.device))
    tokens = torch.tensor([[token.id for token in seen.sides["target"].tokens]])
    return source, tokens, torch.tensor([[each.id for each in seen.predictions]])


@pytest.mark.parametrize("name", CAPTIONERS)
def test_the_numbers_are_those_that_the_layers_recorded_to_the_last_bit(name):
    model, seen = captioner(name), given(name)
    source, tokens, targets = framed(model, seen)
    with torch.no_grad(), watch() as recorded:
        scores = model.model.score(tokens, targets, model.model.start(1, None, source))[0][0]
    for track in seen.tracks:
        for values, place in zip(track.values, track.places, strict=False):
            np.testing.assert_array_equal(values, recorded.readings[place].values[0].numpy())
            np.testing.assert_allclose(values.sum(-1), 1, atol=1e-5)
    assert sum(len(track.places) for track in seen.tracks) == len(recorded.readings)
    assert [each.bits for each in seen.predictions] == pytest.approx((-scores / math.log(2)).tolist(), abs=1e-5)


@pytest.mark.parametrize("name", CAPTIONERS)
def test_each_word_reads_the_patches_of_the_picture(name):
    model, seen = captioner(name), given(name)
    track = seen.track("patches")
    assert (track.rows, track.columns, track.row_label) == ("target", "image", "writes")
    assert track.shape[2:] == (5, 9) and seen.sides["image"].patches == (3, 3)
    said = [token.id for token in seen.sides["target"].tokens[1:]]
    (read,) = model.reads(decoded(picture(), model.size)[None], [said])
    np.testing.assert_allclose(track.values[:, :, :-1], read, atol=1e-6)
    assert [token.piece for token in seen.sides["image"].tokens][3:5] == ["row 2, column 1", "row 2, column 2"]
    assert {track.name for track in seen.tracks} >= {"patches", "patches-occlusion", "influence-gradient"}


@pytest.mark.parametrize("name", CAPTIONERS)
def test_the_beginning_of_a_caption_reads_what_it_reads_in_the_whole(name):
    whole, part = given(name), given(name, "a small")
    for track in part.tracks:
        if track.rows == "target":
            for row in range(2):
                own = whole.track(track.name).row(row)[..., :track.shape[3]]
                np.testing.assert_allclose(track.row(row), own, atol=1e-5)


@pytest.mark.parametrize("name", CAPTIONERS)
def test_hiding_a_patch_shows_what_it_was_worth(name):
    model, seen = captioner(name), given(name)
    source, tokens, targets = framed(model, seen)

    def scores(pixels):
        with torch.no_grad():
            return model.model.score(tokens, targets, model.model.start(1, None, Source(pixels)))[0][0]

    hidden = source.items.clone()
    mean = hidden[0].double().mean((1, 2)).round().to(hidden.dtype)
    hidden[0, :, 8:16, 16:24] = mean[:, None, None]                         # row 2, column 3
    found = seen.track("patches-occlusion")
    np.testing.assert_allclose(found.values[0, 0, :, 5], scores(source.items) - scores(hidden), atol=1e-5)
    np.testing.assert_allclose(given(name).track(found.name).row(3), found.row(3), atol=1e-5)


@pytest.mark.parametrize("name", CAPTIONERS)
def test_without_a_caption_the_model_says_its_own(name):
    model = captioner(name)
    seen = look(model, Request(image=picture()))
    told = model.caption(decoded(picture(), model.size)[None])[0]
    assert seen.sides["target"].text == told.text
    assert seen.predictions[-1].piece == "<eos>" or "came to no end" in seen.notes[0]


def test_the_picture_is_kept_as_it_is_read_and_as_it_was_given():
    wide = Image.fromarray(np.random.default_rng(0).integers(0, 255, (50, 2000, 3), np.uint8))
    raw = io.BytesIO()
    wide.save(raw, "JPEG")
    side = look(captioner("rnn-attention"), Request(image=raw.getvalue(), target=SAID)).sides["image"]
    assert (side.width, side.height) == (2000, 50)
    with Image.open(io.BytesIO(side.png)) as read, Image.open(io.BytesIO(side.original)) as original:
        assert read.size == (24, 24) and read.format == "PNG" and original.size == (1024, 26)
        np.testing.assert_array_equal(np.asarray(read), decoded(raw.getvalue(), 24))


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "I;16", "1"])
def test_pictures_of_any_kind_are_kept_upright(mode):
    grey = np.linspace(0, 255, 40 * 10).reshape(40, 10).astype(np.uint8)
    made = Image.fromarray(grey.astype(np.uint16) * 256) if mode == "I;16" else Image.fromarray(grey).convert(mode)
    exif = Image.Exif()
    exif[0x0112] = 6                                         # the camera was turned
    raw = io.BytesIO()
    made.save(raw, "PNG", exif=exif)
    png, width, height = as_given(raw.getvalue())
    with Image.open(io.BytesIO(png)) as kept:
        assert kept.size == (width, height) == (40, 10) and kept.mode == "RGB"
        seen = np.asarray(kept).astype(int)
    assert seen[:, 0].mean() > seen[:, -1].mean() + 100, "what was at the bottom is on the left now"


def test_examples_are_always_there():
    assert list(PICTURES[:2]) == ["shapes-1", "shapes-2"]
    first, second = map(example_picture, PICTURES[:2])
    assert first != second and decoded(first, 24).shape == (24, 24, 3)
    assert example_picture("shapes-0") is None and example_picture("../shapes-1") is None
    assert look(captioner("transformer"), Request(image=first, target=SAID)).id


@pytest.mark.parametrize("raw, message", [
    (b"", "^a captioner reads a picture: give one, as a PNG or JPEG file$"),
    (None, "^a captioner reads a picture: give one"),
    (b"no picture", "^the picture is not a picture of a known kind: give a .* file$"),
    (picture()[:200], r"^the picture is broken \(.*\): fetch it again, or save it anew$")])
def test_what_is_no_picture_is_one_clear_line_without_a_path(raw, message):
    with pytest.raises(DataError, match=message) as caught:
        look(captioner("transformer"), Request(image=raw))
    assert "/" not in str(caught.value)
