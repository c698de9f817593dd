"""Draw maps: on the terminal, or into a file whose ending says how.

    show(seen)                         # on the terminal
    save(seen, "map.png")              # .png .svg .html .txt .json
    save([first, second], "maps.html") # several, to choose from
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from regard import storage
from regard.errors import DataError, SettingError
from regard.probe.maps import Map
from regard.probe.render_figure import picture
from regard.probe.render_html import page
from regard.probe.render_terminal import plain, show

__all__ = ["FORMS", "save", "show"]


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
    path = Path(path)
    form = FORMS.get(path.suffix.lower())
    if form is None:
        ending = f"ends in {path.suffix!r}" if path.suffix else "has no ending"
        raise SettingError(f"{path} {ending}: a map can be written as {', '.join(FORMS)}")
    maps = [maps] if isinstance(maps, Map) else list(maps)
    if not maps:
        raise DataError(f"there is no map to write to {path}")
    drawn = form(maps)
    storage.make_folder(path.parent)
    storage.write_file(path, drawn)
    return path
