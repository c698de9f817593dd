"""Small untrained models of every family and task, with weights that hide nothing, ready to be looked at."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import torch

from regard.corpora import shapes
from regard.data.tokens.tokenizers import train_tokenizer
from regard.families import FAMILIES
from regard.families.caption import CAPTION, CaptionAttentionSettings, CaptionTransformerSettings
from regard.families.family import randomised
from regard.families.hybrid import HybridSettings
from regard.families.masked_encoders import MaskedRecurrentSettings, MaskedTransformerSettings
from regard.families.masked_encoders import build_recurrent as masked_recurrent
from regard.families.masked_encoders import build_transformer as masked_transformer
from regard.models.ngram import NGram
from regard.tasks.caption.trained import TrainedCaptioner
from regard.tasks.lm.trained import Trained
from regard.tasks.masked.trained import TrainedMasked
from regard.tasks.summarise.trained import TrainedSummariser
from tests.toy_pairs import translator

TEXT = "the cat sat on the mat and the dog sat by the cat, as cats do"
CONTEXT = 48
SMALL = {
    "transformer": dict(layers=2, width=16, heads=2, context=CONTEXT, dropout=0.0),
    "rnn": dict(width=12, hidden=12, context=CONTEXT, dropout=0.0),
    "gru": dict(width=12, hidden=12, context=CONTEXT, dropout=0.0),
    "lstm": dict(width=12, hidden=12, context=CONTEXT, dropout=0.0),
    "linear-rnn": dict(layers=2, width=16, context=CONTEXT, dropout=0.0),
    "mamba": dict(layers=2, width=16, context=CONTEXT, dropout=0.0),
    "mamba2": dict(layers=2, width=16, state=8, head_width=2, groups=4, context=CONTEXT, dropout=0.0),
    "window": dict(width=12, context=CONTEXT, dropout=0.0),
    "average": dict(width=12, context=CONTEXT, dropout=0.0),
    "hybrid": dict(layers=4, width=16, heads=2, context=CONTEXT, pattern=("mamba", "attention", "linear-rnn")),
}
LANGUAGE = [*SMALL, "ngram"]
TRANSLATORS = ("rnn-attention", "before", "feeding", "transformer", "prefix", "rnn", "mean", "states", "places", "wide")
CAPTIONERS = ("transformer", "rnn-attention")


@cache
def tokenizer(kind="bpe"):
    return train_tokenizer(kind, [TEXT] * 3, 290 if kind == "bpe" else None)


@cache
def language_model(name, kind="bpe", seed=0):
    t, tables = tokenizer(kind), {"run": {"family": name, "task": "lm"}, "model": {"context": CONTEXT}}
    if name == "ngram":
        ids = t.encode(TEXT)
        lm = NGram.fit(np.append(ids, t.eos), np.array([len(ids) + 1]), vocab=t.vocab_size, order=4)
        return Trained(lm, t, tables)
    torch.manual_seed(seed)
    family = FAMILIES[name]
    settings = HybridSettings(**SMALL[name]) if name == "hybrid" else family.settings(**SMALL[name])
    return Trained(randomised(family.build(settings, t.vocab_size)).eval(), t, tables)


@cache
def pair_model(name, task="translate"):
    made = translator(name, dtype=torch.float32)
    if task == "summarise":
        return TrainedSummariser(made.model, made.tokenizer, {**made.tables, "run": {"family": name, "task": task}})
    return made


@cache
def captioner(name, **more):
    t = train_tokenizer("word", [shapes.draw_pictures(np.arange(30)).captions[at] for at in range(30)], None)
    small = dict(image=24, patch=8, width=16, context=CONTEXT)
    settings = CaptionTransformerSettings(**small, heads=2, encoder_layers=1) if name == "transformer" \
        else CaptionAttentionSettings(**small, hidden=16)
    torch.manual_seed(0)
    model = randomised(CAPTION[name].build(replace(settings, **more), t.vocab_size)).eval()
    tables = {"run": {"family": name, "task": "caption"}, "model": {"context": CONTEXT, "image": 24, "patch": 8}}
    return TrainedCaptioner(model, t, tables)


@cache
def masked_model(name="transformer", framed=True):
    t = tokenizer()
    torch.manual_seed(0)
    if name == "transformer":
        settings = MaskedTransformerSettings(layers=2, width=16, heads=2, context=CONTEXT, dropout=0.0)
        model = masked_transformer(settings, t.vocab_size + 1)
    else:
        model = masked_recurrent(MaskedRecurrentSettings(width=12, hidden=12, dropout=0.0), t.vocab_size + 1)
    tables = {"run": {"family": name, "task": "masked"}, "model": {"context": CONTEXT},
              "training": {"reading": "documents" if framed else "windows"}}
    return TrainedMasked(randomised(model).eval(), t, tables)


def picture():
    return shapes.png(shapes.draw_pictures(np.array([3])).images[0])
