"""`regard train`: from text files to a run folder."""

from __future__ import annotations

from typing import Any, ClassVar

import click

from regard.families import names

FAMILIES = ", ".join(names.LANGUAGE)
TOKENIZERS = ("auto", "char", "byte", "whitespace", "word", "bpe", "unigram")

# flag -> (table, setting) of run.toml, so that a flag and --set are the same thing
FLAGS = {
    "tokenizer": ("tokenizer", "kind"), "vocab": ("tokenizer", "vocab"),
    "documents": ("data", "documents"), "on_bad_text": ("data", "on_bad_text"), "valid": ("data", "valid"),
    "layers": ("model", "layers"), "width": ("model", "width"), "heads": ("model", "heads"),
    "hidden": ("model", "hidden"), "context": ("model", "context"), "order": ("model", "order"),
    "smoothing": ("model", "smoothing"), "prune": ("model", "prune"),
    "pattern": ("model", "pattern"),
    "dropout": ("model", "dropout"), "batch": ("training", "batch"), "steps": ("training", "steps"),
    "tokens": ("training", "tokens"), "minutes": ("training", "minutes"), "rate": ("training", "learning_rate"),
    "seed": ("training", "seed"),
}


class Count(click.ParamType):
    """A number of things, as people write it: 1000000, 1,000,000, 500k, 1.5M."""

    name = "count"
    thousands: ClassVar = {"k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).lower().replace(",", "").replace("_", "")
        times = self.thousands.get(text[-1:], 1)
        try:
            number = float(text[:-1] if times > 1 else text) * times
            if not 1 <= number < 2**63 or number != int(number):
                raise ValueError
        except (ValueError, OverflowError):
            self.fail(f"{value} is not a number of things: write it as 1000000, 500k or 1.5M", param, ctx)
        return int(number)


COUNT = Count()


@click.group("train")
def command() -> None:
    """Train a model: from text files, or from sentence pairs."""


@command.command("lm")
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@click.option("--family", help=f"Kind of model: {FAMILIES}, or module:Layer.  [default: transformer]")
@click.option("--out", metavar="FOLDER", help="Run folder.  [default: runs/FILE-FAMILY or FILE-TASK-FAMILY]")
@click.option("--valid", multiple=True, metavar="FILE", help="Held-out text.  [default: the last 10%]")
@click.option("--tokenizer", type=click.Choice(TOKENIZERS), help="How text becomes tokens.  [default: chosen]")
@click.option("--vocab", type=int, help="Vocabulary size.  [default: chosen]")
@click.option("--documents", type=click.Choice(["auto", "file", "line", "blank-line"]), help="What one document is.")
@click.option("--on-bad-text", type=click.Choice(["fail", "replace", "drop"]), help="What to do with bad UTF-8.")
@click.option("--params", type=COUNT, metavar="N", help="How many parameters, e.g. 1M or 500k.  [default: chosen]")
@click.option("--layers", type=int)
@click.option("--width", type=int, help="Width of the vectors.")
@click.option("--heads", type=int, help="Attention heads.")
@click.option("--hidden", type=int, help="Width of a recurrent state.")
@click.option("--context", type=int, help="Tokens read at once.")
@click.option("--order", type=int, help="n of an n-gram or a window.")
@click.option("--smoothing", type=click.Choice(["kneser-ney", "add-k", "none"]), help="Smoothing of an n-gram.")
@click.option("--prune", metavar="0,0,1", help="Leave out n-grams seen at most so often, order by order.")
@click.option("--pattern", help="Layers of a hybrid, e.g. mamba,mamba,attention.")
@click.option("--dropout", type=float)
@click.option("--batch", type=int, help="Rows in a step.")
@click.option("--rate", type=float, help="Learning rate.")
@click.option("--steps", type=int, help="Budget in steps ...")
@click.option("--tokens", type=int, help="... or in tokens ...")
@click.option("--minutes", type=float, help="... or in minutes.  [default: 5]")
@click.option("--seed", type=int)
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, ...")
@click.option("--resume", is_flag=True, help="Go on with the run in --out.")
@click.option("--start-over", is_flag=True, help="With --resume: from step 0 if no checkpoint is left.")
@click.option("--from", "base", metavar="RUN", help="Begin with the weights of another run.")
@click.option("--trust", is_flag=True, help="Import the code that a run to go on with is made of.")
@click.option("--set", "assignments", multiple=True, metavar="TABLE.NAME=VALUE", help="Any setting of run.toml.")
@click.option("--tensorboard", is_flag=True, help="Also write TensorBoard logs.")
@click.option("--quiet", is_flag=True)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def lm(files: tuple[str, ...], assignments: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Train a language model on text: files, folders, or the name of an embedded corpus (stories, ab, sally).

    With only a file given, everything else is chosen for the text and the machine, and shown.
    """
    from regard.training.run import Order, carry_out

    tables = settings_from(options, assignments)
    trained = carry_out(Order(files, settings=tables, **{k: v for k, v in options.items() if k not in FLAGS}))
    if as_json:
        from regard.cli.output import print_json

        print_json({"run": str(trained.path), "family": trained.family, "parameters": trained.parameters,
                    **last_metrics(trained)})


def settings_from(options: dict[str, Any], assignments: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Flags and --set as tables of settings; --set wins."""
    from regard.config import parse_assignments

    tables: dict[str, dict[str, Any]] = {}
    for flag, (table, name) in FLAGS.items():
        if options.get(flag) not in (None, ()):
            tables.setdefault(table, {})[name] = options[flag]
    for table, values in parse_assignments(assignments).items():
        tables.setdefault(table, {}).update(values)
    return tables


def last_metrics(trained: Any) -> dict[str, Any]:
    from regard.run_folder import METRICS, read_log
    from regard.training.loop import JUDGED

    rows, _ = read_log(trained.path / METRICS)              # just written, or cut when the run was resumed
    best = min((row for row in rows if "valid_loss" in row),
               key=lambda row: (-sum(row.get(name, 0.0) for name in JUDGED), row["valid_loss"]))
    return {"step": rows[-1]["step"], "tokens": rows[-1]["tokens"], "seconds": rows[-1]["seconds"],
            "valid_loss": best["valid_loss"], "best_step": best["step"],
            **{name: best[name] for name in (*JUDGED, "impossible", "first_impossible") if name in best}}


# The other tasks take their options from `lm`.
from regard.cli import train_caption, train_masked, train_summarise, train_translate  # noqa: E402, F401
