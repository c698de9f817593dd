import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import regard

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", regard.__all__)
def test_every_public_name_is_there(name):
    assert getattr(regard, name) is not None


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'regard' has no attribute 'trian'"):
        regard.trian  # noqa: B018
    assert set(regard.__all__) <= set(dir(regard))


def test_importing_regard_does_not_import_torch():
    asked = "import sys, regard; print(sys.modules.keys() & {'torch', 'numpy', 'tokenizers', 'click'})"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "set()"


def names_for_type_checkers(source: str) -> dict[str, str]:
    """Name -> module of what `if TYPE_CHECKING:` imports, and exports by `as`."""
    block, _ = (node for node in ast.parse(source).body if isinstance(node, ast.If))
    return {each.asname: node.module.removeprefix("regard.") for node in block.body
            if isinstance(node, ast.ImportFrom) and node.module for each in node.names if each.asname == each.name}


def test_type_checkers_see_every_public_name():
    """Without this each of them would be Any."""
    source = (ROOT / "regard" / "__init__.py").read_text("utf-8")
    assert names_for_type_checkers(source) == regard._HOME
    fewer = source.replace("    from regard.watching import watch as watch\n", "")
    assert regard._HOME.keys() - names_for_type_checkers(fewer).keys() == {"watch"}


def test_the_modules_of_public_names_are_checked_strictly():
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]["overrides"]
    (strict,) = (table for table in tables if table.get("disallow_untyped_defs"))
    assert set(strict["module"]) == {"regard", *(f"regard.{home}" for home in regard._HOME.values())}
