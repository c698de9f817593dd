"""Lay out the Markdown of the repository for Sphinx: its pages, and those that links lead to.

A link to a page stays one, a link to a file of code leads to a page with that file, and a link to anything else is an
error. The pages are those that are read in the repository; nothing is written twice.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from html import escape
from pathlib import Path

from docs.site.contents import tables_below
from docs.site.excerpts import NoSuchCode, file_of

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LEFT_OUT = {"site"}                                     # folders of docs/ that are no pages
OUTSIDE = {"README.md": "project/readme.md", "CONTRIBUTING.md": "project/contributing.md",
           "CHANGELOG.md": "project/changelog.md", "SECURITY.md": "project/security.md"}
CODE = {".py", ".js", ".toml", ".sh", ".css"}           # files that get a page of their own
LINK = re.compile(r"(?P<before>!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()(?P<target>[^)\s]+)(?P<after>\))")
EXCERPT = re.compile(r"^:::\{excerpt\} ([\w.]+)", re.M)
FENCE = re.compile(r"^( *)(```+|~~~+)(?!.*\1`{3}).*?^\1\2 *$", re.M | re.S)
INLINE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.S)


class DeadLink(Exception):
    """A link of a page that leads nowhere."""


def pages() -> dict[str, Path]:
    """Where each page stands on the site -> its file in the repository."""
    own = {path.relative_to(DOCS).as_posix(): path for path in sorted(DOCS.rglob("*.md"))
           if path.relative_to(DOCS).parts[0] not in LEFT_OUT}
    return own | {place: ROOT / name for name, place in OUTSIDE.items()}


def stage(folder: Path) -> None:
    """Write all pages into `folder`, with the pictures and the code that they link to."""
    shutil.rmtree(folder, ignore_errors=True)
    code: set[Path] = set()
    for place, file in pages().items():
        text = relink(file.read_text("utf-8"), partial(lead, place=place, file=file, folder=folder, code=code))
        write(folder / place, text + tables_below(place))
        code.update(shown_code(text))
    for file in sorted(code):
        write_code(file, folder)


def shown_code(text: str) -> Iterator[Path]:
    """The files whose code a page shows: each gets a page of its own, to see it in its place."""
    for module in EXCERPT.findall(text):
        with suppress(NoSuchCode):                           # the directive says so, with page and line
            yield file_of(module)


def relink(text: str, change: Callable[[str], str]) -> str:
    """The same Markdown with each link's target changed, but for those in code."""
    kept: list[str] = []

    def hide(match: re.Match[str]) -> str:
        kept.append(match[0])
        return f"\0{len(kept) - 1}\0"

    bare = INLINE.sub(hide, FENCE.sub(hide, text))
    bare = LINK.sub(lambda match: f"{match['before']}{change(match['target'])}{match['after']}", bare)
    while "\0" in bare:                                  # a link's text may hold code
        bare = re.sub(r"\0(\d+)\0", lambda match: kept[int(match[1])], bare)
    return bare


def lead(target: str, place: str, file: Path, folder: Path, code: set[Path]) -> str:
    """Where a link of a page leads on the site; what is not there yet is copied or noted in `code`."""
    if re.match(r"[a-z]+:", target) or target.startswith("#"):
        return target
    path, mark, anchor = target.partition("#")
    found = (file.parent / path).resolve()
    if not found.exists() or not found.is_relative_to(ROOT):
        raise DeadLink(f"{file.relative_to(ROOT)} points at {target}, which is not there")
    there = place_of(found)
    if there is None and found.suffix in CODE:
        code.add(found)
        there = code_place(found)
    elif there is None and found.is_file():              # a picture, a page that a command wrote
        there = found.relative_to(DOCS).as_posix() if found.is_relative_to(DOCS) else f"files/{found.name}"
        (folder / there).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(found, folder / there)
    elif there is None:
        raise DeadLink(f"{file.relative_to(ROOT)} points at the folder {target}: name a file in it")
    return os.path.relpath(there, Path(place).parent).replace(os.sep, "/") + mark + anchor


def place_of(found: Path) -> str | None:
    """The page on the site that shows this file, where there is one."""
    return next((place for place, file in pages().items() if file == found), None)


def code_place(file: Path) -> str:
    return f"code/{file.relative_to(ROOT).as_posix()}.md"


def write_code(file: Path, folder: Path) -> None:
    """A page with a file of code, on which each line has a number to link to: #L40."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_for_filename

    name = file.relative_to(ROOT).as_posix()
    shown = highlight(file.read_text("utf-8"), get_lexer_for_filename(name),
                      HtmlFormatter(linespans="L", cssclass="highlight"))
    shown = shown.replace('id="L-', 'id="L')
    shown = shown.replace("<pre>", f'<pre tabindex="0" aria-label="{escape(name)}">')
    write(folder / code_place(file),
          f"---\norphan: true\nnosearch: true\n---\n\n# {name}\n\n```{{raw}} html\n{shown}\n```\n")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
