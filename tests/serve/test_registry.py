"""Models by id: named, described without loading, loaded when used, stopped when not wanted."""

import json
import math
import shutil
import subprocess
import sys

import pytest

import regard
from regard.errors import RunError
from regard.serve.refusals import Refusal
from regard.serve.registry import Registry, UnknownModel, unique_id
from regard.serve.run_files import example_of
from regard.tasks import CARDS

from .conftest import client_of, line_of


def test_ids_are_names_for_addresses_and_unique(runs, tmp_path):
    for folder in ("a/notes", "b/notes", "c/Mes notes é", "d/..."):
        (tmp_path / folder).parent.mkdir(exist_ok=True)
        shutil.copytree(runs / "stories-ngram", tmp_path / folder)
    made = Registry([tmp_path / each for each in ("a/notes", "b/notes", "c/Mes notes é", "d/...", "a/../a/notes")])
    assert list(made.models) == ["notes", "notes-2", "Mes-notes", "model"]
    assert unique_id("notes", {"notes", "notes-2"}) == "notes-3"


def test_an_unknown_id_is_told_what_there_is(registry):
    with pytest.raises(UnknownModel, match="did you mean phrasebook"):
        registry.get("phrasebok")


def test_what_is_described_is_what_is_loaded(registry, runs):
    for opened in registry:
        about, trained = opened.describe(), regard.load(runs / opened.id, "cpu")
        assert about.parameters == trained.parameters and about.family == trained.family
        assert about.vocabulary == trained.tokenizer.vocab_size
        assert about.steps == json.loads((runs / opened.id / "metrics.jsonl").read_text().splitlines()[-1])["step"]


def test_there_is_a_text_to_begin_with(registry, runs):
    first = {name: json.loads((runs / name / "samples.jsonl").read_text().splitlines()[0])
             for name in ("phrasebook", "stories-transformer")}
    assert registry.get("phrasebook").describe().example == first["phrasebook"]["prompt"] != ""
    told = registry.get("stories-transformer").describe().example
    both = first["stories-transformer"]
    assert told == f"{both['prompt']} {both['reference']}"[:400] != " "


def test_without_samples_a_text_of_the_corpus_will_do(tmp_path):
    for files, task, begins in (
            (["stories"], "lm", ""), (["own.txt"], "lm", "Once"), (["phrasebook"], "translate", "")):
        found = example_of(tmp_path, {"data": {"files": files, "langs": "fr-en"}}, CARDS[task])
        assert found and found.startswith(begins)
    assert example_of(tmp_path, {"data": {"files": ["phrasebook"], "langs": "en-fr"}}, CARDS["translate"]) != found
    (tmp_path / "samples.jsonl").write_text("{broken")
    assert example_of(tmp_path, {}, CARDS["lm"]) == "Once upon a time"


def test_a_model_of_an_embedded_corpus_has_prompts_to_try():
    def of(task, *files):
        return CARDS[task].find_examples({"data": {"files": list(files)}})

    assert of("lm", "sally")[0] == 'Sally looked around and saw a field. It was nice. She went here. Someone said "Hi,'
    assert of("lm", "ab")[:2] == ["A A B A ->", "A A A A ->"]
    assert not any((of("lm", "stories"), of("lm", "own.txt"), of("lm", "ab", "own.txt"), of("translate", "phrasebook")))
    assert of("caption", "own") == [f"shapes-{number}" for number in range(1, 7)]
    assert CARDS["lm"].find_examples({}) == []


def test_the_models_are_listed(client):
    models = {each["id"]: each for each in client.get("/api/models").json()["models"]}
    assert models["phrasebook"]["languages"] == ["fr", "en"] and models["phrasebook"]["task"] == "translate"
    assert models["phrasebook"]["fields"] == ["source", "target"] and "beam" in models["phrasebook"]["tabs"]
    assert models["stories-ngram"]["fields"] == ["text", "new_tokens"]
    assert models["stories-transformer"]["context"] == 128 and models["stories-ngram"]["context"] is None


def test_nothing_slow_is_loaded_before_it_is_needed(runs):
    asked = f"""
import sys
from regard.serve.app import make_app
from regard.serve.registry import Registry
registry = Registry([{str(runs / "phrasebook")!r}, {str(runs / "stories-ngram")!r}])
make_app(registry)
print([opened.describe().id for opened in registry], "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert done.stdout.strip() == "['phrasebook', 'stories-ngram'] False", done.stderr


def test_a_run_that_is_none_is_one_line(runs, tmp_path):
    with pytest.raises(RunError, match="there is no run at"):
        Registry([tmp_path / "nothing"])
    shutil.copytree(runs / "stories-ngram", tmp_path / "unfinished")
    (tmp_path / "unfinished" / "model.safetensors").unlink()
    with pytest.raises(RunError, match=r"has no model\.safetensors yet"):
        Registry([tmp_path / "unfinished"])


def test_a_damaged_run_is_said_when_used_and_hurts_no_other(runs, tmp_path, caplog):
    shutil.copytree(runs / "stories-ngram", tmp_path / "damaged")
    header = (tmp_path / "damaged" / "model.safetensors").read_bytes()[:2000]
    (tmp_path / "damaged" / "model.safetensors").write_bytes(header)
    made = Registry([tmp_path / "damaged", runs / "stories-ngram"])
    with pytest.raises(Refusal, match="log says why"):
        _ = made.get("damaged").trained
    client = client_of(made)
    asked = {"prompt": "Once", "max_tokens": 1}
    line = line_of(client.post("/v1/completions", json={"model": "damaged", **asked}), 503)
    assert str(tmp_path) not in line and str(tmp_path) in caplog.text
    assert client.post("/v1/completions", json={"model": "stories-ngram", **asked}).status_code == 200


def test_a_model_is_loaded_once(registry):
    assert registry.get("phrasebook").trained is registry.get("phrasebook").trained
    assert registry.get("phrasebook")._trained is not None
    assert registry.get("phrasebook").trained.model.training is False


def test_results_of_the_lab_pass_through(registry, tmp_path, caplog):
    card = {"name": "b", "number": 2, "verdict": "holds", "rules": [{"median": math.nan}], "arms": {},
            "table": {"columns": ["x"], "rows": [[1]]}, "plots": [{"title": "t", "file": "b-1.svg"}]}
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "b.json").write_text(json.dumps(card))
    (tmp_path / "cpu" / "b-1.svg").write_text("<svg/>")
    (tmp_path / "cpu" / "a.json").write_text(json.dumps({**card, "name": "a", "number": 1, "plots": []}))
    (tmp_path / "cpu" / "unfinished.json").write_text('{"arms": {}}')
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.json").write_text("[]")
    cards = client_of(registry, lab=tmp_path).get("/api/lab").json()["cards"]
    assert [each["name"] for each in cards] == ["a", "b"] and cards[1]["rules"] == [{"median": None}]
    assert cards[1]["plots"][0]["svg"] == "<svg/>" and cards[1]["csv"] == "x\r\n1\r\n"
    assert "broken.json" in caplog.text
    assert client_of(registry).get("/api/lab").json() == {"cards": []}
