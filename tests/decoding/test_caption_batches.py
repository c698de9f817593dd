"""Many pictures at once: what one gives depends neither on its neighbours, nor on their order, nor on the batch."""

import numpy as np
import pytest
import torch

from regard.contract import Memory
from regard.decoding.beam import BeamOptions, search_batches
from regard.decoding.source_batches import picture_batches, pixels_of
from regard.decoding.special_tokens import SpecialTokens
from regard.families.caption import CAPTION

SPECIAL = SpecialTokens(1, 2, (0, 1))
IMAGES = np.random.default_rng(0).integers(0, 256, (7, 8, 8, 3), dtype=np.uint8)


def said(model, images, at_once=None, on_batch=None):
    found = search_batches(model, picture_batches(model, images, 6, 3, at_once), SPECIAL,
                           BeamOptions(width=3, n_best=2), on_batch)
    return [[(each.tokens, round(each.log_prob, 9)) for each in best] for best in found]


@pytest.mark.parametrize("name", CAPTION)
def test_a_picture_says_the_same_alone_and_in_any_company(name):
    model = CAPTION[name].example(torch.float64)
    together = said(model, IMAGES)
    assert len({str(each) for each in together}) > 1                         # pictures differ in what they give
    assert [said(model, IMAGES[at:at + 1])[0] for at in range(7)] == together
    assert said(model, IMAGES[::-1]) == together[::-1]
    for at_once in (1, 3, 6, 100):
        counts = []
        assert said(model, IMAGES, at_once=at_once, on_batch=counts.append) == together and counts[-1] == 7


def test_a_captioner_that_looks_at_its_neighbour_is_seen():
    model = CAPTION["transformer"].example(torch.float64)
    honest = model.encoder.forward

    def compares(source):
        memory = honest(source)
        return Memory(memory.vectors + 0.1 * memory.vectors[:1], memory.lengths, memory.summary)

    together = said(model, IMAGES)
    model.encoder.forward = compares
    assert said(model, IMAGES) != together
    assert [said(model, IMAGES[at:at + 1])[0] for at in range(7)] != said(model, IMAGES)


@pytest.mark.parametrize("name", CAPTION)
def test_captions_are_bounded_and_hold_no_mark(name):
    for best in said(CAPTION[name].example(torch.float64), IMAGES):
        for tokens, _ in best:
            assert len(tokens) <= 6 and not {0, 1, 2} & {*tokens}


def test_no_pictures_give_no_captions():
    assert said(CAPTION["transformer"].example(torch.float64), IMAGES[:0]) == []


def test_pixels_stand_where_models_read_them():
    pixels = pixels_of(IMAGES, torch.device("cpu"))
    assert pixels.shape == (7, 3, 8, 8) and pixels[4, 1, 2, 3] == IMAGES[4, 2, 3, 1]
