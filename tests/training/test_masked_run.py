import hashlib
import json
import random

import pytest
import torch

from regard.errors import RunError, SettingError
from regard.training import choices, step
from regard.training.run import TrainRequest, run_training

TEXT = "".join(f"the cat number {i * 7 % 13} sat on mat {i * 5 % 11}\n" for i in range(80))
SETTINGS = {
    "transformer": {"model": dict(layers=1, width=16, heads=2, context=16, dropout=0.2), "tokenizer": dict(kind="char"),
                    "training": dict(steps=12, batch=4, valid_every=5, checkpoint_every=3, optimizer="muon", ema=0.9)},
    "rnn": {"model": dict(width=8, hidden=6, context=12, dropout=0.2), "tokenizer": dict(kind="word"),
            "training": dict(steps=12, batch=4, valid_every=5, checkpoint_every=3)},
}


@pytest.fixture
def order(tmp_path):
    torch.set_num_threads(1)
    (tmp_path / "text.txt").write_text(TEXT)

    def make(out, family="transformer", files=None, **options):
        options.setdefault("settings", SETTINGS.get(family))
        return TrainRequest(files or (str(tmp_path / "text.txt"),), task="masked", family=family,
                            out=str(tmp_path / out), device="cpu", quiet=True, **options)

    return make


def outcome(run):
    """Everything that must be equal: settings, tokenizer, weights, the last checkpoint, metrics but the seconds."""
    last = sorted((run / "checkpoints").iterdir())[-1]
    files = [run / "run.toml", run / "tokenizer.json", run / "model.safetensors", last / "model.safetensors",
             last / "training.safetensors"]
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        del row["seconds"]
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in files], last.name, rows


class Killed(BaseException):
    """Not an Exception: nothing may catch it."""


@pytest.mark.parametrize("family", SETTINGS)
@pytest.mark.parametrize("at", [2, 7, 11])
def test_a_run_that_was_killed_and_resumed_ends_with_the_same_bits(order, tmp_path, monkeypatch, family, at):
    run_training(order("whole", family))
    original, steps = step.update_weights, []

    def update(*given):
        steps.append(1)
        if len(steps) == at:
            raise Killed
        original(*given)

    monkeypatch.setattr(step, "update_weights", update)
    with pytest.raises(Killed):
        run_training(order("killed", family))
    monkeypatch.setattr(step, "update_weights", original)
    run_training(order("killed", family, resume=True))
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")


def test_the_run_says_its_task_and_counts_the_tokens_that_were_read(order, tmp_path):
    run_training(order("run", "rnn"))
    assert '[run]\nformat = 1\ntask = "masked"\nfamily = "rnn"' in (tmp_path / "run" / "run.toml").read_text()
    first = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])
    assert first["tokens"] == 4 * 9                            # four lines of eight words and <eos>; one or two hidden


def test_it_learns_what_can_only_be_known_from_both_sides(order, tmp_path):
    """x a x, y a y, ...: what is missing on one side stands on the other."""
    lines = [f"{a} {b} {a}\n" for a in "klmnop" for b in "qrstuv"] * 5
    (tmp_path / "echo.txt").write_text("".join(lines))
    training = dict(steps=250, batch=32, learning_rate=1e-2, valid_every=250, optimizer="muon")
    settings = {"model": dict(layers=1, width=32, heads=2, context=8), "tokenizer": dict(kind="word"),
                "training": training}
    model = run_training(order("echo", settings=settings, files=(str(tmp_path / "echo.txt"),)))
    for letter in "klmnop":
        for text in (f"___ q {letter}", f"{letter} u ___"):
            (best, *_), = model.fill(text).blanks
            assert best.text == letter and best.probability > 0.5, (text, best)


def test_a_run_begins_with_the_weights_of_another(order, tmp_path):
    base = run_training(order("base", "rnn"))
    training = {"training": dict(steps=1, batch=4, valid_every=1, learning_rate=0.0, muon_rate=0.0)}
    after = run_training(order("after", "rnn", base=str(tmp_path / "base"), settings=training))
    assert {name: torch.equal(tensor, after.model.saved_tensors()[name])
            for name, tensor in base.model.saved_tensors().items()} == dict.fromkeys(base.model.saved_tensors(), True)


def test_a_budget_in_minutes_becomes_steps_that_leave_no_trace(order, tmp_path, monkeypatch):
    timed = choices.time_steps
    monkeypatch.setattr(choices, "TRIAL_SECONDS", 0.01)
    monkeypatch.setattr(choices, "time_steps", lambda *given, **named: timed(*given, **named) and 0.1)  # on any machine
    settings = {**SETTINGS["rnn"], "training": dict(minutes=0.2, batch=4)}
    model = run_training(order("timed", "rnn", settings=settings))
    assert model.tables["training"]["steps"] > 1


def test_mistakes_are_one_clear_line(order, tmp_path):
    run_training(order("run", "rnn"))
    lm = TrainRequest((str(tmp_path / "text.txt"),), out=str(tmp_path / "run"), resume=True, device="cpu", quiet=True)
    with pytest.raises(RunError, match="is a run of the task masked: go on with it by `regard train masked`"):
        run_training(lm)
    with pytest.raises(RunError, match="is a run of the task masked: use it with regard fill"):
        run_training(TrainRequest(lm.files, out=str(tmp_path / "other"), base=str(tmp_path / "run"), device="cpu",
                                  quiet=True))
    with pytest.raises(SettingError, match="unknown family lstm"):
        run_training(order("none", "lstm", settings={}))
    streams = {**SETTINGS["rnn"], "training": dict(steps=1, reading="streams")}
    with pytest.raises(SettingError, match="a masked model reads in both directions"):
        run_training(order("streams", "rnn", settings=streams))
    with pytest.raises(SettingError, match=r"unknown setting model.order"):
        run_training(order("order", settings={"model": dict(order=3)}))


SUBJECTS = ("ship wave sail net harbour salt", "pan knife oven flour butter spoon", "seed spade rain root soil hedge")


def test_lines_of_one_subject_are_near_each_other_though_they_share_no_word(order, tmp_path):
    chance = random.Random(0)
    lines = [" ".join(chance.sample(chance.choice(SUBJECTS).split(), 5)) for _ in range(400)]
    (tmp_path / "subjects.txt").write_text("\n".join(lines))
    halves = [half for words in map(str.split, SUBJECTS) for half in (" ".join(words[:3]), " ".join(words[3:]))]

    def right(steps):
        """How many halves of a subject's words have the other half for their nearest line."""
        settings = {"model": dict(layers=1, width=32, heads=2, context=8), "tokenizer": dict(kind="word"),
                    "training": dict(steps=steps, batch=16, learning_rate=1e-2, optimizer="muon")}
        model = run_training(order(f"run-{steps}", settings=settings, files=(str(tmp_path / "subjects.txt"),)))
        return sum(model.similar(half, [other for other in halves if other != half], top=1)[0][1] == at // 2 * 2
                   for at, half in enumerate(halves))

    assert right(200) == len(halves) and right(1) < len(halves)
