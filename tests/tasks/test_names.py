"""A task owns itself: no file outside `regard/tasks/` asks which task it has."""

import ast
import re
from pathlib import Path

import pytest

import regard
from regard.cli.train import command as train
from regard.tasks import CARDS, TASKS, run_task
from regard.tasks.card import WRITING

ROOT = Path(regard.__file__).parent
PYTHON = [path for path in sorted(ROOT.rglob("*.py")) if "tasks" not in path.relative_to(ROOT).parts[:1]]
SCRIPTS = sorted((ROOT / "look" / "page").glob("*.js"))
IN_SCRIPT = re.compile(rf"""[!=]==?\s*["'](?:{"|".join(CARDS)})["']|["'](?:{"|".join(CARDS)})["']\s*[!=]==?""")
COMMAND_NAMES = ROOT / "cli" / "__init__.py"         # some commands are called as their tasks


def named(node):
    """Whether it is the name of a task, or holds one."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(named, node.elts))
    return isinstance(node, ast.Constant) and node.value in CARDS


def find_tests(source):
    """The lines that compare something with a task's name, or look up by it."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and any(map(named, [node.left, *node.comparators])):
            found.append(node.lineno)
        if isinstance(node, ast.Dict) and sum(key is not None and named(key) for key in node.keys) > 1:
            found.append(node.lineno)
        if isinstance(node, ast.MatchValue) and named(node.value):
            found.append(node.lineno)
    return found


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_other_file_tests_the_name_of_a_task(path):
    if path != COMMAND_NAMES:
        assert not find_tests(path.read_text())


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_of_the_page_tests_the_name_of_a_task(path):
    assert not IN_SCRIPT.findall(path.read_text())


@pytest.mark.parametrize("line", [
    "task == 'lm'", "'masked' != opened.task", "look.task in ('lm', 'masked')", "name not in {'caption'}",
    "BUILDERS = {'lm': 1, 'caption': 2}", "match task:\n    case 'translate': pass"])
def test_a_test_of_a_name_is_seen(line):
    assert find_tests(line)


def test_what_is_no_test_of_a_name_is_left_alone():
    assert not find_tests("load(run, task='lm')\nif a.task == b.task: pass\nrow = {'image': 1, 'caption': 2}")
    assert IN_SCRIPT.search('model.task !== "masked"') and IN_SCRIPT.search("'lm' == sample.kind")
    assert not IN_SCRIPT.search('element("caption", {})') and not IN_SCRIPT.search("a.task === b.task")


@pytest.mark.parametrize("name", CARDS)
def test_a_task_is_whole(name):
    task, card = TASKS[name], CARDS[name]
    assert task.card is card and task.name == name and task.usual in task.families
    assert run_task({"run": {"task": name}}) is task
    assert card.reads in ("text", "source", "image") and set(card.tabs) <= set(WRITING)
    assert not task.baseline or task.baseline in task.families
    assert (card.compared == "") or (ROOT / "compare" / f"{card.compared}.py").is_file()


def test_a_run_that_names_no_task_is_a_language_model():
    assert run_task({}) is TASKS["lm"]


def test_every_folder_is_a_task_with_a_command():
    folders = {path.parent.name for path in (ROOT / "tasks").glob("*/__init__.py")}
    assert folders == set(CARDS)
    for name in CARDS:
        made = train.get_command(None, name)
        names = [param.name for param in made.params]
        assert made.help.startswith("Train a ") and {"files", "family", "out", "as_json"} <= set(names)
        assert len(set(names)) == len(names)
