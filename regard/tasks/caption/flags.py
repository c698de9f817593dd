"""`regard train caption`: from captioned pictures to a captioner."""

import click

from regard.families import names
from regard.tasks.flags import COMMON, Flag, choice, choose_family, one_name

HELP = """Train a captioner on a folder of pictures with captions.tsv or captions.jsonl in it, or on `shapes`.

captions.tsv has a file name, a tab and a caption a line; captions.jsonl {"image": ..., "caption": ...}.
"""
PARAMS = [
    click.Argument(["files"], nargs=-1, required=True, metavar="FOLDER|CAPTIONS"),
    choose_family("captioner", names.CAPTION, "rnn-attention"),
    Flag("--valid", "data.valid", metavar="FOLDER|CAPTIONS", callback=one_name,
         help="Held-out pictures.  [default: the last 10%]"),
    Flag("--image", "data.size", "model.image", type=int,
         help="Pixels along a side, to which pictures are brought.  [default: 48]"),
    Flag("--patch", "model.patch", type=int, help="Pixels along a side of a patch.  [default: 8]"),
    Flag("--stem", "model.stem", type=choice("linear", "conv"), help="How a patch becomes a vector."),
    Flag("--encoder-layers", "model.encoder_layers", type=int, help="Blocks of attention over the patches."),
    Flag("--cell", "model.cell", type=choice("rnn", "relu", "gru", "lstm"), help="Cell of a recurrent decoder."),
    Flag("--score", "model.score", help="e(q, k): dot, scaled-dot, bilinear, low-rank, additive, location."),
    Flag("--when", "model.when", type=choice("before", "after"), help="Attention before the cell, or after it."),
    Flag("--reader", "model.reader", type=choice("attention", "mean", "none"), help="How the decoder reads."),
    Flag("--on-bad-image", "data.on_bad_image", type=choice("fail", "drop"), help="What to do with broken pictures."),
    Flag("--batch", "training.batch", type=int, help="Tokens of captions in a step."),
    *COMMON,
]
