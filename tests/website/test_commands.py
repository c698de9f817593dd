"""Every command and every Python name of the pages, by the real parser and the real modules, without running them.

tests/readme runs the blocks that are marked; this holds all others to what exists. A command in a block of `sh` has to
parse to its end; one in a line of text has to exist, with its options.
"""

import ast
import importlib
import re
import shlex
from dataclasses import fields
from itertools import pairwise

import click
import pytest

from docs.site.looks import LOOKS, MODELS
from docs.site.reference import every_table
from docs.site.stage import pages
from regard.cli import root
from regard.families import FAMILIES
from regard.tasks import TASKS

PAGES = {place: file for place, file in pages().items() if place not in ("project/changelog.md", "log.md")}
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.M | re.S)
FAILS = re.compile(r"^<!-- test: fails -->\n```sh\n.*?^```$", re.M | re.S)     # wrong on purpose: tests/readme
INLINE = re.compile(r"(?<!`)`(regard [^`]+)`(?!`)")
FAMILIES_OF_PAIRS = {family for task in TASKS.values() for family in task.families}
ENDS = {"|", "||", "&&", ";", ">", ">>", "<", "2>", "&"}


def blocks(text, language):
    return ["\n".join(line.removeprefix(indent) for line in body.splitlines())
            for indent, name, body in BLOCK.findall(text) if name == language]


def commands_of(block):
    """The `regard` commands of a block, as lists of words; what follows a pipe or a redirection is left out."""
    for line in block.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words = list(lexer)
        for at, word in enumerate(words):
            if word == "regard" and (at == 0 or words[at - 1] in ENDS or "=" in words[at - 1]):
                rest = words[at + 1:]
                stop = next((n for n, each in enumerate(rest) if each in ENDS), len(rest))
                yield rest[:stop]


def parse(words):
    """Let the parser read the words to their end, as it does before it runs a command; raise what it has to say."""
    command, context = root, click.Context(root, info_name="regard")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            raise click.UsageError(f"no command {words[0]}")
        command, context, words = found, click.Context(found, info_name=words[0], parent=context), words[1:]
    if set(words) & {"--help", "-h", "--version"}:
        return
    command.parse_args(context, list(words))


def exists(words):
    """As `parse` for a command in a sentence: it may be cut short, but names a command, and options that there are."""
    command, context = root, click.Context(root, info_name="regard")
    while isinstance(command, click.Group) and words and re.fullmatch(r"[a-z][\w-]*", words[0]):
        found = command.get_command(context, words[0])
        if found is None:
            raise click.UsageError(f"no command {words[0]}")
        command, context, words = found, click.Context(found, info_name=words[0], parent=context), words[1:]
    below = [command.get_command(context, name) for name in command.list_commands(context)] \
        if isinstance(command, click.Group) else []                    # `regard train --resume`: of any task
    known = {name for each in (command, *below) for option in each.get_params(context)
             for name in (*option.opts, *option.secondary_opts)}
    named = {word.partition("=")[0].rstrip(",.") for word in words if re.match(r"--?[a-z]", word)}
    if wrong := named - known:
        raise click.UsageError(f"no option {', '.join(sorted(wrong))} of {command.name}")


@pytest.mark.parametrize("place", PAGES)
def test_every_command_of_a_page_parses(place):
    text = FAILS.sub("", PAGES[place].read_text("utf-8"))
    for block in blocks(text, "sh"):
        for words in commands_of(block):
            told(parse, words)
            told(check_settings, words)
    for command in INLINE.findall(BLOCK.sub("", text)):
        told(exists, command.split()[1:])
        if "..." not in command:
            told(check_settings, command.split()[1:])


SETTINGS = {re.match(r"\[(\w+)\]", title)[1]: set() for title, _, _ in every_table()}
for _title, _, _tables in every_table():
    SETTINGS[re.match(r"\[(\w+)\]", _title)[1]] |= {field.name for _, kind in _tables for field in fields(kind)}


def check_settings(words):
    """Every --set of a command names a setting that there is; in `compare` it may begin with a family."""
    for option, value in pairwise(words):
        if option == "--set":
            *family, table, name = value.partition("=")[0].split(".")
            known = SETTINGS["model"] if table in FAMILIES or table in FAMILIES_OF_PAIRS else SETTINGS.get(table, set())
            if name not in known:
                raise click.UsageError(f"no setting {value}")
            assert not family or words[0] == "compare", value


def told(check, words):
    try:
        check(words)
    except click.ClickException as wrong:
        pytest.fail(f"regard {' '.join(words)}: {wrong.format_message()}")


@pytest.mark.parametrize("place", PAGES)
def test_every_name_of_python_on_a_page_exists(place):
    for block in blocks(PAGES[place].read_text("utf-8"), "python"):
        for module, name in names_of(block):
            found = importlib.import_module(module)
            assert not name or hasattr(found, name) or importlib.import_module(f"{module}.{name}"), (module, name)


def names_of(code):
    """The modules of ours that are imported, and the names that are taken from them."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "regard":
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == "regard")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "regard":
            yield "regard", node.attr


def test_every_command_of_a_look_parses():
    for command in {*(each for model in MODELS.values() for each in model.commands),
                    *(look.command for look in LOOKS.values())}:
        told(parse, shlex.split(command)[1:])


@pytest.mark.parametrize("line", [
    "regard trian lm notes.txt", "regard train lm notes.txt --step 4", "regard show", "regard lab run",
    "echo x | regard score runs/a - --per-tokens", "regard generate runs/a --tokens many", "regard data got stories"])
def test_a_wrong_command_is_seen(line):
    (words,) = commands_of(line)
    with pytest.raises(click.ClickException):
        parse(words)


@pytest.mark.parametrize("setting", ["training.micro_bach=2", "trainig.batch=2", "modell.layers=1", "rnn.layer=2"])
def test_a_wrong_setting_is_seen(setting):
    with pytest.raises(click.ClickException):
        check_settings(["compare", "lm", "--set", setting])


@pytest.mark.parametrize("line", ["regard trian lm", "regard train lm --step", "regard data got"])
def test_a_wrong_command_in_a_sentence_is_seen(line):
    with pytest.raises(click.ClickException):
        exists(line.split()[1:])


def test_names_that_are_wrong_are_seen():
    assert list(names_of("import regard.laod\nfrom regard.look import x\nregard.laod('a')")) == [
        ("regard.laod", ""), ("regard.look", "x"), ("regard", "laod")]
