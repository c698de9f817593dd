"""A training step of every registered family, along length, batch, width and layers: its time, and what it holds.

A step is the loss, the way back and the update by AdamW; what it holds is what training keeps between the two (on CUDA,
the most that was allocated). Where a family stands in no table below, its time may grow with the length as n^1, and
with the width as n^2: one that attends has to be said to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.contract import Learner
from regard.data.tokens.vocabulary import FIRST
from regard.families import FAMILIES
from regard.families.caption import CAPTION
from regard.families.family import Family
from regard.families.masked_encoders import MASKED
from regard.families.translate import TRANSLATE, Vocabularies
from regard.lab.stopwatch import kept_bytes
from regard.training.optim import Optimizers
from regard.training.settings import TrainingSettings
from scaling_parts.curve import Curve, Setting, Work, doubling

TABLES: dict[str, dict[str, Family]] = {
    "lm": FAMILIES, "masked": MASKED, "translate": TRANSLATE, "caption": CAPTION}
# Forms of a family that compute otherwise than its defaults.
FORMS: dict[tuple[str, str], tuple[dict[str, Any], ...]] = {
    ("lm", "transformer"): ({"window": 64}, {"positions": "alibi"}),
    ("lm", "linear-rnn"): ({"form": "diagonal"}, {"form": "matrix"}),
    ("lm", "mamba"): ({"decay": "channel"},),
    ("lm", "mamba2"): ({"groups": 2, "head_width": 8},),
    ("lm", "hybrid"): ({"pattern": ("mamba", "gru")},),
    ("translate", "rnn-attention"): ({"score": "scaled-dot"}, {"when": "before"}),
}
# Every position reads every other one.
ATTENDS = {"lm transformer", "lm transformer positions=alibi", "lm hybrid", "masked transformer",
           "translate transformer", "translate prefix", "translate rnn-attention",
           "translate rnn-attention score=scaled-dot", "translate rnn-attention when=before", "caption transformer"}
# What is added to the scores, or the scores themselves, are kept for each two positions.
HOLDS_PAIRS = {"lm transformer positions=alibi", "translate rnn-attention", "translate rnn-attention when=before"}
CUBIC = {"lm linear-rnn form=matrix"}                    # products of matrices of the width, by doubling
VOCAB = 64
PATCH = 4                      # pixels
AXES = ("length", "batch", "width", "layers")


@dataclass(frozen=True)
class Kind:
    """A family as it is measured: its task, its name with the settings that differ, and how to build it."""

    task: str
    family: Family
    form: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        told = [f"{name}={','.join(value) if isinstance(value, tuple) else value}" for name, value in self.form.items()]
        return " ".join([self.task, self.family.name, *told])

    def build(self, setting: Setting, *, width: int = 32, layers: int = 2, length: int = 64, **more: int) -> Learner:
        """With these sizes, whatever its settings call them; as many layers over the patches of a picture."""
        sizes = {"width": width, "hidden": width, "layers": layers, "encoder_layers": layers, "heads": 2,
                 "context": length, "dropout": 0.0, **self.form, **more}
        known = {each.name for each in dataclasses.fields(self.family.settings)}
        settings = self.family.settings(**{name: value for name, value in sizes.items() if name in known})
        torch.manual_seed(0)
        assert self.family.build is not None
        vocab: Any = Vocabularies(VOCAB, VOCAB) if self.task == "translate" else VOCAB
        return self.family.build(settings, vocab).to(setting.device).train()


def kinds() -> list[Kind]:
    """Every family that is trained by gradients, in its default form and in others."""
    return [Kind(task, family, form) for task, table in TABLES.items() for family in table.values()
            if family.build is not None for form in ({}, *FORMS.get((task, family.name), ()))]


def curves(setting: Setting) -> Iterator[Curve]:
    for kind in kinds():
        for axis in ("length", "width") if kind.form else AXES:          # other forms differ in nothing else
            yield training(kind, axis, setting)
        if kind.task == "caption":
            yield training(kind, "patches", setting)
    for optimizer in ("adamw", "muon"):
        for axis, most in (("width", 3.0 if optimizer == "muon" else 2.0), ("layers", 1.0)):
            sizes = doubling(64, setting.pick(1024, 8192)) if axis == "width" else doubling(2, 64)
            yield Curve(f"{optimizer}: update of a Transformer", axis, sizes,
                        partial(update, optimizer, axis, setting=setting), most)


def update(optimizer: str, axis: str, size: int, setting: Setting) -> Work:
    """One update with gradients at hand. Muon multiplies matrices of the width by each other."""
    kind = next(each for each in kinds() if each.name == "lm transformer")
    model = kind.build(setting, **{"width": 64, "layers": 2, axis: size})
    optimizers = Optimizers(model, TrainingSettings(steps=1, optimizer=optimizer))
    for weight in model.parameters():
        weight.grad = torch.randn_like(weight)
    return Work(optimizers.step)


def training(kind: Kind, axis: str, setting: Setting) -> Curve:
    time = {"length": 2.0 if kind.name in ATTENDS else 1.0, "width": 3.0 if kind.name in CUBIC else 2.0,
            "patches": 2.0}.get(axis, 1.0)
    held = {"length": 2.0 if kind.name in HOLDS_PAIRS else 1.0, "width": 2.0}.get(axis, 1.0)
    sizes = {"length": doubling(setting.pick(32, 256), setting.pick(8192, 65536)),
             "batch": doubling(setting.pick(8, 64), setting.pick(1024, 65536)),
             "width": doubling(64, setting.pick(1024, 8192)), "layers": doubling(2, setting.pick(32, 64)),
             "patches": tuple(side**2 for side in doubling(8, setting.pick(64, 128)))}[axis]
    return Curve(f"{kind.name}: training step", axis, sizes, lambda size: step(kind, axis, size, setting), time, held)


def step(kind: Kind, axis: str, size: int, setting: Setting) -> Work:
    # Short texts but along the length: what a recurrence costs at each step, however little it reads, stays small.
    at = {"length": 8, "batch": setting.pick(8, 64), "width": 64, "layers": 2} | {axis: size}
    if axis in ("length", "patches"):
        at |= {"batch": setting.pick(2, 8), "width": 32}
    image = PATCH * (round(size**0.5) if axis == "patches" else 4)
    model = kind.build(setting, width=at["width"], layers=at["layers"], length=at["length"], image=image, patch=PATCH)
    inputs = batch(kind.task, at["batch"], at["length"], image, setting)
    optimizers = Optimizers(model, TrainingSettings(steps=1, optimizer="adamw"))

    def loss() -> Tensor:
        with torch.autocast(setting.device, torch.bfloat16, enabled=setting.gpu):        # as training does
            return model.loss(**inputs)[0]

    def run() -> None:
        optimizers.zero_grad()
        loss().backward()
        optimizers.step()

    return Work(run, lambda: kept_bytes(loss, setting.device))


def batch(task: str, rows: int, length: int, image: int, setting: Setting) -> dict[str, Any]:
    """Drawn inputs of the loss: rows of nearly one length, as batches have them."""
    drawn = torch.Generator().manual_seed(0)

    def ids() -> Tensor:
        return torch.randint(FIRST, VOCAB, (rows, length), generator=drawn)

    lengths = torch.full((rows,), length)
    lengths[-1] -= max(1, length // 8)
    inputs = {"tokens": ids(), "targets": ids(), "shares": torch.full((rows, length), 1 / (rows * length)),
              "lengths": lengths}
    if task == "translate":
        inputs |= {"source": ids(), "source_lengths": lengths.clone()}
    if task == "caption":
        inputs["source"] = torch.randint(0, 256, (rows, 3, image, image), generator=drawn, dtype=torch.uint8)
    return {name: each.to(setting.device) for name, each in inputs.items()}
