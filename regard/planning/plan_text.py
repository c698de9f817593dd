"""A plan as text: a table of both ways, the choice and its reason, what to beware of, and the sources."""

from __future__ import annotations

from collections.abc import Iterator

from regard.config import as_values
from regard.planning import rank_memory
from regard.planning.run_plan import DATA, FSDP, PlannedRun, Way, find_warnings, say_size
from regard.report.tables import text_table

SHOWN = ("layers", "width", "heads", "hidden", "state", "context")
UNKNOWN = "not known"


def as_text(plan: PlannedRun) -> str:
    """Return the plan as lines for a terminal."""
    rows = [("", *row) for row in list_rows(plan)]
    table = text_table([("",), ("",), *((way.name,) for way in plan.ways)], rows)
    return "\n".join([*describe(plan), "", *(line[2:] for line in table.splitlines()[1:]), "",
                      *in_lines("choice", [find_reason(plan)]), *in_lines("beware", find_warnings(plan)),
                      *in_lines("sources", list_sources(plan))])


def describe(plan: PlannedRun) -> Iterator[str]:
    blueprint, machines = plan.blueprint, plan.machines
    values = as_values(blueprint.settings)
    sizes = ", ".join(f"{name} {values[name]:,}" for name in SHOWN if values.get(name))
    vocab = plan.model.vocab
    yield (f"model      {plan.model.name}, {blueprint.parameters:,} parameters: {sizes}, vocabulary "
           f"{f'{vocab:,}' if isinstance(vocab, int) else vocab}")
    batch = f"{blueprint.training.batch:,} rows of {blueprint.context:,}" if plan.model.rows else "tokens of pairs"
    yield (f"training   {plan.request.tokens:,} tokens in {plan.chosen.steps:,} steps of {plan.tokens_a_step:,} "
           f"({batch}), {blueprint.training.optimizer}"
           + (f", recompute {blueprint.training.recompute}" if blueprint.training.recompute != "no" else ""))
    link = f", {machines.link.name} at {machines.link.speed / 1e9:.4g} GB/s" if machines.link else ""
    yield f"machines   {machines.count} x {machines.gpu.name} of {machines.gpu.memory / 1e9:g} GB{link}"


def list_rows(plan: PlannedRun) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table: a heading, and a cell for each way."""
    ways, room = plan.ways, rank_memory.usable(plan.machines.gpu.memory)
    for name in dict.fromkeys(name for way in ways for name in way.held):
        yield (name, *(say_size(way.held[name]) if name in way.held else "-" for way in ways))
    yield ("memory of a rank", *(say_size(sum(way.held.values())) for way in ways))
    yield (f"fits into {say_size(room)}", *("yes" if way.fits else "no" for way in ways))
    if plan.model.rows:
        yield ("rows of a rank at once", *(f"{way.at_once:,} of {way.rows:,}" for way in ways))
    if plan.machines.count > 1:
        for name, kind in dict.fromkeys((each.name, each.kind) for way in ways for each in way.messages):
            yield (f"{name}, by {kind}", *(say_sent(way, name, kind) for way in ways))
        yield ("leave each rank in a step", *(say_size(way.leaving) for way in ways))
    yield ("compute, a step", *(milliseconds(way.compute) for way in ways))
    if plan.machines.count > 1:
        yield ("messages, a step", *(milliseconds(way.communicate) for way in ways))
        yield ("together, a step", *(milliseconds(way.step) for way in ways))
    speeds = (None if way.step is None else plan.tokens_a_step / way.step for way in ways)
    yield ("tokens a second", *(UNKNOWN if speed is None else f"{speed:,.0f}" for speed in speeds))
    yield ("hours", *(UNKNOWN if way.hours is None else f"{way.hours:,.2f}" for way in ways))


def say_sent(way: Way, name: str, kind: str) -> str:
    sent = [message for message in way.messages if (message.name, message.kind) == (name, kind)]
    return say_size(sum(message.leaving(way.ranks) for message in sent)) if sent else "-"


def milliseconds(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else f"{1e3 * seconds:,.1f} ms"


def find_reason(plan: PlannedRun) -> str:
    """Return the way that is chosen, and why."""
    way = plan.chosen
    together = say_size(sum(way.held.values()))
    if len(plan.ways) == 1:
        return f"one process: {together} on its GPU"
    if way.name == DATA and way.fits:
        other = plan.ways[-1]
        return (f"{DATA}: a rank needs {together}, and sends {say_size(way.leaving)} once a step, where FSDP sends "
                f"{say_size(other.leaving)} layer by layer, during the work")
    needs = say_size(sum(plan.ways[0].held.values()))
    if way.fits:
        return (f"{FSDP} (--parallel fsdp): data parallel needs {needs} a rank even with {plan.ways[0].at_once} row at "
                f"once, FSDP {together}")
    return f"neither: data parallel needs {needs} a rank, FSDP {together}"


def list_sources(plan: PlannedRun) -> list[str]:
    """Return where each figure comes from."""
    gpu, link, speed = plan.machines.gpu, plan.machines.link, plan.speed
    found = [f"speed and activations: {figure.parameters:,} parameters of the {figure.family} on {figure.device}, "
             f"{figure.tokens:,} tokens in {figure.milliseconds:g} ms and {figure.peak_gb:g} GB, the median of "
             f"{', '.join(figure.sources)}" for figure in speed.figures]
    if not found:
        found.append(f"activations: those of the {speed.activations_of}, as nothing of the {plan.model.name} was "
                     "measured")
    found.append(f"{gpu.name}: {gpu.source}; a tenth of the memory is left for CUDA, NCCL and gaps (assumed)")
    if link is not None:
        found.append(f"link: {link.speed / 1e9:.4g} GB/s in one direction ({link.source}), stated and not measured: a "
                     "message takes longer")
        found.append("bytes: a ring's, of the collectives that torch is given, counted in the tests")
    return found


def in_lines(name: str, lines: list[str]) -> list[str]:
    return [f"{name if number == 0 else '':<10} {line}" for number, line in enumerate(lines)]
