"""Default sizes and settings are those that were measured: sizes.json has them over devices, limits and vocabularies.

    python tests/families/test_sizes.py        writes the file anew, when some have been measured again
"""

import json
from dataclasses import fields
from itertools import product
from pathlib import Path

import pytest

from regard.families import FAMILIES, names
from regard.families.caption import CAPTION
from regard.families.masked_encoders import MASKED
from regard.families.sizes import TABLE, Scale, read_table
from regard.families.translate import TRANSLATE
from regard.tasks.summarise.task import SUMMARISE

FILE = Path(__file__).with_name("sizes.json")
TASKS = {"lm": FAMILIES, "masked": MASKED, "translate": TRANSLATE, "summarise": SUMMARISE, "caption": CAPTION}
EVERY = {f"{task} {name}": family for task, table in TASKS.items() for name, family in table.items()}
WANTED = ({}, {"model": {"width": "100", "layers": 5, "hidden": "300", "cell": "rnn"}, "training": {"batch": 8}})
# On a CPU minutes decide, on a GPU tokens.
GRID = list(product([(False, minutes, tokens) for minutes in (1.0, 5.0, 15.0, 60.0) for tokens in (10**5, 10**8)]
                    + [(True, 5.0, tokens) for tokens in (10**5, 10**7, 10**9)], (69, 8000), WANTED))


def chosen(family):
    """Settings with their defaults, and for each place in the grid the row of sizes that is chosen there."""
    found = [family.sizes(Scale(tokens=tokens, vocab=vocab, gpu=gpu, minutes=minutes), wanted)
             for (gpu, minutes, tokens), vocab, wanted in GRID]
    flat = [{f"model.{name}": value for name, value in each.model.items()}
            | {f"training.{name}": value for name, value in each.training.items()} for each in found]
    columns = sorted({name for each in flat for name in each})
    values = [[each.get(name) for name in columns] for each in flat]
    rows = [row for n, row in enumerate(values) if row not in values[:n]]
    return {"settings": {each.name: each.default for each in fields(family.settings)}, "columns": columns,
            "rows": rows, "chosen": " ".join(str(rows.index(row)) for row in values)}


def plain(value):
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("name", EVERY)
def test_settings_and_sizes_are_the_measured_ones(name):
    assert plain(chosen(EVERY[name])) == json.loads(FILE.read_text())[name]


def test_another_size_in_the_table_is_seen(monkeypatch):
    from regard.families import sizes

    other = TABLE.replace("96     3      128      16", "96     3      128      17")
    monkeypatch.setattr(sizes, "ROWS", read_table(other))
    with pytest.raises(AssertionError):
        test_settings_and_sizes_are_the_measured_ones("lm transformer")


def test_help_names_the_families_of_the_tables():
    assert tuple(FAMILIES) == names.LANGUAGE and tuple(MASKED) == names.MASKED
    assert names.TRANSLATE == tuple(TRANSLATE) == tuple(SUMMARISE) and tuple(CAPTION) == names.CAPTION


if __name__ == "__main__":
    rows = (f"{json.dumps(name)}: {json.dumps(chosen(each), separators=(',', ':'))}" for name, each in EVERY.items())
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n")
