"""Captioned pictures as a corpus: split by picture, captions beside their pictures, and what a run keeps of it."""

import numpy as np
import pytest
from PIL import Image

from regard.data.pictures.picture_corpus import prepare_captioned
from regard.data.pictures.pictures import PictureDataSettings
from regard.data.reading.corpus import TokenizerSettings
from regard.data.tokens.vocabulary import EOS

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "white": (255, 255, 255),
           "black": (0, 0, 0), "yellow": (255, 255, 0), "cyan": (0, 255, 255), "pink": (255, 0, 255),
           "grey": (128, 128, 128), "brown": (128, 64, 0)}


@pytest.fixture
def folder(tmp_path):
    """Ten pictures, each of one colour, with two captions that name it."""
    place = tmp_path / "pictures"
    place.mkdir()
    lines = []
    for name, colour in COLOURS.items():
        Image.new("RGB", (8, 8), colour).save(place / f"{name}.png")
        lines += [f"{name}.png\ta {name} square", f"{name}.png\t{name} everywhere"]
    (place / "captions.tsv").write_text("\n".join(lines) + "\n")
    return place


def rows(shard, pictures, tokenizer):
    """(caption, the colour of its picture), row by row."""
    starts = [0, *shard.ends[:-1].tolist()]
    captions = [tokenizer.decode(np.asarray(shard.tokens[start:end - 1]))
                for start, end in zip(starts, shard.ends, strict=True)]
    colours = [tuple(pictures.images[row][0, 0].tolist()) for row in pictures.rows]
    assert all(shard.tokens[end - 1] == EOS for end in shard.ends)
    return list(zip(captions, colours, strict=True))


def test_each_caption_stands_beside_its_picture_and_no_picture_is_on_both_sides(folder):
    corpus = prepare_captioned(PictureDataSettings((str(folder),), size=8, valid_share=0.2), TokenizerSettings("word"),
                               say=lambda line: None)
    sides = [rows(shard, pictures, corpus.tokenizer) for shard, pictures in (
        (corpus.train, corpus.source_train), (corpus.valid, corpus.source_valid))]
    assert [len(side) for side in sides] == [16, 4]
    seen = [{colour for _, colour in side} for side in sides]
    assert not seen[0] & seen[1] and seen[0] | seen[1] == set(COLOURS.values())
    named = {colour: name for name, colour in COLOURS.items()}
    for caption, colour in sides[0]:
        assert named[colour] in caption.split()
    assert all(named[colour] in caption for caption, (_, colour) in zip(corpus.captions, sides[1], strict=True))


def test_a_run_keeps_the_kind_and_the_size_of_the_tokenizer_that_was_learned(folder):
    data = PictureDataSettings((str(folder),), size=8)
    corpus = prepare_captioned(data, TokenizerSettings("auto"), say=lambda line: None)
    assert corpus.tokenizer_settings == TokenizerSettings("bpe", corpus.tokenizer.vocab_size)
    assert corpus.resolved(data).content == corpus.content != ""
