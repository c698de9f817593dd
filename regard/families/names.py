"""Names of the families of each task, for help texts: nothing is imported. A test holds them equal to the tables."""

LANGUAGE = (
    "transformer", "rnn", "gru", "lstm", "average", "window", "linear-rnn", "mamba", "mamba2", "hybrid", "ngram")
MASKED = ("transformer", "rnn")
TRANSLATE = ("transformer", "rnn-attention", "rnn", "prefix")
CAPTION = ("rnn-attention", "transformer")
CLASSIFY = ("average", "window", "rnn", "gru", "lstm", "transformer", "masked")
TAG = ("window", "rnn", "gru", "lstm", "transformer", "masked")
