"""llama.cpp beside our models: every row of the table of GGUF architectures, with random weights that hide nothing.

    make interop        # builds llama-cpp-python in an environment of its own; writes bench/results/interop/gguf.json
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import llama_cpp

from regard.interop import TARGETS, to_gguf
from regard.interop.checking import check_export, find_lines
from regard.interop.importing import import_model
from regard.interop.target import ExportSubject
from tests.interop.foreign_models import RULES, build, cut_by
from tests.interop.test_gguf import ROWS, make

RESULTS = Path(__file__).parent / "results" / "interop" / "gguf.json"
LINES = 20
IMPORTED = (("gpt2", "gpt-2"), ("qwen3", "qwen2"), ("qwen2", "llama-bpe"))


def measure(trained: Any, precision: str, folder: Path) -> dict[str, object]:
    """Return how far llama.cpp is from a drawn model; beyond the tolerance is an error."""
    subject = ExportSubject(trained, precision, "drawn")
    path = folder / "model.gguf"
    kind = to_gguf.write(subject, path)
    lines, of = find_lines(subject, held_out=False)
    opened = to_gguf.open_written(subject, path)
    checked = check_export(subject, opened, to_gguf.tolerance(subject, kind), lines[:LINES], of)
    opened.close()
    path.unlink()
    return {"architecture": kind, "precision": precision, "difference": float(f"{checked.difference:.2e}"),
            "choices": round(checked.choices, 4), "same_text": checked.same_text}


def make_imported(name: str, rule: str, folder: Path) -> Any:
    """Return a model of transformers, imported, whose tokenizer cuts texts by this rule."""
    build(name, folder / "model")
    if rule in RULES:
        cut_by(folder / "model", RULES[rule])
    return import_model(folder / "model", folder / "run")


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (_, settings) in ROWS.items():
            for precision in TARGETS["gguf"].precisions:
                rows.append({"settings": name, **measure(make(**settings), precision, Path(folder))})
                print(json.dumps(rows[-1]), flush=True)
        for name, rule in IMPORTED:
            trained = make_imported(name, rule, Path(folder) / f"{name}-{rule}")
            told = f"imported {name}, its texts cut as by {rule}"
            rows.append({"settings": told, **measure(trained, "f32", Path(folder))})
            print(json.dumps(rows[-1]), flush=True)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    RESULTS.write_text(f'{{"llama_cpp_python": "{llama_cpp.__version__}", "lines": {LINES}, "rows": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
