"""Choices: with only a file given, everything else is chosen here for the text, the machine and the minutes.

What a user says wins over what the family suggests for its scale, which wins over the plain defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from regard.config import as_values, change, fill
from regard.errors import SettingError, did_you_mean
from regard.families import Family
from regard.families.fit import TOLERANCE, fit_parameters, parameters
from regard.families.sizes import MOST_EPOCHS, Scale, Sizes, Tables
from regard.tasks.lm import reading_for
from regard.training.settings import TrainingSettings

DEFAULT_MINUTES = 5.0
SGD: dict[str, Any] = dict(learning_rate=0.3, weight_decay=0.0)        # of plain descent, where none is said
TABLES = ("data", "tokenizer", "model", "training")


@dataclass(frozen=True)
class Chosen:
    """The settings of the model and of its training, resolved but for the number of steps."""

    model: Any
    training: TrainingSettings


def check_tables(wanted: Tables) -> None:
    for table in wanted:
        if table not in TABLES:
            raise SettingError(f"unknown table [{table}]{did_you_mean(table, TABLES)}")


def choose(
    family: Family, corpus: Any, wanted: Tables, device: torch.device, params: int | None = None, vocab: Any = None
) -> Chosen:
    """Sizes and rates for this text on this machine; `wanted` and `params` hold what the user said.

    `vocab` is what the family is built with, where that is not the tokenizer's number of tokens.
    """
    asked = fill(TrainingSettings, dict(wanted.get("training", {})), "training")
    minutes = asked.minutes or (DEFAULT_MINUTES if not (asked.steps or asked.tokens) else 0.0)
    scale = Scale(tokens=len(corpus.train.tokens), vocab=corpus.tokenizer.vocab_size, gpu=device.type == "cuda",
                  minutes=minutes or DEFAULT_MINUTES, steps=asked.steps, budget=asked.tokens)
    model, sizes = sized(family, scale, wanted, params, scale.vocab if vocab is None else vocab)
    plain = SGD if asked.optimizer == "sgd" else {}
    training = fill(TrainingSettings, {**sizes.training, **plain, **wanted.get("training", {})}, "training")
    if training.reading == "auto":
        training = replace(training, reading=reading_for(corpus.documents))
    if not (asked.steps or asked.tokens or asked.minutes):
        training = replace(training, epochs=training.epochs or MOST_EPOCHS)
    return Chosen(model, replace(training, minutes=minutes))


def sized(
    family: Family, scale: Scale, wanted: Tables, params: int | None, vocab: Any
) -> tuple[Any, Sizes]:
    """The model's settings, with as many parameters as asked for, if that was said; and the sizes suggested."""
    sizes = family.sizes(scale, wanted)
    said = dict(wanted.get("model", {}))
    model: Any = fill(family.settings, {**sizes.model, **said}, "model")
    if params is None:
        return model, sizes
    if family.build is None:
        raise SettingError(f"--params {params:,}: the {family.name} is counted and has no size to choose; leave it out")
    before, after = as_values(model), as_values(fit_parameters(family, model, vocab, params))
    for name in said:
        if before[name] != after[name]:
            raise SettingError(f"--params {params:,} chooses model.{name} = {after[name]}, not {before[name]}: "
                               "leave one of the two out")
    # How much to drop, and how fast to learn, follow the size that it has now.
    fixed = {name: value for name, value in after.items() if "dropout" not in name or name in said}
    sizes = family.sizes(scale, {**wanted, "model": fixed})
    model = fill(family.settings, {**after, **sizes.model, **fixed}, "model")
    found = parameters(family, model, vocab)
    if abs(found - params) > TOLERANCE * params:
        raise SettingError(f"--params {params:,}: the {family.name} has {found:,} and cannot be resized")
    return model, sizes


def changed_settings(
    before: Any, wanted: Mapping[str, Any], table: str, changeable: tuple[str, ...]
) -> tuple[Any, list[str]]:
    """Settings of a run that is resumed, with the few changes that are possible, and a line on each."""
    after = change(before, dict(wanted), table)
    old, new = as_values(before), as_values(after)
    differing = [name for name in wanted if old[name] != new[name]]
    for name in differing:
        if name not in changeable:
            raise SettingError(
                f"{table}.{name} cannot change from {old[name]} to {new[name]} when a run is resumed: "
                "leave it out, or start a new run (--from RUN begins with this one's weights)")
    return after, [f"{table}.{name} {old[name]} -> {new[name]}" for name in differing]
