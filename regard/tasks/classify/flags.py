"""`regard train classify`: from labelled texts to a classifier."""

import click

from regard.families import names
from regard.tasks.flags import COMMON, Flag, choose_family, choose_test

HELP = """Train a classifier, which gives a text a label: its language, its topic, what its author thinks.

FILES are .tsv (a label, a tab and a text a line), .csv with a first line that names its columns, .jsonl ({"label": ...,
"text": ...}), .parquet, a folder of Hugging Face datasets, or `origins`, which comes with Regard. With only a file
given, everything else is chosen and shown.
"""
FIELDS = [
    Flag("--label-field", "data.label", metavar="NAME", help="The column or field with the label.  [default: label]"),
    Flag("--text-field", "data.text", metavar="NAME", help="The column or field with the text.  [default: text]"),
    Flag("--valid", "data.valid", multiple=True, metavar="FILE",
         help="Held-out texts.  [default: 10%, drawn at random]"),
    choose_test("Texts"),
]
PARAMS = [
    click.Argument(["files"], nargs=-1, required=True, metavar="FILES..."),
    choose_family("encoder", names.CLASSIFY, "window"),
    *FIELDS,
    Flag("--words", "model.words", type=int, help="Words of a window to either side, the word itself included."),
    Flag("--batch", "training.batch", type=int, help="Texts in a step."),
    *COMMON,
]
