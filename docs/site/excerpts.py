"""Our own code by its name: `regard.layers.attend:attend`, and a part of it by the text of its first and last line.

A page names code and never repeats it. A name that is not there, or a line that is there twice, is an error.
"""

from __future__ import annotations

import ast
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 32                                             # lines of an excerpt: a page shows an idea, not a file


class NoSuchCode(Exception):
    """A name in a page that leads to no code."""


@dataclass(frozen=True)
class Excerpt:
    file: Path
    first: int                                           # line, counted from 1
    last: int
    code: str

    @property
    def where(self) -> str:
        return f"{self.file.relative_to(ROOT).as_posix()}, lines {self.first} to {self.last}"


def excerpt(name: str, start: str = "", end: str = "") -> Excerpt:
    """The code of `module:function` or `module:Class.method`, or a part of it, from one line to another.

    Whole, it comes without its doc string: the page says in words what it is.
    """
    module, _, inner = name.partition(":")
    file = file_of(module)
    lines = file.read_text("utf-8").splitlines()
    first, last = span(file, inner, name) if inner else (1, len(lines))
    own = lines[first - 1:last]
    begin = place_of(start, own, name) if start else 0
    stop = place_of(end, own[begin:], name) + begin if end else len(own) - 1
    taken = own[begin:stop + 1]
    shown = textwrap.dedent("\n".join(taken)).strip("\n")
    if inner and not start:
        shown = without_doc(shown)
    if shown.count("\n") >= LONGEST:
        raise NoSuchCode(f"{name} has {shown.count(chr(10)) + 1} lines, at most {LONGEST} are shown: "
                         "say from which to which")
    return Excerpt(file, first + begin, first + begin + len(taken) - 1, shown)


def file_of(module: str) -> Path:
    path = ROOT / module.replace(".", "/")
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    raise NoSuchCode(f"{module}: there is no such module")


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def span(file: Path, inner: str, name: str) -> tuple[int, int]:
    """The first and last line of a function or class, decorators included."""
    node: ast.AST = tree_of(file)
    for part in inner.split("."):
        found = [each for each in getattr(node, "body", [])
                 if isinstance(each, ast.FunctionDef | ast.ClassDef) and each.name == part]
        if not found:
            raise NoSuchCode(f"{name}: {file.relative_to(ROOT)} has no {inner}")
        node = found[-1]
    assert isinstance(node, ast.FunctionDef | ast.ClassDef) and node.end_lineno
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return first, node.end_lineno


def place_of(text: str, lines: list[str], name: str) -> int:
    """The one line that has this text."""
    found = [number for number, line in enumerate(lines) if text in line]
    if len(found) != 1:
        raise NoSuchCode(f"{name}: {len(found)} lines have {text!r}, and one should")
    return found[0]


def without_doc(code: str) -> str:
    """The code of a function or class without its doc string."""
    try:
        (node,) = ast.parse(code).body
    except (SyntaxError, ValueError):                    # a part, which is no statement by itself
        return code
    if not isinstance(node, ast.FunctionDef | ast.ClassDef) or ast.get_docstring(node) is None:
        return code
    text, lines = node.body[0], code.splitlines()
    return "\n".join([*lines[:text.lineno - 1], *lines[text.end_lineno:]])
