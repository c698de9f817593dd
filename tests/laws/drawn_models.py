"""Small models of every family and task, at settings, vocabularies, batches and lengths that are drawn, and one law.

A case is a law, or `encoder: law` for what reads the source, on one such model.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from regard.contract import Source
from regard.errors import SettingError
from regard.families import FAMILIES
from regard.families.caption import CAPTION
from regard.families.family import randomised
from regard.families.label_families import CLASSIFY, TAG, LabelVocabularies
from regard.families.masked_encoders import MASKED
from regard.families.ngram import FAMILY as NGRAM
from regard.families.ngram import MIXTURE
from regard.families.translate import TRANSLATE, Vocabularies
from regard.kernels.precision import exact_arithmetic
from regard.laws import MODEL_LAWS, LawSkipped, ModelReader
from regard.laws.answer_laws import ANSWER_LAWS, LabelReader, MaskedReader
from regard.laws.encoder_laws import ENCODER_LAWS, EncoderReader, PictureReader
from regard.laws.prepared import prepared
from regard.models.mixture import Mixture
from regard.models.ngram import NGram
from regard.models.word_cache import ORDERS
from tests.laws.drawn_settings import TRIES, Unsuited, draw_settings

TASKS = {"lm": FAMILIES | {"mixture": MIXTURE}, "translate": TRANSLATE, "caption": CAPTION, "classify": CLASSIFY,
         "tag": TAG, "masked": MASKED}
FAMILIES_BY_TASK = {f"{task}-{name}": family for task, table in TASKS.items() for name, family in table.items()}
# Sizes may leave a weight without a reader (attention to one position), which this law would call a fault.
ONLY_AT_FIXED_SIZES = {"parameters"}
SLOW = {"gradients"}                                         # each number of the weights is moved: once in a while
DEVICE = torch.device(os.environ.get("REGARD_TEST_DEVICE", "cpu"))
VOCABULARIES = (5, 2, 3, 11, 64)
TIMES = (2, 1, 3, 4, 6)


@dataclass
class Case:
    """One law on one model that was drawn; `settings` and `sizes` tell a person what it was."""

    law: object
    reader: object
    told: str


def laws_of(name):
    task = name.partition("-")[0]
    laws = MODEL_LAWS if task in ("lm", "translate", "caption") else ANSWER_LAWS
    own = [each for each in laws if each not in ONLY_AT_FIXED_SIZES | SLOW | ({"source"} if task == "lm" else set())]
    encoders = [f"encoder: {each}" for each in ENCODER_LAWS if each not in ONLY_AT_FIXED_SIZES | SLOW]
    return own * 3 + (encoders if task != "lm" and name != "translate-prefix" else []) + ["gradients"]


def draw_case(name, choose):
    """Return a case of a family that follows from what was chosen."""
    torch.manual_seed(choose(range(100)))
    task, family = name.partition("-")[0], FAMILIES_BY_TASK[name]
    law = choose(laws_of(name))
    reader, sizes = READERS[task](family, choose)
    if law.startswith("encoder: "):
        own = ENCODER_LAWS[law.removeprefix("encoder: ")]
        reader = encoder_reader(task, reader, choose)
    else:
        own = (MODEL_LAWS if isinstance(reader, ModelReader) else ANSWER_LAWS)[law]
    return Case(own, reader, f"{name}, the law {law!r}, {sizes}")


def hold(case):
    """Try the law; False if it has nothing to say of such sizes. A law that is broken raises LawBroken."""
    try:
        with exact_arithmetic():
            case.law.check(case.reader)
    except LawSkipped:
        return False
    return True


# ------------------------------------------------------------------------------------- a reader for each task


def build(family, vocab, choose):
    """Return a model with settings that nothing refuses, neither their own checks nor those of the layers."""
    for _ in range(TRIES):
        settings = draw_settings(family.settings, choose)
        with suppress(SettingError):
            return prepared(randomised(family.build(settings, vocab)).double().to(DEVICE).eval()), settings
    raise Unsuited(f"in {TRIES} draws no model of {family.name} could be built")


def read_language(family, choose):
    vocab = max(choose(VOCABULARIES), 3 if family is MIXTURE or family.count else 2)         # an n-gram's least
    seed = choose(range(100))
    if family is MIXTURE:
        model, told = mix(vocab, choose)
    elif family.count:
        model, told = count(vocab, choose)
    else:
        model, told = build(family, vocab, choose)
    reader = ModelReader(model, time=choose(TIMES), seed=seed)
    reader.batch = choose((3, 1, 2, 5))
    return reader, f"vocabulary of {vocab}, {reader.batch} rows of {reader.time}, {told}"


def count(vocab, choose):
    settings, draws = draw_settings(NGRAM.settings, choose), np.random.default_rng(choose(range(100)))
    text = draws.integers(1, vocab, int(draws.integers(1, 120)))
    return NGram.fit(text, None, vocab=vocab, order=settings.order, smoothing=settings.smoothing, k=settings.k,
                     counts=settings.counts, dtype=torch.float64), settings


def mix(vocab, choose):
    """A network of any family, an n-gram and a cache."""
    network, told = build(FAMILIES[choose([each for each, family in FAMILIES.items() if family.build])], vocab, choose)
    ngram, settings = count(vocab, choose)
    model = Mixture(network, ngram, torch.randn(settings.order, 2), torch.randn(ORDERS, 2),
                    remembered=choose((6, 1, 2, 40)))
    return model.double().to(DEVICE).eval(), f"{settings} with {told}"


def read_pairs(family, choose):
    shared, source = choose((False, True)), choose(VOCABULARIES)
    vocab = Vocabularies(source, source if shared else choose(VOCABULARIES), shared=shared)
    model, settings = build(family, vocab, choose)
    most = settings.context // 2
    lengths = [min(choose((3, 1, 2, most)), most) for _ in range(choose((2, 1, 3)))]
    items = torch.randint(0, source, (len(lengths), max(lengths)))
    reader = ModelReader(model, Source(items, torch.tensor(lengths)).to(DEVICE), seed=choose(range(100)),
                         time=min(choose(TIMES), most - 1))
    return reader, f"vocabularies of {vocab}, sources of {lengths}, rows of {reader.time}, {settings}"


def read_pictures(family, choose):
    vocab = choose(VOCABULARIES)
    model, settings = build(family, vocab, choose)
    pictures = torch.randint(0, 256, (choose((2, 1, 3)), 3, settings.image, settings.image), dtype=torch.uint8)
    reader = ModelReader(model, Source(pictures).to(DEVICE), time=choose(TIMES), seed=choose(range(100)))
    return reader, f"vocabulary of {vocab}, {len(pictures)} pictures, rows of {reader.time}, {settings}"


def read_answers(kind, family, choose):
    tokens, labels = choose(VOCABULARIES), choose((4, 2, 3, 9))
    vocab = tokens if kind is MaskedReader else LabelVocabularies(tokens, labels)
    model, settings = build(family, vocab, choose)
    reader = kind(model, batch=choose((3, 1, 2, 5)), time=choose(TIMES), seed=choose(range(100)))
    return reader, f"vocabulary of {vocab}, {reader.batch} rows of {reader.time}, {settings}"


READERS = {"lm": read_language, "translate": read_pairs, "caption": read_pictures,
           "classify": partial(read_answers, LabelReader), "tag": partial(read_answers, LabelReader),
           "masked": partial(read_answers, MaskedReader)}


def encoder_reader(task, reader, choose):
    """What reads the source of a model that was drawn, or the text that it answers about."""
    encoder, sources, seed = reader.thing.encoder, choose((3, 1, 2)), choose(range(100))
    if task == "caption":
        _, *picture = reader.source.items.shape
        patches = int(encoder(reader.source).lengths[0])
        return PictureReader(encoder, picture=tuple(picture), length=patches, sources=sources, seed=seed)
    vocab = reader.source.items.max().item() + 1 if task == "translate" else reader.thing.vocab
    return EncoderReader(encoder, vocab=vocab, sources=sources, seed=seed,
                         length=min(choose(TIMES), reader.source.items.shape[1] if task == "translate" else 9))


