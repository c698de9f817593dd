"""Every choice of a translator, summariser or captioner trains, is judged and is used on long and short alike.

Held out are sources of one word, of exactly the context, of one token more and of several contexts; targets likewise.
Each choice takes two steps of a tiny model through a validation, is loaded, translates and is scored.
"""

import json

import numpy as np
import pytest
import torch

from regard.corpora.shapes import png
from regard.decoding.beam import BeamOptions
from regard.decoding.sampling import Sampling
from regard.errors import DataError
from regard.families.transformer import POSITIONS
from regard.layers.attentive import CELLS, READERS, WHEN
from regard.layers.scores import SCORES
from regard.look.beam_tree import beam_tree
from regard.look.look import Request, look
from regard.look.next_token import Continuations
from regard.look.side_by_side_written import written_side_by_side
from regard.trained import load
from regard.training.run import TrainRequest, run_training
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
    return run_training(TrainRequest(
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


PLACES = dict(BLOCKS, positions="learned", score="location")          # nothing in it reads more than it was made for
FRAGILE = {"prefix": PLACES, "transformer": PLACES, "rnn-attention": dict(CELL, score="location"), "rnn": CELL}


@pytest.mark.parametrize("family", FRAGILE)
def test_a_summariser_learns_is_judged_is_used_and_can_be_looked_at(folder, tmp_path, family):
    run = trained(folder, "summarise", family, FRAGILE[family], tmp_path / "run").path
    judged(run, "valid_loss", "valid_rouge")
    model = load(run, "cpu")
    used(model)
    for source, target in pairs([(1, 1), (CONTEXT - 1, CONTEXT - 1), (CONTEXT, CONTEXT), (3 * CONTEXT, 3 * CONTEXT)]):
        for request in (Request(source=source), Request(source=source, target=target)):
            assert len(look(model, request).predictions) <= CONTEXT
        assert beam_tree(model, source, BeamOptions(2)).finished
    source = pairs([(CONTEXT - 1, 1)])[0][0]
    assert len(Continuations(model).after(source=source, steps=3 * CONTEXT).said) <= CONTEXT
    with pytest.raises(DataError, match=f"the model reads at most {CONTEXT}: give a shorter one"):
        Continuations(model).after(source=f"{source} un")
    assert len(written_side_by_side({"a": model, "b": model}, pairs([(3 * CONTEXT, 1)])[0][0]).models) == 2


# ---------------------------------------------------------------------------------------------- captions

CAPTIONERS = [
    *(("transformer", dict(layers=1, encoder_layers=1, width=8, heads=2, score=score, positions=positions))
      for score in SCORES for positions in POSITIONS if positions == "learned" or score == "scaled-dot"),
    *(("rnn-attention", dict(width=8, hidden=8, score=score)) for score in SCORES),
    *(("rnn-attention", dict(width=8, hidden=8, when=when, score="location")) for when in WHEN),
    *(("rnn-attention", dict(width=8, hidden=8, reader=reader)) for reader in READERS),
]


@pytest.fixture(scope="module")
def squares(folder):
    """Pictures with short and long captions."""
    (folder / "squares").mkdir()
    rows = []
    for number, (_, caption) in enumerate(pairs(FITTING + TOO_LONG)):
        (folder / "squares" / f"{number}.png").write_bytes(png(np.full((8, 8, 3), 20 * number, np.uint8)))
        rows.append(f"{number}.png\t{caption}\n")
    (folder / "squares" / "captions.tsv").write_text("".join(rows), encoding="utf-8")
    return folder / "squares"


@pytest.mark.parametrize("family, model", CAPTIONERS, ids=[f"{name} {' '.join(map(str, own.values()))}"
                                                           for name, own in CAPTIONERS])
def test_a_captioner_learns_is_judged_and_is_used(squares, tmp_path, family, model):
    run = run_training(TrainRequest(
        (str(squares),), task="caption", family=family, out=str(tmp_path / "run"), device="cpu", quiet=True,
        settings={"data": dict(valid=(str(squares),), size=8), "tokenizer": dict(kind="word"),
                  "model": dict(model, image=8, patch=4, context=CONTEXT),
                  "training": dict(steps=2, batch=64, valid_every=2, compile="no")})).path
    judged(run, "valid_loss", "valid_exact")
    model = load(run, "cpu")
    images = np.zeros((3, 8, 8, 3), np.uint8)
    assert all(len(model.tokenizer.encode(each.text)) <= CONTEXT for each in model.caption(images, beam=2))
    captions = [target for _, target in pairs([(1, 1), (1, CONTEXT - 1), (1, CONTEXT)])]
    assert model.score_captions(images, captions).tokens == 2 + CONTEXT


# ------------------------------------------------------------------------------------------------- texts


@pytest.mark.parametrize("task, family, reading, model", [
    *((task, "transformer", "documents", dict(BLOCKS, positions=positions)) for task in ("lm", "masked")
      for positions in POSITIONS),
    *((task, "transformer", "windows", dict(BLOCKS, positions="learned")) for task in ("lm", "masked")),
    ("lm", "hybrid", "documents", BLOCKS), ("lm", "rnn", "documents", CELL), ("masked", "rnn", "documents", CELL)])
def test_a_model_of_texts_learns_is_judged_and_is_used(folder, tmp_path, task, family, reading, model):
    lines = [source for source, _ in pairs(FITTING + TOO_LONG)]
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in 4 * lines), encoding="utf-8")
    (tmp_path / "valid.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    run = run_training(TrainRequest(
        (str(tmp_path / "text.txt"),), task=task, family=family, out=str(tmp_path / "run"), device="cpu", quiet=True,
        settings={"data": dict(valid=(str(tmp_path / "valid.txt"),), documents="line"),
                  "tokenizer": dict(kind="word"), "model": dict(model, dropout=0.0),
                  "training": dict(steps=2, batch=4, valid_every=2, compile="no", reading=reading)})).path
    judged(run, "valid_loss")
    made, long = load(run, "cpu"), lines[-2]
    if task == "lm":
        assert made.score(long).tokens == 3 * CONTEXT and made.score(lines[0]).tokens == 1
        assert made.score_files([str(tmp_path / "valid.txt")]).words == sum(len(line.split()) for line in lines)
        made.generate(long, new_tokens=2 * CONTEXT)
    else:
        assert made.guess_files([str(tmp_path / "valid.txt")]).blanks > 0
        assert made.encode(long).shape[0] == 3 * CONTEXT
    assert look(made, long if task == "lm" else lines[1]).tracks
