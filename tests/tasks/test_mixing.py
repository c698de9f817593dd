"""`regard train lm` counts first and mixes: what a run folder holds, what commands say, and what is refused."""

import json
import shutil

import pytest
import torch

import regard
from regard.cli import main
from regard.errors import RunError, SettingError
from regard.look.arithmetic import arithmetic
from regard.look.look import Request, look
from regard.models.mixture import Mixture

TEXT = "the cat sat on the mat and the dog saw the cat run to the old red house by the sea"
SMALL = {"model": {"layers": 1, "width": 16, "heads": 2, "context": 16}, "training": {"batch": 4, "compile": "no"}}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("mixing") / "text.txt"
    path.write_text("\n".join(TEXT[i % 40:] + TEXT[:i % 7] for i in range(300)))
    return path


@pytest.fixture(scope="module")
def mixed(text):
    return regard.train(str(text), steps=6, settings=SMALL, out=str(text.parent / "mixed"), quiet=True)


def test_without_a_family_the_model_is_a_mixture_that_is_saved_whole(text, mixed):
    loaded = regard.load(mixed.path)
    assert isinstance(loaded.model, Mixture) and isinstance(mixed.model, Mixture)
    assert loaded.score("the cat sat").nats == mixed.score("the cat sat").nats
    told = json.loads((mixed.path / "mixture.json").read_text())
    assert told["losses"]["mixture"] <= min(told["losses"]["network"], told["losses"]["n-gram"]) + 1e-3
    tokens = loaded.tokenizer.encode("the cat sat on the mat").tolist()
    with torch.no_grad():
        alone = regard.load(mixed.path, alone=True)
        assert not isinstance(alone.model, Mixture)
        state, ids = alone.model.start(1, 8), torch.tensor([[1, *tokens[:3]]], device=alone.model.device)
        torch.testing.assert_close(alone.model.step(ids, state)[0],
                                   loaded.model.network.step(ids, loaded.model.network.start(1, 8))[0])


def test_a_named_family_comes_alone_unless_mixing_is_asked_for(text, tmp_path):
    alone = regard.train(str(text), steps=2, family="lstm", settings={"model": {"hidden": 16}}, out=str(tmp_path / "a"),
                         quiet=True)
    assert not isinstance(alone.model, Mixture) and "ngram" not in alone.tables
    both = regard.train(str(text), steps=2, family="lstm", mix=True, out=str(tmp_path / "b"), quiet=True,
                        settings={"model": {"hidden": 16}, "ngram": {"order": 3}})
    assert both.model.ngram.order == 3 and both.family == "lstm" and both.check_laws().ok
    plain = regard.train(str(text), steps=2, mix=False, settings=SMALL, out=str(tmp_path / "c"), quiet=True)
    assert not isinstance(plain.model, Mixture)


def test_the_score_shows_all_three(text, mixed, capsys):
    def score(*options):
        main(["score", str(mixed.path), str(text), *options])
        return capsys.readouterr().out

    told = json.loads(score("--json"))
    assert told["loss"] == told["mixture"]["loss"]
    assert told["mixture"]["loss"] < told["network"]["loss"] and told["n-gram"]["bits_per_byte"] > 0
    assert [line.split()[0] for line in score().splitlines() if line.startswith(("network", "n-gram", "mixture"))] == [
        "network", "n-gram", "mixture"]


def test_the_look_shows_the_share_of_both_in_each_row(mixed):
    seen = look(mixed, Request(text="the cat sat"))
    assert {"self", "back-off", "mixture"} <= {track.name for track in seen.tracks}
    values = seen.track("mixture").values
    assert values.shape == (1, 1, len(seen.sides["text"].tokens), 3)
    assert values.sum(-1) == pytest.approx(1.0)
    sheet = arithmetic(mixed, seen, "back-off", 1, 1, 2, 1)
    assert sheet.kind == "back-off" and arithmetic(mixed, seen, "self", 1, 1, 2, 1).kind == "attention"
    with pytest.raises(SettingError, match="mixture is no attention"):
        arithmetic(mixed, seen, "mixture", 1, 1, 2, 1)


def test_a_resumed_run_ends_with_the_same_files(text, tmp_path):
    for name, steps in (("whole", 6), ("cut", 3)):
        regard.train(str(text), steps=steps, settings=SMALL, out=str(tmp_path / name), quiet=True)
    regard.train(str(text), steps=6, out=str(tmp_path / "cut"), resume=True, quiet=True)
    first, second = ((tmp_path / name / "ngram.safetensors").read_bytes() for name in ("whole", "cut"))
    assert first == second
    assert regard.load(tmp_path / "cut").model.numbers.shape == (5, 2)


@pytest.mark.parametrize(("options", "said"), [
    (dict(family="ngram", mix=True), "--mix: a ngram of the task lm is not mixed with an n-gram"),
    (dict(family="lstm", settings={"ngram": {"order": 3}}), r"the table \[ngram\] is of a mixture: add --mix"),
    (dict(settings={"ngram": {"order": 9}}), "order 9: an n-gram has between 1 and 7 words"),
])
def test_what_cannot_be_mixed_is_refused(text, tmp_path, options, said):
    with pytest.raises(SettingError, match=said):
        regard.train(str(text), steps=1, out=str(tmp_path / "run"), quiet=True, **options)


def test_resuming_keeps_the_choice(text, mixed):
    with pytest.raises(SettingError, match=r"--no-mix: .* was begun with an n-gram; leave it out"):
        regard.train(str(text), steps=6, out=str(mixed.path), resume=True, mix=False, quiet=True)


@pytest.mark.parametrize(("name", "damage", "said"), [
    ("mixture.json", b"{}", "mixture.json is not as it was written"),
    ("ngram.safetensors", b"", "ngram.safetensors is not as it was written"),
    ("ngram.safetensors", None, "ngram.safetensors is missing"),
])
def test_a_damaged_part_is_refused_in_one_line(mixed, tmp_path, name, damage, said):
    copy = shutil.copytree(mixed.path, tmp_path / "copy")
    (copy / name).unlink() if damage is None else (copy / name).write_bytes(damage)
    with pytest.raises(RunError, match=said):
        regard.load(copy)
