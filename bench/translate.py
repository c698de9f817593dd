"""French to English on one GPU: how many seconds of training until the translations are better than a peer's?

    python bench/translate.py train.fr train.en --valid val.fr val.en --test test.fr test.en --minutes 3.3 --json FILE

JoeyNMT 2.3 (Transformer, 3+3 layers, width 256, joint BPE of 8,000) on one H200, Multi30k, test 2016, beam 5, sacreBLEU
13a: 41.8 BLEU after 226 s, 46.6 after 500 s and still rising; 45,000 target tokens a second in training, 98 to 125
sentences a second in translating. Seconds here are wall seconds of the whole run, from reading the files on, recording
the kernels and validating included. The test set is translated after training, with the best weights by validation:
once (`first`: steps are recorded meanwhile), and then three times more, of which the median counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

TRANSLATIONS = 3               # of the test set, after the first
STEPS = 50                     # over which the speed of training is measured, between validations
PEER = {"bleu_after_226_s": 41.8, "bleu_after_500_s": 46.6, "train_tokens_a_second": 45_000,
        "sentences_a_second": [98, 125]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs=2)
    parser.add_argument("--valid", nargs=2, required=True)
    parser.add_argument("--test", nargs=2, required=True)
    parser.add_argument("--family", default="transformer")
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--set", action="append", default=[], metavar="TABLE.NAME=VALUE")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = run(arguments, Path(folder) / "run")
    print(json.dumps(result, indent=2))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


def run(arguments: argparse.Namespace, out: Path) -> dict[str, Any]:
    from regard.config import parse_assignments
    from regard.training.run import TrainRequest, run_training

    settings: dict[str, dict[str, Any]] = {"data": {"valid": tuple(arguments.valid), "halve": False}, "training": {}}
    settings["training"] = {name: value for name, value in (("minutes", arguments.minutes), ("steps", arguments.steps))
                            if value}
    for table, values in parse_assignments(arguments.set).items():
        settings.setdefault(table, {}).update(values)
    began = time.monotonic()
    model = run_training(TrainRequest(
        tuple(arguments.files), task="translate", family=arguments.family, out=str(out), settings=settings))
    seconds = time.monotonic() - began
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    setup = seconds - rows[-1]["seconds"]
    steady = [row for row in rows if "train_loss" in row]
    steady = steady[len(steady) // 2:]
    valid = [row for row in rows if "valid_loss" in row]
    return {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu", "torch": torch.__version__,
        "family": arguments.family, "set": arguments.set, "parameters": model.parameters,
        "steps": rows[-1]["step"], "tokens": rows[-1]["tokens"], "wall_seconds": round(seconds, 1),
        "setup_seconds": round(setup, 1),
        "train_tokens_a_second": round(statistics.median(
            (after["tokens"] - before["tokens"]) / (after["seconds"] - before["seconds"])
            for before, after in zip(steady, steady[STEPS:], strict=False) if within(before, after, valid))),
        "train_tokens_a_second_with_validations": round(
            (steady[-1]["tokens"] - steady[0]["tokens"]) / (steady[-1]["seconds"] - steady[0]["seconds"])),
        **tested(model, arguments),
        "validations": [(row["step"], round(row["seconds"] + setup, 1), round(row["valid_loss"], 4),
                         round(row.get("valid_bleu", 0.0), 2)) for row in valid],
        "tables": {name: model.tables[name] for name in ("tokenizer", "model", "training")}, "peer": PEER}


def within(before: dict[str, Any], after: dict[str, Any], valid: list[dict[str, Any]]) -> bool:
    """Whether nothing but training lies between two rows."""
    return not any(before["step"] <= row["step"] < after["step"] for row in valid)


def tested(model: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """The quality on the test set, and how quickly it is translated: the first time, and after that."""
    sources, references = (Path(name).read_text("utf-8").splitlines() for name in arguments.test)

    def sentences_a_second() -> float:
        began = time.monotonic()
        for _ in model.translate(sources, beam=arguments.beam):
            pass
        return len(sources) / (time.monotonic() - began)

    first, *later = (sentences_a_second() for _ in range(1 + TRANSLATIONS))
    return {"beam": arguments.beam, "first": round(first, 1), "sentences_a_second": round(statistics.median(later), 1),
            **model.quality(sources, references, beam=arguments.beam).as_dict()}


if __name__ == "__main__":
    main()
