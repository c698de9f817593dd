"""The embedded pictures: the same every time, in parts that share nothing, with regions where the things are."""

import zlib
from collections import Counter
from itertools import combinations as pairs_of

import numpy as np
import pytest

from regard.corpora import shapes_drawing as drawing
from regard.corpora import shapes_scenes as scenes
from regard.corpora.shapes import PARTS, SIDE, Picture, box, covered, draw_pictures, pictures, write
from regard.corpora.shapes_scenes import COLOURS, RELATIONS, SHAPES, SIZES, unseen
from regard.data.pictures.pictures import PictureDataSettings, read_captioned
from regard.data.tokens.words import WordTokenizer
from regard.errors import SettingError, StorageError
from tests.made_later import MadeLater

SPLIT = WordTokenizer([]).split
SOME = MadeLater(lambda: {part: draw_pictures(np.arange(1000), part=part) for part in PARTS})
TRAIN = MadeLater(lambda: SOME["train"])
DRAWN = MadeLater(lambda: [TRAIN.picture(number) for number in range(300)])
SAYS_NOTHING = {"a", "an", "of", "and"}


def things(caption):
    """The (colour, shape) of each thing and the relations between them, from the words alone."""
    words = [word for word in caption.split() if word not in SAYS_NOTHING | set(SIZES)]
    names = [(words[at], words[at + 1]) for at in range(0, len(words), 3)]
    return names, words[2::3]


def same(one: Picture, other: Picture):
    return one.caption == other.caption and np.array_equal(one.image, other.image)


# ------------------------------------------------------------------------------------------------ always the same


def test_a_picture_follows_from_its_seed_part_and_number_alone():
    first = list(pictures(300, seed=3))
    assert all(map(same, first, pictures(300, seed=3)))
    alone = draw_pictures(np.array([299, 7]), seed=3)                        # another order, other neighbours
    assert same(alone.picture(0), first[299]) and same(alone.picture(1), first[7])
    assert not any(map(same, first, pictures(300, seed=4)))
    assert not any(map(same, first, pictures(300, seed=3, part="valid")))


def test_the_pictures_are_those_of_every_machine():
    """Whoever means to change what is drawn writes down the new numbers."""
    assert zlib.crc32("\n".join(TRAIN.captions).encode()) == 3803221721
    assert np.allclose(TRAIN.images[:3].mean((1, 2, 3)), [62.56, 57.6, 72.45], atol=0.01)


def test_no_two_pictures_are_alike():
    assert len({picture.image.tobytes() for picture in DRAWN}) == len(DRAWN)


# ------------------------------------------------------------------------------------------------ parts


def test_parts_share_no_picture_and_no_caption_but_of_one_thing_whatever_their_seeds():
    both = {part: [SOME[part], draw_pictures(np.arange(1000), 1, part)] for part in PARTS}
    captions = {part: {caption for some in both[part] for caption in some.captions} for part in PARTS}
    images = {part: {image.tobytes() for some in both[part] for image in some.images} for part in PARTS}
    for one, other in pairs_of(PARTS, 2):
        assert not images[one] & images[other]
        if {one, other} != {"valid", "test"}:            # both draw what is held out from learning
            assert all(len(things(caption)[0]) == 1 for caption in captions[one] & captions[other])
    assert not captions["unseen"] & (captions["train"] | captions["valid"] | captions["test"])
    for part in ("valid", "test"):
        assert len({caption for caption in captions[part] if len(things(caption)[0]) > 1}) > 600


def test_parts_have_things_alike_but_none_alone_is_unseen():
    for part in PARTS:
        counts = Counter(len(things(caption)[0]) for caption in SOME[part].captions)
        shares = [counts[number] / 1000 for number in (1, 2, 3)]
        assert np.allclose(shares, [0, 0.75, 0.25] if part == "unseen" else [0.2, 0.6, 0.2], atol=0.05), part


def combinations(caption):
    """(red, square, above) for the first thing of a relation, (above, blue, circle) for the other."""
    names, relations = things(caption)
    full = {"left": "left of", "right": "right of"}
    relations = [full.get(relation, relation) for relation in relations]
    return [(*names[0], relation) for relation in relations] + \
        [(relation, *other) for relation, other in zip(relations, names[1:], strict=True)]


def test_unseen_pictures_hold_a_combination_that_never_comes_elsewhere():
    for part in PARTS:
        for caption in SOME[part].captions:
            assert any(unseen(*words) for words in combinations(caption)) == (part == "unseen"), caption
    every = {words for part in PARTS for caption in SOME[part].captions for words in combinations(caption)}
    assert len(every) == 2 * 4 * len(COLOURS) * len(SHAPES)          # all there are
    kept_apart = {words for words in every if unseen(*words)}
    assert 25 < len(kept_apart) < 55
    assert {place for words in kept_apart for place, word in enumerate(words) if word in SHAPES} == {1, 2}


