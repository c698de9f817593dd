"""Toy translators for tests: each word has one translation, and the target is the source from its end."""

import random

import torch

from regard.data.tokens.tokenizers import train_tokenizer
from regard.data.tokens.vocabulary import UNK, TokenizerPair
from regard.families.family import randomised
from regard.families.translate import (
    TRANSLATE,
    AttentionSettings,
    BottleneckSettings,
    PairTransformerSettings,
    PrefixSettings,
    Vocabularies,
)
from regard.tasks.translate.trained import TrainedTranslator

WORDS = {"un": "one", "deux": "two", "trois": "three", "quatre": "four", "cinq": "five", "été": "summer"}
CONTEXT = 16
SETTINGS = {
    "transformer": PairTransformerSettings(layers=2, width=16, heads=2, context=CONTEXT, dropout=0.0),
    "learned": PairTransformerSettings(layers=1, width=16, heads=2, context=CONTEXT, positions="learned", dropout=0.0),
    "rnn-attention": AttentionSettings(width=16, hidden=24, context=CONTEXT, dropout=0.0),
    "before": AttentionSettings(width=16, hidden=24, heads=2, when="before", context=CONTEXT, dropout=0.0),
    "feeding": AttentionSettings(width=16, hidden=24, feeding=True, context=CONTEXT, dropout=0.0),
    "mean": AttentionSettings(width=16, hidden=24, reader="mean", context=CONTEXT, dropout=0.0),
    "rnn": BottleneckSettings(width=16, hidden=24, context=CONTEXT, dropout=0.0),
    "states": AttentionSettings(cell="rnn", both=False, width=16, hidden=24, score="dot", projections="none",
                                context=CONTEXT, dropout=0.0),
    "places": AttentionSettings(width=16, hidden=24, score="location", when="before", context=CONTEXT, dropout=0.0),
    "wide": PairTransformerSettings(layers=1, width=16, heads=3, head_width=4, value_width=5, f="tanh",
                                    positions="sinusoidal", context=CONTEXT, dropout=0.0),
    "prefix": PrefixSettings(layers=2, width=16, heads=2, context=CONTEXT, positions="learned", dropout=0.0),
}
FAMILY = {"learned": "transformer", "wide": "transformer",
          **dict.fromkeys(("before", "feeding", "mean", "states", "places"), "rnn-attention")}


def pairs(number, seed=0, longest=6):
    chance = random.Random(seed)
    found = []
    for _ in range(number):
        said = [chance.choice(list(WORDS)) for _ in range(chance.randint(1, longest))]
        found.append((" ".join(said), " ".join(WORDS[word] for word in reversed(said))))
    return found


def tokenizers(kind="word", vocab=None):
    if kind in ("bpe", "unigram"):
        both = train_tokenizer(kind, [*WORDS, *WORDS.values()], vocab or 262)
        return TokenizerPair(both, both)
    return TokenizerPair(train_tokenizer(kind, [" ".join(WORDS)], vocab),
                         train_tokenizer(kind, [" ".join(WORDS.values())], vocab))


def translator(name="rnn-attention", tokenizer=None, *, seed=0, dtype=torch.float64):
    """Untrained, with weights that hide nothing."""
    tokenizer = tokenizer or tokenizers()
    settings, kind = SETTINGS[name], TRANSLATE[FAMILY.get(name, name)]
    torch.manual_seed(seed)
    vocab = Vocabularies(tokenizer.source.vocab_size, tokenizer.target.vocab_size, tokenizer.shared)
    model = randomised(kind.build(settings, vocab)).to(dtype).eval()
    tables = {"run": {"family": kind.name, "task": "translate"}, "model": {"context": settings.context},
              "data": {"langs": "fr-en"}}
    return TrainedTranslator(model, tokenizer, tables)


def says_unknown(model):
    """The model with nearly all probability on <unk>, at every step."""
    step = model.step

    def eager(tokens, state, lengths=None):
        log_probs, state = step(tokens, state, lengths)
        log_probs[:, UNK] = 0.0
        return log_probs, state

    model.step = eager
    return model
