"""The reference, from the code: commands from the parser, settings from their tables, names from their doc strings,
formats from the tables of readers and writers.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import click

from docs.site.peers import peers


class NoSuchPart(Exception):
    """A part of the reference that nothing makes."""


def part(name: str) -> str:
    """A part of the reference as Markdown."""
    if name not in PARTS:
        raise NoSuchPart(f"{name}: the reference has the parts {', '.join(PARTS)}")
    return "\n".join(PARTS[name]())


# ----------------------------------------------------------------------------------------------- commands


def commands() -> Iterator[str]:
    """Every command with its usage and its options."""
    for path, command, context in every_command():
        depth = "#" * min(4, 1 + len(path))
        yield f"{depth} regard {' '.join(path)}\n"
        yield f"```text\nregard {' '.join(path)} {' '.join(command.collect_usage_pieces(context))}\n```\n"
        yield f"{prose(inspect.cleandoc(command.help or ''))}\n"
        rows = [record for option in command.params if (record := option.get_help_record(context))]
        if rows:
            yield "| option | what it does |\n|---|---|"
            yield from (f"| `{cell(names)}` | {cell(plain(about)) or ' '} |" for names, about in rows)
            yield ""


def every_command() -> Iterator[tuple[list[str], click.Command, click.Context]]:
    """Each command and each command below it, as a user would type them."""
    from regard.cli import root

    def walk(group: click.Group, path: list[str], context: click.Context) -> Iterator[Any]:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            inner = click.Context(command, info_name=name, parent=context)
            yield [*path, name], command, inner
            if isinstance(command, click.Group):
                yield from walk(command, [*path, name], inner)

    yield from walk(root, [], click.Context(root, info_name="regard"))


# ----------------------------------------------------------------------------------------------- settings


def settings() -> Iterator[str]:
    """Every table of run.toml: its settings, what they are by default, and what they mean."""
    for title, about, tables in every_table():
        yield f"## {title}\n\n{about}\n"
        for name, kind in tables:
            yield f"### {name}\n" if name else ""
            yield "| setting | default | what it is |\n|---|---|---|"
            said = comments(kind)
            yield from (f"| `{field.name}` | {default_of(field)} | {cell(plain(said.get(field.name, ''))) or ' '} |"
                        for field in dataclasses.fields(kind))
            yield ""


Tables = list[tuple[str, type]]


def every_table() -> Iterator[tuple[str, str, Tables]]:
    """The tables of settings: a title, a sentence, and the classes that have the fields."""
    from regard.families import FAMILIES
    from regard.tasks import TASKS
    from regard.training.settings import TrainingSettings

    yield "[training]", "Every task and every family that is trained: `--set training.NAME=VALUE`.", [
        ("", TrainingSettings)]
    yield "[data]", "What is read, and what is held out: `--set data.NAME=VALUE`.", [
        (f"[data] of {', '.join(names)}", kind)
        for names, kind in shared((name, task.data) for name, task in TASKS.items())]
    yield "[tokenizer]", "How text becomes tokens: `--set tokenizer.NAME=VALUE`.", [
        (f"[tokenizer] of {', '.join(names)}", kind)
        for names, kind in shared((name, task.tokenizer) for name, task in TASKS.items())]
    mixing = [(f"[ngram] of {name}", task.mixing.settings) for name, task in TASKS.items() if task.mixing]
    yield "[ngram]", "The n-gram that a network is mixed with: `--set ngram.NAME=VALUE`.", mixing
    for name, task in TASKS.items():
        families = FAMILIES if name == "lm" else task.families
        yield f"[model] of {name}", f"By `--family`: `regard train {name} ... --set model.NAME=VALUE`.", [
            (f"{', '.join(names)} ({name})", kind)
            for names, kind in shared((family, each.settings) for family, each in families.items())]


def shared(named: Any) -> Iterator[tuple[list[str], type]]:
    """Each class once, with the names of all that have it."""
    groups: dict[type, list[str]] = {}
    for name, kind in named:
        groups.setdefault(kind, []).append(name)
    yield from ((names, kind) for kind, names in groups.items())


def comments(kind: type) -> dict[str, str]:
    """What the source says beside each field, in the class that declares it last."""
    found: dict[str, str] = {}
    for owner in reversed([each for each in kind.__mro__ if dataclasses.is_dataclass(each)]):
        name = ""
        for line in inspect.getsourcelines(owner)[0]:
            if field := re.match(r"    (\w+): [^#]*?(?:# (.*))?$", line.rstrip()):
                name = field[1]
                if field[2] or name not in found:
                    found[name] = field[2] or ""
            elif name and (more := re.match(r" {20,}# (.*)$", line.rstrip())):
                found[name] += f" {more[1]}"
            else:
                name = ""
    return found


def default_of(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        value = field.default
    elif field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        return "(given)"
    if value == "" or value == ():
        return "(none)"
    return f"`{cell(str(value).lower() if isinstance(value, bool) else str(value))}`"


# ------------------------------------------------------------------------------------------ names in Python


def names() -> Iterator[str]:
    """The public names of `import regard`, with their signatures and doc strings."""
    import regard

    for name in sorted(set(regard.__all__) - {"__version__"}, key=str.lower):
        found = getattr(regard, name)
        yield f"## regard.{name}\n"
        yield f"{signature(name, found)}\n"
        yield f"{prose(inspect.getdoc(found) or '')}\n"
        if inspect.isclass(found):
            yield from methods(found)


def methods(kind: type) -> Iterator[str]:
    """The public methods and properties of a class that are ours and have a doc string."""
    for name in sorted({name for owner in kind.__mro__ for name in owner.__dict__ if not name.startswith("_")}):
        found = [owner.__dict__[name] for owner in kind.__mro__
                 if name in owner.__dict__ and owner.__module__.startswith("regard")]
        value = found[0] if found else None
        inner = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        text = next((each.__doc__ for each in found if inspect.isfunction(each) and each.__doc__), None)
        text = text or (inner.__doc__ if inspect.isfunction(inner) else None)
        if text:
            shown = f"`.{name}`" if isinstance(value, property) else signature(f".{name}", inner)
            yield f"{shown}\n: {prose(inspect.cleandoc(text)).replace(chr(10), chr(10) + '  ')}\n"


def signature(name: str, found: Any) -> str:
    """A call as it is written, with types and defaults."""
    try:
        given = inspect.signature(found)
    except (TypeError, ValueError):
        return f"`{name}`"
    shown, starred = [], False
    for each in given.parameters.values():
        if each.name in ("self", "cls"):
            continue
        if each.kind is each.KEYWORD_ONLY and not starred:
            shown.append("*")
        starred = starred or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        stars = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
        kind = "" if each.annotation is each.empty else f": {type_text(each.annotation)}"
        default = "" if each.default is each.empty else f" = {getattr(each.default, '__name__', repr(each.default))}"
        shown.append(f"{stars}{each.name}{kind}{default}")
    gives = "" if given.return_annotation in (given.empty, None) else f" -> {type_text(given.return_annotation)}"
    return f"`{name}({', '.join(shown)}){gives}`"


def type_text(kind: Any) -> str:
    return kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))


def prose(text: str) -> str:
    """A doc string as Markdown: paragraphs, and what is indented as code."""
    out = []
    for block in re.split(r"\n\s*\n", text.replace("\b\n", "")):
        indented = all(line.startswith("  ") for line in block.splitlines())
        out.append(f"```text\n{inspect.cleandoc(block)}\n```" if indented else plain(block))
    return "\n\n".join(out)


# ------------------------------------------------------------------------------------------------ formats


def formats() -> Iterator[str]:
    """The files that are read and written, by the tables of the code."""
    from regard.data.pairs.pairs import FORMATS as PAIRS
    from regard.data.pictures.picture_files import SUFFIXES as PICTURES
    from regard.data.reading.readers import RECORD_SUFFIXES, TEXT_SUFFIXES
    from regard.interop import TARGETS
    from regard.look.render.drawing import FORMS
    from regard.manifest import FORMAT

    yield "## Files that are read\n\n| what | endings |\n|---|---|"
    yield f"| text | {code(TEXT_SUFFIXES)} and whatever has another ending and is given by name |"
    yield f"| tables and records of texts | {code(RECORD_SUFFIXES)} |"
    yield f"| pairs in one file | {code(PAIRS)} |"
    yield f"| pictures | {code(PICTURES)} |"
    yield "\nText and records may be compressed, as `.gz`.\n"
    yield "## Files that are written\n\n| what | by | endings |\n|---|---|---|"
    yield f"| a look | `regard show -o` | {code(FORMS)} |"
    for name, row in TARGETS.items():
        ending = code([row.suffix]) if row.suffix else "a folder"
        yield f"| {cell(row.about)} | `regard export --to {name}` | {ending} |"
    yield f"\nRun folders have format {FORMAT}. A version reads all formats up to its own.\n"


def code(endings: Any) -> str:
    return ", ".join(f"`{ending}`" for ending in endings)


# ------------------------------------------------------------------------------------------------ Markdown


def plain(text: str) -> str:
    """Text whose stars, brackets and underscores mean themselves, outside code."""
    text = text.replace("\b", "")
    return "".join(each if each.startswith("`") else re.sub(r"([\\*_<>\[\]{}$|])", r"\\\1", each)
                   for each in re.split(r"(`[^`]*`)", text))


def cell(text: str) -> str:
    """Text that stays in one cell of a table."""
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    "commands": commands, "settings": settings, "names": names, "formats": formats, "peers": peers}
