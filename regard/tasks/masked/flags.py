"""`regard train masked`: from text files to a model that fills blanks."""


from regard.families import names
from regard.families.likes import likes_of
from regard.tasks.flags import COMMON, TEXT, Flag, Like, choice, choose_family

HELP = """Train a model that tells hidden tokens from both sides: to fill blanks, and to give texts vectors.

Of the tokens 15% are hidden, others each time. With only a file given, everything else is chosen and shown.
"""
PARAMS = [
    choose_family("encoder", names.MASKED, "transformer"),
    Like(*likes_of("masked")),
    *TEXT,
    Flag("--cell", "model.cell", type=choice("rnn", "gru", "lstm"), help="Cell of a recurrent encoder."),
    *COMMON,
]
