"""`regard man`: the help of every command as manual pages, for `man regard-train-lm`.

A page is written in man(7): .SH a section, .TP a term with what it means, \\fB bold, \\fI italic.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import click


@click.command("man")
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="DIR", default=Path("man/man1"),
              show_default=True, help="Folder of the pages; `man` looks for man1 in the folders of MANPATH.")
def command(out: Path) -> None:
    """Write a manual page for each command, from its help."""
    from regard.cli import root
    from regard.storage import make_folder, write_file

    make_folder(out)
    pages = dict(write_pages(click.Context(root, info_name="regard", **root.context_settings)))
    for name, text in pages.items():
        write_file(out / f"{name}.1", text)
    click.echo(f"{len(pages)} pages in {out}: try `man {out / 'regard.1'}`")


def write_pages(context: click.Context) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of the page of a command, and of those below it."""
    own = context.command
    below = [] if not isinstance(own, click.Group) else [
        click.Context(command, parent=context, info_name=name) for name in own.list_commands(context)
        if (command := own.get_command(context, name)) and not command.hidden]
    yield name_of(context), format_page(context, below)
    for each in below:
        yield from write_pages(each)


def name_of(context: click.Context) -> str:
    return context.command_path.replace(" ", "-")


def format_page(context: click.Context, below: list[click.Context]) -> str:
    from regard import __version__

    own, name = context.command, name_of(context)
    lines = [f'.TH "{name.upper()}" "1" "" "Regard {__version__}" "Regard"',
             ".SH NAME", f"{escape(name)} \\- {escape(own.get_short_help_str(200))}",
             ".SH SYNOPSIS", f"\\fB{escape(context.command_path)}\\fP "
             + " ".join(escape(piece) for piece in own.collect_usage_pieces(context)),
             ".SH DESCRIPTION", *paragraphs(own.help or "")]
    options = [record for param in own.get_params(context)
               if isinstance(param, click.Option) and (record := param.get_help_record(context))]
    if options:
        lines += [".SH OPTIONS", *terms(options)]
    if below:
        lines += [".SH COMMANDS", *terms((each.info_name, each.command.get_short_help_str(200)) for each in below)]
    if own.epilog:
        lines += [".SH NOTES", *paragraphs(own.epilog)]
    others = [name_of(each) for each in ([context.parent] if context.parent else []) + below]
    if others:
        lines += [".SH SEE ALSO", ",\n".join(f"\\fB{escape(each)}\\fP(1)" for each in others)]
    return "\n".join(lines) + "\n"


def terms(rows: Iterable[tuple[str | None, str]]) -> Iterator[str]:
    for term, meaning in rows:
        yield from (".TP", f"\\fB{escape(term or '')}\\fP", escape(" ".join(meaning.split())))


def paragraphs(text: str) -> Iterator[str]:
    """Yield a help text in man(7): what is between blank lines is wrapped, unless it begins with the mark \\b."""
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        fixed = part.startswith("\b")
        lines = [escape(line) for line in part.removeprefix("\b").strip("\n").splitlines()]
        if lines:
            yield from (".PP", *([".nf", *lines, ".fi"] if fixed else [" ".join(lines)]))


def escape(text: str) -> str:
    """A text that troff prints as it is: backslashes, hyphens, and no line that begins with a control character."""
    told = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{told}" if told.startswith((".", "'")) else told
