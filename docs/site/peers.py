"""What was measured beside each other tool: the rows of docs/performance.md, tool by tool.

Those rows are made from bench/results, and a test holds them equal; so nothing here is typed by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from docs.site.stage import DOCS

TOOLS = {"nanoGPT": "nanoGPT", "JoeyNMT": "JoeyNMT", "transformers": "transformers", "ctranslate2": "CTranslate2",
         "flash-linear-attention": "flash-linear-attention", "torch.nn": "layers of torch.nn"}
PARTS = {"gpu": "a GPU", "cpu": "two CPU cores"}


class Row(NamedTuple):
    """One line of a table: what was done, beside whom, on what, and how it went."""

    work: str
    peer: str
    machine: str
    told: str

    @property
    def named(self) -> str:
        return f"{self.peer} {self.work}"


def rows() -> Iterator[Row]:
    page = (DOCS / "performance.md").read_text("utf-8")
    for part, machine in PARTS.items():
        table = page.partition(f"<!-- {part} -->")[2].partition(f"<!-- end of {part} -->")[0]
        head: list[str] = []
        work = ""
        for line in re.findall(r"^\| (.+) \|$", table, re.M):
            cells = [cell.strip() for cell in line.split("|")]
            head = head or cells
            if cells == head or set(line) <= set("-|: "):
                continue
            row = dict(zip(head, cells, strict=True))
            named = row["work"]
            work = work if named.startswith("the same") else named.partition(":")[0]
            shown = f"{work}{named.removeprefix('the same')}" if named.startswith("the same") else named
            told = (f"{row['ours']}; theirs: {row['peer']}" if "ours" in row
                    else f"times the speed of {row['peer']}: {row['times as fast']}")
            yield Row(shown, row["peer"], machine, told)


def peers() -> Iterator[str]:
    """A table for each tool, of all that was measured beside it."""
    found = list(rows())
    for key, title in TOOLS.items():
        own = [row for row in found if key in row.named]
        if own:
            yield f"\n**Beside {title}**\n\n| work | on | ours |\n|---|---|---|"
            yield from (f"| {row.work} | {row.machine} | {row.told} |" for row in own)
    known = (*TOOLS, "`mamba`")                              # our own Mamba is Mamba-2's peer
    left = [row.peer for row in found if not any(key in row.named for key in known)]
    assert not left, f"docs/site/peers.py knows no {left}"
