"""What the Markdown files say works: their commands are run, their links lead somewhere.

A fenced block is marked by a comment on the line before it:

    <!-- test: run -->          commands that succeed, run in order, in one folder for the whole file
    <!-- test: fails -->        commands that end with exit code 1 and a line that says why
    <!-- test: python -->       Python, run in the same folder
    <!-- test: file NAME -->    saved as NAME
    <!-- test: printed -->      what the block before it printed, but for times

Training is made tiny by adding flags, which win over earlier ones: see TINY. Of a text, its first lines are scored.
Nothing else is changed.
"""

import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from regard.cli import main
from regard.compare import comparison, trial
from regard.tasks import CARDS

ROOT = Path(__file__).parent.parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
IDS = [str(page.relative_to(ROOT)) for page in PAGES]

BRIEF = "--steps 4 --batch 4 --set training.valid_every=4 --set training.valid_one_in=50"
SMALL = f"{BRIEF} --layers 1 --width 16 --context 32"
RECURRENT = f"{SMALL} --hidden 16"
TINY = {
    "transformer": f"{SMALL} --heads 2",
    "rnn": RECURRENT,
    "ngram": "", "average": SMALL, "window": SMALL, "gru": RECURRENT, "lstm": RECURRENT, "linear-rnn": SMALL,
    "mamba": SMALL, "mamba2": SMALL, "hybrid": f"{SMALL} --heads 2", "rnn-attention": RECURRENT,
    "prefix": f"{SMALL} --heads 2",
}
TINY_TABLES = {"model": {"layers": 1, "width": 16, "heads": 2, "context": 32}, "training": {"steps": 4, "batch": 4}}
TINY_COMPARE = "--steps 2 --seeds 1 --params 30k --device cpu"
LANGUAGE_MODELS = "--orders 2-3 --families rnn,transformer"
TINY_CORPUS = "--lines 300"               # what `regard data get` writes out, where the page does not say
MOST_LINES = 2000                         # and where it does
FEW_LINES = 100                           # what of a text is scored

