"""`regard train translate`: from sentence pairs to a translator."""

import click

from regard.families import names
from regard.families.likes import likes_of
from regard.tasks.flags import COMMON, Flag, Like, choice, choose_family, choose_test, one_name

HELP = """Train a translator on sentence pairs: two files line by line, one file of pairs, or the phrasebook.

Pairs may come as .tsv, .jsonl, .tmx, .po, .mo or .parquet, each also gzipped, or as a folder of Hugging Face datasets.
With only those given, everything else is chosen and shown.
"""
LANGS = Flag("--langs", "data.langs", metavar="fr-en",
             help="Source and target language.  [default: from the files' names]")
VALID: list[click.Parameter] = [
    Flag("--valid", "data.valid", nargs=2, metavar="SOURCE TARGET", help="Held-out files.  [default: the last 10%]"),
    Flag("--valid-pairs", "data.valid", metavar="PAIRS", callback=one_name, help="The same, as one file of pairs."),
]
TEST: list[click.Parameter] = [
    choose_test("Files", multiple=False, nargs=2, metavar="SOURCE TARGET"),
    Flag("--test-pairs", "data.test", metavar="PAIRS", callback=one_name, help="The same, as one file of pairs."),
]
# What means the same for summaries.
PAIRS = [
    choose_family("translator", names.TRANSLATE, "transformer"),
    *VALID,
    *TEST,
    Flag("--shared/--separate", "tokenizer.shared", default=None, help="One vocabulary for both languages, or two."),
    Flag("--cell", "model.cell", type=choice("rnn", "relu", "gru", "lstm"), help="Cell of a recurrent translator."),
    Flag("--score", "model.score", help="e(q, k): dot q·k, scaled-dot q·k/sqrt K, bilinear q·Wk, low-rank (Uq)·(Vk), "
         "additive v·tanh(Wq+Uk), location (Wq+b)_l."),
    Flag("--projections", "model.projections", help="q and k before the score: both (W_q s, W_k h), none (states s and "
         "h as they are), auto (recurrent: none but for scaled-dot)."),
    Flag("--when", "model.when", type=choice("before", "after"), help="Attention before the cell, or after it."),
    Flag("--reader", "model.reader", type=choice("attention", "mean", "none"),
         help="How the decoder reads the source."),
    Flag("--feeding", "model.feeding", is_flag=True, default=None,
         help="Input feeding: the attention output is an input of the next step."),
    Flag("--mixer", "model.mixer", help="Mixes the decoder's positions: attention, mamba, linear-rnn, ..."),
    Flag("--batch", "training.batch", type=int, help="Target tokens in a step."),
    *COMMON,
]
PARAMS = [
    click.Argument(["files"], nargs=-1, required=True, metavar="SOURCE TARGET | PAIRS..."),
    LANGS,
    Like(*likes_of("translate")),
    *PAIRS,
]
