"""A sheet of painted pictures takes any words."""

import warnings

import numpy as np
import pytest

from regard.look.render.painting import lit, sheet


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_any_words_can_stand_over_a_picture(kind):
    image, seen = np.full((32, 32, 3), 200, np.uint8), np.full((2, 4, 4), 1 / 16, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = sheet(image, seen, ("$5_ ^$", "狐🦊\n<b>"), "a fox for $5_ ^$ 🦊 & more", kind)
    assert drawn[:4] in (b"\x89PNG", b"<?xm") and drawn == sheet(image, seen, ("$5_ ^$", "狐🦊\n<b>"),
                                                                 "a fox for $5_ ^$ 🦊 & more", kind)


def test_what_is_read_most_is_lit_most():
    weights = np.array([[0.7, 0.2], [0.1, 0.0]], np.float32)
    painted = lit(np.full((4, 4, 3), 200, np.uint8), weights)[::2, ::2, 0]
    assert painted[0, 0] == 200 and painted[0, 0] > painted[0, 1] > painted[1, 0] > painted[1, 1] > 0