def test_any_two_of_what_never_meets_have_met():
    """A colour with a shape, either with a relation: only all three together are new."""
    seen = [set(words) for caption in TRAIN.captions for words in combinations(caption)]
    for words in {words for caption in SOME["unseen"].captions for words in combinations(caption) if unseen(*words)}:
        for left_out in words:
            assert any(set(words) - {left_out} <= each for each in seen), words


def test_every_word_that_unseen_pictures_need_is_learned():
    known = {word for caption in TRAIN.captions for word in caption.split()}
    wanted = {*COLOURS, *SHAPES, *SIZES, *" ".join(sum(RELATIONS, ())).split(), *SAYS_NOTHING}
    assert known == wanted
    for place in (0, 1, 2):                                          # and each in each place but "small"
        said = {word for caption in TRAIN.captions for names in [things(caption)[0]] if len(names) > place
                for word in names[place]}
        assert said == {*COLOURS, *SHAPES}


def test_an_unknown_part_is_one_clear_line():
    with pytest.raises(SettingError, match=r"^shapes has no part vald: did you mean valid\?$"):
        pictures(1, part="vald")
    with pytest.raises(SettingError, match="no part tests"):
        draw_pictures(np.arange(2), part="tests")


# ------------------------------------------------------------------------------------------------ captions


def test_captions_are_words_parted_by_single_spaces():
    for caption, meant in zip(TRAIN.captions, TRAIN.meant, strict=True):
        assert SPLIT(caption) == caption.split(" ") and len(SPLIT(caption)) == len(meant)


def test_no_thing_is_named_twice_and_sizes_are_said_of_one_alone():
    for caption in TRAIN.captions:
        names, _ = things(caption)
        assert len(set(names)) == len(names), caption
        assert any(size in caption for size in SIZES) == (len(names) == 1), caption
    assert any("an orange" in caption for caption in TRAIN.captions)
    assert not any("a orange" in caption for caption in TRAIN.captions)


def test_the_caption_says_where_things_are_and_the_large_one_comes_first():
    for picture in DRAWN:
        names, relations = things(picture.caption)
        boxes = [box(region) for word, region in zip(picture.words, picture.regions, strict=True) if word in SHAPES]
        assert len(boxes) == len(names)
        for relation, other in zip(relations, boxes[1:], strict=True):
            first = boxes[0]
            where = {"left": first[2] < other[0], "right": first[0] > other[2],
                     "above": first[3] < other[1], "below": first[1] > other[3]}
            assert [name for name, holds in where.items() if holds] == [relation], picture.caption
            assert max(first[2] - first[0], first[3] - first[1]) > max(other[2] - other[0], other[3] - other[1])
        if len(names) == 1:
            wide = boxes[0][2] - boxes[0][0]
            assert ("large" in picture.words) == (wide > 14), picture.caption


# ------------------------------------------------------------------------------------------------ regions


def test_regions_are_exactly_the_pixels_that_the_things_changed():
    key = scenes.keys(0, "train", np.arange(300))
    found = scenes.scenes(key, "train")
    bare, _ = drawing.drawn(found, key, bare=True)
    for at, picture in enumerate(DRAWN):
        changed = (picture.image != bare[at]).any(-1)
        whole = np.any([region for region in picture.regions if region is not None], axis=0)
        assert not (changed & ~whole).any()
        assert changed.sum() > 0.95 * whole.sum()                    # the faintest edges round to nothing


def test_a_colour_word_lies_on_its_colour_and_things_do_not_overlap():
    for at, picture in enumerate(DRAWN):
        assert TRAIN.masks[at].sum(0).max() == 1                     # no pixel of two things
        for word, region in zip(picture.words, picture.regions, strict=True):
            assert (region is None) == (word in SAYS_NOTHING)
            if word in COLOURS:
                left, top, right, bottom = box(region)
                row, column = (top + bottom) // 2, (left + right) // 2
                middle = picture.image[row - 1:row + 2, column - 1:column + 2].reshape(-1, 3).mean(0)
                near = min(COLOURS, key=lambda name: np.abs(middle - COLOURS[name]).sum())
                assert near == word, picture.caption


def test_a_relation_lies_on_both_things_and_a_colour_said_twice_on_each():
    twice = next(p for p in DRAWN if len(things(p.caption)[0]) == 2 and len({n[0] for n in things(p.caption)[0]}) == 1)
    colour, relation = things(twice.caption)[0][0][0], things(twice.caption)[1][0]
    first, second = (twice.regions[at] for at, word in enumerate(twice.words) if word == colour)
    assert not (first & second).any() and first.any() and second.any()
    assert np.array_equal(twice.regions[twice.words.index(relation)], first | second)


def test_things_are_whole():
    """None is cut by the edge: its stamp has as many pixels wherever it stands."""
    stamps = {int((stamp > 0).sum()) for shape in drawing.stamps() for stamp in shape}
    assert {int(mask.sum()) for masks in TRAIN.masks for mask in masks if mask.any()} <= stamps


