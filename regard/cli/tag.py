"""`regard tag`: each word of a text with its tag."""

from __future__ import annotations

import click

from regard.cli.classify import read_batches
from regard.cli.options import print_json


@click.command("tag")
@click.argument("run")
@click.argument("file", default="-", metavar="[FILE|-]")
@click.option("--words", is_flag=True, help="Words are separated by spaces already: split at nothing else.")
@click.option("--device", default="auto", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line: words, tags and their probabilities.")
def command(run: str, file: str, words: bool, device: str, as_json: bool) -> None:
    """Tag each line of FILE (or of stdin) with the tagger in the folder RUN: one line in, one line of word/TAG out.

        echo "Her watch is light." | regard tag runs/tagged-tag-lstm
    """
    from regard.corpora.word_split import split_words
    from regard.trained import load

    model = load(run, device, task="tag")
    split = str.split if words else split_words
    for some in read_batches(file, "fail"):
        for found in model.tag_sentences([split(line) for line in some]):
            if as_json:
                print_json({"words": [each.word for each in found], "tags": [each.tag for each in found],
                            "probabilities": [each.probability for each in found]})
            else:
                click.echo(" ".join(f"{each.word}/{each.tag}" for each in found))
