"""docs/performance.md shows what the benches wrote, and nothing else."""

import importlib.util
import sys
from pathlib import Path

BENCH = Path(__file__).parent.parent / "bench"


def table():
    spec = importlib.util.spec_from_file_location("bench_table", BENCH / "table.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_table"] = module
    spec.loader.exec_module(module)
    return module


def test_its_tables_are_those_of_the_files():
    made = table()
    page = made.PAGE.read_text()
    assert made.filled(page) == page, "run `python bench/table.py --write`"
    assert "not measured" not in page and page.count("| `bench/") >= 10


def test_a_figure_typed_by_hand_is_seen():
    made = table()
    page = made.PAGE.read_text()
    assert made.filled(page.replace("tokens/s", "tokens/h")) != page.replace("tokens/s", "tokens/h")
