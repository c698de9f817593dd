"""Cells and notebooks as Jupyter's format 4.5 has them, without outputs."""

from __future__ import annotations

from typing import Any


def cell(kind: str, source: str, metadata: dict[str, Any], name: str) -> dict[str, Any]:
    """A cell of markdown or code. `name` is its id, of letters, digits and hyphens."""
    common = {"cell_type": kind, "id": name.replace("_", "-"), "metadata": metadata, "source": source.splitlines(True)}
    return common if kind == "markdown" else {**common, "execution_count": None, "outputs": []}


def notebook(cells: list[dict[str, Any]]) -> dict[str, Any]:
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
            "nbformat": 4, "nbformat_minor": 5}
