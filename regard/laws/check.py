"""`regard check`: the laws tried on anything, and a verdict that a person can read."""

from __future__ import annotations

import dataclasses
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.contract import LanguageModel, Memory, SequenceLayer, Source
from regard.errors import SettingError
from regard.kernels.precision import exact_arithmetic
from regard.laws.law import Law, LawBroken, LawSkipped
from regard.laws.layer_laws import LAYER_LAWS
from regard.laws.model_laws import MODEL_LAWS
from regard.laws.objects import build, load_object
from regard.laws.prepared import in_type, prepared
from regard.laws.reader import TIME, LayerReader, ModelReader

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
MARKS = {PASSED: "✓", FAILED: "✗", SKIPPED: "–"}


@dataclass(frozen=True)
class Verdict:
    """The outcome of one law."""

    law: str
    meaning: str
    outcome: str                     # passed · failed · skipped
    reason: str = ""                 # why it failed or was skipped
    usual_cause: str = ""
    seconds: float = 0.0


@dataclass
class Report:
    """The verdicts on one layer or model, law by law."""

    name: str
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(verdict.outcome != FAILED for verdict in self.verdicts)

    @property
    def failed(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.outcome == FAILED]

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    def __len__(self) -> int:
        return len(self.verdicts)

    def as_dict(self) -> dict[str, Any]:
        """For scripts: plain values only."""
        return {"name": self.name, "ok": self.ok, "laws": [dataclasses.asdict(verdict) for verdict in self.verdicts]}

    def text(self) -> str:
        """A line a law, and under each broken one what happened and what usually causes it."""
        width = max(len(verdict.law) for verdict in self.verdicts)
        lines = [self.headline()]
        for each in self.verdicts:
            lines.append(f"  {MARKS[each.outcome]} {each.law:{width}}  {each.meaning}")
            if each.reason:
                lines.append(f"    {'':{width}}  {each.outcome}: {each.reason}")
            if each.outcome == FAILED and each.usual_cause:
                lines.append(f"    {'':{width}}  usual cause: {each.usual_cause}")
        return "\n".join(lines)

    def headline(self) -> str:
        held = sum(verdict.outcome == PASSED for verdict in self.verdicts)
        seconds = sum(verdict.seconds for verdict in self.verdicts)
        if self.ok:
            return f"{self.name}: every law holds ({held} tried, {seconds:.1f} s)"
        broken = len(self.failed)
        return f"{self.name}: {broken} {'law is' if broken == 1 else 'laws are'} broken ({held} held, {seconds:.1f} s)"


def check_layer(
    layer: SequenceLayer | Callable[[], SequenceLayer], *, memory: Memory | None = None,
    dtype: torch.dtype | None = torch.float64, seed: int = 0,
) -> Report:
    """Try every law on a copy of this layer, in float64 unless told otherwise, with dropout off."""
    instance = layer if isinstance(layer, SequenceLayer) else layer()
    if not isinstance(instance, SequenceLayer):
        raise SettingError(f"a {type(instance).__name__} is not a SequenceLayer: derive it from regard.SequenceLayer")
    name = type(instance).__name__
    missing = [size for size in ("d_in", "d_out") if not isinstance(getattr(instance, size, None), int)]
    if missing:
        raise SettingError(f"{name} does not say its {' and '.join(missing)}: set self.{missing[0]} in __init__")
    if memory is not None and dtype is not None:
        memory = memory.map(in_type(dtype))
    return try_laws(name, LAYER_LAWS, LayerReader(prepared(instance, dtype), memory, seed=seed))


def check_model(
    model: LanguageModel | Callable[[], LanguageModel], *, source: Source | None = None,
    dtype: torch.dtype | None = None, seed: int = 0, time: int = TIME,
) -> Report:
    """Try every law on this model, in its own type unless told otherwise, with dropout off."""
    instance = model if isinstance(model, LanguageModel) else model()
    if not isinstance(instance, LanguageModel):
        raise SettingError(f"a {type(instance).__name__} is not a LanguageModel: derive it from regard.LanguageModel")
    name = type(instance).__name__
    if instance.needs_source and source is None:
        raise SettingError(f"{name} needs a source: give one, as check_model(model, source=...)")
    if isinstance(instance, nn.Module):
        instance = prepared(instance, dtype)
    return try_laws(name, MODEL_LAWS, ModelReader(instance, source, time=time, seed=seed))


def check_class(cls: Any) -> Report:
    """Build a small one of this class, and try every law on it; what is built already is taken as it is."""
    thing = build(cls) if isinstance(cls, type) else cls
    return check_layer(thing) if isinstance(thing, SequenceLayer) else check_model(thing)


def check_object(name: str) -> Report:
    """`regard check module:Name`: find it, build it if it is a class, and try every law on it."""
    return check_class(load_object(name))


def try_laws(name: str, laws: Mapping[str, Law], reader: Any) -> Report:
    """Every law in turn; what cannot even be run once is not tried further."""
    report = Report(name)
    with exact_arithmetic():
        for law in laws.values():
            if report.verdicts and report.verdicts[0].reason.startswith("it crashed"):
                report.verdicts.append(Verdict(law.name, law.meaning, SKIPPED, "it does not run yet"))
            else:
                report.verdicts.append(try_law(law, reader))
    return report


def try_law(law: Law, reader: Any) -> Verdict:
    """One law; whatever goes wrong in there becomes one line of the verdict."""
    began = time.perf_counter()
    outcome, reason = PASSED, ""
    try:
        law.check(reader)
    except LawSkipped as skipped:
        outcome, reason = SKIPPED, str(skipped)
    except LawBroken as broken:
        outcome, reason = FAILED, broken.message
    except Exception as error:
        outcome, reason = FAILED, f"it crashed: {in_one_line(error)}"
    return Verdict(law.name, law.meaning, outcome, reason, law.usual_cause, time.perf_counter() - began)


def in_one_line(error: Exception) -> str:
    """`TypeError: what it said (my_layer.py, line 12)`: the last place outside torch and the laws."""
    message = " ".join(str(error).split())
    place = ""
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename)
        if path.parent != Path(__file__).parent and "torch" not in path.parts:
            place = f" ({path.name}, line {frame.lineno})"
    return f"{type(error).__name__}: {message[:200]}{place}"
