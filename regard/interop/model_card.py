"""The model card of an export: README.md, written from the settings and measurements of the run, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard import __version__
from regard.config import write_toml
from regard.interop.mixtures import describe_cost
from regard.interop.target import ExportSubject
from regard.run_folder import RunFolder, read_log

SHOWN = ("data", "tokenizer", "model", "training")             # tables of run.toml on the card
OPENING = """from transformers import {auto}, AutoTokenizer

model = {auto}.from_pretrained("{name}")
tokenizer = AutoTokenizer.from_pretrained("{name}")"""
WRITES = """
inputs = tokenizer("{text}", return_tensors="pt")
print(tokenizer.decode(model.generate(**inputs)[0], skip_special_tokens=True))"""


def write_card(subject: ExportSubject, kind: str) -> str:
    """Return the card as Markdown, with the header that the hub reads."""
    seq2seq, writes = getattr(subject.network, "needs_source", False), subject.writes_on
    auto = "AutoModelForSeq2SeqLM" if seq2seq else "AutoModelForCausalLM" if writes else "AutoModelForMaskedLM"
    task = "text-generation" if writes else "fill-mask"
    sections = [
        header([] if seq2seq else [f"pipeline_tag: {task}"]), f"# {subject.name}\n", about(subject, kind),
        "## Use\n\n```python\n" + use(subject, auto) + "\n```\n\n" + frame_note(subject),
        "## Measured\n\n" + measured(subject), imported(subject) or "## Trained\n\n" + trained(subject)]
    return "\n".join(section.strip() + "\n" for section in sections)


def header(more: list[str]) -> str:
    return "\n".join(["---", "library_name: transformers", *more, "tags:", "- regard", "---"])


def about(subject: ExportSubject, kind: str) -> str:
    model = subject.trained
    family = model.task.family(model.family)
    count = sum(tensor.numel() for tensor in subject.network.saved_tensors().values())
    came = "imported" if imported(subject) else "trained"
    return (f"{family.about[0].upper()}{family.about[1:]}. It has {count:,} parameters, was {came} with Regard "
            f"{__version__} and is written here as `{kind}` of transformers.")


def use(subject: ExportSubject, auto: str) -> str:
    text = OPENING.format(auto=auto, name=subject.name)
    return text + WRITES.format(text="Once upon a time") if subject.writes_on else text


def frame_note(subject: ExportSubject) -> str:
    """Return what the tokenizer adds to a text."""
    if subject.found is not None:
        return "The tokenizer is the one that the model came with, and so are its ids."
    if getattr(subject.network, "needs_source", False):
        note = "The tokenizer sets `<eos>` behind a source."
        if not subject.tokenizer.shared:
            note += " The target has a vocabulary of its own: its tokenizer is in `target-tokenizer`."
    elif subject.writes_on:
        note = "The tokenizer sets `<bos>` before a text, as in training."
    else:
        note = "A blank is written as `tokenizer.mask_token_id`."
    return note + " The name of a special token inside a text is ordinary text."


# ------------------------------------------------------------------------------------------- figures


def measured(subject: ExportSubject) -> str:
    """Return a table of what was measured on text that training never read."""
    rows = [*test_rows(subject), *validation_rows(subject)]
    if not rows:
        return "Nothing was measured."
    table = "\n".join(["| figure | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])
    cost = describe_cost(subject)
    return table + (f"\n\n{cost[0].upper()}{cost[1:]}." if cost else "")


def test_rows(subject: ExportSubject) -> list[tuple[str, str]]:
    if subject.trained.path is None:
        return []
    figures = RunFolder(subject.trained.path).read_test() or {}
    return [(f"{spell(name)}, on the test part", number(value)) for name, value in figures.items()
            if value is not None]


def validation_rows(subject: ExportSubject) -> list[tuple[str, str]]:
    """Return the loss of the weights that were kept, by which they were chosen."""
    if subject.trained.path is None:
        return []
    rows, _ = read_log(RunFolder(subject.trained.path).metrics_path)
    losses = [row["valid_loss"] for row in rows if isinstance(row.get("valid_loss"), float)]
    return [("smallest validation loss, nats a token", number(min(losses)))] if losses else []


NAMES = {"loss": "loss, nats a token", "network_loss": "loss of the network alone",
         "ngram_loss": "loss of an n-gram of the same text", "bits_per_byte": "bits per byte",
         "tokens": "tokens measured"}


def spell(name: str) -> str:
    short = name.removeprefix("test_")
    return NAMES.get(short, short.replace("_", " "))


def number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


# ------------------------------------------------------------------------------------------ how it was made


def imported(subject: ExportSubject) -> str:
    """Return the section of a model that was trained elsewhere and not here; nothing for any other."""
    name = subject.tables["run"].get("imported")
    return f"## Imported\n\nBy `regard import {name}`. What it was trained on, the card of that model tells." \
        if name else ""


def trained(subject: ExportSubject) -> str:
    tables = subject.tables
    run, seed = tables["run"], tables.get("training", {}).get("seed", 0)
    files = [Path(str(file)).name for file in tables["data"].get("files", ())]
    mixed = " --mix" if "ngram" in tables else ""
    lines = [f"By `regard train {run['task']} {' '.join(files)} --family {run['family']}{mixed} --seed {seed}`, with "
             "the settings below.", drops(subject), "", "```toml", settings(tables).strip(), "```"]
    return "\n".join(line for line in lines if line is not None)


def drops(subject: ExportSubject) -> str:
    """Return how many lines were read, kept and dropped; the text must be there to be counted."""
    tally = getattr(subject.corpus, "tally", None)
    return "The text is not here any more, so that dropped lines were not counted." if tally is None \
        else f"Of its text: {tally.line()}."


def settings(tables: dict[str, dict[str, Any]]) -> str:
    """Return the settings as TOML; of files only the names, not where they lay."""
    shown = {name: dict(tables[name]) for name in SHOWN if name in tables}
    for name in ("files", "valid", "test"):
        if name in shown.get("data", {}):
            shown["data"][name] = [Path(str(file)).name for file in shown["data"][name]]
    return write_toml(shown)
