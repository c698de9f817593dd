"""One table in four forms: HTML, aligned text, Markdown, and drawn by `rich` on a terminal.

A heading is a text, or a tuple of the one or two lines that it is written in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from regard.report.page import as_html, of_class

Heading = str | tuple[str, ...]


@dataclass(frozen=True)
class Table:
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


# --------------------------------------------------------------------------------------------------- HTML


@dataclass(frozen=True)
class Cell:
    """A cell with more to it than its text. `heading`: it names its row."""

    content: object
    kind: str = ""                         # its class in the style sheet
    heading: bool = False
    title: str = ""
    span: int = 1                          # columns

    def __str__(self) -> str:
        attributes = {"scope": "row" if self.heading else "", "class": self.kind, "title": self.title,
                      "colspan": self.span if self.span > 1 else ""}
        written = "".join(f' {name}="{escape(str(value))}"' for name, value in attributes.items() if value)
        tag = "th" if self.heading else "td"
        return f"<{tag}{written}>{as_html(self.content)}</{tag}>"


def html_table(
    headings: Sequence[Heading], rows: Iterable[Sequence[object]], *, label: str, kind: str = "",
    row_kinds: Iterable[str] = (),
) -> str:
    """A table in a region that scrolls where the page is narrow; a row that is short says in its last cell why.

    Cells are texts, Markup or Cells. `label` names the region to those who do not see it, `kind` and `row_kinds` are
    classes in the style sheet.
    """
    head = "".join(f'<th scope="col">{_in_lines(heading)}</th>' for heading in headings)
    kinds = iter(row_kinds)
    body = "".join(f"<tr{of_class(next(kinds, ''))}>{''.join(map(str, _cells(row, len(headings))))}</tr>"
                   for row in rows)
    return (f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}"><table{of_class(kind)}>'
            f"{f'<thead><tr>{head}</tr></thead>' * bool(headings)}<tbody>{body}</tbody></table></div>")


def _cells(row: Sequence[object], width: int) -> list[Cell]:
    cells = [each if isinstance(each, Cell) else Cell(each) for each in row]
    if len(cells) < width:
        cells[-1] = Cell(cells[-1].content, "failed", span=width - len(cells) + 1)
    return cells


def _in_lines(heading: Heading) -> str:
    return escape(heading) if isinstance(heading, str) else "<br>".join(map(escape, heading))


# ------------------------------------------------------------------------------------------ text, Markdown


def text_table(headings: Sequence[tuple[str, ...]], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned by spaces: the first two to the left, the others to the right."""
    lines = [[heading[0] if len(heading) > 1 else "" for heading in headings], [heading[-1] for heading in headings]]
    whole = [row for row in rows if any(row[2:])]                    # a failure's reason would widen its column
    widths = [max(len(row[n]) for row in [*lines, *whole]) for n in range(len(headings))]
    widths[0] = max(widths[0], *(len(row[0]) for row in rows))

    def line(row: Sequence[str]) -> str:
        return "  ".join(f"{cell:<{widths[n]}}" if n in (0, 1) else f"{cell:>{widths[n]}}"
                         for n, cell in enumerate(row)).rstrip()

    return "\n".join([*map(line, lines), "  ".join("─" * width for width in widths), *map(line, rows)])


def markdown_table(headings: Sequence[tuple[str, ...]], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(map(" ".join, headings)) + " |", "|---|---|" + "---:|" * (len(headings) - 2)]
    return "\n".join([*lines, *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)])


def rich_table(headings: Sequence[tuple[str, ...]], rows: Sequence[Sequence[str]], bold: Collection[int] = ()) -> Any:
    """For a terminal, which may be narrow; `bold` are numbers of rows."""
    from rich import box
    from rich.markup import escape as plain
    from rich.table import Table as RichTable

    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for n, heading in enumerate(headings):
        table.add_column("\n".join(heading), justify="left" if n < 2 else "right", overflow="fold")
    for n, row in enumerate(rows):
        table.add_row(*map(plain, row), style="bold" if n in bold else None)
    return table
