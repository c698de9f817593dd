"""The sentences of SECURITY.md, and the table that says which tests hold each of them."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "SECURITY.md"
TABLE = Path(__file__).with_name("sentences.toml")
ADVICE = "## What to keep in mind"                           # from here on a sentence may promise nothing
END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`(*])|(?<=[.!?]\*\*)\s+|(?<=[.!?]\))\s+(?=[A-Z`*])")


def sentences_of(text):
    """Every sentence of a page in order; headings and the marks of lists are left out."""
    found = []
    for block in re.split(r"\n\s*\n|\n(?=- )", text):
        block = " ".join(block.strip().removeprefix("- ").split())
        if block and not block.startswith("#"):
            found += [each.strip() for each in END.split(block) if each.strip()]
    return found


def read_table():
    """(sentence, tests) of every row; without tests, it is advice."""
    rows = tomllib.loads(TABLE.read_text("utf-8"))["sentence"]
    return [(row["says"], row.get("tests", [])) for row in rows]
