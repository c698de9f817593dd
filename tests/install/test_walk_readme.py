"""The stranger's path: which commands of the README are walked, and that a failing or idle one is seen."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "install"))

import walk_readme  # noqa: E402

README = (ROOT / "README.md").read_text("utf-8")


def test_the_readme_begins_with_installing_and_leads_to_a_translation():
    commands = walk_readme.commands_of(README)
    assert README.index("## Install") < 1500 and README.index("## Install") == README.index("\n## ") + 1
    assert any(command.startswith("pip install") for command in commands[:3])
    assert "regard demo" in commands and walk_readme.LAST in commands[-1]
    assert not any("make" in command or "git" in command for command in commands)     # a stranger needs no clone


def test_the_wheel_and_the_sentence_take_their_places():
    first, last = 'pip install "regard[web]"', 'echo "Le chat dort." | regard translate runs/fr-en'
    assert walk_readme.adapt(first, Path("dist/r.whl"), None) == 'pip install "dist/r.whl[web]"'
    assert walk_readme.adapt(first, None, None) == first
    assert walk_readme.adapt(last, None, "Il dort.") == 'echo "Il dort." | regard translate runs/fr-en'
    changed = [walk_readme.adapt(each, Path("r.whl"), "x") for each in walk_readme.commands_of(README)]
    assert sum(a != b for a, b in zip(changed, walk_readme.commands_of(README), strict=True)) == 2


def test_commands_share_a_shell_and_are_timed(tmp_path):
    walked = walk_readme.walk(["x=5", "mkdir sub", "cd sub", 'echo "$x" in $(basename "$PWD")'], tmp_path)
    assert walked[-1].printed == "5 in sub" and all(each.seconds >= 0 for each in walked)


@pytest.mark.parametrize("command, told", [("false", "ended with 1: false"), ("exit 3", "the shell ended at: exit 3")])
def test_a_command_that_fails_ends_the_walk(tmp_path, command, told):
    with pytest.raises(SystemExit, match=told):
        walk_readme.walk(["true", command, "echo never"], tmp_path)


def test_a_readme_without_a_translation_is_refused():
    with pytest.raises(SystemExit, match="has no `regard translate`"):
        walk_readme.commands_of(README.replace("| regard translate", "| regard score"))
