"""Every choice of a translator, summariser or captioner trains, is judged and is used on long and short alike.

Held out are sources of one word, of exactly the context, of one token more and of several contexts; targets likewise.
Each choice takes two steps of a tiny model through a validation, is loaded, translates and is scored.
"""

import json

import numpy as np
import pytest
import torch

from regard.decoding.sampling import Sampling
from regard.families.transformer import POSITIONS
from regard.layers.attentive import CELLS, READERS, WHEN
from regard.layers.scores import SCORES
from regard.trained import load
from regard.training.run import Order, carry_out
from tests.toy_pairs import WORDS

CONTEXT = 8
# Words of source and target; with its end, a sentence has one token more than words.
FITTING = [(1, 1), (3, 2), (CONTEXT - 1, CONTEXT - 1), (CONTEXT - 1, 1), (1, CONTEXT - 1)]
TOO_LONG = [(CONTEXT, 2), (2, CONTEXT), (CONTEXT, CONTEXT), (3 * CONTEXT, 1), (1, 3 * CONTEXT)]
BLOCKS = dict(layers=1, width=8, heads=2, context=CONTEXT)
CELL = dict(width=8, hidden=8, context=CONTEXT)
CHOICES = [
    *((name, dict(BLOCKS, score=score, positions=positions)) for name in ("transformer", "prefix")
      for score in SCORES for positions in POSITIONS),
    *(("transformer", dict(BLOCKS, mixer=mixer, positions="learned")) for mixer in ("gru", "mamba")),
    *(("rnn-attention", dict(CELL, score=score, when=when, heads=2)) for score in SCORES for when in WHEN),
    *((name, dict(CELL, cell=cell)) for name in ("rnn-attention", "rnn") for cell in CELLS),
    *(("rnn-attention", dict(CELL, reader=reader)) for reader in READERS),
    ("rnn-attention", dict(CELL, feeding=True)),
]


def sentence(words, number, length):
    return " ".join(words[(number + at * at) % len(words)] for at in range(length))


def pairs(lengths):
    sources, targets = list(WORDS), list(WORDS.values())
    return [(sentence(sources, number, source), sentence(targets, number, target))
            for number, (source, target) in enumerate(lengths)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pairs to learn from and pairs held out, short and long in both."""
    folder = tmp_path_factory.mktemp("long-and-short")
    for name, lengths in (("train", 4 * FITTING + TOO_LONG), ("valid", FITTING + TOO_LONG)):
        (folder / f"{name}.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs(lengths)), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        torch.set_num_threads(1)
        yield folder


def trained(folder, task, family, model, out):
    data = dict(valid=(str(folder / "valid.tsv"),), langs="fr-en", max_words=0, max_characters=0, max_ratio=0.0)
    return carry_out(Order(
        (str(folder / "train.tsv"),), task=task, family=family, out=str(out), device="cpu", quiet=True,
        settings={"data": data, "tokenizer": dict(kind="word", shared=False), "model": dict(model, dropout=0.0),
                  "training": dict(steps=2, batch=64, valid_every=2, compile="no")}))


def named(choice):
    return " ".join(str(value) for key, value in choice[1].items() if key not in BLOCKS and key not in CELL)


@pytest.mark.parametrize("family, model", CHOICES, ids=[f"{each[0]} {named(each)}" for each in CHOICES])
def test_a_translator_learns_is_judged_and_is_used(folder, tmp_path, family, model):
    run = trained(folder, "translate", family, model, tmp_path / "run").path
    judged(run, "valid_loss", "valid_bleu")
    used(load(run, "cpu"))


def judged(run, *measures):
    """Its one validation measured these, and it wrote one sample."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    (told,) = [[row[name] for name in measures] for row in rows if "valid_loss" in row]
    assert np.isfinite(told).all()
    assert len((run / "samples.jsonl").read_text().splitlines()) == 1


def used(model):
    sources, targets = map(list, zip(*pairs(FITTING + TOO_LONG), strict=True))
    found = model.translate(sources, beam=2)
    assert all(np.isfinite(each.log_prob) for each in found)
    assert found[1].text == model.translate(sources[1:2], beam=2)[0].text                # whoever else is there
    drawn = model.translate(sources[:len(FITTING)], sampling=Sampling(seed=1))
    assert all(np.isfinite(each.log_prob) for each in drawn)
    assert model.score_pairs(sources, targets).tokens == sum(target + 1 for _, target in FITTING)
