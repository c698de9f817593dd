"""The parts of the tree import in one direction only, so that each can be read without those above it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "regard"

# Each part may import itself and what stands in an earlier group.
GROUPS = [
    ["errors"],
    ["storage", "config"],
    ["manifest", "run_lock"],
    ["corpora"],
    ["contract", "data", "run_folder"],
    ["laws", "kernels"],
    ["layers"],
    ["models"],
    ["families"],
    ["decoding"],
    ["metrics"],
    ["probe"],
    ["look"],
    ["tasks"],
    ["trained"],
    ["notebook"],
    ["training"],
    ["report"],
    ["compare"],
    ["lab"],
    ["serve", "interop"],
    ["cli"],
]
RANK = {part: rank for rank, group in enumerate(GROUPS) for part in group}
ALONE = {"corpora": {"errors", "storage"}, "data": {"errors", "storage", "corpora"}, "laws": {"errors", "contract"},
         "report": {"errors", "storage"}}


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_parts(source: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "regard":
            found |= {alias.name for alias in node.names if alias.name in RANK}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("regard.")}
    return found


def wrong_arrows(part: str, imported: set[str]) -> set[str]:
    allowed = ALONE.get(part, {other for other in RANK if RANK[other] < RANK[part]}) | {part}
    return imported - allowed


FILES = [path for path in sorted(ROOT.rglob("*.py")) if path.parent != ROOT or not path.name.startswith("__")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path):
    assert part_of(path) in RANK, f"{path} belongs to no known part: add it to GROUPS"
    assert not wrong_arrows(part_of(path), imported_parts(path.read_text()))


def test_an_arrow_the_wrong_way_is_seen():
    assert wrong_arrows("layers", imported_parts("from regard.models.neural import NeuralLM")) == {"models"}
    assert wrong_arrows("data", imported_parts("def f():\n    import regard.contract")) == {"contract"}


def test_no_file_but_families_tests_the_name_of_a_family():
    for path in FILES:
        if "families" not in path.parts:
            assert "family ==" not in path.read_text(), path
