"""Colours of maps: the same on paper and on the page, and told apart by people who see other colours."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.look.render.colours import ABOVE, BELOW, MOST, PAGE, between

# Linear RGB as people without one kind of cone see it (Viénot, Brettel and Mollon 1999; the last after Brettel 1997).
SEEN = {
    "all": np.eye(3),
    "protanopia": np.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]]),
    "deuteranopia": np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]]),
    "tritanopia": np.array([[1.0, 0.14461, -0.14461], [0.0, 0.85924, 0.14076], [0.0, 0.85924, 0.14076]]),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour, eyes):
    """CIELAB of a colour as these eyes see it."""
    parts = np.array([int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    x, y, z = XYZ @ (SEEN[eyes] @ linear).clip(0, 1) / XYZ.sum(1)
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("eyes", SEEN)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_more_is_always_farther_from_the_page(eyes, theme):
    for scale in (MOST, ABOVE, BELOW):
        steps = [lab(between(scale[theme], share), eyes) for share in np.linspace(0, 1, 17)]
        lightness = [step[0] for step in steps]
        assert scale[theme][0] == PAGE[theme]
        assert all((b < a) if theme == "light" else (b > a) for a, b in pairwise(lightness))
        assert np.linalg.norm(steps[-1] - steps[0]) > 50


@pytest.mark.parametrize("eyes", SEEN)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_below_zero_is_told_from_above(eyes, theme):
    for share in (0.25, 0.5, 0.75, 1.0):
        apart = np.linalg.norm(lab(between(ABOVE[theme], share), eyes) - lab(between(BELOW[theme], share), eyes))
        assert apart > (10 if share < 0.5 else 20), (share, apart)


def test_the_page_has_the_same_colours():
    script = (Path(regard.__file__).parent / "look" / "page" / "colours.js").read_text()
    for name, scale in (("AMOUNTS", MOST), ("ABOVE", ABOVE), ("BELOW", BELOW)):
        line = re.search(rf"const {name} = (.*?);", script, re.S)[1]
        for theme in ("light", "dark"):
            assert tuple(re.findall(r"#[0-9a-f]{6}", re.search(rf"{theme}: \[(.*?)\]", line)[1])) == scale[theme]
