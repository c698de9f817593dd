"""The pictures of the tour: small models that are trained while the site is built, and what each of them reads.

A model is trained by a command, a look is drawn by `regard show`: both are on the page. What was made is kept beside
the site, under the hash of its commands and of the code, and is made again when one of them changes.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path


class NoSuchLook(Exception):
    """A name in a page that no look has."""


@dataclass(frozen=True)
class Model:
    """A small model: the commands that make it."""

    name: str
    commands: tuple[str, ...]


@dataclass(frozen=True)
class LookOf:
    """One picture: whose, of what, and what a reader who cannot see it should know."""

    name: str
    model: str
    text: str
    alt: str
    options: str = ""

    @property
    def command(self) -> str:
        return f"regard show runs/{self.model} {shlex.quote(self.text)} {self.options}".rstrip()


MODELS: dict[str, Model] = {}
LOOKS: dict[str, LookOf] = {}


def look_named(name: str) -> LookOf:
    if name not in LOOKS:
        raise NoSuchLook(f"{name}: docs/site/looks.py has no such look")
    return LOOKS[name]


def make_looks(folder: Path, cache: Path) -> None:
    """Draw every look into `folder`, as NAME.svg and NAME.html."""
    folder.mkdir(parents=True, exist_ok=True)
