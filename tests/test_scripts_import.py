"""Scripts beside the package (bench/, docs/, mutants/) import names of regard that exist: few of them run in tests."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(path for folder in ("bench", "docs", "mutants") for path in (ROOT / folder).rglob("*.py"))


def imported(tree: ast.AST) -> list[tuple[str, str]]:
    """Return the module and the name of everything that is imported from regard, at the top or inside a function."""
    return [(node.module, each.name) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
            and node.module.split(".")[0] == "regard" for each in node.names]


def missing(source: str) -> list[str]:
    lost = []
    for module, name in imported(ast.parse(source)):
        try:
            found = hasattr(import_module(module), name) or import_module(f"{module}.{name}")
        except ImportError:
            found = False
        if not found:
            lost.append(f"{module}.{name}")
    return lost


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_script_imports_what_exists(path):
    assert missing(path.read_text("utf-8")) == []


def test_a_name_that_is_gone_is_found():
    assert missing("def f():\n    from regard.contract import State, Stat\n    from regard.kernels import scans") == [
        "regard.contract.Stat", "regard.kernels.scans"]
