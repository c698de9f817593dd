"""Changes to the defaults: the trials of a search, each relative to what the untouched command would choose.

A change names a family, a size next to the default one, and factors of batch, rates and vocabulary. So the same change
can be tried for one minute and for twenty, and what it is worth carries over from the short budget to the long one.
Number 0 changes nothing.
"""

from __future__ import annotations

import random
from typing import Any

from regard.families.sizes import ROWS
from regret_parts.paces import Paces
from regret_parts.texts import Parts, usual_vocabulary
from regret_parts.trials import Trial, measure_trial, resolve_trial

Change = dict[str, Any]
IN_STEPS = 0.85                # of a budget of minutes goes into steps
HYBRID = "linear-rnn,attention"
FAMILIES = {
    "text": ["transformer"] * 5 + [HYBRID] * 3 + ["linear-rnn"] * 2 + ["lstm", "mamba"],
    "pairs": ["transformer"] * 2 + ["rnn-attention"],
}
ROWS_OF = {"text": {"transformer": "transformer", "linear-rnn": "transformer", HYBRID: "transformer", "lstm": "gated",
                    "mamba": "mamba"},
           "pairs": {"transformer": "translate-transformer", "rnn-attention": "translate-rnn"}}
AXES: dict[str, tuple[Any, ...]] = {
    "size": (-1, 1), "batch": (0.5, 2), "rate": (0.5, 1.5, 2), "vocab": (0.5, 2), "dropout": (0.0, 0.1, 0.2),
    "weight_decay": (0.02, 0.3), "warmup": (0.02, 0.1), "schedule": ("cosine", "wsd"),
}
# Tried beside the drawn ones, with --grid: what the drawn ones left open.
HYBRIDS, TRANSFORMERS, RNNS = {"family": HYBRID}, {"family": "transformer"}, {"family": "rnn-attention"}
GRID: dict[str, list[Change]] = {
    "text": [
        *(TRANSFORMERS | {"vocab": factor} for factor in (0.5, 1, 2, 4)), TRANSFORMERS | {"vocab": 2, "batch": 2},
        TRANSFORMERS | {"vocab": 2, "size": 1}, TRANSFORMERS | {"vocab": 2, "size": -1}, HYBRIDS | {"vocab": 1},
        *(HYBRIDS | {"vocab": factor, "batch": 2} for factor in (1, 2, 4)), {"family": "linear-rnn", "vocab": 2},
        {"family": "mamba", "vocab": 1}, TRANSFORMERS | {"vocab": 0},
    ],
    "pairs": [
        RNNS, RNNS | {"rate": 1.5}, RNNS | {"schedule": "wsd"}, RNNS | {"schedule": "wsd", "rate": 1.5},
        RNNS | {"schedule": "wsd", "rate": 1.5, "weight_decay": 0.02}, RNNS | {"rate": 1.5, "batch": 0.5},
        RNNS | {"rate": 1.5, "size": 1}, TRANSFORMERS | {"schedule": "wsd", "rate": 1.5},
        TRANSFORMERS | {"batch": 2, "rate": 1.5}, TRANSFORMERS | {"vocab": 0.5, "schedule": "wsd"},
        TRANSFORMERS | {"batch": 2, "size": 1},
    ],
}
FIRST_OF_GRID = 101
TRAINED = ("batch", "learning_rate", "muon_rate", "weight_decay", "warmup", "schedule")
SIZED = ("layers", "width", "heads", "hidden", "context")


def draw_change(kind: str, number: int) -> Change:
    """Draw a change of one to three settings, and of the family, by chance: the same for the same number."""
    if not number:
        return {}
    if number >= FIRST_OF_GRID:
        return GRID[kind][number - FIRST_OF_GRID]
    chance = random.Random(f"change {kind} {number}")
    axes = AXES | ({"context": (64, 256)} if kind == "text" else {})
    return {"family": chance.choice(FAMILIES[kind]),
            **{name: chance.choice(axes[name]) for name in chance.sample(sorted(axes), chance.choice((1, 2, 3)))}}


def apply_change(parts: Parts, change: Change, minutes: float) -> Trial:
    """Return all settings of a run of so many minutes on the reference core, with the change."""
    trial: Trial = {"family": change.get("family"), "model": {}, "training": {}, "tokenizer": {}}
    if "," in change.get("family", ""):
        trial |= {"family": "hybrid", "model": {"pattern": change["family"]}, "training": {"muon_rate": 0.03}}
    if "vocab" in change:
        subwords = {"kind": "bpe", "vocab": int(change["vocab"] * usual_vocabulary(parts))}
        trial["tokenizer"] = subwords if change["vocab"] else {"kind": "char"}
    default = resolve_trial(parts, trial, minutes=minutes)
    if "size" in change:
        trial["model"] |= neighbour(parts.kind, change, default["model"])
        default = resolve_trial(parts, trial, minutes=minutes)
    training = default["training"]
    training |= {name: change[name] for name in ("weight_decay", "warmup", "schedule") if name in change}
    training["batch"] = max(1, int(training["batch"] * change.get("batch", 1)))
    for name in ("learning_rate", "muon_rate"):
        training[name] *= change.get("rate", 1)
    default["model"] |= {name: change[name] for name in ("dropout", "context") if name in change}
    if "context" in change:
        training["batch"] = max(1, training["batch"] * resolve_context(trial, parts, minutes) // change["context"])
    return default | {"tokenizer": trial["tokenizer"]}


def keep_settings(trial: Trial, tokenizer: dict[str, Any]) -> Trial:
    """Return what tells a trial from others: enough to run it again when the defaults have changed."""
    model, training = trial["model"], trial["training"]
    return {"family": trial["family"],
            "model": {name: model[name] for name in (*SIZED, "dropout", "pattern") if name in model},
            "training": {name: training[name] for name in TRAINED},
            "tokenizer": tokenizer if tokenizer["kind"] == "bpe" else {"kind": tokenizer["kind"]}}


def resolve_context(trial: Trial, parts: Parts, minutes: float) -> int:
    return int(resolve_trial(parts, trial, minutes=minutes)["model"]["context"])


def neighbour(kind: str, change: Change, model: dict[str, Any]) -> dict[str, Any]:
    """Return the sizes of the table's row before or after the default one."""
    rows = [sizes for _, sizes in ROWS[ROWS_OF[kind][change["family"]], "cpu"]]
    named = [name for name in ("hidden", "layers", "width") if name in rows[0]]
    distance = [sum(abs(sizes[name] - model[name]) for name in named) for sizes in rows]
    place = min(max(0, distance.index(min(distance)) + change["size"]), len(rows) - 1)
    return {name: value for name, value in rows[place].items()
            if name in SIZED and not (name == "heads" and change["family"] == "linear-rnn")}


def tokens_for(parts: Parts, trial: Trial, minutes: float, paces: Paces) -> int:
    """Return the tokens that these settings read in the budget on the reference core."""
    weights, a_step = measure_trial(parts, trial)
    return int(60 * minutes * IN_STEPS * paces.tokens_a_second(parts.kind, trial["family"], weights, a_step))
