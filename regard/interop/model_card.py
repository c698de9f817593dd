"""The model card of an export or a push: README.md, from the settings and measurements of the run, and nothing else."""

from __future__ import annotations

import math
import shlex
from pathlib import Path, PureWindowsPath
from typing import Any

from regard import __version__
from regard.config import fill, write_toml
from regard.data.reading.corpus import Corpus
from regard.interop.mixtures import describe_cost
from regard.interop.target import ExportSubject
from regard.metrics.intervals import LEVEL
from regard.run_folder import RunFolder, read_log
from regard.tasks.last_measure import MOST_TOKENS
from regard.training.settings import TrainingSettings

SHOWN = ("data", "tokenizer", "model", "training")             # tables of run.toml on the card
OPENING = """from transformers import {auto}, AutoTokenizer

model = {auto}.from_pretrained("{name}")
tokenizer = AutoTokenizer.from_pretrained("{name}")"""
PLACES = {"data": ("files", "valid", "test"), "run": ("from",)}          # settings that name files or folders
PULL = """pip install 'regard[hub]'
regard pull {name} -o runs/{short}
{used_by}"""
WRITES = """
inputs = tokenizer("{text}", return_tensors="pt")
print(tokenizer.decode(model.generate(**inputs)[0], skip_special_tokens=True))"""


def write_card(subject: ExportSubject, kind: str | None, pushed: bool = False) -> str:
    """Return the card as Markdown, with the header that the hub reads.

    `kind` is the class of transformers that opens it; None: none does. What is `pushed` can be pulled again."""
    sections = [header(subject, kind), f"# {subject.name}\n", about(subject, kind), "## Use"]
    if kind is not None:
        sections += ["```python\n" + use(subject) + "\n```", frame_note(subject)]
    if pushed:
        sections.append("```sh\n" + pull(subject) + "\n```")
    sections += ["## Measured\n\n" + measured(subject, pushed),
                 imported(subject) or "## Trained\n\n" + trained(subject)]
    return "\n".join(section.strip() + "\n" for section in sections)


def header(subject: ExportSubject, kind: str | None) -> str:
    lines = [f"library_name: {'regard' if kind is None else 'transformers'}"]
    if kind is not None and not getattr(subject.network, "needs_source", False):
        lines.append(f"pipeline_tag: {'text-generation' if subject.writes_on else 'fill-mask'}")
    return "\n".join(["---", *lines, "tags:", "- regard", "---"])


def about(subject: ExportSubject, kind: str | None) -> str:
    model = subject.trained
    family = model.task.family(model.family)
    count = sum(tensor.numel() for tensor in subject.network.saved_tensors().values())
    written = f" and is written here as `{kind}` of transformers" if kind is not None else ""
    came = "imported" if imported(subject) else "trained"
    return (f"{family.about[0].upper()}{family.about[1:]}. It has {count:,} parameters{written}. It was {came} with "
            f"Regard {__version__}.")


def use(subject: ExportSubject) -> str:
    seq2seq, writes = getattr(subject.network, "needs_source", False), subject.writes_on
    auto = "AutoModelForSeq2SeqLM" if seq2seq else "AutoModelForCausalLM" if writes else "AutoModelForMaskedLM"
    text = OPENING.format(auto=auto, name=subject.name)
    return text + WRITES.format(text="Once upon a time") if subject.writes_on else text


def pull(subject: ExportSubject) -> str:
    """Return the commands that bring the run back and use it."""
    short = subject.name.rpartition("/")[2]
    return PULL.format(name=subject.name, short=short, used_by=subject.trained.task.card.used_by.partition(",")[0]
                       + f" runs/{short}")


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


