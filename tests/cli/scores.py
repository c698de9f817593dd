"""What `score` prints where words are unknown."""

import json

WARNING = ("tokens are <unk>, and the words behind them cost nothing: bits per byte and perplexity a word cannot be "
           "compared with those of another vocabulary")


def warned(regard, *command):
    """The rows of a score that warn, and the same score as JSON."""
    rows = [line for line in regard("score", *command).done().splitlines() if line.startswith("warning")]
    return rows, json.loads(regard("score", *command, "--json").done())
