"""Maps as one HTML file that needs nothing else: the page beside this file with style, script and maps put into it.

Text reaches the page in two ways only, both safe for any text: escaped in the title, and as JSON in which nothing can
end a script. The page's policy allows this one script and nothing from outside.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import Any

from regard.errors import SettingError
from regard.probe.labels import visible
from regard.probe.maps import Map

MOST_NUMBERS = 4_000_000                  # weights of all maps together: a file of about 20 MB

SIGNS = "; blue below zero, orange above"


def page(maps: Sequence[Map], title: str = "") -> str:
    numbers = sum(seen.weights.size for seen in maps)
    if numbers > MOST_NUMBERS:
        raise SettingError(f"{numbers:,} weights do not fit in one page, which holds {MOST_NUMBERS:,}: "
                           "give fewer maps, or one layer or head of them")
    style, script = _file("map.css"), _file("map.js")
    parts = {"title": escape(visible(title or _title(maps[0]))), "style": style, "style hash": _hash(style),
             "script": script, "script hash": _hash(script), "data": _safe_json([_for_page(seen) for seen in maps])}
    # In one pass: what has been put in is not looked through again.
    return re.sub(r"\{([a-z ]+)\}", lambda found: parts[found[1]], _file("map.html"))


def _for_page(seen: Map) -> dict[str, Any]:
    """What the script asks for; weights as float32 in base64, which keeps all their digits in little room."""
    about = seen.about_weights() + SIGNS * seen.signed
    return {"title": visible(_title(seen)), "about": visible(about), "top": seen.top,
            "row_title": visible(seen.row_title), "column_title": visible(seen.column_title),
            "signed": seen.signed, "shares": seen.counts_shares, "layers": seen.layers, "heads": seen.heads,
            "layer": seen.layer, "head": seen.head, "links": sorted(map(list, seen.links)),
            "rows": [visible(piece) for piece in seen.rows], "columns": [visible(piece) for piece in seen.columns],
            "data": base64.b64encode(seen.weights.astype("<f4").tobytes()).decode()}


def _title(seen: Map) -> str:
    return seen.title or f"What {seen.row_title} read of {seen.column_title}"


def _safe_json(value: Any) -> str:
    """JSON that is also safe inside a script: no `<`, so no tag can begin or end there."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _file(name: str) -> str:
    return resources.files("regard.probe").joinpath("page", name).read_text(encoding="utf-8")
