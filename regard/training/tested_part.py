"""The test part of a run: its size, known before training, and the trained model's figures, at the end."""

from __future__ import annotations

from typing import Any

from regard.run_folder import RunFolder
from regard.training.report import Say
from regard.training.request import TrainingPlan


def count_tested(plan: TrainingPlan) -> int | None:
    """Return the tokens that the trained model is measured on; 0: none, None: as many as a validation reads."""
    last = plan.last_measure
    if last is None or last.tokens is None:
        return 0 if last is None else None
    return min(last.tokens, plan.corpus.test_counts().tokens)


def measure_test(plan: TrainingPlan, trained: Any, folder: RunFolder, say: Say) -> None:
    """Measure the trained model on the test part, if there is one; save the figures and say them."""
    if plan.last_measure is None:
        return
    found = plan.last_measure.measure(trained, plan.corpus)
    folder.save_test(found.values)
    say(f"test       {found.line} by which nothing was chosen")
