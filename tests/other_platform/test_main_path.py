"""The main path where POSIX's locks, signals, links, forks and text are missing: from a text to a page and a report.

One process runs the commands one after the other; a second one serves. What the platform takes away is in fake.py.
"""

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.other_platform.fake import REFUSED, names_that_clash

ROOT = Path(__file__).parents[2]
BRIEF = ("--steps 6 --batch 4 --layers 1 --width 16 --context 32 --device cpu --set training.checkpoint_every=3 "
         "--set training.valid_every=3")
PAIRS = "--batch 64 --hidden 16"
COMMANDS = [
    "train lm missing.txt --out runs/never",
    "data get stories --lines 60 --out notes.txt",
    f"train lm notes.txt --tokenizer char --heads 2 {BRIEF} --out runs/notes",
    "train lm notes.txt --resume --out runs/notes --set training.steps=8",
    "generate runs/notes --prompt Mia --tokens 5 --seed 1",
    "score runs/notes notes.txt",
    "show runs/notes Mia",
    "show runs/notes Mia --out map.html",
    f"train translate fr.txt en.txt --family rnn-attention {BRIEF} {PAIRS} --out runs/fr-en",
    "translate runs/fr-en fr.txt",
    "lab report claims.html",
    "export runs/notes --to arpa --out notes.arpa --no-check",
    "info",
]


def environment(folder):
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = [str(Path(__file__).parent / "start"), *filter(None, before), str(ROOT)]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONIOENCODING"}
    return kept | {"PYTHONPATH": os.pathsep.join(path), "PYTHONWARNDEFAULTENCODING": "1", "OMP_NUM_THREADS": "1",
                   "REGARD_CACHE": str(folder / "cache")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("platform")
    french, english = ["un chat noir dort", "le chien mange", "où est l’été ?"], ["a black cat sleeps", "the dog eats",
                                                                                  "where is summer?"]
    for name, lines in (("fr.txt", french), ("en.txt", english)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines * 10), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def ended(folder):
    """What each command ended with."""
    asked = json.dumps([command.split() for command in COMMANDS])
    done = subprocess.run([sys.executable, "-m", "tests.other_platform.session"], cwd=folder, env=environment(folder),
                          input=asked, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return {" ".join(each["words"]): each for each in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("command", COMMANDS[1:])
def test_every_command_of_the_main_path_ends_well(ended, command):
    assert ended[command]["code"] == 0, f"{ended[command]['code']}\n{ended[command]['err']}"
    assert "Traceback" not in ended[command]["err"]


def test_a_mistake_is_told_in_its_line_and_leaves_no_folder(ended, folder):
    (command, *_) = COMMANDS
    assert ended[command]["code"] == 1
    assert "missing.txt" in ended[command]["err"].splitlines()[-1]
    assert not (folder / "runs" / "never").exists()


def test_what_is_printed_is_utf_8_with_lines_that_end_alike(ended):
    shown = ended["show runs/notes Mia"]["out"]
    assert "░" in shown and "\r" not in shown
    assert not [each for each in ended.values() if set(each["out"] + each["err"]) & {"\r", "\N{REPLACEMENT CHARACTER}"}]


def test_nothing_is_left_locked_and_no_file_is_half_written(ended, folder):
    names = [path.name for path in (folder / "runs").rglob("*")]
    assert "run.toml" in names and "lock" not in names and not [name for name in names if name.startswith(".part-")]


def test_every_file_has_a_name_that_the_platform_takes(ended, folder):
    assert [path.name for path in folder.rglob("*") if REFUSED.search(path.name)] == []
    assert names_that_clash(folder) == []


def test_text_files_end_their_lines_as_the_manifest_says(ended, folder):
    """The bytes are the same on every platform: their hashes are in the manifest."""
    written = [path for path in (folder / "runs").rglob("*") if path.suffix in (".toml", ".json", ".jsonl")]
    assert written and not [path for path in written if b"\r" in path.read_bytes()]


def test_the_page_is_served_and_stopped(ended, folder):
    pytest.importorskip("fastapi", reason="serving needs the extra `web`")
    with subprocess.Popen([sys.executable, "-m", "regard", "serve", "runs/notes", "--port", "0"], cwd=folder, text=True,
                          env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+/", server.stdout.readline())[0]
            with urllib.request.urlopen(f"{address}api/models", timeout=60) as answer:
                assert json.load(answer)
        finally:
            server.terminate()
        assert server.wait(30) == 0, server.stderr.read()


# --------------------------------------------------------------------------------------- the platform itself is real


PROBES = {
    "a lock": ("import fcntl", "No module named 'fcntl'"),
    "a fork": ("import os; os.fork()", "no attribute 'fork'"),
    "a signal": ("import signal; signal.SIGKILL", "no attribute 'SIGKILL'"),
    "a link": ("from pathlib import Path; Path('a').symlink_to('b')", "privilege"),
    "a folder's handle": ("import os; os.open('.', os.O_RDONLY)", "permission denied"),
    "an open file": ("import os; f = open('x', 'w', encoding='utf-8'); os.remove('x')", "being used"),
    "a mapped file": ("import os, numpy; numpy.arange(9).tofile('y'); m = numpy.memmap('y'); os.replace('y', 'z')",
                      "being used"),
    "a folder of an open file": ("import os; os.mkdir('d'); f = open('d/x', 'wb'); os.rename('d', 'e')", "being used"),
    "a file's name": ("open('a:b', 'wb')", "syntax is incorrect"),
    "text of another alphabet": ("open('w', 'w').write('где')", "charmap"),
    "the platform": ("import sys, os; raise SystemExit(sys.platform + os.name)", "win32nt"),
}


def test_the_platform_refuses_what_windows_refuses(tmp_path):
    """Each probe is a line of a module of Regard's."""
    code = ("import json, sys\nfor line in map(json.loads, sys.stdin):\n"
            "  try: exec(line, {'__name__': 'regard.probe'})\n"
            "  except BaseException as error: print(json.dumps(str(error)))\n  else: print(json.dumps('passed'))\n")
    asked = "".join(json.dumps(probe) + "\n" for probe, _ in PROBES.values())
    told = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment(tmp_path), input=asked, text=True,
                          capture_output=True, check=True).stdout
    found = dict(zip(PROBES, map(json.loads, told.splitlines()), strict=True))
    assert not {name: said for name, said in found.items() if PROBES[name][1] not in said}
