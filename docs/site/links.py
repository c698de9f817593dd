"""Follow every link of the finished site, without a network: pages, anchors, pictures, scripts, frames.

A link to another host is not followed; its form is checked. What a page loads must come from the site itself.
"""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("img", "src"), ("script", "src"), ("iframe", "src"), ("link", "href"), ("source", "src")}
FOLLOWED = {*LOADED, ("a", "href")}


class Page(HTMLParser):
    """The anchors of a page, and what it points at."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.anchors: set[str] = set()
        self.links: list[tuple[str, str, int]] = []
        self.bare_pictures: list[int] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}
        if tag == "img" and not (given.get("alt") or "").strip() and given.get("role") != "presentation":
            self.bare_pictures.append(self.getpos()[0])
        for kind, name in FOLLOWED:
            if kind == tag and (target := given.get(name)) is not None:
                self.links.append((tag, target, self.getpos()[0]))


def dead_links(site: Path) -> tuple[list[str], int]:
    """What is wrong, a line each, and how many links were followed."""
    read: dict[Path, Page] = {}

    def page(file: Path) -> Page:
        if file not in read:
            read[file] = Page(file.read_text("utf-8"))
        return read[file]

    wrong, followed = [], 0
    for file in sorted(site.rglob("*.html")):
        if "looks" in file.relative_to(site).parts:      # a look is one file, which its own tests open
            continue
        at = file.relative_to(site).as_posix()
        wrong += [f"{at}:{line}: a picture without a text alternative" for line in page(file).bare_pictures]
        for tag, target, line in page(file).links:
            followed += 1
            if said := follow(tag, target, file, site, page):
                wrong.append(f"{at}:{line}: {said}")
    return wrong, followed


def follow(tag: str, target: str, file: Path, site: Path, page: Callable[[Path], Page]) -> str:
    """What is wrong with one link; empty where it leads somewhere."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        if tag != "a" and parts.scheme != "data":
            return f"{target} is loaded from another host"
        good = parts.scheme in ("data", "mailto") or (parts.scheme == "https" and "." in parts.netloc)
        return "" if good else f"{target} is no address"
    path = unquote(parts.path)
    found = (file.parent / path).resolve() if path else file
    if found.is_dir():
        found /= "index.html"
    if not found.is_relative_to(site.resolve()) or not found.is_file():
        return f"{target} is not there"
    anchor = unquote(parts.fragment)
    if anchor and found.suffix == ".html" and anchor not in page(found).anchors:
        return f"{target} has no such place"
    return ""
