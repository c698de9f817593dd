"""How often the interval of `regard scale` holds: 20 cases, each with a run ten times as long as its longest.

    python bench/scale_coverage.py --folder F               # run what is missing; it can be stopped and goes on
    python bench/scale_coverage.py --folder F --steps 5000 --workers 13      # longer ladders, a process for each core
    python bench/scale_coverage.py --table                  # print what was found so far; nothing is written

A case is a text or pairs and a family: ten short runs (80, 160, 320 and 640 steps by two or three seeds), then one of
6,400 steps by another seed. The prediction sees the short runs only. Cases named `tune-...` are those that the
prior was chosen by; they are not counted. Models are small: a case takes a minute or two on one core. The longer the
ladder, the narrower the interval: --steps 5000 is what it is in use.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "scale_coverage.json"
STEPS = 640                    # of the longest run that the prediction sees
TRAIN, HELD_OUT = 300_000, 16_000              # characters of a text
TRAIN_PAIRS, HELD_OUT_PAIRS = 6_000, 100
LATER_SEED = 100               # of the run that is predicted

# Models of some 5,000 parameters: a ladder of seconds is to them what one of minutes is to the models of the defaults.
STACK = {"layers": "1", "width": "16", "heads": "2", "context": "32"}
LAYERS = {"layers": "1", "width": "16", "context": "32"}
STATE = {"hidden": "24", "width": "16", "context": "32"}
WINDOW = {"hidden": "32", "width": "16", "order": "4"}
TEXT = {"transformer": STACK, "lstm": STATE, "gru": STATE, "rnn": STATE, "mamba": LAYERS, "linear-rnn": LAYERS,
        "window": WINDOW, "mixture": STACK}
PAIRS = {"transformer": {"layers": "1", "width": "32", "heads": "2"}, "rnn-attention": {"width": "32", "hidden": "48"}}
CASES = [
    ("plays-1", "transformer"), ("python-1", "lstm"), ("captions-en", "rnn"), ("stories", "window"),
    ("plays-2", "lstm"), ("python-2", "transformer"), ("captions-de", "linear-rnn"), ("stories", "transformer"),
    ("plays-1", "mixture"), ("multi30k", "rnn-attention"), ("phrasebook", "transformer"), ("python-1", "window"),
    ("captions-en", "lstm"), ("plays-2", "linear-rnn"), ("python-2", "rnn"), ("plays-1", "mamba"),
    ("captions-de", "transformer"), ("stories", "lstm"), ("captions-en", "mixture"), ("plays-2", "rnn"),
    ("tune-french", "transformer"), ("tune-asyncio", "lstm"), ("tune-docs", "rnn"), ("tune-asyncio", "window"),
    ("tune-french", "linear-rnn"),
]


# ------------------------------------------------------------------------------------------------ corpora


def make_text(name: str, shared: Path) -> str:
    """The text of a corpus by its name, long enough for its three parts."""
    from regard.data import embedded

    kind, _, part = name.partition("-")
    plays, pairs = shared / "tinyshakespeare.txt", shared / "multi30k"
    if kind == "plays":
        text = plays.read_text("utf-8")
        return text[:len(text) // 2] if part == "1" else text[len(text) // 2:]
    if kind == "python":
        import torch

        return read_sources(Path(torch.__file__).parent / {"1": "nn", "2": "distributed"}[part])
    if kind == "captions":
        return read_gz(pairs / f"train.{part}.gz")
    if kind == "stories":
        return "\n".join(embedded.lines("stories", "train"))
    if name == "tune-docs":
        return "\n".join(path.read_text("utf-8") for path in sorted((Path(__file__).parents[1] / "docs").glob("*.md")))
    return read_sources(Path(asyncio.__file__).parent) if part == "asyncio" else read_gz(pairs / "train.fr.gz")


def read_gz(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode("utf-8")


def read_sources(folder: Path) -> str:
    return "\n".join(path.read_text("utf-8") for path in sorted(folder.rglob("*.py")))


def write_parts(name: str, folder: Path, shared: Path) -> Path:
    """Write train, valid and test of a corpus, as one file each, or two of pairs; return their folder."""
    from regard.data import embedded

    own = folder / "texts" / name
    own.mkdir(parents=True, exist_ok=True)
    if name in ("multi30k", "phrasebook"):
        pairs = [(pair.source, pair.target) for pair in embedded.pairs(name, "train")] if name == "phrasebook" else \
            list(zip(*(read_gz(shared / "multi30k" / f"train.{side}.gz").splitlines() for side in ("de", "en")),
                     strict=True))
        first = {"test": 0, "valid": HELD_OUT_PAIRS, "train": 2 * HELD_OUT_PAIRS}
        last = {"test": HELD_OUT_PAIRS, "valid": 2 * HELD_OUT_PAIRS, "train": 2 * HELD_OUT_PAIRS + TRAIN_PAIRS}
        for part in first:
            for column, side in enumerate(("de", "en")):
                lines = [pair[column] for pair in pairs[first[part]:last[part]]]
                (own / f"{part}.{side}").write_text("\n".join(lines) + "\n", "utf-8")
        return own
    text = make_text(name, shared)
    assert len(text) >= TRAIN // 3 + 2 * HELD_OUT, (name, len(text))
    train = min(TRAIN, len(text) - 2 * HELD_OUT)
    cuts = {"train": (0, train), "valid": (train, train + HELD_OUT), "test": (train + HELD_OUT, train + 2 * HELD_OUT)}
    for part, (begin, end) in cuts.items():
        (own / f"{part}.txt").write_text(text[begin:end], "utf-8")
    return own


# ------------------------------------------------------------------------------------------------- cases


def make_request(family: str, own: Path, steps: int) -> Any:
    from regard.scale.ladder import ScaleRequest

    paired = (own / "train.en").exists()
    files = {part: tuple(str(own / f"{part}.{end}") for end in (("de", "en") if paired else ("txt",)))
             for part in ("train", "valid", "test")}
    settings = {"model": dict((PAIRS if paired else TEXT)[family]),
                "training": {"batch": "256", "ema": "0.98"} if paired else {"batch": "16"},
                "data": {"valid": files["valid"], "test": files["test"]}}
    return ScaleRequest(files["train"], task="translate" if paired else "lm", settings=settings, axes=("minutes",),
                        family=None if family == "mixture" else family, steps=steps, device="cpu")


def run_case(name: str, family: str, folder: Path, texts: Path, steps: int) -> dict[str, Any]:
    """Make the short runs and the long one; return what each came to."""
    import torch

    from regard.scale.ladder import AHEAD, Rung, check_request, comparable, make_plan
    from regard.scale.rung_run import prepare_corpus, read_record, run_rung

    torch.set_num_threads(1)
    request = make_request(family, texts, steps)
    kind, corpus = check_request(request), prepare_corpus(comparable(request))
    plan, own = make_plan(request, kind, corpus, lambda plan: 0.0, 0.0), folder / "cases" / f"{name}-{family}-{steps}"
    (own / "runs").mkdir(parents=True, exist_ok=True)
    rungs = [*plan.rungs(), Rung(AHEAD * steps, plan.parameters, 1.0, LATER_SEED)]
    *points, later = [read_record(own, rung) or run_rung(own, plan, rung, corpus) for rung in rungs]
    return {"corpus": name, "family": family, "task": request.task, "steps": steps, "parameters": plan.parameters,
            "tokens": plan.text["tokens"], "points": points, "later": later}


def predict(case: dict[str, Any]) -> list[dict[str, Any]]:
    """What the short runs of a case predict of the loss, and of BLEU, and what came."""
    from regard.scale.forecast import forecast_axis, has_not_begun

    found = []
    for quantity in ("loss", "bleu") if "bleu" in case["later"] else ("loss",):
        points = sorted((float(point["steps"]), point[quantity]) for point in case["points"])
        if has_not_begun(quantity, points):
            continue
        more, came = forecast_axis("minutes", quantity, points, points[-1][0]).more, case["later"][quantity]
        found.append({"of": quantity, "now": points[-1][1], "predicted": more.median, "low": more.low,
                      "high": more.high, "half_width": (more.high - more.low) / 2 / came, "came": came,
                      "within": more.low <= came <= more.high})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/scale_coverage"), help="where everything is made")
    parser.add_argument("--shared", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--steps", type=int, default=STEPS, help="of the longest run that the prediction sees")
    parser.add_argument("--table", action="store_true", help="run nothing")
    parser.add_argument("--workers", type=int, default=1, help="cases at once, each in a process of one thread")
    options = parser.parse_args()
    cases = json.loads(options.results.read_text("utf-8"))["cases"] if options.results.exists() else []
    if not options.table:
        done = {(case["corpus"], case["family"], case["steps"]) for case in cases}
        for case in run_cases([each for each in CASES if (*each, options.steps) not in done], options):
            cases.append(case)
            save(options.results, cases)
            print(case["corpus"], case["family"], case["predictions"], flush=True)
    print_table([case | {"predictions": predict(case)} for case in cases])


def run_cases(wanted: list[tuple[str, str]], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield each case as it ends."""
    texts = {name: write_parts(name, options.folder, options.shared) for name in {name for name, _ in wanted}}
    with ProcessPoolExecutor(options.workers, get_context("spawn")) as pool:
        begun = [pool.submit(run_case, name, family, options.folder, texts[name], options.steps)
                 for name, family in wanted]
        for case in as_completed(begun):
            yield case.result()


