"""`regard man`: a page a command, in man(7) that groff takes without a word, with every option of the help."""

import re
import shutil
import subprocess

import click
import pytest

from regard.cli import Commands, root
from regard.cli.man import escape, format_page, paragraphs


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    from regard.cli import main

    folder = tmp_path_factory.mktemp("man") / "man1"
    main(["man", "-o", str(folder)])
    return folder


def every(command, path=("regard",)):
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from every(command.get_command(context, name), (*path, name))


def test_every_command_has_a_page_with_its_options(pages):
    expected = {"-".join(path): command for path, command in every(Commands("regard"))}
    assert {page.stem for page in pages.iterdir()} == set(expected)
    for name, command in expected.items():
        text = (pages / f"{name}.1").read_text("utf-8").replace("\\-", "-")
        for each in command.params:
            if isinstance(each, click.Option) and not each.hidden:
                assert max(each.opts, key=len) in text, (name, each.opts)


def test_the_parts_of_a_page_stand_in_their_order(pages):
    for page in pages.iterdir():
        sections = re.findall(r"^\.SH (.+)$", page.read_text("utf-8"), re.M)
        assert sections[:3] == ["NAME", "SYNOPSIS", "DESCRIPTION"] and sections[-1] == "SEE ALSO", page


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff here")
def test_groff_has_nothing_to_say_against_a_page(pages):
    done = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", *sorted(map(str, pages.iterdir()))],
                          capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff here")
def test_what_a_reader_sees_is_the_help():
    @click.command("odd", help="Begin.\n\n.TH at a line's start, a back\\slash, don't-break.\n\n\b\n  as it\n  stands")
    @click.option("--some-thing", help="'Quoted' first.")
    def odd(some_thing):
        pass

    page = format_page(click.Context(odd, parent=click.Context(root, info_name="regard"), info_name="odd"), [])
    shown = subprocess.run(["groff", "-man", "-Tascii", "-P-c"], input=page, capture_output=True, text=True).stdout
    shown = re.sub(".\b", "", shown)
    for words in (".TH at a line's start, a back\\slash, don't-break.", "  as it\n", "'Quoted' first.", "--some-thing"):
        assert words in shown, shown


def test_a_control_character_at_the_start_of_a_line_is_no_command():
    assert escape(".SH x") == "\\&.SH x" and escape("'x") == "\\&'x" and escape("a\\b-c") == "a\\eb\\-c"
    assert list(paragraphs("")) == []
