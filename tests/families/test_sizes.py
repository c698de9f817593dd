"""Default sizes and settings are those that were measured: sizes.json has them over devices, limits and vocabularies.

    python tests/families/test_sizes.py        writes the file anew, when some have been measured again
"""

import json
from dataclasses import fields, replace
from itertools import product
from pathlib import Path

import pytest
import torch

from regard.config import fill
from regard.families import FAMILIES, names
from regard.families.caption import CAPTION
from regard.families.masked_encoders import MASKED
from regard.families.sizes import RECIPES, ROWS, TABLE, Scale, makes_few_steps, read_table
from regard.families.translate import TRANSLATE, Vocabularies
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
    assert other != TABLE
    monkeypatch.setattr(sizes, "ROWS", read_table(other))
    with pytest.raises(AssertionError):
        test_settings_and_sizes_are_the_measured_ones("lm transformer")


FITTED = {"lm transformer": 4096, "lm lstm": 4096, "lm mamba": 69, "lm mamba2": 69, "translate transformer": 2048,
          "translate rnn-attention": 2048}


@pytest.mark.parametrize("name", FITTED)
def test_on_a_cpu_the_largest_is_taken_whose_weights_each_read_enough(name):
    """Counted on models that are built, not by the formula of the table."""
    family, vocab = EVERY[name], FITTED[name]
    table = ROWS[RECIPES[{"lm lstm": "gated", "translate transformer": "translate-transformer",
                          "translate rnn-attention": "translate-rnn"}.get(name, name.split()[1])].rows, "cpu"]

    def tokens_a_weight(row, minutes, pace):
        sizes = {each: value for each, value in row.items() if each not in ("batch", "learning_rate")}
        text = name.startswith("lm")
        settings = fill(family.settings, sizes | ({"tied": vocab > 2048} if text else {}), "model")
        built = family.build(settings, vocab if text else Vocabularies(vocab, vocab, True))
        weights = sum(each.numel() for each in built.parameters())
        return minutes * 60 * 0.85 / (pace * (1.5e-5 + 1.6e-10 * weights)) / weights

    taken = []
    for minutes, pace in ((5.0, 2.5), (5.0, 1.0), (5.0, 0.4), (40.0, 0.4)):
        sizes = family.sizes(Scale(tokens=10**8, vocab=vocab, gpu=False, minutes=minutes, pace=pace), {}).model
        place = next(n for n, (_, row) in enumerate(table) if all(
            sizes[each] == value for each, value in row.items() if each in ("layers", "width", "hidden")))
        assert place == 0 or tokens_a_weight(table[place][1], minutes, pace) > 1.5 * 0.8
        assert place == len(table) - 1 or tokens_a_weight(table[place + 1][1], minutes, pace) < 1.5 * 1.25
        taken.append(place)
    assert taken == sorted(taken) and taken[0] < taken[-1]            # a quicker machine bears a larger model


@pytest.mark.parametrize("minutes,pace,pairs,hurried", [
    (1.0, 1.0, 400_000, True), (5.0, 1.0, 400_000, False), (5.0, 5.0, 400_000, True), (1.0, 1.0, 40_000, False)])
def test_a_cpu_in_a_hurry_makes_fewer_than_a_thousand_steps_and_three_passes(minutes, pace, pairs, hurried):
    """The smallest Transformer, 1 layer of 64 with 4,096 subwords: 28 * 64**2 + 4096 * 64 = 376,832 weights."""
    read = 60 * 0.85 * minutes / pace / (6 * 376_832 / 3.75e10 + 1.5e-5)
    assert hurried == (read / 1024 < 1000 and read / pairs < 3)
    scale = Scale(tokens=pairs, vocab=4096, gpu=False, minutes=minutes, pace=pace)
    assert makes_few_steps(scale) == hurried
    assert TRANSLATE["rnn-attention"].sizes(scale, {}).training.get("schedule", "cosine") == (
        "wsd" if hurried else "cosine")
    for other in (replace(scale, gpu=True), replace(scale, steps=100), replace(scale, budget=10**5)):
        assert not makes_few_steps(other)


def test_the_pace_is_that_of_the_machine_as_it_is(monkeypatch):
    """A clock that runs thirty times as fast sees a slow machine; the machine itself may change meanwhile."""
    from regard.training import choices

    honest = choices.time.monotonic
    alone = choices.measure_pace(torch.device("cpu"))
    monkeypatch.setattr(choices.time, "monotonic", lambda: 30 * honest())
    assert choices.measure_pace(torch.device("cpu")) > 5 * alone > 0


@pytest.mark.parametrize("minutes,pace,dropout", [(1.0, 1.0, 0.0), (2.0, 1.0, 0.1), (2.0, 5.0, 0.0), (2.5, 1.0, 0.2),
                                                  (5.0, 1.0, 0.3), (5.0, 6.0, 0.0)])
def test_a_quicker_gpu_reads_a_text_more_often_and_drops_more(minutes, pace, dropout):
    """17.5 million tokens and 29.4 million weights, at 2.8e14 operations a second of which a token takes 6 a weight."""
    weights, text = 12 * 8 * 512**2 + 8192 * 512, 17_500_000
    seconds = max(0.3 * 60 * minutes, 0.85 * 60 * minutes - 30) / pace
    passes = min(20.0, seconds * 2.8e14 / (6 * weights) / text)
    assert dropout == (0.0 if passes <= 4 else 0.1 if passes <= 8 else 0.2 if passes <= 16 else 0.3)
    scale = Scale(tokens=text, vocab=8192, gpu=True, minutes=minutes, pace=pace)
    assert FAMILIES["transformer"].sizes(scale, {}).model["dropout"] == dropout


def test_help_names_the_families_of_the_tables():
    assert tuple(FAMILIES) == names.LANGUAGE and tuple(MASKED) == names.MASKED
    assert names.TRANSLATE == tuple(TRANSLATE) == tuple(SUMMARISE) and tuple(CAPTION) == names.CAPTION


if __name__ == "__main__":
    rows = (f"{json.dumps(name)}: {json.dumps(chosen(each), separators=(',', ':'))}" for name, each in EVERY.items())
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n")
