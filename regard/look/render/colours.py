"""Colours of a map: nothing read is the colour of the page, all of it the far end of cividis; below zero blue, above
orange. Lightness alone tells the amounts apart, so that they survive colour blindness and a black and white print.
"""

from __future__ import annotations

Colour = tuple[int, int, int]

PAGE = {"light": "#ffffff", "dark": "#14181d"}
MOST = {"light": ("#ffffff", "#b9c4d6", "#6d7f9f", "#33486f", "#00224e"),
        "dark": ("#14181d", "#3f4249", "#7d7a6d", "#bfae5b", "#fee838")}
ABOVE = {"light": ("#ffffff", "#f6c9a8", "#e8954f", "#c1600a", "#7f3b00"),
         "dark": ("#14181d", "#4a3423", "#8a5a2b", "#cf8a3c", "#ffc27a")}
BELOW = {"light": ("#ffffff", "#b4d3ee", "#6aa7db", "#2670b3", "#053f75"),
         "dark": ("#14181d", "#1f3850", "#2f6493", "#559bd6", "#a6d4ff")}
LINK = {"plain": "#d55e00", "signed": "#000000"}           # outlines on a light page


def dark_colour(shade: float, signed: bool = False) -> str:
    """The colour of a shade between -1 and 1, on a dark page."""
    scale = BELOW if shade < 0 else ABOVE if signed else MOST
    return between(scale["dark"], abs(shade))


def between(stops: tuple[str, ...], share: float) -> str:
    """The colour so far along a row of colours."""
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    index = min(int(place), len(stops) - 2)
    low, high = _numbers(stops[index]), _numbers(stops[index + 1])
    mixed = (round(a + (b - a) * (place - index)) for a, b in zip(low, high, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def ink_on(back: str) -> str:
    """Black or white, whichever can be read on it."""
    red, green, blue = (_linear(part / 255) for part in _numbers(back))
    return "#000000" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 else "#ffffff"


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def _numbers(colour: str) -> Colour:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
