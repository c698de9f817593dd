"""Flips: a cause is taken away, and each rule that has this cause is judged before and after.

A rule that says the same whatever is done to its cause proves nothing. So a flip is compared, rule by rule, with the
run as it is, at the same size and seeds; a rule is seen to change when it holds before and fails after, or the other
way round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.errors import RunError
from regard.lab.experiment import Experiment, Seed
from regard.lab.results import ClaimResults
from regard.lab.runner import RunPlan
from regard.lab.verdict import UNCLEAR, Judged, judge

Flipped = dict[str, Any]


def conclude_flip(experiment: Experiment, results: ClaimResults, plan: RunPlan, flip: str) -> Flipped | None:
    """The outcome of a flip for the rules that have its cause; None while something is missing."""
    seeds, before = (results.seeds(experiment, plan.settings(each)) for each in (flip, ""))
    if seeds is None or before is None:
        return None
    run, flipped = tell_run(experiment, results, plan, seeds, flip)
    as_it_is = judge_stored(experiment, before)[1]
    rules = [{"says": one.says, "before": one.verdict, "after": other.verdict, "median_before": one.median,
              "median": other.median, "low": other.low, "high": other.high, "unit": one.unit}
             for one, other in zip(as_it_is, flipped, strict=True) if one.cause == flip]
    return {"does": experiment.flip_named(flip).does, "rules": rules, **run}


def tell_run(
    experiment: Experiment, results: ClaimResults, plan: RunPlan, seeds: Sequence[Seed], flip: str = ""
) -> tuple[dict[str, Any], list[Judged]]:
    """The verdict of a run, with its size, its command and where it ran; and what each rule says."""
    (verdict, judged), settings = judge_stored(experiment, seeds), plan.settings(flip)
    return {"verdict": verdict, "seeds": plan.seeds, "quick": plan.quick,
            "seconds": round(results.seconds(experiment, settings), 1), "command": command(experiment, plan, flip),
            "where": results.ran(settings[0])}, judged


def store_flips(experiment: Experiment, results: ClaimResults, found: Mapping[str, Flipped | None]) -> None:
    """Store the outcomes of flips, but for those of which a larger run is stored; forget flips that are gone."""
    known = results.record.setdefault("flips", {})
    for name, flip in found.items():
        if flip is not None and size_of(flip) >= size_of(known.get(name, {})):
            known[name] = flip
    names = [flip.name for flip in experiment.flips]
    results.record["flips"] = {name: known[name] for name in names if name in known}


def judge_stored(experiment: Experiment, seeds: Sequence[Seed]) -> tuple[str, list[Judged]]:
    try:
        return judge(experiment, seeds)
    except Exception as error:
        raise RunError(f"{experiment.name}: its rules cannot be worked out from what its arms gave: "
                       f"{type(error).__name__}: {error}") from error


def command(experiment: Experiment, plan: RunPlan, flip: str = "") -> str:
    parts = ["regard lab", "flip" if flip else "run", experiment.name, f"--seeds {plan.seeds}"]
    parts += [f"--cause {flip}"] * (bool(flip) and len(experiment.flips) > 1)
    parts += ["--quick"] * plan.quick + [f"--device {plan.device}"] * (plan.device != "cpu")
    return " ".join(parts)


def size_of(told: Mapping[str, Any]) -> tuple[bool, int]:
    return (not told["quick"], told["seeds"]) if "verdict" in told else (False, 0)


def tell_size(told: Mapping[str, Any]) -> str:
    return f"{'quick' if told['quick'] else 'full'}, {told['seeds']} seed{'s' * (told['seeds'] != 1)}"


# ------------------------------------------------------------------------------------------------- in words


def did_change(rule: Mapping[str, Any]) -> bool:
    """True for a rule of a flip that was seen to change: clear both times, and not the same."""
    return rule["before"] != rule["after"] and UNCLEAR not in (rule["before"], rule["after"])


def rules_with_cause(card: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rules that carry the claim: all that are no condition."""
    return [rule for rule in card["rules"] if not rule.get("condition")]


def flip_of(card: Mapping[str, Any], rule: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The outcome of one rule of a card with its cause taken away; None where that was not run."""
    flip = card.get("flips", {}).get(rule.get("cause"), {})
    return next((each for each in flip.get("rules", []) if each["says"] == rule["says"]), None)


def tell_flips(card: Mapping[str, Any]) -> str:
    """The outcome of all flips in a line: `3 of 3 rules changed (quick, 3 seeds)`; and which did not."""
    rules = rules_with_cause(card)
    found = [(rule, flip_of(card, rule)) for rule in rules]
    ran = [flip for _, flip in found if flip is not None]
    if not ran:
        return "not run"
    sizes = dict.fromkeys(tell_size(flip) for flip in card["flips"].values())
    changed = sum(map(did_change, ran))
    same = [f"{flip['says']} ({flip['before']} -> {flip['after']})" for flip in ran if not did_change(flip)]
    missing = len(rules) - len(ran)
    return (f"{changed} of {len(rules)} rules changed ({'; '.join(sizes)})" + f"; not: {', '.join(same)}" * bool(same)
            + f"; {missing} not run" * bool(missing))
