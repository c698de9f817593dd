"""`regard train lm`: from text files to a language model."""

import click

from regard.families import names
from regard.families.likes import likes_of
from regard.tasks.flags import COMMON, TEXT, Flag, Like, choice, choose_family

FAMILIES = ", ".join(names.LANGUAGE)

HELP = """Train a language model on text: files, folders, or the name of an embedded corpus (stories, ab, sally).

Files may be .jsonl, .parquet or .arrow, each also gzipped; a folder may be one that Hugging Face datasets saved.

With only a file given, everything else is chosen for the text and the machine, and shown.
"""
PARAMS = [
    choose_family("model", names.LANGUAGE, "transformer", ", or module:Layer"),
    click.Option(["--mix/--no-mix"], default=None,
                 help="Mix the model with an n-gram of the same text.  [default: --mix, unless --family is given]"),
    Like(*likes_of("lm")),
    *TEXT,
    Flag("--order", "model.order", type=int, help="n of an n-gram or a window."),
    Flag("--smoothing", "model.smoothing", type=choice("kneser-ney", "add-k", "none"), help="Smoothing of an n-gram."),
    Flag("--prune", "model.prune", metavar="0,0,1", help="Leave out n-grams seen at most so often, order by order."),
    Flag("--pattern", "model.pattern", help="Layers of a hybrid, e.g. mamba,mamba,attention."),
    click.Option(["--trust"], is_flag=True, help="Import the code that a run to go on with is made of."),
    *COMMON,
]
