"""The parts of the tree import in one direction only, so that each can be read without those above it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "regard"
PAGES = ("CONTRIBUTING.md", "docs/design.md")            # both show GROUPS as arrows

# Each part may import itself and what stands in an earlier group.
GROUPS = [
    ["errors"],
    ["plain_files"],
    ["storage", "config"],
    ["manifest", "run_lock", "ranks"],
    ["corpora"],
    ["contract", "watching", "data", "run_folder"],
    ["kernels"],
    ["laws", "layers"],
    ["models"],
    ["families"],
    ["decoding"],
    ["metrics"],
    ["look"],
    ["tasks"],
    ["trained"],
    ["notebook", "about"],
    ["training"],
    ["report"],
    ["compare"],
    ["scale", "planning"],
    ["lab"],
    ["course"],
    ["serve", "interop"],
    ["inference"],
    ["cli"],
]
RANK = {part: rank for rank, group in enumerate(GROUPS) for part in group}
ALONE = {"corpora": {"errors", "storage"}, "data": {"errors", "plain_files", "storage", "corpora"},
         "report": {"errors", "storage"},
         "laws": {"errors", "contract", "watching", "kernels"}}


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


def arrows_of(page: str) -> list[list[str]]:
    """The groups of the one block of arrows on a page."""
    (block,) = re.findall(r"^```\n(errors <- .*?)^```$", page, re.M | re.S)
    return [[part.strip() for part in group.split(",")] for group in block.split("<-")]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_the_arrows_as_they_are(page):
    assert arrows_of((ROOT.parent / page).read_text("utf-8")) == GROUPS


def test_a_part_that_stands_elsewhere_or_is_unknown_is_seen():
    assert arrows_of("```\nerrors <- config, data\n   <- cli\n```\n") == [["errors"], ["config", "data"], ["cli"]]
    page = (ROOT.parent / PAGES[0]).read_text("utf-8")
    assert arrows_of(page.replace("layers <- models", "models <- layers")) != GROUPS
    assert arrows_of(page.replace("laws, layers", "laws, text, layers")) != GROUPS


def test_no_file_but_families_tests_the_name_of_a_family():
    for path in FILES:
        if "families" not in path.parts:
            assert "family ==" not in path.read_text(), path