def test_boxes_fit_tightly_and_patches_share_out_a_region():
    mask = np.zeros((SIDE, SIDE), dtype=bool)
    mask[6:12, 12:27] = True
    assert box(mask) == [12, 6, 27, 12]
    share = covered(mask, 6).reshape(8, 8)
    assert share[1, 2:5].tolist() == [1, 1, 0.5] and share.sum() == 2.5
    assert covered(TRAIN.masks[:5], 8).shape == (5, 3, 36)
    with pytest.raises(SettingError, match="cannot be cut into patches of 7"):
        covered(mask, 7)


# ------------------------------------------------------------------------------------------------ drawing


def test_shapes_are_told_apart_by_their_stamps():
    """Even the smallest: no two shapes of a radius have nearly the same pixels."""
    small = drawing.stamps()[:, 0]
    for one in range(len(SHAPES)):
        for other in range(one):
            assert np.abs(small[one] - small[other]).sum() > 0.15 * small[one].sum(), (SHAPES[one], SHAPES[other])


def test_stamps_fit_their_radius_and_have_soft_edges():
    middle = drawing.REACH
    for stamps in drawing.stamps():
        for stamp, radius in zip(stamps, drawing.RADII, strict=True):
            rows, columns = np.nonzero(stamp)
            reach = int(np.ceil(radius))
            assert abs(rows - middle).max() <= reach and abs(columns - middle).max() <= reach
            assert stamp.max() == 1 and np.array_equal(stamp, stamp[:, ::-1])
        assert ((stamps > 0) & (stamps < 1)).any()


def test_a_picture_is_its_ground_with_each_stamp_laid_over_it():
    """One at a time and pixel by pixel, as a reader would write it."""
    key = scenes.keys(0, "train", np.arange(12))
    found = scenes.scenes(key, "train")
    radii = drawing._radii(found, key)
    centres = drawing._centres(found, key, np.ceil(np.array(drawing.RADII))[radii].astype(int))
    images, reach = drawing._grounds(key).astype(float), drawing.REACH
    for at, thing in zip(*np.nonzero(found.present), strict=True):
        stamp = drawing.stamps()[found.shapes[at, thing], radii[at, thing]]
        colour = drawing._shades(found, key, int(thing))[at]
        x, y = centres[at, thing]
        for row in range(max(y - reach, 0), min(y + reach + 1, SIDE)):
            for column in range(max(x - reach, 0), min(x + reach + 1, SIDE)):
                share = stamp[row - y + reach, column - x + reach]
                images[at, row, column] = (1 - share) * images[at, row, column] + share * colour
    assert abs(images - TRAIN.images[:12]).max() <= 0.501


def test_grounds_are_dark_some_plain_and_some_noisy():
    grounds = [(p.image, ~np.any([r for r in p.regions if r is not None], axis=0)) for p in DRAWN]
    rough = np.array([image[mask].std(0).max() for image, mask in grounds])
    level = np.array([image[mask].mean() for image, mask in grounds])
    assert 0.3 < (rough == 0).mean() < 0.7 and (rough[rough > 0] > 2).all()
    assert level.max() < 90 and level.std() > 10


def test_every_colour_is_brighter_than_any_ground_in_some_channel():
    ground = drawing.LIGHTEST + 8
    assert all(max(colour) - drawing.SHADE > ground + 60 for colour in COLOURS.values())


def test_draws_are_even():
    key = scenes.keys(0, "train", np.arange(60_000))
    counts = np.bincount(scenes.draw(key, 5, 6), minlength=6)
    assert len(counts) == 6 and abs(counts - 10_000).max() < 500
    assert abs(np.corrcoef(scenes.draw(key, 5, 1000), scenes.draw(key, 6, 1000))[0, 1]) < 0.02


# ------------------------------------------------------------------------------------------------ on disk


def test_a_part_is_written_as_a_folder_that_the_reader_reads(tmp_path):
    from PIL import Image

    folder = write(tmp_path / "some", 5, seed=2, part="valid")
    wanted = list(pictures(5, seed=2, part="valid"))
    found = list(read_captioned(folder, PictureDataSettings(())))
    assert [each.caption for each in found] == [picture.caption for picture in wanted]
    for each, picture in zip(found, wanted, strict=True):
        with Image.open(each.path) as image:
            assert np.array_equal(np.asarray(image), picture.image)
    with pytest.raises(SettingError, match="exists already"):
        write(folder, 5)


def test_a_folder_that_could_not_be_finished_is_not_there(tmp_path, monkeypatch):
    from regard import storage

    def refuse(operation, path):
        if path.name == "captions.tsv":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "before_operation", refuse)
    with pytest.raises(StorageError, match="disk is full"):
        write(tmp_path / "some", 3)
    assert not list(tmp_path.glob("*some*"))
