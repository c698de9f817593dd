"""A page that needs nothing else, and its parts: sections, figures, grids, lists, facts. Text is escaped."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from html import escape

from regard.report.style import STYLE


class Markup(str):
    """Text that is HTML already."""


def as_html(value: object) -> str:
    """HTML as it is; anything else as text, escaped."""
    return value if isinstance(value, Markup) else escape(str(value))


def of_class(kind: str) -> str:
    """The class of an element, as an attribute; none, nothing."""
    return f' class="{escape(kind)}"' if kind else ""


def page(title: str, parts: Iterable[str], style: str = "") -> str:
    """The whole file; `style` is added to the style sheet that all reports share."""
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<style>{STYLE}{style}</style></head>\n<body><main>\n" + "\n".join(parts) + "\n</main></body></html>\n")


def section(heading: str, *parts: str) -> str:
    return f"<section><h2>{escape(heading)}</h2>\n" + "\n".join(parts) + "</section>"


def figure(svg: bytes, told: str, caption: str = "") -> str:
    """A picture inside the page; `told` is for those who do not see it."""
    data = base64.b64encode(svg).decode()
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure><img alt="{escape(told)}" src="data:image/svg+xml;base64,{data}">{below}</figure>'


def grid(parts: Iterable[str]) -> str:
    """Figures side by side, as many as fit."""
    return '<div class="grid">\n' + "\n".join(parts) + "\n</div>"


def bullets(lines: Iterable[object], kind: str = "") -> str:
    return f"<ul{of_class(kind)}>{''.join(f'<li>{as_html(line)}</li>' for line in lines)}</ul>"


def facts(named: Mapping[str, object]) -> str:
    """Names and what is known of each; names of nothing are left out."""
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{as_html(value)}</dd>" for name, value in named.items() if value)
    return f"<dl>{listed}</dl>"


def folded(summary: str, *parts: str) -> str:
    """Parts behind their summary, until it is opened."""
    return f"<details><summary>{escape(summary)}</summary>{''.join(parts)}</details>"


def visible(text: str) -> str:
    """Text escaped for a page: control characters, which a model may write, are shown as �."""
    return escape("".join(c if c in "\n\t" or (c.isprintable() or c == " ") else "�" for c in text))


def sample(heading: str, texts: Iterable[str]) -> str:
    """Texts that a model wrote, as HTML already."""
    return f'<div class="sample"><h3>{escape(heading)}</h3>{"".join(f"<pre>{text}</pre>" for text in texts)}</div>'
