"""`regard train tag`: from tagged sentences to a tagger."""

import click

from regard.families import names
from regard.tasks.flags import COMMON, Flag, choose_family, choose_test

HELP = """Train a tagger, which gives each word of a text a label: its part of speech, or a kind of name.

FILES are .conll or .tsv (a word, a tab and its tag a line, a blank line between sentences), .conllu, .txt (word/TAG),
.jsonl ({"words": [...], "tags": [...]}), .parquet or a folder of Hugging Face datasets with such columns, or `tagged`,
which comes with Regard.
"""
PARAMS = [
    click.Argument(["files"], nargs=-1, required=True, metavar="FILES..."),
    choose_family("encoder", names.TAG, "lstm"),
    Flag("--text-field", "data.text", metavar="NAME", help="The column or field with the words.  [default: words]"),
    Flag("--label-field", "data.label", metavar="NAME", help="The column or field with the tags.  [default: tags]"),
    Flag("--valid", "data.valid", multiple=True, metavar="FILE",
         help="Held-out sentences.  [default: 10%, drawn at random]"),
    choose_test("Sentences"),
    Flag("--words", "model.words", type=int, help="Words of a window to either side, the word itself included."),
    Flag("--batch", "training.batch", type=int, help="Sentences in a step."),
    *COMMON,
]