def save(path: Path, cases: list[dict[str, Any]]) -> None:
    from regard import storage

    for case in cases:
        case["predictions"] = predict(case)
    storage.write_json(path, {"cases": cases})


def print_table(cases: list[dict[str, Any]]) -> None:
    for counted in (False, True):
        rows = [(case, each) for case in cases for each in case["predictions"]
                if case["corpus"].startswith("tune") != counted]
        print("counted" if counted else "the prior was chosen by")
        for case, each in rows:
            print(f"{case['corpus']:13} {case['family']:13} {case['steps']:>5} steps  {each['of']:4} now "
                  f"{each['now']:6.3f}  predicted {each['predicted']:6.3f} ({each['low']:.3f} to {each['high']:.3f}, "
                  f"{each['half_width']:5.1%})  came {each['came']:6.3f}  {'within' if each['within'] else 'OUTSIDE'}")
        losses = [each for _, each in rows if each["of"] == "loss"]
        if losses:
            widths = sorted(each["half_width"] for each in losses)
            print(f"{sum(each['within'] for each in losses)} of {len(losses)} losses within; half-width: median "
                  f"{widths[len(widths) // 2]:.1%}, {sum(width <= 0.03 for width in widths)} of them at most 3%")


if __name__ == "__main__":
    sys.exit(main())
