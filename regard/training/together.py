"""A run on several ranks: rank 0 runs it, the others follow."""

from __future__ import annotations

from typing import Any

import torch

from regard.errors import SettingError
from regard.ranks import Ranks
from regard.training import run
from regard.training.checkpoint import kept_conditions
from regard.training.deterministic import refusing_in_one_line
from regard.training.frames import kept_frames
from regard.training.joining import follower_request, receive_run, send_state
from regard.training.loop import fit
from regard.training.memory import stopping_in_one_line
from regard.training.parts import Parts, build_model
from regard.training.report import TrainingProgress
from regard.training.request import TrainRequest, plan_resumed
from regard.training.step import TrainingPosition


def run_as_rank(request: TrainRequest, began: float | None, ranks: Ranks) -> Any:
    """Do this rank's part of a run; rank 0 returns the trained model."""
    if ranks.count > 1 and "-" in request.files:
        raise SettingError(f"-: {ranks.count} ranks cannot all read the standard input: give a file")
    return run.run_training(request, began, ranks) if ranks.first else follow(request, ranks)


def follow(request: TrainRequest, ranks: Any) -> None:
    """Train beside rank 0, which plans, writes and speaks."""
    folder, way = receive_run(ranks)
    if folder is None:
        return
    with (kept_conditions(), refusing_in_one_line(), stopping_in_one_line(),
          kept_frames(follower_request(request), folder) as request):
        plan = plan_resumed(request, folder, say_nothing, "the text here is not that of rank 0: give every machine the "
                            "same files")
        torch.manual_seed(plan.training.seed)
        job = Parts(plan, build_model(plan), folder, TrainingProgress(quiet=True), ranks, way).make_job(plan)
        fit(job, send_state(ranks, job.checkpoints, TrainingPosition(), None))
    ranks.end_training()


def say_nothing(text: str) -> None:
    """Say nothing."""
