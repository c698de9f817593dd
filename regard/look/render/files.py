"""Draw maps: on the terminal, or into a file whose ending says how.

    show(seen)                         # on the terminal
    save(seen, "map.png")              # .png .svg .html .txt .json
    save([first, second], "maps.html") # several, to choose from
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from regard import storage
from regard.errors import DataError, SettingError
from regard.look.render.figure import picture
from regard.look.render.maps import Map
from regard.look.render.saved_page import page
from regard.look.render.terminal import plain

Drawable = TypeVar("Drawable")


def _as_json(maps: Sequence[Map]) -> str:
    return json.dumps({"maps": [seen.as_dict() for seen in maps]}, separators=(",", ":")) + "\n"


FORMS: dict[str, Callable[[Sequence[Map]], bytes | str]] = {
    ".png": lambda maps: picture(maps, "png"),
    ".svg": lambda maps: picture(maps, "svg"),
    ".html": page,
    ".txt": lambda maps: "\n".join(map(plain, maps)),
    ".json": _as_json,
}


def save(maps: Map | Sequence[Map], path: str | Path) -> Path:
    """Write one map, or several in one file, in the form that the file's ending names."""
    maps = [maps] if isinstance(maps, Map) else list(maps)
    if not maps:
        raise DataError(f"there is no map to write to {path}")
    return write_form(path, FORMS, maps, "a map can be written as")


def write_form(
    path: str | Path, forms: Mapping[str, Callable[[Drawable], bytes | str]], drawable: Drawable, says: str
) -> Path:
    """Write something in one of its forms, by the file's ending; return the path. `says` begins the list of forms."""
    path = Path(path)
    form = forms.get(path.suffix.lower())
    if form is None:
        ending = f"ends in {path.suffix!r}" if path.suffix else "has no ending"
        raise SettingError(f"{path} {ending}: {says} {', '.join(forms)}")
    drawn = form(drawable)
    storage.make_folder(path.parent)
    storage.write_file(path, drawn)
    return path
