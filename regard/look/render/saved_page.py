"""Maps as one HTML file that needs nothing else: the tab Read of the page that is served, with the numbers put into it.

Text reaches the page in two ways only, both safe for any text: escaped in the title, and as JSON in which nothing can
end a script. The page's policy allows this one script and nothing from outside.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import SettingError
from regard.look.look import LookSide, Token
from regard.look.render.labels import visible
from regard.look.render.maps import Map
from regard.look.track import Track

MOST_NUMBERS = 4_000_000                  # weights of all maps together: a file of about 20 MB
STYLES = ("base.css", "read.css")
# In this order: what a module uses when it is read stands before it.
MODULES = ("dom.js", "address.js", "payload.js", "colours.js", "api.js", "app.js", "read_view.js", "read_local.js",
           "read_matrix.js", "read_minimap.js", "read_atlas.js", "read_ribbons.js", "read_picture.js", "read_text.js",
           "read_row.js", "read_share.js", "read_controls.js", "tab_read.js")
BEGIN = """
const held = JSON.parse($("held").textContent);
begin([tab], embeddedIn(held.models, localLooks(held)), held.first);
"""
POLICY = ("default-src 'none'; style-src '{style}'; script-src '{script}'; img-src data: blob:; base-uri 'none'; "
          "form-action 'none'")
NO_SCRIPT = ("The numbers of this file are drawn by a script inside it: allow scripts, or write the map as .txt, .svg "
             "or .csv.")
SIGNS = "; blue below zero, orange above"


@dataclass(frozen=True, eq=False)
class Saved:
    """One look to save: what the server would tell of it, and all its numbers."""

    name: str
    kind: str                                              # a word beside the name
    look: dict[str, Any]                                   # as POST /api/look answers
    numbers: dict[str, NDArray[np.float32]]                # (N, H, R, C) of each of its tracks
    picture: bytes = b""                                   # a PNG file
    first: dict[str, Any] = field(default_factory=dict)    # the view it opens with, as an address has it


def page(maps: Sequence[Map], title: str = "") -> str:
    """Maps to choose from, in one file."""
    return saved_page([saved_map(seen, number) for number, seen in enumerate(maps, 1)], title)


def saved_page(looks: Sequence[Saved], title: str = "") -> str:
    """Looks to choose from, in one file."""
    numbers = sum(values.size for saved in looks for values in saved.numbers.values())
    if numbers > MOST_NUMBERS:
        raise SettingError(f"{numbers:,} weights do not fit in one page, which holds {MOST_NUMBERS:,}: "
                           "give fewer maps, or one layer or head of them")
    style, script = "\n".join(map(page_file, STYLES)), "\n".join([*map(as_plain_script, MODULES), BEGIN])
    policy = POLICY.format(style=_hash(style), script=_hash(script))
    head = (f'<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            f"<title>{escape(visible(title or looks[0].name))}</title>\n<style>{style}</style>")
    data = (f'<script type="application/json" id="held">{_safe_json(_held(looks))}</script>\n'
            f'<script type="module">{script}</script>')
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>{_body()}{data}\n</body>\n</html>\n'


# ---------------------------------------------------------------------------------------------- the script


def page_file(name: str) -> str:
    return (resources.files("regard") / "look" / "page" / name).read_text("utf-8")


def as_plain_script(name: str) -> str:
    """A module without imports and exports: one after another they share their names, which are all different."""
    text = re.sub(r'^import [^;]*;\n', "", page_file(name), flags=re.M)
    return re.sub(r"^export (?=(async )?(const|let|function|class)\b)", "", text, flags=re.M)


def _body() -> str:
    """The text between <body> and </body> of the page that is served."""
    body = page_file("index.html").partition("<body>")[2].partition("</body>")[0]
    return re.sub(r"(?<=<noscript>).*?(?=</noscript>)", NO_SCRIPT, body)


# ------------------------------------------------------------------------------------------------ the data


def _held(looks: Sequence[Saved]) -> dict[str, Any]:
    """The data that read_local.js answers from. A look's id is its place."""
    models, descriptions, numbers, pictures = [], {}, {}, {}
    for place, saved in enumerate(looks, 1):
        id = str(place)
        models.append({"id": id, "name": visible(saved.name), "family": saved.kind, "task": saved.look["task"]})
        descriptions[id] = {**saved.look, "id": id}
        numbers[id] = {name: base64.b64encode(values.astype("<f4").tobytes()).decode()
                       for name, values in saved.numbers.items()}
        if saved.picture:
            pictures[id] = "data:image/png;base64," + base64.b64encode(saved.picture).decode()
    return {"models": models, "looks": descriptions, "numbers": numbers, "pictures": pictures, "first": looks[0].first}


def saved_map(seen: Map, number: int = 1) -> Saved:
    """A map as a look with one track."""
    weights = seen.weights.astype(np.float32)
    track = Track(
        name=seen.kind, kind=seen.kind, badge=visible(seen.about_weights() + SIGNS * seen.signed),
        about=visible(f"{seen.row_title} down, {seen.column_title} across."), rows="rows", columns="columns",
        shape=weights.shape, signed=seen.signed, held=weights)                     # type: ignore[arg-type]
    sides = plain_side("rows", seen.row_title, seen.rows), plain_side("columns", seen.column_title, seen.columns)
    first = {"layer": str(seen.layer), "head": str(seen.head)} if seen.layers * seen.heads > 1 else {}
    links = sorted(map(list, seen.links))
    title = seen.title or f"What {seen.row_title} read of {seen.column_title}"
    return saved_track(title, seen.kind, "map", track, sides, first, top=seen.top, links=links)


def saved_track(
    title: str, kind: str, task: str, track: Track, sides: Sequence[LookSide], first: dict[str, Any], **about: Any
) -> Saved:
    """A track by itself as a look that predicts nothing. `kind` stands beside its title; `about` adds to the track."""
    told = {**track.as_dict(), "layer_names": [], "head_names": [], "stats": None, **about}
    look = {"model": "", "task": task, "family": track.name, "sides": {side.name: side.as_dict() for side in sides},
            "written": None, "said": [], "tracks": [told], "notes": []}
    picture = next((side.png for side in sides if side.png), b"")
    return Saved(title, kind, look, {track.name: track.values}, picture, first)


def plain_side(name: str, title: str, pieces: Sequence[str]) -> LookSide:
    """A side whose pieces stand apart from each other."""
    tokens, text = [], ""
    for number, piece in enumerate(pieces):
        tokens.append(Token(number, piece, len(text), len(text) + len(piece)))
        text += f"{piece} "
    return LookSide(name, visible(title), text, tuple(tokens))


def _safe_json(value: Any) -> str:
    """JSON that is also safe inside a script: no `<`, so no tag can begin or end there."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
