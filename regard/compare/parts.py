"""Which part of the data chooses and which is reported, in the words of a table."""

from __future__ import annotations

from regard.compare.plan import HALVE, Plan
from regard.compare.subject import subject_of


def chosen_on(plan: Plan) -> str:
    """What weights and orders are chosen by, where something else is measured."""
    data = subject_of(plan.task).data
    return f"one half of the held-out {data}" if plan.text["measured_on"] == "half" else f"the validation {data}"


def measured_on(plan: Plan) -> str:
    return "the other half" if plan.text["measured_on"] == "half" else "the test part"


def why_not_divided(plan: Plan) -> str:
    """Why the part that chooses is also the one that is measured, as the end of a sentence."""
    asked = plan.settings.get("data", {}).get(HALVE)
    if asked is None:
        return " (this comparison was begun before held-out data were divided)"
    return " (it is too small to be divided: name other files with --test)" if asked is True else ""
