"""The tables of docs/performance.md, from the files that the benches wrote: no figure is typed by hand.

    python bench/table.py                  print them
    python bench/table.py --write          put them into docs/performance.md, between its marks
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "results", HERE.parent / "docs" / "performance.md"
OTHERS = sorted(RESULTS.glob("gpt2-*.json"))           # the same on other machines, whose limits of power differ


@dataclass(frozen=True)
class Row:
    work: str
    peer: str                              # what it is compared with, and its figure
    asked: str                             # what was set out to reach
    ours: Callable[[], str | None]         # from the files; None: not measured yet
    command: str


def kept(name: str) -> Any:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def gpt2(rows: int) -> str | None:
    runs = [run for run in (kept("gpt2") or {"runs": []})["runs"] if run["rows"] == rows]
    others = [run["tokens_a_second"] for path in OTHERS for run in json.loads(path.read_text())["runs"]
              if run["rows"] == rows]
    also = f"; on {len(others)} other machines {min(others):,} to {max(others):,}" if others else ""
    return "; ".join(f"{run['tokens_a_second']:,} tokens/s in {run['peak_gb']} GB ({run['ratio']} of the peer)"
                     for run in runs) + also or None


def shakespeare() -> str | None:
    run = kept("gpu_lm")
    if run is None or "seconds_to_nanogpts_best_after_compiling" not in run:
        return None
    return f"{run['seconds_to_nanogpts_best_after_compiling']} s, best {run['best_valid_loss']:.4f}"


def translated(*parts: Callable[[dict[str, Any]], str]) -> Callable[[], str | None]:
    def told() -> str | None:
        run = kept("translate")
        return None if run is None else ", ".join(part(run) for part in parts)

    return told


def mamba() -> str | None:
    runs = [run for run in (kept("mamba") or {"train": []})["train"]
            if run.get("train") == "channel" and "tokens_a_second" in run]
    best = max(runs, key=lambda run: run["tokens_a_second"], default=None)
    return None if best is None else f"{best['tokens_a_second']:,} tokens/s"


def mamba2() -> str | None:
    run = kept("mamba2") or {}
    best = max((each["tokens_a_second"] for each in run.get("train", ())
                if each.get("train") == "mamba2" and "tokens_a_second" in each), default=None)
    return None if best is None or not run.get("times mamba") else (
        f"{best:,} tokens/s, {run['times mamba']:.2f} of `mamba` in the same command")


def scan() -> str | None:
    paths = (kept("scan") or {"paths": []})["paths"]
    found = {tuple(row["shape"]): row for row in paths if row["path"] == "scan"}
    both = [found[shape] for shape in ((8, 2048, 1024), (8, 16384, 1024)) if shape in found]
    if len(both) < 2:
        return None
    recorded, called = (" / ".join(f"{each[name]:.2f}" for each in both) for name in ("recorded_ms", "both_ms"))
    return f"{recorded} ms recorded, as in training of small models; {called} ms called from Python"


def written(streams: int) -> Callable[[], str | None]:
    def told() -> str | None:
        runs = [run for run in (kept("generate") or {"gpt2": []})["gpt2"] if run["streams"] == streams]
        return ", ".join(f"{run['tokens_a_second']:,} ({run['way']})" for run in runs) or None

    return told


ON_GPU = (
    Row("GPT-2's size, 64 x 1,024, bfloat16, AdamW, compiled", "nanoGPT 537,000 tokens/s, 28.9 GB", "620,000 in 20 GB",
        lambda: gpt2(64), "bench/gpt2.py"),
    Row("the same at 32 x 1,024", "nanoGPT 523,000", "600,000", lambda: gpt2(32), "bench/gpt2.py"),
    Row("until nanoGPT's best loss on Shakespeare, 1.4577", "about 55 s", "20 s after compiling, best below 1.44",
        shakespeare, "bench/gpu_lm.py"),
    Row("Multi30k French to English: training", "JoeyNMT 45,000 target tokens/s", "400,000",
        translated(lambda run: f"{run.get('train_tokens_a_second', 0):,} tokens/s"), "bench/translate.py"),
    Row("the same: quality", "JoeyNMT 46.6 BLEU in 500 s", "46.6 in 60 s",
        translated(lambda run: f"{run['bleu']:.1f} BLEU in {run['wall_seconds']} s"), "bench/translate.py"),
    Row("the same: beam 5", "JoeyNMT 98 to 125 sentences/s", "2,000",
        translated(lambda run: f"{run['sentences_a_second']:,.0f} sentences/s"), "bench/translate.py"),
    Row("Mamba, 24 x 768", "transformers 188 tokens/s", "150,000", mamba, "bench/mamba.py"),
    *(() if kept("mamba2") is None else (
        Row("Mamba-2, 24 x 768", "`mamba` at the same width", "2 of `mamba`", mamba2, "bench/mamba.py"),)),
    Row("scan of a linear RNN, both ways, 8x2048x1024 / 8x16384x1024", "flash-linear-attention 0.95 / 2.80 ms",
        "0.5 / 2.2 ms", scan, "bench/scan.py"),
    Row("GPT-2's size, writing, 1 text", "transformers and nanoGPT 11 tokens/s", "2,000", written(1),
        "bench/generate.py"),
    Row("the same, 64 texts", "transformers 714, nanoGPT 1,046", "80,000", written(64), "bench/generate.py"),
)


def table(rows: tuple[Row, ...]) -> str:
    lines = ["| work | peer | set out for | ours | command |", "|---|---|---|---|---|"]
    lines += [f"| {row.work} | {row.peer} | {row.asked} | {row.ours() or 'not measured'} | `{row.command}` |"
              for row in rows]
    return "\n".join(lines)


def machine() -> str:
    told = [f"{product(run['calibration'])} and {run['calibration']['copy_tb_s']} TB/s beside `{name}`"
            for name in ("gpt2", *(path.stem for path in OTHERS), "generate", "mamba")
            if (run := kept(name)) and "calibration" in run]
    first = kept("gpt2") or {}
    return (f"{first.get('device')}, torch {first.get('torch')}; a large bfloat16 product and a large copy: "
            f"{', '.join(told)}.")


def drafts_on(names: tuple[str, ...], kinds: dict[str, str]) -> str:
    """What speculative generation gained on a machine with these kinds of drafts: too little, so that it is gone."""
    runs = [run for name in names if (run := kept(name))]
    rows = [row for run in runs for row in run["texts"] if row["draft"] in kinds]
    if not rows:
        return ""
    ratios = {how: [row["ratio"] for row in rows if row["how"] == how] for how in ("greedy", "sampled")}
    gained = ", ".join(f"{how} {min(each):.2f} to {max(each):.2f}" for how, each in ratios.items())
    first = runs[0]
    median = statistics.median(row["ratio"] for row in rows)
    return (f"\n\nSpeculative generation, measured before it was taken out ({first['parameters']:,} parameters): a "
            f"pass over 9 tokens took {first['pass']:.2f} passes over one. With drafts {' or '.join(kinds.values())}, "
            f"it wrote so many times as fast as without: {gained}; the median of {len(rows)} is {median:.2f} "
            "([log](log.md)).")


def product(calibration: dict[str, float]) -> str:
    longer = calibration.get("tflops_sustained")
    return f"{calibration['tflops']} TFLOP/s" + (f" ({longer} for seconds on end)" if longer else "")


def cpu_rows() -> str:
    """Work, peer, how many times as fast as it we are (and in which of the rounds least and most), what was set out."""
    lines = ["| work | peer | times as fast | set out for | command |", "|---|---|---|---|---|"]
    lines += [f"| {work} | {peer} | {ratio} | {asked} | `bench/{name}.py` |"
              for work, peer, ratio, asked, name in [*training_on_cpu(), *joey(), *marian()]]
    names = {name: run["cpu"] for name in ("cpu_peers", "translate_cpu", "marian_cpu")
             if (run := kept(name)) and "cpu" in run}
    told = [f"{cpu} ({', '.join(f'`{name}`' for name, own in names.items() if own == cpu)})"
            for cpu in dict.fromkeys(names.values())]
    return "\n".join(lines) + (f"\n\nMeasured on {'; '.join(told)}." if told else "")


Cells = tuple[str, str, str, str, str]


def spread(found: dict[str, Any]) -> str:
    return f"{found['ratio']:.2f} ({found['lowest']:.2f} to {found['highest']:.2f})"


def training_on_cpu() -> list[Cells]:
    run = kept("cpu_peers") or {}
    works = {"nanogpt": ("nanoGPT's CPU setting", "the same of torch.nn"),
             "lstm": ("LSTM, 2 x 200, 20 x 35 words of Multi30k", "torch.nn.LSTM")}
    return [(*told, spread(run[name]) + most(run[name]), str(run[name]["bar"]), "cpu_peers")
            for name, told in works.items() if name in run]


def most(found: dict[str, Any]) -> str:
    told = {"compiled": "compiled", "kernels_alone": "the kernels of both alone"}
    return "".join(f"; {words}: {found[name]:.2f}" for name, words in told.items() if name in found)


def joey() -> list[Cells]:
    run, rows = kept("translate_cpu") or {}, []
    for part, name, asked in (("train", "tokens_a_second", "2.5"), ("decode", "sentences_a_second", "4")):
        if f"regard_{name}_ratio" in run.get(part, {}):
            low, high = run[part][f"regard_{name}_ratio_range"]
            work = "3+3 x 256 on Multi30k: " + ("training" if part == "train" else "beam 5")
            ratio = f"{run[part][f'regard_{name}_ratio']:.2f} ({low:.2f} to {high:.2f})"
            rows.append((work, "JoeyNMT", ratio, asked, "translate_cpu"))
    return rows


def marian() -> list[Cells]:
    run, rows = kept("marian_cpu") or {}, []
    for beam in (1, 5):
        for peer, found in run.get(f"beam {beam}", {}).items():
            if peer.startswith("against ") and "ratio" in found:
                alone = "".join(f"; our {each} alone: {found[f'{each}_alone']:.2f}" for each in ("kernels", "products")
                                if f"{each}_alone" in found)
                rows.append((f"61M translator, beam {beam}", peer.removeprefix("against "), spread(found) + alone,
                             str(found.get("bar", "")), "marian_cpu"))
    return rows


MODELS = {"gpt2": "GPT-2", "marian": "Marian"}


def imports() -> str:
    """Large models of other programs: seconds to import and to look, medians, and how far they are from there."""
    run = kept("interop/import") or {}
    lines = ["| model | parameters | `regard import` | a look at so many tokens | largest difference | first loss of "
             "fine-tuning differs by |", "|---|---|---|---|---|---|"]
    for name, told in MODELS.items():
        if (found := run.get(name)) is not None:
            lines.append(f"| {told} | {found['parameters']:,} | {statistics.median(found['command_seconds']):.1f} s | "
                         f"{found['look_tokens']}: {statistics.median(found['look_seconds']):.2f} s | "
                         f"{found['largest_difference']:.1e} | {found['loss_difference']:.1e} |")
    about = (f"\n\nOn {run['threads']} threads of a machine with a load of {run['load_before']} before, transformers "
             f"{run['transformers']}, by `bench/imports.py`.") if run else ""
    return "\n".join(lines) + about


def exports() -> str:
    """What commands trained, where it went, and whether it writes the same there."""
    run = kept("interop/commands") or {"rows": []}
    lines = ["| command | what it wrote | MB | seconds | largest difference | there |", "|---|---|---|---|---|---|"]
    for row in run["rows"]:
        cells = [f"`{row['command']}`", row.get("kind", ""), f"{row['bytes'] / 1e6:.1f}" if "bytes" in row else "",
                 f"{row['seconds']}", "" if row.get("difference") is None else f"{row['difference']:.1e}", there(row)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n\nBy `bench/interop_commands.py`."


def there(row: dict[str, Any]) -> str:
    told = [{True: "the same text", False: "another text"}[row["same"]]] if "same" in row else []
    told += [f"{row['same_lines']} of 100 lines the same"] if "same_lines" in row and "same" not in row else []
    return ", ".join(told + ([f"BLEU {row['bleu']:.1f}"] if "bleu" in row else []))


def minutes() -> str:
    """What the main command, with everything left to it, made of its minutes."""
    path = RESULTS / "worth.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    lines = ["| text | minutes | on | score | the n-gram alone | took, of the budget | in steps |",
             "|---|---|---|---|---|---|---|"]
    for row in sorted(rows, key=lambda row: (row["text"], "gpu" in row, row["minutes"])):
        on = row.get("gpu", row["cpu"].split(",")[0] + ", 2 cores") + (" beside a busy process" if row["busy"] else "")
        counted = f"{row['n-gram']['bits_per_byte']:.3f}" if "n-gram" in row else ""
        score = f"BLEU {row['bleu']:.1f}" if "bleu" in row else (
            f"{row['bits_per_byte']:.3f} bits per byte, {row['loss']:.3f} nats a token")
        cells = [row["text"], f"{row['minutes']:g}", on, score, counted, f"{row['of_the_budget']:.1%}",
                 f"{row['in_steps']:.0%}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + ("\n\nBy `bench/worth.py`, on a part that nothing was chosen by; `code` is 60 MB of "
                              "Python, `flickr2016` Multi30k as it was published, with its test of 2016.")


GPU_DRAFTS = ("speculate_gpt2_story", "speculate_gpt2_code"), {"prompt": "looked up in the text, on the device"}
CPU_DRAFTS = ("speculate_cpu",), {"prompt": "looked up in the text", "ngram (prompt)": "by an n-gram counted on it"}
SECTIONS: dict[str, Callable[[], str]] = {
    "gpu": lambda: f"{table(ON_GPU)}\n\n{machine()}{drafts_on(*GPU_DRAFTS)}",
    "cpu": lambda: cpu_rows() + drafts_on(*CPU_DRAFTS),
    "minutes": minutes, "in": imports, "out": exports}


def filled(page: str) -> str:
    for name, make in SECTIONS.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        page = re.sub(f"{begin}.*?{end}", lambda _: f"{begin}\n{make()}\n{end}", page, flags=re.DOTALL)  # noqa: B023
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        PAGE.write_text(filled(PAGE.read_text()))
    else:
        print("\n\n".join(make() for make in SECTIONS.values()))


if __name__ == "__main__":
    main()