BLOCK = re.compile(r"^(?:<!-- test: (?P<test>.+?) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
FORBIDDEN = re.compile(r"(?<![\w.~])/(?:work|home|root|tmp|Users|mnt|data|opt|srv)/|\b[A-Z]:\\|localhost|127\.0\.0\.1|file://")
TESTS = {"run", "fails", "python", "file", "printed"}


class Block(NamedTuple):
    test: str              # run, fails, python, file, printed, or nothing
    name: str              # of the file
    text: str


def blocks(page: Path) -> list[Block]:
    found = []
    for match in BLOCK.finditer(page.read_text("utf-8")):
        test, _, name = (match["test"] or "").partition(" ")
        found.append(Block(test, name, match["text"]))
    return found


def tiny(command: str) -> str:
    """The same command with a tiny budget, without the comment behind it, which would hide the budget."""
    command = re.sub(r"\s+#.*", "", command)
    if command.startswith("regard train"):
        if "--resume" in command:                              # the run knows its sizes and its steps
            return command
        if "--from" in command:
            return f"{command} {BRIEF}"
        if "--params" in command:                              # layers and width follow from it
            return f"{re.sub(r'--params [^ ]+', '--params 20k', command)} {BRIEF}"
        named = re.search(r"--family (\S+)", command)
        family = named[1] if named else CARDS[command.split()[2]].usual
        return f"{command} {TINY.get(family, TINY['hybrid'])}"
    if command.startswith("regard compare"):
        few = LANGUAGE_MODELS if command.split()[2] == "lm" else ""
        return f"{re.sub(r'--minutes [0-9.]+|--params [0-9]+M', '', command)} {TINY_COMPARE} {few}"
    if command.startswith("regard data get"):
        lines = re.search(r"--lines (\d+)", command)
        return f"{command} --lines {min(int(lines[1]), MOST_LINES)}" if lines else f"{command} {TINY_CORPUS}"
    if command.startswith("regard score") and "phrasebook" in command and "--part" not in command:
        return f"{command} --part valid"                       # the test part begins after 10,000 pairs
    if command.startswith("regard score") and " notes.txt" in command:
        lines = Path("notes.txt").read_text("utf-8").splitlines(keepends=True)
        Path("few-notes.txt").write_text("".join(lines[:FEW_LINES]), encoding="utf-8")
        return command.replace(" notes.txt", " few-notes.txt")
    return command


def run(command: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr. A plain `regard` command runs in this process, which has imported torch already;
    so does one that is given a line by `echo`."""
    words = shlex.split(command, comments=True)
    given = ""
    if words[0] == "echo" and words[2:4] == ["|", "regard"]:
        given, words = words[1] + "\n", words[3:]
    if words[0] != "regard" or any(mark in words for mark in "|<>;&"):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=os.environ | {"PATH": path})
        return done.returncode, done.stdout, done.stderr
    out, err, code = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode()), encoding="utf-8"))
        try:
            main(words[1:])
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


def without_times(text: str) -> list[str]:
    return [re.sub(r"\d+\.\d s", "", line).rstrip() for line in text.splitlines()]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(comparison, "in_a_process", lambda folder, plan, each, _: trial.run_trial(folder, plan, each))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield tmp_path
    torch.set_num_threads(before)
    for name in ("leaky", "running_mean", "translating"):
        sys.modules.pop(name, None)


@pytest.fixture
def tiny_training(monkeypatch):
    """`regard.train(...)` in Python with the same tiny budget; what the page says is otherwise left alone."""
    from regard.training import run as training

    def train(files, *, minutes=None, steps=None, column=None, **options):
        tables = {name: dict(values) for name, values in TINY_TABLES.items()}
        asked = training.take_frames(files, tables, column)
        return training.run_training(training.TrainRequest(**asked, settings=tables, quiet=True, **options))

    monkeypatch.setattr(training, "train", train)


@pytest.fixture
def families(monkeypatch):
    """A family that a page registers is forgotten again."""
    from regard.families import table as module

    monkeypatch.setattr(module, "FAMILIES", dict(module.FAMILIES))
    return module.FAMILIES


@pytest.mark.parametrize("page", [page for page in PAGES if any(block.test for block in blocks(page))],
                         ids=lambda page: page.name)
def test_the_commands_of_a_page_work(page, folder, tiny_training, families):
    printed = ""
    for block in blocks(page):
        if block.test == "file":
            (folder / block.name).write_text(block.text, encoding="utf-8")
        elif block.test == "python":
            with redirect_stdout(io.StringIO()):
                exec(compile(block.text, page.name, "exec"), {"__name__": "page"})
        elif block.test == "printed":
            missing = set(without_times(block.text)) - set(without_times(printed))
            assert not missing, f"{page.name} shows what was not printed: {missing}"
        elif block.test in ("run", "fails"):
            for command in filter(None, block.text.splitlines()):
                code, printed, said = run(tiny(command))
                if block.test == "run":
                    assert code == 0, f"{command}\n{said}"
                else:
                    assert code == 1 and said.splitlines()[-1].startswith("regard: "), f"{command}\n{said}"


def test_a_family_as_contributing_adds_it_keeps_the_laws_and_trains(folder, families):
    import regard
    from regard.laws import check_model

    for block in blocks(ROOT / "CONTRIBUTING.md"):
        if block.test == "file":
            (folder / block.name).write_text(block.text, encoding="utf-8")
        elif block.test == "python":
            exec(compile(block.text, "CONTRIBUTING.md", "exec"), {"__name__": "page"})
    report = check_model(families["mean"].example(torch.float64))
    assert report.ok, report.text()
    (folder / "text.txt").write_text("the cat sat on the mat\n" * 40)
    model = regard.train("text.txt", family="mean", steps=2, out="run", quiet=True,
                         settings={"model": {"width": 8, "context": 16}, "training": {"batch": 2}})
    assert model.family == "mean"


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_mark_is_known(page):
    marks = re.findall(r"<!-- test: (\w+)", page.read_text("utf-8").replace("`<!-- test: run -->`", ""))
    assert set(marks) <= TESTS
    assert len(marks) == sum(bool(block.test) for block in blocks(page)), f"{page.name}: a mark without its block"


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_link_and_picture_of_a_page_exists(page):
    text = BLOCK.sub("", page.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{page.name} points at {target}"
        if anchor:
            assert anchor in headings(found), f"{page.name} points at {target}"


def headings(page: Path) -> set[str]:
    """The anchors of a page, as they are made from its headings."""
    titles = re.findall(r"^#+ (.+)$", BLOCK.sub("", page.read_text("utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "docs").rglob("*.py"))], ids=lambda page: page.name)
def test_no_page_names_a_place_on_a_machine(page):
    text = page.read_text("utf-8").replace("http://127.0.0.1:8000", "")      # where `regard serve` answers, anywhere
    found = FORBIDDEN.search(text)
    assert found is None, f"{page.name} says {found[0]}" if found else ""


def test_a_place_on_a_machine_is_seen():
    assert FORBIDDEN.search("see /home/somebody/notes.txt") and FORBIDDEN.search("C:\\notes")
    assert not FORBIDDEN.search("~/.cache/regard and docs/data/x and runs/tmp/y")


def test_every_make_target_that_a_page_names_exists():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    for page in PAGES:
        named = re.findall(r"(?:^|`)make (\w+)(?=`|\s+#|$)", page.read_text("utf-8"), re.M)
        assert set(named) <= targets, page.name


def test_the_readme_is_short_and_knows_every_family_and_task():
    from regard.families import FAMILIES
    from regard.tasks import TASKS

    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text) <= 9_500
    named = set(re.findall(r"`([\w-]+)`", text.partition("## The families")[2].partition("## Your own layer")[0]))
    assert set(FAMILIES) <= named
    assert set(re.findall(r"^\| `regard train (\w+)", text, re.M)) == set(TASKS)


def test_the_page_of_words_is_short():
    assert len((ROOT / "docs" / "words.md").read_text("utf-8").splitlines()) <= 80


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "pictures").glob("*.svg")), ids=lambda path: path.name)
def test_pictures_are_small(picture):
    assert picture.stat().st_size < 150_000