def measured(subject: ExportSubject, pushed: bool) -> str:
    """Return a table of what was measured on text that training never read; where it is `pushed`, with a baseline."""
    rows = [*test_rows(subject), *(baseline_rows(subject) if pushed else []), *validation_rows(subject)]
    if not rows:
        return "Nothing was measured."
    table = "\n".join(["| figure | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])
    cost = describe_cost(subject)
    return table + (f"\n\n{cost[0].upper()}{cost[1:]}." if cost else "")


def test_rows(subject: ExportSubject) -> list[tuple[str, str]]:
    if subject.trained.path is None:
        return []
    figures = read_figures(subject)
    over = figures.pop("test_interval_over", "")
    between = {name.removesuffix(INTERVAL): value for name, value in figures.items() if name.endswith(INTERVAL)}
    return [(f"{spell(name)}, on the test part", number(value) + spell_between(between.get(name), over))
            for name, value in figures.items() if value is not None and not name.endswith(INTERVAL)]


def read_figures(subject: ExportSubject) -> dict[str, Any]:
    """Return the figures of the test part; none of a model without a run."""
    return {} if subject.trained.path is None else RunFolder(subject.trained.path).read_test() or {}


def spell_between(between: list[float] | None, over: str) -> str:
    return "" if between is None else (
        f" ({number(between[0])} to {number(between[1])}, {LEVEL:.0%} over {over})")


def baseline_rows(subject: ExportSubject) -> list[tuple[str, str]]:
    """Return the loss of an n-gram of the same text, counted now, beside a network that is not mixed with one."""
    mixing, name = subject.trained.task.mixing, f"{NAMES['ngram_loss']}, on the test part"
    if mixing is None or subject.trained.learner is None or "test_ngram_loss" in read_figures(subject):
        return []
    corpus: Corpus | None = subject.corpus
    if corpus is None or corpus.test is None:
        return [(name, "not measured: " + ("its text is not here any more" if corpus is None else
                                           "there was no test part"))]
    training = fill(TrainingSettings, subject.tables["training"], "training")
    model = mixing.count(mixing.settings(), corpus, training)
    shard = corpus.test().first(MOST_TOKENS)
    scores = model.score_text(shard.tokens, shard.ends if training.reading == "documents" else None)
    return [(name, number(-float(scores.double().mean())))]


def validation_rows(subject: ExportSubject) -> list[tuple[str, str]]:
    """Return the loss of the weights that were kept, by which they were chosen."""
    if subject.trained.path is None:
        return []
    rows, _ = read_log(RunFolder(subject.trained.path).metrics_path)
    losses = [row["valid_loss"] for row in rows if isinstance(row.get("valid_loss"), float)]
    return [("smallest validation loss, nats a token", number(min(losses)))] if losses else []


INTERVAL = "_interval"
NAMES = {"loss": "loss, nats a token", "network_loss": "loss of the network alone",
         "ngram_loss": "loss of an n-gram of the same text", "bits_per_byte": "bits per byte",
         "tokens": "tokens measured", "bleu": "BLEU", "rouge": "ROUGE-L", "accuracy": "accuracy in percent"}


def spell(name: str) -> str:
    short = name.removeprefix("test_")
    return NAMES.get(short, short.replace("_", " "))


def number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}" if math.isfinite(value) else "infinite"


# ------------------------------------------------------------------------------------------ how it was made


def imported(subject: ExportSubject) -> str:
    """Return the section of a model that was trained elsewhere and not here; nothing for any other."""
    name = subject.tables["run"].get("imported")
    return f"## Imported\n\nBy `regard import {name}`. What it was trained on, the card of that model tells." \
        if name else ""


def trained(subject: ExportSubject) -> str:
    tables = strip_places(subject.tables)
    lines = [f"By `{command(tables)}`, with the settings below. {seeds(tables)}", drops(subject), digest(tables), "",
             "```toml", settings(tables).strip(), "```"]
    return "\n".join(line for line in lines if line is not None)


def command(tables: dict[str, dict[str, Any]]) -> str:
    """Return the command that trained it, in one line of printable characters."""
    run, seed = tables["run"], tables.get("training", {}).get("seed", 0)
    begun = f" --from {shlex.quote(str(run['from']))}" if run.get("from") else ""
    words = " ".join(shlex.quote(str(file)) for file in tables["data"].get("files", ()))
    mixed = " --mix" if "ngram" in tables else ""
    text = f"regard train {run['task']} {words} --family {run['family']}{mixed}{begun} --seed {seed}"
    return "".join(each if each.isprintable() and each != "`" else "?" for each in text)


def seeds(tables: dict[str, dict[str, Any]]) -> str:
    if "imported" in tables["run"] or not tables.get("training", {}).get("steps"):
        return ""
    return ("This is one run, with one seed: intervals are over the text that was measured, and do not say what "
            "another seed would give.")


def digest(tables: dict[str, dict[str, Any]]) -> str | None:
    """Return the hash of the data, which `regard train --resume` compares."""
    content = tables["data"].get("content")
    return f"The hash of all that was read is `{content}`." if content else None


def drops(subject: ExportSubject) -> str:
    """Return how many lines were read, kept and dropped; the text must be there to be counted."""
    tally = getattr(subject.corpus, "tally", None)
    return "The text is not here any more, so that dropped lines were not counted." if tally is None \
        else f"Of its text: {tally.line()}."


def settings(tables: dict[str, dict[str, Any]]) -> str:
    """Return the settings as TOML."""
    return write_toml({name: tables[name] for name in SHOWN if name in tables})


def strip_places(tables: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the tables with the names of files and folders, and not where they lay."""
    stripped = {table: dict(values) for table, values in tables.items()}
    for table, names in PLACES.items():
        for name in set(names) & set(stripped.get(table, {})):
            value = stripped[table][name]
            stripped[table][name] = [last_part(str(each)) for each in value] if isinstance(value, list | tuple) \
                else value and last_part(str(value))
    return stripped


def last_part(path: str) -> str:
    """Return the name of a file, whatever the system that wrote the path."""
    return PureWindowsPath(Path(path).name).name or path
