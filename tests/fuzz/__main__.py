"""The long form: `python -m tests.fuzz --count 1000 --seed 0 --minutes 30`, which goes on where it was stopped.

What was done is kept in a file, by kind and seed; a fault is printed, and the bytes that caused it are kept beside. At
the end the table in docs/reliability.md is written, between its marks.
"""

import argparse
import json
import platform
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.fuzz.kinds import KINDS
from tests.fuzz.running import run_cases

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- malformed files: written by make soak -->", "<!-- end of malformed files -->"
AT_ONCE = 500                        # cases of a kind, after which what was done is kept


def main():
    options = parsed()
    kept = Path(options.state)
    state = json.loads(kept.read_text()) if kept.exists() else {}
    until = time.monotonic() + 60 * options.minutes if options.minutes else None
    with tempfile.TemporaryDirectory() as folder:
        for name in options.kind or KINDS:
            go_on(KINDS[name], Path(folder) / str(list(KINDS).index(name)), state, kept, options, until)
    write_page(state)
    faults = sum(len(each["faults"]) for each in state.values())
    print(f"{sum(each['cases'] for each in state.values()):,} cases, {faults} faults")
    return 1 if faults else 0


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="mutations of each kind and seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after so many; the next call goes on")
    parser.add_argument("--state", default=".soak-malformed.json", help="the file of what was done")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="these kinds alone")
    return parser.parse_args()


def go_on(kind, folder, state, kept, options, until):
    """Do what is left of a kind, and keep what came of it."""
    about = state.setdefault(f"{kind.name} · seed {options.seed}",
                             {"kind": kind.name, "seed": options.seed, "cases": 0, "counts": {}, "faults": {}})
    if about["cases"] >= options.count:
        return
    kind.prepare(folder)
    while about["cases"] < options.count and (until is None or time.monotonic() < until):
        numbers = range(about["cases"], min(options.count, about["cases"] + AT_ONCE))
        found = run_cases(kind, folder, numbers, options.seed, until)
        about["cases"] += found.counts.total()
        for how, count in found.counts.items():
            about["counts"][how] = about["counts"].get(how, 0) + count
        for number, (how, why) in found.faults.items():
            about["faults"][number] = f"{how} {why}"
            case = Path(f"{kept}.{kind.name.replace(' ', '-')}-{options.seed}-{number}")
            case.write_bytes(kind.changed(kind.good(folder), number, options.seed))
            print(f"{kind.name}, seed {options.seed}, number {number} ({case}): {how} {why}", flush=True)
        kept.write_text(json.dumps(state, indent=1))
    print(f"{kind.name}: {about['cases']:,} cases, {about['counts']}", flush=True)


def write_page(state):
    """Write the rows between the marks of the page."""
    rows = ["| kind | cases | read | refused in one line | faults | seeds |", "|---|--:|--:|--:|--:|---|"]
    for name in KINDS:
        some = [each for each in state.values() if each["kind"] == name]
        if some:
            read, refused = (sum(each["counts"].get(how, 0) for each in some) for how in ("done", "refused"))
            cases, seeds = sum(each["cases"] for each in some), ", ".join(str(each["seed"]) for each in some)
            faults = cases - read - refused
            rows.append(f"| {name} | {cases:,} | {read:,} | {refused:,} | {faults} | {seeds} |")
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    versions = f"Python {platform.python_version()}, torch {sys.modules['torch'].__version__}"
    about = f"{when}, {platform.machine()}, {versions}."
    text = PAGE.read_text("utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(head + "\n".join([BEGIN, "", *rows, "", about, "", END]) + tail, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
