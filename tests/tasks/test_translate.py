"""The task of translation: what a step reads, what validation measures, and runs that stop and go on."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard.data.pairs.pair_corpus import PairTokenizerSettings, prepare_pairs
from regard.data.pairs.pairs import PairSettings
from regard.errors import DataError, RunError, SettingError
from regard.tasks.translate import task as translate
from regard.trained import load
from regard.training.checkpoint import Checkpoints
from regard.training.run import TrainRequest, run_training
from regard.training.settings import TrainingSettings
from regard.training.step import update_weights
from tests.toy_pairs import pairs as toy_pairs

SMALL = {"data": dict(langs="fr-en"), "model": dict(width=16, hidden=16, context=16, dropout=0.1),
         "tokenizer": dict(kind="word", shared=False),
         "training": dict(steps=8, batch=64, valid_every=4, checkpoint_every=3)}
ATTENTION = {**SMALL, "model": dict(layers=1, width=16, heads=2, context=16, dropout=0.1)}


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    torch.set_num_threads(1)
    return write(tmp_path, 120)


def write(folder, number):
    for side, lines in zip(("fr", "en"), zip(*toy_pairs(number), strict=True), strict=True):
        (folder / f"toy.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(folder / "toy.fr"), str(folder / "toy.en")


def corpus_of(files, kind="word", **settings):
    return prepare_pairs(PairSettings(files, **settings), PairTokenizerSettings(kind), say=lambda _: None)


def trained(files, out, family="rnn-attention", settings=SMALL, **options):
    return run_training(TrainRequest(files, task="translate", family=family, out=str(out), settings=settings,
                                     device="cpu", quiet=True, **options))


def rows(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


# ----------------------------------------------------------------------------------------------- batches


def test_pairs_longer_than_the_context_are_left_out_and_counted(files):
    corpus = corpus_of(files)
    lengths = np.diff(corpus.train.ends.astype(int), prepend=0)
    batches = translate.batches(corpus, TrainingSettings(reading="pairs", batch=64), context=4)
    assert batches.too_long == int((lengths > 4).sum()) > 0
    assert all(batches.batch(step).targets.shape[1] <= 4 for step in range(len(batches)))
    with pytest.raises(DataError, match="every pair is longer than 1 tokens: raise --context"):
        translate.batches(corpus, TrainingSettings(reading="pairs", batch=64), context=1)


def test_another_reading_is_refused(files):
    with pytest.raises(SettingError, match=r"training\.reading"):
        translate.batches(corpus_of(files), TrainingSettings(reading="windows"), context=16)


def test_shapes_are_few_where_widths_are_given(files):
    corpus = corpus_of(files)
    batches = translate.batches(corpus, TrainingSettings(reading="pairs", batch=64, widths=8), context=16)
    assert {batches.batch(step).targets.shape[1] % 8 for step in range(len(batches))} == {0}
    assert {batches.batch(step).source.shape[1] % 8 for step in range(len(batches))} == {0}


# ------------------------------------------------------------------------------------------------- runs


def test_validation_tells_loss_and_bleu_and_keeps_the_weights_with_the_better_bleu(files, tmp_path, monkeypatch):
    told, kept, keep = iter([30.0, 20.0]), [], Checkpoints.keep_weights

    def keeps(self):
        kept.append(1)
        keep(self)

    monkeypatch.setattr(Checkpoints, "keep_weights", keeps)
    monkeypatch.setattr("regard.tasks.translate.task.bleu", lambda *_, **__: next(told))
    trained(files, tmp_path / "run")
    found = [row["valid_bleu"] for row in rows(tmp_path / "run") if "valid_bleu" in row]
    assert found == [30.0, 20.0] and len(kept) == 1


def test_of_equal_bleu_the_lower_loss_is_the_better_one():
    from regard.training.loop import cost

    assert cost({"valid_loss": 2.0, "valid_bleu": 0.0}) > cost({"valid_loss": 1.0, "valid_bleu": 0.0})
    assert cost({"valid_loss": 1.0, "valid_bleu": 3.0}) > cost({"valid_loss": 9.0, "valid_bleu": 3.1})


@pytest.mark.parametrize("family, settings", [("rnn-attention", SMALL), ("transformer", ATTENTION),
                                              ("prefix", ATTENTION), ("rnn", SMALL)])
def test_a_run_that_was_stopped_and_resumed_ends_with_the_same_bits(files, tmp_path, monkeypatch, family, settings):
    trained(files, tmp_path / "whole", family, settings)
    steps = []

    def dies(*given):
        steps.append(1)
        if len(steps) == 5:
            raise KeyboardInterrupt
        update_weights(*given)

    with monkeypatch.context() as patch:
        patch.setattr("regard.training.step.update_weights", dies)
        with pytest.raises(KeyboardInterrupt):
            trained(files, tmp_path / "torn", family, settings)
    trained(files, tmp_path / "torn", family, None, resume=True)
    whole, torn = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "torn"))
    assert whole == torn
    drop = ("seconds",)
    assert [{k: v for k, v in row.items() if k not in drop} for row in rows(tmp_path / "whole")] == \
           [{k: v for k, v in row.items() if k not in drop} for row in rows(tmp_path / "torn")]


@pytest.mark.parametrize("given", ["fr-en", ""], ids=["languages given", "found in the names"])
def test_it_goes_on_whether_languages_were_given_or_found(files, tmp_path, given):
    settings = {**SMALL, "data": dict(langs=given) if given else {}}
    before = trained(files, tmp_path / "run", settings=settings)
    assert before.languages == ("fr", "en")
    trained(files, tmp_path / "run", settings={"training": {"steps": 9}}, resume=True)
    assert rows(tmp_path / "run")[-1]["step"] == 9


def test_it_cannot_be_resumed_with_other_pairs(files, tmp_path):
    trained(files, tmp_path / "run")
    with open(files[1], "a", encoding="utf-8") as target, open(files[0], "a", encoding="utf-8") as source:
        target.write("one\n")
        source.write("un\n")
    with pytest.raises(RunError, match="the text has changed"):
        trained(files, tmp_path / "run", settings={"training": {"steps": 9}}, resume=True)


def test_a_run_is_loaded_with_its_languages_and_both_tokenizers(files, tmp_path):
    trained(files, tmp_path / "run")
    model = load(tmp_path / "run", "cpu", task="translate")
    assert model.languages == ("fr", "en") and not model.tokenizer.shared
    assert (tmp_path / "run" / "source-tokenizer.json").exists()
    assert model.translate(["un deux"])[0].source == "un deux"
    with pytest.raises(RunError, match="use it with regard translate"):
        load(tmp_path / "run", "cpu", task="lm")


def test_a_prefix_model_never_writes_what_only_the_source_has(files, tmp_path):
    """With vocabularies of their own its one embedding is as large as the larger of the two."""
    corpus = prepare_pairs(PairSettings(files), PairTokenizerSettings("word", shared=False), say=lambda _: None)

    class Stubborn:
        context, vocab, device = 16, corpus.tokenizer.vocab_size + 3, torch.device("cpu")

    seen = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translate, "text_batches", lambda model, sources, context, beams: sources)
        patch.setattr(translate, "search_batches",
                      lambda model, sources, special_tokens, _: seen.update(banned=special_tokens.banned)
                      or [[SimpleNamespace(tokens=(4,))] for _ in sources])
        translate.written(Stubborn(), corpus, 3, 16)
    size = corpus.tokenizer.vocab_size
    assert {size, size + 1, size + 2} <= set(seen["banned"])


def test_training_really_learns_to_translate(files, tmp_path):
    settings = {**SMALL, "training": dict(steps=250, batch=256, valid_every=250, optimizer="muon", learning_rate=5e-3),
                "model": dict(width=32, hidden=64, context=16, dropout=0.0)}
    model = trained(write(tmp_path, 800), tmp_path / "run", settings=settings)
    sources, references = zip(*toy_pairs(40, seed=1), strict=True)
    assert model.quality(sources, references, beam=2).exact_match > 0.35      # untrained: 0


def test_what_is_too_long_is_counted_and_said(files, tmp_path, capsys):
    settings = {**SMALL, "model": {**SMALL["model"], "context": 4}, "training": dict(steps=2, batch=64, valid_every=2)}
    run_training(TrainRequest(files, task="translate", family="rnn-attention", out=str(tmp_path / "run"),
                              settings=settings, device="cpu"))
    told = capsys.readouterr().err
    assert "pairs to learn from have a side of more than 4 tokens and are left out: raise --context" in told
