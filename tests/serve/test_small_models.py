"""The small models that come with Regard: small, good enough to look at, made by their command, and only read."""

import hashlib
import math
import sys
from itertools import islice, pairwise
from pathlib import Path

import pytest

import regard
from regard.cli.serve import SMALL_MODELS, find_small_models
from regard.data import embedded
from regard.run_folder import RunFolder

sys.path.insert(0, str(Path(__file__).parents[2] / "install"))

import make_models

STORIES = list(islice(embedded.lines("stories", "test"), 20))


@pytest.fixture(autouse=True)
def untouched():
    """Nothing may be written where they lie: the package may be installed read-only."""
    before = hash_tree()
    yield
    assert hash_tree() == before


def hash_tree():
    return {path.relative_to(SMALL_MODELS): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in SMALL_MODELS.rglob("*") if path.is_file()}


def test_they_are_at_most_three_megabytes_and_nothing_else_lies_there(capsys):
    assert make_models.count_bytes() <= make_models.MOST_BYTES == 3_000_000
    assert [path.name for path in find_small_models()] == sorted(make_models.COMMANDS)
    assert str(SMALL_MODELS) in capsys.readouterr().err
    assert not list(SMALL_MODELS.rglob("checkpoints")) and not list(SMALL_MODELS.rglob("lock"))


@pytest.mark.parametrize("name", make_models.COMMANDS)
def test_each_was_made_by_its_command(name):
    """Task, family, steps and sizes as the command names them."""
    words = make_models.COMMANDS[name].split()
    tables = RunFolder.open(SMALL_MODELS / name).read_settings()
    given = {flag.removeprefix("--"): value for flag, value in pairwise(words)
             if flag.startswith("--") and flag != "--set"}
    assert (tables["run"]["task"], tables["data"]["files"]) == (words[1], [words[2]])
    assert given.pop("family") == tables["run"]["family"] and given.pop("tokenizer") == tables["tokenizer"]["kind"]
    for flag, value in given.items():
        kept = tables["model"].get(flag, tables.get("training", {}).get(flag))
        assert (",".join(map(str, kept)) if isinstance(kept, (list, tuple)) else str(kept)) == value, flag


@pytest.mark.parametrize("name, worst", [("stories-transformer", 1.2), ("stories-lstm", 1.3), ("stories-ngram", 1.6)])
def test_a_language_model_has_learned_the_stories(name, worst):
    model = regard.load(SMALL_MODELS / name, device="cpu")
    losses = [model.score(story) for story in STORIES]
    found = sum(each.nats for each in losses) / sum(each.tokens for each in losses)
    assert 0 < found < worst < math.log(441)
    assert model.generate("Once upon a time", new_tokens=8, seed=1)


def test_the_translator_translates():
    model = regard.load(SMALL_MODELS / "phrasebook", device="cpu")
    pairs = list(islice(embedded.pairs("phrasebook", "test"), 60))
    right = sum(line.text == pair.target
                for line, pair in zip(model.translate([pair.source for pair in pairs]), pairs, strict=True))
    assert right >= 40


def test_a_copy_without_them_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.cli.serve.SMALL_MODELS", tmp_path)
    with pytest.raises(regard.RegardError, match="no small models came with this copy of Regard: name one or more"):
        find_small_models()
