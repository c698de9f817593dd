"""Settings of small models drawn at random, for every family: each field from a few values that tell layers apart.

`choose` takes a list and gives one of it: `random.Random(seed).choice`, or a draw of Hypothesis, which shrinks.
"""

from dataclasses import fields

from regard.errors import SettingError
from regard.families.hybrid import MIXERS
from regard.families.linear_rnn import FORMS
from regard.families.transformer import EMBEDDING_SCALES, POSITIONS
from regard.layers.attentive import CELLS, READERS, WHEN
from regard.layers.feedforward import ACTIVATIONS
from regard.layers.norms import NORMS
from regard.layers.perceptron import NONLINEARITIES as PERCEPTRON
from regard.layers.projections import BIASES, NONLINEARITIES, PROJECTIONS
from regard.layers.recurrent import INITIAL
from regard.layers.scores import ALL_SCORES
from regard.layers.stack import PLACEMENTS
from regard.layers.state_space import DECAYS
from regard.models.ngram.model import SMOOTHINGS
from regard.models.vision import GRIDS, STEMS

BOTH = (False, True)
# The first value of each is the plainest: Hypothesis shrinks towards it.
VALUES = {
    "layers": (1, 2), "decoder_layers": (0, 1, 2), "encoder_layers": (0, 1), "width": (2, 4, 6, 8, 3, 1, 12),
    "hidden": (2, 3, 4, 7, 8), "context": (8, 9, 16, 33), "heads": (1, 2, 3, 4), "head_width": (0, 0, 2, 4),
    "value_width": (0, 0, 1, 3), "kv_heads": (0, 1, 2), "window": (0, 1, 2, 5), "norm": NORMS, "eps": (1e-5, 1e-2),
    "activation": tuple(ACTIVATIONS), "expand": (2.0, 0.5, 1.0, 4.0), "bias": BIASES, "positions": POSITIONS,
    "rotary_base": (10000.0, 3.0), "rotary_share": (1.0, 0.5), "embedding_scale": EMBEDDING_SCALES,
    "placement": PLACEMENTS, "parallel": BOTH, "qk_norm": BOTH, "qk_eps": (0.0, 1e-3), "softcap": (0.0, 3.0),
    "attention_softcap": (0.0, 2.0), "tied": BOTH, "logit_bias": BOTH, "f": ("none", *NONLINEARITIES),
    "initial": INITIAL, "order": (1, 2, 3, 5), "form": tuple(FORMS), "conv": (1, 2, 4), "decay": DECAYS,
    "groups": (1, 2), "least_step": (0.0, 0.001), "most_step": (0.0, 0.5), "mixer": tuple(MIXERS),
    "score": ALL_SCORES, "projections": PROJECTIONS, "cell": CELLS, "reader": READERS, "when": WHEN, "feeding": BOTH,
    "both": BOTH, "image": (4, 8), "patch": (4, 2, 8), "stem": STEMS, "grid": GRIDS, "words": (1, 2, 3),
    "smoothing": SMOOTHINGS, "k": (0.1, 2.0), "counts": BOTH, "state": (2, 1, 4, 8),
    "pattern": (("rnn",), ("attention",), ("rnn", "attention"), ("mamba", "attention"), ("gru", "mamba2"),
                ("linear-rnn", "lstm", "attention"))}
# Of some classes, a field of the same name takes other values.
OWN_VALUES = {
    "RecurrentSettings": {"f": ("tanh", "relu")},
    "LinearRNNSettings": {"state": (1.0, 0.5, 2.0)}, "Mamba2Settings": {"head_width": (2, 4, 1)},
    "MaskedRecurrentSettings": {"cell": ("rnn", "gru", "lstm")},
    "WindowSettings": {"activation": tuple(PERCEPTRON), "order": (2, 3, 5)},
    **{name: {"activation": tuple(PERCEPTRON)} for name in (
        "AverageSettings", "AverageLabelSettings", "WindowLabelSettings")}}
NEVER = {"dropout", "attention_dropout", "word_dropout",     # the laws turn noise off
         "prune", "memory"}                                  # of counting: tests of their own
TRIES = 60


class Unsuited(Exception):
    """What was drawn gives no model."""


def draw_settings(settings, choose):
    """Return an object of this class of settings that no check of its own refuses."""
    names = [each.name for each in fields(settings)]
    for _ in range(TRIES):
        drawn = {name: choose(values_of(settings, name)) for name in names if name not in NEVER}
        drawn |= {name: 0.0 for name in names if name.endswith("dropout")}
        try:
            return settings(**drawn)
        except SettingError:
            continue
    raise Unsuited(f"in {TRIES} draws no settings of {settings.__name__} were allowed")


def values_of(settings, name):
    return OWN_VALUES.get(settings.__name__, {}).get(name) or VALUES[name]

