"""`train classify`, `classify`, and what else is done with classifiers, through the command line and from Python."""

import json
import shutil

import numpy as np
import pytest
import torch

from regard.cli import main
from regard.compare import comparison, trial
from regard.data.labels.labelled_tokenizer import LabelledTokenizer
from regard.errors import DataError, SettingError
from regard.families import names
from regard.families.label_families import CLASSIFY
from regard.look import look
from regard.run_folder import LABELS
from regard.trained import load

WORDS = {"fruit": "apple pear plum fig", "tool": "saw axe file drill", "pet": "cat dog bird fish"}
ROWS = [f"{label}\tthe {words.split()[at % 4]} is here {at}" for at in range(30) for label, words in WORDS.items()]
TRAIN = ["--dropout", "0", "--steps", "120", "--batch", "16", "--tokenizer", "word", "--device", "cpu", "--quiet"]
SMALL = ["--width", "16", "--context", "16"]
SIZES = {"transformer": [*SMALL, "--heads", "2", "--layers", "1"], "masked": [*SMALL, "--heads", "2", "--layers", "1"]}


@pytest.fixture(scope="module")
def classifiers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifiers")
    (folder / "things.tsv").write_text("\n".join(ROWS) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        for family in ("window", "average", "transformer"):
            main(["train", "classify", str(folder / "things.tsv"), "--family", family, *TRAIN,
                  *SIZES.get(family, [*SMALL, "--hidden", "16"]), "--rate", "0.02", "--out", str(folder / family)])
    return folder


def test_the_names_of_families_are_those_of_the_table():
    assert tuple(CLASSIFY) == names.CLASSIFY


@pytest.mark.parametrize("family", ["window", "average", "transformer"])
def test_a_line_comes_out_for_each_text(regard, classifiers, here, family):
    (here / "texts.txt").write_text("the plum is here 3\nthe axe is here 2\n\nthe dog is here 1\n")
    told = regard("classify", classifiers / family, "texts.txt").done().splitlines()
    assert [told[0], told[1], told[3]] == ["fruit", "tool", "pet"] and len(told) == 4
    text = b"the fig is here 0\n"
    row = json.loads(regard("classify", classifiers / family, "--top", 5, "--json", stdin=text).done())
    assert row["labels"][0]["label"] == "fruit" and len(row["labels"]) == 3
    assert sum(each["probability"] for each in row["labels"]) == pytest.approx(1, abs=1e-5)
    best = regard("classify", classifiers / family, "--top", 2, "--probabilities", stdin=text).done()
    assert best.startswith("fruit ") and best.count("\t") == 1


def test_one_text_gets_the_same_labels_alone_and_among_others(classifiers):
    model = load(classifiers / "transformer", "cpu")
    texts = ["the fig is here 0", "saw", "the cat and the dog and the bird and the fish are all of them here again 4"]
    together = model.probabilities(texts)
    for row, text in enumerate(texts):
        torch.testing.assert_close(model.probabilities([text])[0], together[row])
    assert model.classify(texts, top=3)[1][0].label == "tool"
    with pytest.raises(DataError, match=r"classify\(\[text\]\)"):
        model.classify("saw")
    with pytest.raises(SettingError, match="top = 0"):
        model.classify(texts, top=0)


def test_scores_stand_beside_the_majority_and_the_ngrams(regard, classifiers):
    run, data = classifiers / "window", classifiers / "things.tsv"
    found = json.loads(regard("score", run, data, "--json").done())
    assert found["accuracy"] > 0.9 and found["texts"] == 90 and set(found["labels"]) == set(WORDS)
    assert found["majority_accuracy"] == pytest.approx(1 / 3, abs=0.02) and found["ngrams_accuracy"] > 0.9
    told = regard("score", run, data).done()
    assert "majority class" in told and "bag of n-grams" in told and "95% over texts" in told
    lines = regard("score", run, data, "--per-line", "--first", 4).done().splitlines()
    assert len(lines) == 4 and lines[0].split("\t")[2:] == ROWS[0].split("\t")


def test_a_label_that_it_cannot_give_counts_as_wrong_and_is_told_of(regard, classifiers, here):
    (here / "other.tsv").write_text("fruit\tthe fig is here 0\nstar\tthe sun\n")
    outcome = regard("score", classifiers / "window", "other.tsv", "--json")
    assert json.loads(outcome.done())["accuracy"] == 0.5 and "1 texts have a label" in outcome.err


def test_training_goes_on_with_the_same_labels_and_the_same_numbers(regard, classifiers, here):
    data = classifiers / "things.tsv"
    options = ["train", "classify", data, *TRAIN, *SMALL, "--hidden", "16", "--set", "training.valid_every=8",
               "--set", "training.checkpoint_every=8", "--set", "training.threads=1"]
    regard(*options, "--steps", 16, "--out", "whole").done()
    # The same schedule, stopped half way: the end of its run is taken away, and training goes on.
    shutil.copytree("whole", "again")
    steps = sorted((here / "again" / "checkpoints").iterdir())
    shutil.rmtree(steps[-1])
    regard("train", "classify", data, "--resume", "--out", "again", "--device", "cpu", "--quiet").done()
    both = [load(name, "cpu") for name in ("whole", "again")]
    assert both[0].labels == both[1].labels == ("fruit", "pet", "tool")
    for one, other in zip(*(model.model.saved_tensors().values() for model in both), strict=True):
        assert torch.equal(one, other)


def test_labels_in_another_order_are_not_loaded(regard, classifiers, here):
    shutil.copytree(classifiers / "window", "run")
    path = here / "run" / LABELS
    path.write_text(json.dumps({"labels": ["pet", "fruit", "tool"]}))
    assert "labels.json is not as it was written" in regard("classify", "run", stdin=b"saw\n").mistake()


def test_it_begins_with_the_encoder_of_a_masked_run(regard, classifiers, here):
    (here / "text.txt").write_text("".join(row.split("\t")[1] + "\n" for row in ROWS))
    regard("train", "masked", "text.txt", "--documents", "line", *TRAIN, *SIZES["masked"], "--out", "m").done()
    regard("train", "classify", classifiers / "things.tsv", "--from", "m", "--steps", 1, "--batch", 16, "--rate", 1e-9,
           "--set", "training.muon_rate=1e-9", "--device", "cpu", "--quiet", "--out", "c").done()
    masked, begun = load("m", "cpu"), load("c", "cpu")
    assert begun.family == "masked" and begun.tokenizer.text.digest() == masked.tokenizer.digest()
    own = begun.model.saved_tensors()
    for name, tensor in masked.model.saved_tensors().items():
        if name.startswith("encoder."):
            torch.testing.assert_close(own[name], tensor, atol=1e-4, rtol=0)
    said = regard("train", "classify", classifiers / "things.tsv", "--from", classifiers / "window", "--family", "rnn",
                  "--out", "d").mistake()
    assert "goes on with a window" in said
    regard("train", "lm", "text.txt", *TRAIN, *SIZES["masked"], "--out", "lm").done()
    said = regard("train", "classify", classifiers / "things.tsv", "--from", "lm").mistake()
    assert "is a run of the task lm" in said


def test_mistakes_are_one_line(regard, classifiers, here):
    (here / "bad.tsv").write_text("fruit\n")
    assert "bad.tsv line 1 has no tab" in regard("train", "classify", "bad.tsv", *TRAIN).mistake()
    assert "is a run of the task classify: use it with regard classify" in regard(
        "generate", classifiers / "window").mistake()
    assert "unknown family cnn" in regard("train", "classify", "bad.tsv", "--family", "cnn").mistake()
    assert "--beam means nothing for a run of the task classify" in regard(
        "score", classifiers / "window", "bad.tsv", "--beam", 3).mistake()


@pytest.mark.parametrize("family", ["window", "average", "transformer"])
def test_every_law_is_tried_on_a_run(regard, classifiers, family):
    report = json.loads(regard("check", classifiers / family, "--json").done())
    laws = [each["law"] for each in report["laws"]]
    assert report["ok"] and "padding" in laws and "saved tensors" in laws and "encoder: padding" in laws


def test_what_it_wrote_while_it_was_trained_is_a_text_with_its_labels(classifiers):
    rows = [json.loads(line) for line in (classifiers / "transformer" / "samples.jsonl").read_text().splitlines()]
    assert rows[-1]["reference"] in WORDS and "%" in rows[-1]["text"] and rows[-1]["map"]["shape"] == [6, 6]


# ---------------------------------------------------------------------------------------------- looking


@pytest.mark.parametrize("family", ["window", "transformer"])
def test_evidence_and_what_all_labels_share_add_up_to_what_the_softmax_reads(classifiers, family):
    model = load(classifiers / family, "cpu")
    seen = look(model, "the fig is here 2")
    logits = seen.track("evidence").values[0, 0].sum(-1)
    expected = [each.p for each in seen.predictions]
    np.testing.assert_allclose(np.exp(logits) / np.exp(logits).sum(), expected, rtol=1e-4)
    assert [each.rank for each in seen.predictions] == [1, 2, 3] and expected == sorted(expected, reverse=True)
    assert [token.piece for token in seen.sides["label"].tokens] == [each.piece for each in seen.predictions]


def test_occlusion_is_what_the_label_loses_without_the_token(classifiers):
    model = load(classifiers / "average", "cpu")
    seen = look(model, "the fig is here 2")
    assert [track.name for track in seen.tracks] == ["influence-gradient", "influence-sensitivity",
                                                     "influence-occlusion"]
    values = seen.track("influence-occlusion").values[0, 0]
    ids = [token.id for token in seen.sides["text"].tokens]
    hidden = [*ids[:1], 3, *ids[2:]]
    both = model.log_probabilities([ids, hidden])[:, seen.predictions[0].id]
    assert values[0, 1] == pytest.approx(float(both[0] - both[1]), abs=1e-5)
    assert values[0, 1] == values[0].max() > 0


def test_a_classifier_with_attention_shows_what_its_positions_read(regard, classifiers):
    seen = look(load(classifiers / "transformer", "cpu"), "the fig is here 2")
    maps = seen.track("self")
    assert (maps.rows, maps.columns) == ("text", "text")
    np.testing.assert_allclose(maps.values.sum(-1), 1, atol=1e-5)
    told = json.loads(regard("show", classifiers / "transformer", "the fig is here 2", "--json").done())
    assert told["task"] == "classify" and told["view"]["track"] == "evidence"
    row = regard("show", classifiers / "window", "the fig is here 2", "--influence", "occlusion", "--row", 0).done()
    assert "fig" in row and "guesses 'fruit'" in row


def test_a_long_text_is_read_as_far_as_the_context_goes(classifiers):
    model = load(classifiers / "window", "cpu")
    seen = look(model, "the fig is here " * 10)
    assert len(seen.sides["text"].tokens) == 16 and "16 are read at once" in seen.notes[0]
    assert len(model.read("fig " * 40)) == 16


# -------------------------------------------------------------------------------------------- comparing


def test_families_stand_beside_the_ngrams_and_the_majority(regard, classifiers, here, monkeypatch):
    monkeypatch.setattr(comparison, "in_a_process", lambda folder, plan, each, _: trial.run_trial(folder, plan, each))
    told = regard("compare", "classify", classifiers / "things.tsv", "--families", "window,average", "--seeds", 1,
                  "--steps", 20, "--tokenizer", "word", "--device", "cpu", "--set", "model.width=16", "--set",
                  "data.valid_share=0.5", "--out", "c")
    heads = told.done().splitlines()[:2]
    assert "n-grams" in heads[1] and "majority" in heads[0]
    results = json.loads((here / "c" / "results.json").read_text())
    assert {row["family"] for row in results["table"]} == {"window", "average"}
    for row in results["table"]:
        assert 0 <= row["accuracy"] <= 1 and row["ngrams_accuracy"] > 0.8 and row["units"] == "texts"
    assert "F1 of each label" in (here / "c" / "report.html").read_text()


def test_another_file_of_labels_is_kept_with_the_run(classifiers):
    kept = LabelledTokenizer.load(classifiers / "window")
    assert kept.baseline["texts"].sum() == 81 and kept.labels == ("fruit", "pet", "tool")
