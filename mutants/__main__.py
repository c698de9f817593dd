"""`python -m mutants`: draw mutants, run the tests that see them, and write docs/mutants.md."""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import sys
from typing import IO

from mutants import child, measure, report, run
from mutants.copies import FOLDER
from mutants.draw import PARTS, SEED, draw


def main() -> int:
    options = _options()
    os.environ["OMP_NUM_THREADS"] = "1"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))            # the children are ended, too
    FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = _take_lock()                                                # noqa: F841  held until the end
    results = FOLDER / f"results-{options.seed}.jsonl"
    mutants = [each for each in draw(options.count, options.seed) if each.part in options.parts]
    known = run.load_results(results)
    left = [each for each in mutants if each.id not in known
            or (options.again and known[each.id]["verdict"] not in run.CAUGHT) or each.id in options.only]
    if options.only:
        left = [each for each in left if each.id in options.only]
    if left or options.measure:
        say(f"{len(left)} of {len(mutants)} mutants are left to run; measuring the tests that have changed ...")
        child.preload()
        pool = run.Pool(options.workers)
        run.measure_tests(pool, measure.find_test_files(options.parts), measure.find_sources(), say)
        if not options.measure:
            run.run_mutants(pool, left, measure.load_tests(FOLDER, measure.find_test_files()), results, say)
    known = run.load_results(results)
    verdicts = [known[each.id] for each in mutants if each.id in known]
    if set(options.parts) == set(PARTS):
        report.write_page(verdicts, options.seed)
    return tell(verdicts)


def tell(verdicts: list[report.Verdict]) -> int:
    """Print the table and the survivors without a reason; 1 where there are any."""
    open_ones = report.unexplained(verdicts, report.load_survivors())
    print("\n".join(report.table(verdicts)), report.summary(verdicts), sep="\n")
    for verdict in open_ones:
        print(f"{verdict['id']} {verdict['verdict']}: {verdict['place']} ({verdict['operator']}) {verdict['change']}")
    return 1 if open_ones else 0


def _take_lock() -> IO[str]:
    """Two runs would plant in the same copies."""
    lock = open(FOLDER / "lock", "w")                                  # noqa: SIM115
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(f"another run works in {FOLDER}: wait for it, or stop it")
    return lock


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="how many mutants")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--parts", nargs="*", default=[*PARTS], choices=[*PARTS], metavar="PART",
                        help="draw from all, but run the mutants and measure the tests of these parts alone")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="run survivors again, as tests were added")
    parser.add_argument("--only", nargs="*", default=[], metavar="ID", help="run these alone, again")
    parser.add_argument("--measure", action="store_true", help="measure the tests and stop")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
