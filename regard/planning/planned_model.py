"""The request of a plan, and the model that it is about: a run's, or one of a wanted size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.config import as_values, fill
from regard.errors import SettingError
from regard.families import Family
from regard.families.likes import settings_like
from regard.families.sizes import Scale
from regard.planning.blueprint import Blueprint, draw_blueprint
from regard.planning.figures import recomputes
from regard.run_folder import SETTINGS, RunFolder
from regard.tasks import USUAL, run_task, task_named
from regard.trained import run_family
from regard.training.choices import DEFAULT_MINUTES, SGD, check_tables, choose_sizes
from regard.training.settings import TrainingSettings

VOCAB = 50_304                 # GPT-2's, rounded up to a multiple of 128
AT_ONCE = 32_768               # tokens a rank, unless told: those that the figures were measured with
# Depth grows with about this power of the parameters from GPT-2's size on: 12, 24, 32, 40, 96 layers of 125M, 1.3B,
# 6.7B, 13B and 175B (Brown et al. 2020, table 2.1).
DEPTH, GPT2_PARAMETERS = 0.28, 124e6

Tables = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class PlanRequest:
    """The wish of a user; `settings` are tables as in run.toml."""

    tokens: int
    gpus: str
    link: str | None = None
    run: str | Path | None = None              # a run folder, whose settings are taken; or
    params: int | None = None
    family: str | None = None
    like: str | None = None
    settings: Tables = field(default_factory=dict)
    trust: bool = False                        # import the layer of the user's own that the run names


@dataclass(frozen=True)
class PlannedModel:
    """The model to plan for."""

    name: str                                  # of its family
    blueprint: Blueprint
    vocab: Any
    rows: bool                                 # training.batch counts rows, not tokens
    batch_given: bool


def find_model(request: PlanRequest) -> PlannedModel:
    """Return the model of the request, with the settings it would be trained with."""
    check_tables(request.settings)
    model = of_run(request) if request.run is not None else of_size(request)
    recompute = model.blueprint.training.recompute
    if recompute not in recomputes():
        raise SettingError(f"training.recompute = {recompute}: its memory was not measured; a plan knows "
                           f"{' and '.join(recomputes())}")
    return model


def of_run(request: PlanRequest) -> PlannedModel:
    path = Path(str(request.run))
    for name, value in (("params", request.params), ("family", request.family), ("like", request.like)):
        if value is not None:
            raise SettingError(f"--{name} {value}: the model is that of {path}; leave it out")
    folder = RunFolder.open(path.parent if path.name == SETTINGS else path)
    tables = folder.read_settings()
    task, family = run_task(tables), run_family(tables, folder, request.trust)
    refuse_counted(family)
    folder.check_tokenizer()
    vocab = task.vocab(task.load_tokenizer(folder.tokenizer_path))
    model = family.settings_of_run({**tables.get("model", {}), **request.settings.get("model", {})})
    wanted = request.settings.get("training", {})
    training = fill(TrainingSettings, {**tables.get("training", {}), **wanted}, "training")
    blueprint = draw_blueprint(family, model, training, vocab)
    return PlannedModel(family.name, blueprint, vocab, training.reading != "pairs", True)


def of_size(request: PlanRequest) -> PlannedModel:
    """Choose as `regard train lm` chooses on a GPU; of a wanted size also how deep, where that is not given."""
    task, wanted = task_named(USUAL), {name: dict(table) for name, table in request.settings.items()}
    name, vocab = request.family, int(wanted.get("tokenizer", {}).get("vocab", VOCAB))
    if not 2 <= vocab <= 2**24:
        raise SettingError(f"--vocab {vocab}: a vocabulary has 2 to {2**24:,} tokens")
    if request.like is not None:
        name, wanted = settings_like(request.like, USUAL, name, wanted)
    family = task.family(name or task.usual)
    refuse_counted(family)
    scale = Scale(tokens=request.tokens, vocab=vocab, gpu=True, minutes=DEFAULT_MINUTES, budget=request.tokens)
    if request.params is not None:
        wanted["model"] = {**deepened(family, scale, wanted, request.params), **wanted.get("model", {})}
    model, sizes = choose_sizes(family, scale, wanted, request.params, vocab)
    asked = wanted.get("training", {})
    plain = SGD if asked.get("optimizer") == "sgd" else {}
    training = fill(TrainingSettings, {**sizes.training, **plain, **asked}, "training")
    return PlannedModel(family.name, draw_blueprint(family, model, training, vocab), vocab, True, "batch" in asked)


def deepened(family: Family, scale: Scale, wanted: Mapping[str, Any], params: int) -> dict[str, int]:
    """Return the layers of a model of so many parameters, for a family whose width alone follows from these."""
    settings: Any = fill(family.settings, {**family.sizes(scale, wanted).model, **wanted.get("model", {})}, "model")
    layers = as_values(settings).get("layers")
    if layers is None or family.resize is None or not hasattr(settings, "expand"):
        return {}                                                  # a recurrence grows wider, not deeper
    return {"layers": max(2, 2 * round(layers / 2 * (params / GPT2_PARAMETERS) ** DEPTH))}


def refuse_counted(family: Family) -> None:
    if family.build is None:
        raise SettingError(f"--family {family.name} is counted by one process, on a CPU: there is nothing to plan")


def with_batch(model: PlannedModel, ranks: int) -> PlannedModel:
    """Return the model with rows for so many ranks, where a user gave none."""
    if model.batch_given:
        return model
    rows = ranks * max(1, AT_ONCE // model.blueprint.context)
    return replace(model, blueprint=replace(model.blueprint, training=replace(model.blueprint.training, batch=rows)))
