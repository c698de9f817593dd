"""`regard completion`: bash completes for real, zsh and fish get the same answers, by click's protocol."""

import os
import re
import select
import shutil
import subprocess
import sys
import time

import pytest

from regard.cli import COMMANDS

BASH = shutil.which("bash")
needs_bash = pytest.mark.skipif(BASH is None or sys.platform == "win32", reason="no bash here")
PROMPT = "next> "


@pytest.fixture
def path(tmp_path):
    """A PATH on which `regard` is this tree."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "regard"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m regard "$@"\n')
    program.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


class Terminal:
    """An interactive bash in a terminal of its own."""

    def __init__(self, path):
        import pty

        self.master, end = pty.openpty()
        environment = os.environ | {"PATH": path, "PS1": PROMPT, "TERM": "dumb", "COLUMNS": "400"}
        self.process = subprocess.Popen([BASH, "--norc", "--noprofile", "-i"], stdin=end, stdout=end, stderr=end,
                                        env=environment, start_new_session=True)
        os.close(end)
        self.said = ""

    def type(self, keys, until):
        """Press keys and wait until the terminal shows the pattern; return what it showed."""
        os.write(self.master, keys.encode())
        shown, ends = "", time.monotonic() + 60
        while not re.search(until, shown):
            assert time.monotonic() < ends, f"after {keys!r} the terminal shows {shown!r}, and not {until!r}"
            if select.select([self.master], [], [], 1)[0]:
                shown += os.read(self.master, 65536).decode()
        return shown

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)


@needs_bash
def test_bash_completes_a_command_a_family_and_a_file(path, here):
    (here / "notes-of-mine.txt").write_text("a b c")
    terminal = Terminal(path)
    try:
        terminal.type("bind 'set enable-bracketed-paste off'; eval \"$(regard completion bash)\"; echo re''ady\n",
                      r"ready\r\n(.*\n)?next> ")
        terminal.type("regard vec\t", "regard vectors ")
        terminal.type("\x15regard train l\t", "regard train lm ")
        terminal.type("notes-of\t", "notes-of-mine.txt ")
        terminal.type("--family linear\t", "--family linear-rnn ")
        terminal.type("--tokenizer whi\t", "--tokenizer whitespace ")
    finally:
        terminal.close()


@needs_bash
def test_what_is_printed_for_bash_is_a_script_without_mistakes(regard):
    script = regard("completion", "bash").done()
    assert subprocess.run([BASH, "-n"], input=script, text=True).returncode == 0
    assert "complete " in script and "_REGARD_COMPLETE" in script


@pytest.mark.parametrize(("shell", "words"), [("zsh", ("#compdef regard", "zsh_complete")),
                                              ("fish", ("complete --no-files --command regard", "fish_complete"))])
def test_zsh_and_fish_get_their_scripts(regard, shell, words):
    script = regard("completion", shell).done()
    assert all(word in script for word in words)
    program = shutil.which(shell)
    if program:
        assert subprocess.run([program, "-n"], input=script, text=True).returncode == 0


def answers(regard, monkeypatch, words, at=None):
    """The completions of the last word, as bash would ask for them: (kind, value)."""
    monkeypatch.setenv("_REGARD_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1 if at is None else at))
    outcome = regard()
    assert outcome.code == 0 and outcome.err == "", outcome.err
    return [tuple(line.split(",", 1)) for line in outcome.out.splitlines() if line]


def test_every_command_is_offered_and_nothing_else(regard, monkeypatch):
    assert {value for _, value in answers(regard, monkeypatch, "regard ")} == set(COMMANDS)
    assert answers(regard, monkeypatch, "regard exp") == [("plain", "export")]


def test_below_a_command_that_does_not_exist_nothing_is_said(regard, monkeypatch):
    assert all(kind == "file" or value in COMMANDS for kind, value in answers(regard, monkeypatch, "regard trian "))


def test_where_a_run_is_wanted_files_are_offered_and_options_where_options_are(regard, monkeypatch):
    assert answers(regard, monkeypatch, "regard generate ru") == [("file", "ru")]
    assert ("plain", "--temperature") in answers(regard, monkeypatch, "regard generate runs/a --te")
    assert answers(regard, monkeypatch, "regard generate runs/a --no-such") == []


def test_the_families_of_a_task_are_offered(regard, monkeypatch):
    from regard.families import names

    offered = answers(regard, monkeypatch, "regard train translate --family ")
    assert offered == [("plain", name) for name in names.TRANSLATE]


def test_completing_imports_nothing_slow():
    asked = """
import sys
from regard.cli import main
try:
    main([])
except SystemExit:
    pass
print([name for name in ("torch", "tokenizers", "numpy") if name in sys.modules], file=sys.stderr)
"""
    environment = os.environ | {"_REGARD_COMPLETE": "bash_complete", "COMP_WORDS": "regard train lm --f",
                                "COMP_CWORD": "3"}
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, env=environment)
    assert done.stderr.strip() == "[]" and "--family" in done.stdout
