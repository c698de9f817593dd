"""Samples: what a model writes now, of every kind of task, from what is held out."""

import base64
import json

import numpy as np
import pytest
import torch

import regard
from regard.config import fill
from regard.look.small_map import MOST, coarser, last_of, small_map
from regard.tasks import TASKS
from regard.tasks.translate.sample import middling
from tests.served_runs import RUNS, shared_folder, train

KINDS = {"stories-transformer": "weights", "stories-rnn": None, "stories-ngram": None, "stories-mamba": "kernel",
         "phrasebook": "weights", "phrasebook-transformer": "weights", "shapes": "weights", "gists": "weights"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A trained run with the corpus it was trained on."""
    folder, known = shared_folder(tmp_path_factory), {}

    def load(name):
        if name not in known:
            train(folder, (name,))
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("REGARD_CACHE", str(folder / "cache"))
                patch.chdir(folder)
                trained = regard.load(folder / "runs" / name, device="cpu")
                task = TASKS[RUNS[name][0]]
                data = fill(task.data, trained.tables["data"], "data")
                known[name] = task.name, trained, task.prepare(data, trained.tokenizer, say=lambda text: None)
        return known[name]

    return load


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_model_writes_something_and_the_same_again(made, name):
    task, trained, corpus = made(name)
    write = TASKS[task].sampler(trained.model, corpus, trained.context)
    sample = write()
    assert sample == write()
    assert json.loads(json.dumps(sample))["kind"] == task
    assert sample["reference"] and isinstance(sample["text"], str)
    if KINDS[name] is None:
        assert sample["map"] is None
        return
    rows, columns = sample["map"]["shape"]
    assert sample["map"]["kind"] == KINDS[name]
    assert (len(sample["map"]["rows"]), len(sample["map"]["columns"])) == (rows, columns)
    assert 1 <= rows <= MOST and 1 <= columns <= MOST
    assert len(base64.b64decode(sample["map"]["shades"])) == rows * columns
    assert len(json.dumps(sample)) < 12_000


def test_a_text_goes_on_as_generate_does(made):
    _, trained, corpus = made("stories-transformer")
    sample = TASKS["lm"].sampler(trained.model, corpus)()
    assert sample["text"] == trained.generate(sample["prompt"], new_tokens=60, seed=0)
    weights = shades(sample) ** 2
    torch.testing.assert_close(weights.sum(1), torch.ones(len(weights)), atol=0.05, rtol=0)    # rounded to bytes
    assert float(weights.triu(1).max()) == 0


def test_a_translation_is_the_greedy_one_and_its_map_what_the_reference_reads(made):
    _, trained, corpus = made("phrasebook")
    sample = TASKS["translate"].sampler(trained.model, corpus, trained.context)()
    assert sample["text"] == trained.translate([sample["prompt"]], beam=1)[0].text
    ids = [*trained.tokenizer.target.encode(sample["reference"]).tolist(), trained.tokenizer.eos]
    read = trained.reads(trained.encode([sample["prompt"]]), [ids])[0]
    expected = torch.from_numpy(np.asarray(read))[-1].mean(0)
    assert sample["map"]["rows"][-1] == "<eos>" and sample["map"]["columns"][-1] == "<eos>"
    seen = (shades(sample) ** 2)[:, :expected.shape[1]]                     # the end of the source is not told there
    torch.testing.assert_close(seen, expected.float(), atol=0.005, rtol=0)


def test_a_caption_has_its_picture_and_a_coarse_grid(made):
    _, trained, corpus = made("shapes")
    sample = TASKS["caption"].sampler(trained.model, corpus, trained.context)()
    assert base64.b64decode(sample["picture"]).startswith(b"\x89PNG")
    rows, columns = sample["map"]["grid"]
    assert rows * columns == sample["map"]["shape"][1] <= 36


def test_a_masked_model_fills_what_is_hidden(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("the cat sat on the mat in the old house by the sea\n" * 60)
    run = tmp_path / "run"
    regard.train("text.txt", task="masked", steps=4, out=str(run), quiet=True, device="cpu", settings={
        "model": {"layers": 1, "width": 16, "heads": 2, "context": 32}, "tokenizer": {"kind": "word"}})
    sample = json.loads((run / "samples.jsonl").read_text().splitlines()[-1])
    assert sample["kind"] == "masked" and "___" in sample["prompt"]
    assert sample["text"].count("[") == sample["prompt"].count("___") > 0
    rows, columns = sample["map"]["shape"]
    assert rows == columns == len(sample["map"]["rows"])
    torch.testing.assert_close((shades(sample) ** 2).sum(1), torch.ones(rows), atol=0.05, rtol=0)


def shades(sample):
    raw = np.frombuffer(base64.b64decode(sample["map"]["shades"]), np.uint8)
    return torch.from_numpy(raw.reshape(sample["map"]["shape"]).astype(np.float32) / 255)


def test_small_parts():
    assert small_map(["a"], ["b"], None) is None
    large = small_map([str(at) for at in range(50)], [str(at) for at in range(60)], np.ones((50, 60), np.float32))
    assert large["shape"] == [40, 40] and len(large["rows"]) == 40
    weights, grid = coarser(np.full((2, 14 * 14), 1 / 196, np.float32))
    assert grid == [5, 5] and weights.shape == (2, 25)
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-5)
    assert last_of([], 4) == (None, "")
    assert middling(np.array([3, 50, 7, 9]), 40) == 2
    assert middling(np.array([3, 50, 2]), 40) == 2
