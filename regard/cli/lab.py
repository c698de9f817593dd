"""`regard lab`: every claim of the lectures as an experiment with a verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from regard.errors import RunError, SettingError

OUT = click.option("--out", metavar="FOLDER", default="lab/results", show_default=True, help="Where results are kept.")
SHOWN = click.option("--out", metavar="FOLDER",
                     help="Where results are kept.  [default: lab/results, or else those that came with Regard]")
FROM = click.option("--from", "folder", metavar="FOLDER",
                    help="A folder of your own experiments; Regard runs their code.")


@click.group(name="lab")
def command() -> None:
    """Every claim of the lectures, measured: list, run, explain, flip, report."""


def running(function: Any) -> Any:
    """The options that `run` and `flip` share."""
    for option in reversed([
        click.argument("name"),
        click.option("--seeds", type=click.IntRange(1, 100), help="How many seeds.  [default: 9, with --quick 3]"),
        click.option("--quick", is_flag=True, help="Smaller and shorter: all experiments in a quarter of an hour."),
        click.option("--device", default="cpu", show_default=True, help="cpu or cuda."),
        click.option("--minutes", type=float, help="Stop after so many minutes; the next call continues."),
        click.option("--workers", type=click.IntRange(1), help="Trainings in parallel.  [default: one per core]"),
        click.option("--report", "page", metavar="FILE.html", help="Write all results as one page."),
        OUT, FROM, click.option("--json", "as_json", is_flag=True), click.option("--quiet", is_flag=True),
    ]):
        function = option(function)
    return function


@command.command("list")
@FROM
@SHOWN
@click.option("--json", "as_json", is_flag=True)
def list_(folder: str | None, out: str | None, as_json: bool) -> None:
    """The experiments, with the verdict of each where there is one."""
    from regard.lab import worked
    from regard.lab.find import experiments
    from regard.lab.folders import find_results
    from regard.lab.outcome import load_cards

    shown = find_results(out)
    known = load_cards(shown) if shown and shown.is_dir() else []
    rows: list[dict[str, Any]] = [
        {"number": each.number, "name": each.name, "claim": each.claim,
         "verdicts": {card["machine"]: card["verdict"] for card in known if card["name"] == each.name},
         "quick": [card["machine"] for card in known if card["name"] == each.name and card["quick"]]}
        for each in experiments(folder).values()]
    right, every = worked.counted(worked.as_dicts())
    rows.insert(0, {"number": 0, "name": worked.NAME, "claim": worked.ABOUT,
                    "verdicts": {"here": f"{right} of {every} equal"}, "quick": []})
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    told = [", ".join(f"{verdict} ({machine}{', quick' * (machine in row['quick'])})"
                      for machine, verdict in row["verdicts"].items()) or "not run" for row in rows]
    names, verdicts = max(len(row["name"]) for row in rows), max(map(len, told))
    for row, verdict in zip(rows, told, strict=True):
        click.echo(f"{row['number']:>3}  {row['name']:<{names}}  {verdict:<{verdicts}}  {row['claim']}")


@command.command("explain")
@click.argument("name")
@FROM
def explain(name: str, folder: str | None) -> None:
    """The claim, the equation, where it comes from, what would refute it, and how it is judged."""
    from regard.lab import worked
    from regard.lab.find import experiment
    from regard.lab.verdict import tell_bound

    if name == worked.NAME:
        click.echo(worked.explained())
        return
    claim = experiment(name, folder)
    click.echo(f"{claim.number}. {claim.title}\n\n{claim.about.strip()}\n")
    facts = [("Claim", claim.claim), ("Comes from", claim.source), ("Equation", claim.equation),
             ("Refuted by", claim.refuted), *(("Rule", tell_bound(rule)) for rule in claim.rules),
             *(("Flip", f"{flip.name}: {flip.does}") for flip in claim.flips),
             ("Arms", ", ".join(arm.name for arm in claim.arms)), ("Notes", claim.notes)]
    if fixed := claim.fixed:
        changed = f", changed after a first look: {fixed.after}" if fixed.after else ""
        facts.append(("Rules", f"stand since {fixed.on} ({fixed.hash}){changed}"))
    for title, text in facts:
        if text:
            click.echo(f"{title:>11}  {text}")


@command.command("run")
@running
def run_(name: str, **options: Any) -> None:
    """Run an experiment by name or number, or `all`; what is there already is not run again. `worked`: the examples."""
    from regard.lab import worked

    if name == worked.NAME:
        _work_out(options["as_json"])
        return
    _run(name, flipped=False, **options)


@command.command("flip")
@running
@click.option("--cause", default="", metavar="NAME", help="Remove only this cause.  [default: each, one by one]")
def flip(name: str, **options: Any) -> None:
    """Run it as it is and with each supposed cause taken away, and say which rules changed."""
    from regard.lab import worked

    if name == worked.NAME:
        raise SettingError("worked examples are exact: there is no cause to take away; flip a claim (regard lab list)")
    _run(name, flipped=True, **options)


@command.command("report")
@click.argument("page", metavar="FILE.html")
@SHOWN
@FROM
def report_(page: str, out: str | None, folder: str | None) -> None:
    """Everything that has been measured, as one page that needs nothing else.

    Verdicts, tables and charts are worked out again from the arms that are kept; nothing is measured, on no device.
    Results that came with Regard are shown as they are.
    """
    from regard.lab.folders import HERE, find_results

    shown = find_results(out) or HERE
    _write_report(page, shown, folder, may_redraw=out is not None or shown == HERE)


def _run(
    name: str, *, seeds: int | None, quick: bool, device: str, minutes: float | None, workers: int | None,
    page: str | None, out: str, folder: str | None, as_json: bool, quiet: bool, flipped: bool, cause: str = "",
) -> None:
    from regard.lab import runner
    from regard.lab.find import experiment, experiments
    from regard.lab.outcome import conclude
    from regard.lab.results import open_results

    chosen = list(experiments(folder).values()) if name == "all" else [experiment(name, folder)]
    causes = [flip.name for each in chosen for flip in each.flips]
    if cause and cause not in causes:
        raise SettingError(f"--cause {cause}: there is no such flip; say one of {', '.join(causes)}")
    plan = runner.RunPlan(seeds or (runner.QUICK_SEEDS if quick else runner.SEEDS), quick, device, flipped, minutes,
                       workers or 0, folder, cause)
    left = runner.run_arms(chosen, plan, Path(out), lambda text: None if quiet else click.echo(text, err=True))
    cards = []
    for each in chosen:
        if each in left:
            continue
        if (card := conclude(each, open_results(Path(out), each, device), plan)) is None:
            click.echo(runner.tell_changed(each.name), err=True)          # between its last arm and now
        else:
            cards.append(card)
    if as_json:
        click.echo(json.dumps([{**card, "plots": [plot["file"] for plot in card.get("plots", [])]} for card in cards],
                              indent=1))
    else:
        for card in cards:
            _print(card)
    if flipped and name == "all":
        click.echo(_flips(cards), err=as_json)
    if page:
        _write_report(page, Path(out), folder)
    if left:
        click.echo(f"{len(left)} of {len(chosen)} experiments are not complete: the same command goes on", err=True)


def _flips(told: list[dict[str, Any]]) -> str:
    """Return how many rules changed, and which did not: a negative result is a result."""
    from regard.lab.flipping import did_change

    found = [(card["name"], rule) for card in told for flip in card["flips"].values() for rule in flip["rules"]]
    same = [f"{name}: {rule['says']}: {rule['before']} -> {rule['after']}" for name, rule in found
            if not did_change(rule)]
    lines = [f"{len(found) - len(same)} of {len(found)} rules changed when their cause was taken away"]
    return "\n".join([*lines, *(["flipping did not change:", *same] if same else [])])


def _work_out(as_json: bool) -> None:
    from regard.lab import worked

    found = worked.as_dicts()
    click.echo(json.dumps(found, indent=1) if as_json else worked.as_text(found))
    right, every = worked.counted(found)
    if right < every:
        raise RunError(f"{every - right} of {every} lines of the worked examples do not come out")


def _print(card: dict[str, Any]) -> None:
    """A run's own outcome: its table, what each rule says, the verdict, and what taking each cause away changed."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from regard.lab.flipping import tell_size
    from regard.lab.verdict import tell_rule

    console = Console()
    console.print(Text(f"\n{card['number']}. {card['title']}", style="bold"))
    if "table" in card:
        table = Table(*map(str, card["table"]["columns"]))
        for row in card["table"]["rows"]:
            table.add_row(*map(str, row))
        console.print(table)
    for rule in card["rules"]:
        console.print(Text(f"  {tell_rule(rule)}"))
    console.print(Text(f"Verdict: {card['verdict']}", style="bold"))
    for name, flip in card["flips"].items():
        console.print(Text(f"Flip {name}: {flip['does']} ({tell_size(flip)}): {flip['verdict']}", style="bold"))
        for rule in flip["rules"]:
            console.print(Text(f"  {rule['says']}: {rule['median_before']:.3g} -> {rule['median']:.3g}{rule['unit']}: "
                               f"{rule['before']} -> {rule['after']}"))
    if card["smaller_than"]:
        console.print(Text(f"What is kept goes on telling of the larger run ({card['smaller_than']})."))


def _write_report(page: str, out: Path, folder: str | None, may_redraw: bool = True) -> None:
    from regard import storage
    from regard.lab.claims_page import make_page
    from regard.lab.find import experiments
    from regard.lab.outcome import load_cards, redraw

    every = experiments(folder)
    old = redraw(every.values(), out) if out.is_dir() and may_redraw else []
    known = load_cards(out) if out.is_dir() else []
    if not known:
        raise RunError(f"there are no results under {out}: run some with `regard lab run all`")
    missing = [name for name in every if name not in {card["name"] for card in known}]
    storage.write_file(Path(page), make_page(known, missing, old))
    click.echo(f"wrote {page}", err=True)
