"""Roles of parameters: which optimiser takes each, what is decayed and what starts at zero, in every family.

`parameter_groups.json` holds what these were when names were matched, before modules declared roles. `python
tests/training/test_parameter_groups.py` writes it anew, for a family that is new.
"""

import copy
import json
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.contract import Role
from regard.families import FAMILIES
from regard.families.caption import CAPTION
from regard.families.masked_encoders import MASKED
from regard.families.translate import TRANSLATE, Vocabularies
from regard.layers.embedding import Embedding
from regard.layers.roles import EMBEDDING, GAIN, MATRIX, WEIGHT, find_roles
from regard.layers.self_attention import SelfAttention
from regard.layers.window import Window
from regard.training.optim import Optimizers
from regard.training.settings import TrainingSettings

STORED = Path(__file__).with_name("parameter_groups.json")
TABLES = {"lm": FAMILIES, "masked": MASKED, "translate": TRANSLATE, "caption": CAPTION}
VARIANTS = {                                                         # beside the default settings, all at small sizes
    "lm/transformer": [dict(positions="learned", activation="swiglu", kv_heads=1), dict(qk_norm=True, tied=True)],
    "lm/hybrid": [dict(pattern=("gru", "lstm", "linear-rnn", "mamba"), layers=4)],
    "lm/linear-rnn": [dict(form="diagonal"), dict(form="matrix")],
    "lm/mamba": [dict(decay="channel")],
    "lm/rnn": [dict(initial="learned", tied=False, layers=2)],
    "lm/lstm": [dict(initial="learned")],
    "masked/rnn": [dict(tied=False, layers=2)],
    "translate/transformer": [dict(score=score) for score in ("bilinear", "low-rank", "additive", "location")] + [
        dict(mixer="lstm", tied=False), dict(projections="none", score="dot"), dict(positions="learned")],
    "translate/rnn-attention": [dict(cell="lstm", feeding=True, value_width=3), dict(when="before", score="low-rank"),
                                dict(score="location", both=False), dict(projections="both", score="bilinear")],
    "caption/transformer": [dict(stem="linear", grid="sinusoidal"), dict(encoder_layers=0)],
    "caption/rnn-attention": [dict(encoder_layers=1, heads=2)],
}
SMALL = dict(layers=2, width=8, heads=2, hidden=6, context=16, image=8, patch=4, state=2, order=3)
CASES = {f"{task}/{name} {changes or ''}".strip(): (task, family, changes)
         for task, table in TABLES.items() for name, family in table.items() if family.build is not None
         for changes in ({}, *VARIANTS.get(f"{task}/{name}", ()))}


def group_parameters(task, family, changes):
    """The names of a small model's parameters under the group of each; parts of a matrix behind a colon."""
    small = {name: value for name, value in SMALL.items() if name in family.settings.__dataclass_fields__}
    settings = family.settings(**small | changes)
    model = family.build(settings, Vocabularies(11, 11) if task == "translate" else 11)
    optimizers = Optimizers(model, TrainingSettings(optimizer="muon", weight_decay=0.5))
    groups = {"muon": [], "decayed": [], "not decayed": []}
    for optimizer, _ in optimizers.parts.values():
        for group in optimizer.param_groups:
            is_muon = type(optimizer).__name__ == "Muon"
            under = groups["muon" if is_muon else "decayed" if group["weight_decay"] else "not decayed"]
            parts = optimizer.parts if is_muon else {}
            under += [f"{optimizers.names[p]}:{parts.get(p, 1)}" for p in group["params"]]
    groups["zero at the start"] = [name for name, p in model.named_parameters() if p.ndim > 1 and not p.any()]
    return {name: " ".join(sorted(each)).replace(":1 ", " ").removesuffix(":1") for name, each in groups.items()}


@pytest.mark.parametrize("case", CASES)
def test_every_parameter_is_trained_as_it_always_was(case):
    assert group_parameters(*CASES[case]) == json.loads(STORED.read_text())[case]


def test_a_wrapper_or_another_tensor_loses_no_role():
    layer = SelfAttention(8, heads=2)
    layer.qkv.weight = nn.Parameter(layer.qkv.weight.detach().clone())
    wrapped = nn.ModuleDict({"module": copy.deepcopy(layer)})
    assert find_roles(layer)["qkv.weight"] == find_roles(wrapped)["module.qkv.weight"] == Role("matrix", parts=3)


def test_an_undeclared_matrix_of_a_layer_is_one_and_outside_it_is_none():
    layer = Window(4, 4, words=2)
    assert find_roles(layer) == {"mix.weight": MATRIX, "mix.bias": GAIN}
    assert find_roles(nn.Linear(4, 4)) == {"weight": WEIGHT, "bias": GAIN}


def test_of_two_declarations_the_outer_one_counts():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.sides = Embedding(2, 4)

        def parameter_roles(self):
            return {"sides.weight": WEIGHT}

    assert find_roles(Outer()) == {"sides.weight": WEIGHT} and find_roles(Outer().sides) == {"weight": EMBEDDING}


if __name__ == "__main__":
    torch.manual_seed(0)
    STORED.write_text(json.dumps({case: group_parameters(*each) for case, each in CASES.items()}, indent=1) + "\n")
