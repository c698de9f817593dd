import math
import shutil

import pytest
import torch

import regard
from regard.errors import DataError, RunError, SettingError
from regard.trained import load
from regard.training.run import TrainRequest, run_training

TEXT = "".join(f"the cat number {i * 7 % 13} sat on mat {i * 5 % 11}\n" for i in range(80))
TRAINING = dict(steps=6, batch=4, valid_every=3)
MADE = {
    "transformer": dict(task="masked", family="transformer", settings={
        "model": dict(layers=1, width=16, heads=2, context=16), "tokenizer": dict(kind="char"), "training": TRAINING}),
    "rnn": dict(task="masked", family="rnn", settings={
        "model": dict(width=8, hidden=6, context=12), "tokenizer": dict(kind="word"), "training": TRAINING}),
    "lm": dict(task="lm", settings={
        "model": dict(layers=1, width=16, heads=2, context=16), "tokenizer": dict(kind="word"), "training": TRAINING}),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("masked")
    torch.set_num_threads(1)
    (folder / "text.txt").write_text(TEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        for name, order in MADE.items():
            run_training(TrainRequest((str(folder / "text.txt"),), out=str(folder / name), device="cpu", quiet=True,
                                      **order))
    return folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


@pytest.fixture(params=["transformer", "rnn"])
def model(request, made):
    return regard.load(made / request.param, device="cpu")


def test_a_run_is_loaded_as_what_its_task_makes_of_it(made):
    assert isinstance(load(made / "lm"), regard.Trained)
    assert isinstance(load(made / "rnn"), regard.TrainedMasked)
    assert isinstance(load(made / "rnn", task="masked"), regard.TrainedMasked)
    with pytest.raises(RunError, match="rnn is a run of the task masked: use it with regard fill, or regard vectors"):
        load(made / "rnn", task="lm")
    with pytest.raises(RunError, match="lm is a run of the task lm: use it with regard generate"):
        load(made / "lm", task="masked")


def test_a_run_of_an_unknown_task_is_one_clear_line(made, tmp_path):
    run = shutil.copytree(made / "rnn", tmp_path / "run")
    toml = (run / "run.toml").read_text()
    (run / "run.toml").write_text(toml.replace('task = "masked"', 'task = "dance"'))
    with pytest.raises(SettingError, match="unknown task dance"):
        load(run)


def test_blanks_are_filled(model):
    filled = model.fill("the cat number ___ sat on mat 5", top=3)
    assert len(filled.blanks) == 1 and len(filled.blanks[0]) == 3 and "___" not in filled.text
    for wrong in (dict(top=0), dict(length=0)):
        with pytest.raises(SettingError, match="must be at least 1"):
            model.fill("the ___", **wrong)


def test_the_loss_on_held_out_text_is_that_of_training(made, model, tmp_path):
    documents = model.tables["data"]["documents"]
    cut = int(0.9 * len(TEXT)) if documents == "file" else TEXT.index("\n", int(0.9 * len(TEXT)) - 12) + 1
    (tmp_path / "valid.txt").write_text(TEXT[cut:])
    guesses = model.guess_files([str(tmp_path / "valid.txt")])
    rows = [line for line in (model.path / "metrics.jsonl").read_text().splitlines() if "valid_loss" in line]
    best = min(float(row.split('"valid_loss": ')[1].rstrip("}")) for row in rows)
    assert guesses.loss == pytest.approx(best, rel=1e-3)
    assert guesses.perplexity == pytest.approx(math.exp(best), rel=1e-2)
    assert 0 <= guesses.accuracy <= 1 and guesses.blanks > 5 and guesses.as_dict()["blanks"] == guesses.blanks


# -------------------------------------------------------------------------------------------- vectors


def test_a_vector_is_the_mean_over_the_tokens_in_any_company(model):
    texts = ["the cat sat", "", "the cat number 5 sat on mat 3 and the cat number 7 sat on mat 4 on the mat", "mat"]
    vectors = model.vectors(texts)
    assert vectors.shape == (4, model.model.encoder.d_out) and torch.isfinite(vectors).all()
    for text, vector in zip(texts, vectors, strict=True):
        torch.testing.assert_close(vector, model.vectors([text])[0], rtol=1e-4, atol=1e-6)
    ids = [*model.tokenizer.encode(texts[0]).tolist(), *([model.tokenizer.eos] if model.framed else [])]
    with torch.no_grad():
        expected = model.model.encode(torch.tensor([ids])).vectors[0].mean(0)
    torch.testing.assert_close(vectors[0], expected, rtol=1e-4, atol=1e-6)
    normal = model.vectors(texts[:1], normalise=True)[0]
    torch.testing.assert_close(normal, expected / expected.norm(), rtol=1e-4, atol=1e-6)


def test_a_long_text_is_read_in_windows_and_every_token_counts(made):
    model = regard.load(made / "transformer", device="cpu")
    text = "the cat number 5 sat on the mat"
    assert len(text) > model.context == 16
    parts = [model.vectors([text[first : first + 16]])[0] * len(text[first : first + 16]) for first in (0, 16)]
    torch.testing.assert_close(model.vectors([text])[0], sum(parts) / len(text), rtol=1e-4, atol=1e-6)
    assert model.encode(text).shape == (len(text), 16)


def test_a_line_is_nearest_to_itself(model):
    lines = ["the cat number 5 sat", "mat mat mat 3", "on on on", "the cat sat on the mat"]
    (first, at), *others = model.similar(lines[2], lines, top=3)
    assert at == 2 and first == pytest.approx(1, abs=1e-4) and len(others) == 2
    assert all(score < first for score, _ in others)
    with pytest.raises(DataError, match="there are no lines to compare with"):
        model.similar("the cat", [])
    with pytest.raises(DataError, match="give a list of texts"):
        model.vectors("the cat")


def test_watching_a_masked_transformer_shows_what_every_head_reads(made):
    model = regard.load(made / "transformer", device="cpu")
    with regard.watch() as seen:
        model.vectors(["the cat sat"])
    (reading,) = seen.of("weights")
    assert reading.values.shape == (1, 2, 11, 11) and (reading.values > 0).all()
