"""The pictures of `shapes`: things of one colour, with soft edges, on plain and noisy grounds, many at once.

A thing is a stamp, how much of each pixel it covers, made once for each shape and radius. Things never touch.
N pictures · H, W pixels, both SIDE · S side of a stamp
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from regard.corpora.shapes_scenes import COLOURS, GOLDEN, SHAPES, Bits, Scenes, draw, mix

SIDE = 48                                  # pixels: 8 x 8 patches of 6, or 6 x 6 of 8
RADII = (5.5, 6.0, 9.5, 10.0)
SMALL, LARGE = 0, 2                        # where in RADII each size begins, two of each
REACH = 10                                 # the largest radius; a stamp is 2 REACH + 1 pixels wide
GRID = 4                                   # centres stand on multiples of so many pixels, which makes shapes learnable
FARTHEST = 3                               # so many distances from the first thing to a neighbour, a step of GRID each
FINE = 8                                   # points looked at across a pixel
SHADE = 11                                 # how far each channel of a thing may be from its colour
DARKEST, LIGHTEST = 16, 72                 # grounds; every colour is brighter in some channel
NOISE = (8, 32)                            # the weakest and the strongest, as its largest change of a channel
FIRST_SLOT = 1 << 20                       # the draws of a drawing come after all those of its scene


@cache
def stamps() -> NDArray[np.float32]:
    """(shapes, radii, S, S): the share of each pixel that a shape covers."""
    across = (np.arange((2 * REACH + 1) * FINE) + 0.5) / FINE - REACH - 0.5
    y, x = np.meshgrid(across, across, indexing="ij")
    inside = np.array([[_inside(shape, x / radius, y / radius) for radius in RADII] for shape in SHAPES])
    side = 2 * REACH + 1
    return inside.reshape(len(SHAPES), len(RADII), side, FINE, side, FINE).mean((3, 5)).astype(np.float32)


def _inside(shape: str, x: NDArray, y: NDArray) -> NDArray[np.bool_]:
    """True at the points that a shape of radius 1 covers; y grows downwards."""
    match shape:
        case "square":
            return np.maximum(abs(x), abs(y)) <= 0.85
        case "circle":
            return np.hypot(x, y) <= 0.97
        case "triangle":
            return (y <= 0.85) & (y >= 2 * abs(x) - 1)
        case "diamond":
            return abs(x) + abs(y) <= 1
        case "cross":
            return (np.minimum(abs(x), abs(y)) <= 0.3) & (np.maximum(abs(x), abs(y)) <= 0.97)
    assert shape == "star"
    # Fold the five points into one, pointing up; its edge is the line from the tip to the notch.
    fifth = 2 * np.pi / 5
    angle = abs((np.arctan2(x, -y) + fifth / 2) % fifth - fifth / 2)
    notch = 0.44 * np.array([np.cos(fifth / 2), np.sin(fifth / 2)])
    along, off = np.hypot(x, y) * np.cos(angle), np.hypot(x, y) * np.sin(angle)
    return along <= 1 - off * (1 - notch[0]) / notch[1]


def drawn(scenes: Scenes, key: Bits, bare: bool = False) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """The pictures (N, H, W, 3), and the pixels of each thing (N, 3, H, W); `bare` leaves the things out."""
    radii = _radii(scenes, key)
    centres = _centres(scenes, key, np.ceil(np.array(RADII))[radii].astype(np.int64))
    images = _grounds(key)
    masks = np.zeros((len(scenes), 3, SIDE + 2 * REACH, SIDE + 2 * REACH), dtype=bool)       # with room for stamps
    window = np.arange(2 * REACH + 1)
    for thing in range(3):
        rows = np.flatnonzero(scenes.present[:, thing])
        cover = stamps()[scenes.shapes[rows, thing], radii[rows, thing]]                           # (rows, S, S)
        y = centres[rows, thing, 1, None, None] + window[:, None]                              # in the wider picture
        x = centres[rows, thing, 0, None, None] + window
        masks[rows[:, None, None], thing, y, x] = cover > 0
        if not bare:
            _paint(images, cover, rows, y - REACH, x - REACH, _shades(scenes, key, thing)[rows])
    inner = slice(REACH, REACH + SIDE)
    return np.rint(images).astype(np.uint8), masks[:, :, inner, inner]


def _paint(images: NDArray, cover: NDArray, rows: NDArray, y: NDArray, x: NDArray, colour: NDArray) -> None:
    """Blend the pixels under a stamp into its colour; where a stamp hangs over the edge it is empty."""
    of, down, right = np.nonzero(cover)
    place = (rows[of], y[of, down, 0], x[of, 0, right])
    share = cover[of, down, right][:, None]
    images[place] += share * (colour[of] - images[place])


def _radii(found: Scenes, key: Bits) -> NDArray[np.int64]:
    """The index into RADII of each thing; neighbours of the first are small."""
    radii = SMALL + np.stack([draw(key, FIRST_SLOT + at, 2) for at in range(3)], 1)
    radii[:, 0] += np.where(found.large == 1, LARGE - SMALL, 0)
    return radii


def _centres(scenes: Scenes, key: Bits, reach: NDArray[np.int64]) -> NDArray[np.int64]:
    """(N, 3, 2) x and y: neighbours at a chance distance, the first thing where they have room too."""
    low = -(-reach // GRID) * GRID                          # the outermost centres of each thing: (N, 3)
    high = (SIDE - 1 - reach) // GRID * GRID
    centres = np.zeros((len(scenes), 3, 2), dtype=np.int64)
    for axis in (0, 1):                                     # thing 1 stands beside the first, thing 2 above or below
        other = axis + 1
        there, before = scenes.present[:, other], scenes.sides[:, axis] == 1       # 1: the first is right of it, below
        near = -(-(reach[:, 0] + reach[:, other] + 2) // GRID) * GRID
        choices = np.minimum((high[:, other] - low[:, 0] - near) // GRID + 1, FARTHEST)
        distance = near + GRID * draw(key, FIRST_SLOT + 3 + axis, choices)
        first = np.where(there & before, np.maximum(low[:, 0], low[:, other] + distance), low[:, 0])
        last = np.where(there & ~before, np.minimum(high[:, 0], high[:, other] - distance), high[:, 0])
        centres[:, 0, axis] = first + GRID * draw(key, FIRST_SLOT + 5 + axis, (last - first) // GRID + 1)
        centres[:, other, axis] = centres[:, 0, axis] + np.where(before, -distance, distance)
    for axis in (0, 1):                                     # across their line, a step aside or none
        aside = centres[:, 0, 1 - axis] + GRID * (draw(key, FIRST_SLOT + 7 + axis, 3) - 1)
        centres[:, axis + 1, 1 - axis] = np.clip(aside, low[:, axis + 1], high[:, axis + 1])
    return np.where(scenes.present[:, :, None], centres, REACH)


def _shades(found: Scenes, key: Bits, at: int) -> NDArray[np.float32]:
    """The colours of the things at one place, each a little off: (N, 3)."""
    palette = np.array(list(COLOURS.values()))
    off = np.stack([draw(key, FIRST_SLOT + 16 + 3 * at + channel, 2 * SHADE + 1) - SHADE for channel in range(3)], 1)
    return np.clip(palette[found.colours[:, at]] + off, 0, 255).astype(np.float32)


def _grounds(key: Bits) -> NDArray[np.float32]:
    """(N, H, W, 3): dark, of a faint tint; every second one noisy."""
    level = DARKEST + draw(key, FIRST_SLOT + 32, LIGHTEST - DARKEST + 1)
    tint = np.stack([draw(key, FIRST_SLOT + 34 + channel, 17) - 8 for channel in range(3)], 1)
    images = np.empty((len(key), SIDE, SIDE, 3), dtype=np.float32)
    images[:] = (level[:, None] + tint)[:, None, None]
    strength = draw(key, FIRST_SLOT + 38, 2) * (NOISE[0] + draw(key, FIRST_SLOT + 39, NOISE[1] - NOISE[0] + 1))
    noisy = np.flatnonzero(strength)
    pixels = np.arange(1, SIDE * SIDE + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    chance = mix(key[noisy, None] ^ pixels).astype("<u8").view(np.uint8).reshape(-1, SIDE, SIDE, 8)
    noise = chance[..., :3].astype(np.float32) + chance[..., 3:6] - 255                    # a triangle over ±255
    images[noisy] += noise * (strength[noisy] / 255)[:, None, None, None].astype(np.float32)
    return np.clip(images, 0, 255)
