"""Settings by the names of known models, so that what is trained can leave for the programs that know those.

`--like llama` chooses the equations of a block, and no sizes; for a model that llama.cpp runs also a tokenizer that it
has. `regard.interop` holds each of them in its tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.errors import SettingError, did_you_mean


@dataclass(frozen=True)
class Likeness:
    """The task and family of a known model, and the settings that make its equations."""

    task: str
    family: str
    settings: Mapping[str, Any]            # of the [model] table
    tokenizer: Mapping[str, Any] = field(default_factory=dict)       # of the [tokenizer] table
    kind: str = ""                         # of tokenizer, where the user names none; empty: as without --like


RMS = {"norm": "rms", "activation": "swiglu", "positions": "rotary"}
LAYER = {"norm": "layer", "bias": "all", "tied": True}
LIKES = {
    "gpt2": Likeness("lm", "transformer", {**LAYER, "positions": "learned", "activation": "gelu-tanh"}, kind="bpe"),
    "llama": Likeness("lm", "transformer", RMS, kind="bpe"),
    "qwen3": Likeness("lm", "transformer", {**RMS, "qk_norm": True}, kind="bpe"),
    "neox": Likeness("lm", "transformer", {**LAYER, "positions": "rotary", "rotary_share": 0.25, "activation": "gelu",
                                           "parallel": True, "tied": False}, kind="bpe"),
    "mamba": Likeness("lm", "mamba", {"norm": "rms", "decay": "channel"}, kind="bpe"),
    "mamba2": Likeness("lm", "mamba2", {"norm": "rms", "groups": 1, "least_step": 0.0, "most_step": 0.0}, kind="bpe"),
    "eurobert": Likeness("masked", "transformer", RMS),
    "marian": Likeness("translate", "transformer", {
        **LAYER, "positions": "sinusoidal", "placement": "post", "activation": "silu", "logit_bias": True}),
    "pegasus": Likeness("translate", "transformer", {
        **LAYER, "positions": "sinusoidal", "placement": "pre", "activation": "relu"}, {"shared": True}, "bpe"),
}


def likes_of(task: str) -> tuple[str, ...]:
    """Return the names that a task has."""
    return tuple(name for name, like in LIKES.items() if like.task == task)


def settings_like(
    name: str, task: str, family: str | None, given: Mapping[str, Mapping[str, Any]]
) -> tuple[str, dict[str, Any]]:
    """Return the family and all tables of settings, with those of a known model; one that was `given` otherwise is a
    SettingError, as is a model of another task."""
    known = likes_of(task)
    if name not in known:
        other = f": it is one of the task {LIKES[name].task}" if name in LIKES else did_you_mean(name, known)
        raise SettingError(f"--like {name}{other}")
    like = LIKES[name]
    if family not in (None, like.family):
        raise SettingError(f"--like {name} is a {like.family}, not --family {family}: leave one of the two out")
    found: dict[str, Any] = dict(given)
    for table, settings in (("model", like.settings), ("tokenizer", like.tokenizer)):
        refuse_others(name, table, settings, given.get(table, {}))
        found[table] = {**settings, **given.get(table, {})}
    if like.kind:
        found["tokenizer"] = {"kind": like.kind, **found["tokenizer"]}
    return like.family, found


def refuse_others(name: str, table: str, settings: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    for setting, value in settings.items():
        if setting in given and not same(given[setting], value):
            raise SettingError(f"--like {name} has {table}.{setting} = {spell(value)}, not {spell(given[setting])}: "
                               "leave one of the two out")


def same(given: Any, value: Any) -> bool:
    """Compare a setting as a user gave it, perhaps as text, with a value."""
    return spell(given).lower() == spell(value).lower()


def spell(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
