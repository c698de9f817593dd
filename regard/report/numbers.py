"""Numbers as a reader of a report sees them."""

from __future__ import annotations

import math

NOTHING = "–"


def show_count(value: float | None) -> str:
    """12,345; also a rate."""
    return NOTHING if value is None else f"{value:,.0f}"


def show_bytes(value: float | None) -> str:
    """512 B, 66 kB, 1.2 MB."""
    if value is None:
        return NOTHING
    short = shorten(value)
    return f"{short[:-1]} {short[-1]}B" if short[-1] in "kMG" else f"{short} B"


def shorten(value: float | None) -> str:
    """512, 66k, 1.2M."""
    if value is None:
        return NOTHING
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.1f}{letter}" if value < 10 * unit else f"{value / unit:.0f}{letter}"
    return f"{value:.0f}"


def show_seconds(seconds: float | None) -> str:
    """4.2 s, 3.5 min."""
    if seconds is None:
        return NOTHING
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"


def show_share(value: float | None) -> str:
    """12.3%."""
    return NOTHING if value is None else f"{value:.1%}"


def show_signed(value: float) -> str:
    """+0.123; nothing for infinity and NaN."""
    return f"{value:+.4g}" if math.isfinite(value) else NOTHING


def show_chance(p: float | None) -> str:
    """0.0123; < 0.0001."""
    return NOTHING if p is None else "< 0.0001" if p < 0.0001 else f"{p:.4f}"
