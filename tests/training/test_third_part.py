"""What is chosen on one part is reported on another: the halves of what is held out, and the figures at the end."""

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.cli import main
from regard.data.reading.corpus import DataSettings, find_parts
from regard.errors import RunError, SettingError
from regard.run_folder import RunFolder
from regard.tasks import TASKS
from regard.tasks.lm import task as lm
from regard.tasks.lm.mixing import PartScores
from regard.training.minutes import FITTING, make_pace
from regard.training.request import TrainRequest, plan_new
from regard.training.run import run_training
from regard.training.settings import TrainingSettings

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "some", "old", "red", "house", "by", "sea", "in", "june"]
SMALL = {"model": dict(layers=1, width=16, heads=2, context=16, dropout=0.0), "tokenizer": dict(kind="char"),
         "training": dict(steps=2, batch=4, compile="no")}
LABELLED = {"model": dict(layers=1, width=16, context=64, dropout=0.0), "training": dict(steps=2, batch=8)}
PAIRED = {"model": dict(layers=1, width=16, heads=2, context=32, dropout=0.0), "training": dict(steps=2, batch=256),
          "tokenizer": dict(kind="word")}


def write_text(characters, seed=0, words=WORDS):
    draw = random.Random(seed)
    text = " ".join(draw.choice(words) for _ in range(characters))
    return text[:characters]


def train(files, task="lm", out="run", settings=SMALL, resume=False, mix=False, **data):
    tables = settings if resume else {**settings, "data": data}
    return run_training(TrainRequest(tuple(map(str, files)), task=task, out=str(out), settings=tables, resume=resume,
                                     mix=mix or None, family="transformer" if task == "lm" else None, device="cpu",
                                     quiet=True))


def figures(run):
    """What test.json holds, but for the hash of the weights."""
    values = json.loads((Path(run.path) / "test.json").read_text())
    return {name: value for name, value in values.items() if name != "weights"}


def score(capsys, *words):
    """What `regard score` says of some files."""
    capsys.readouterr()
    main(["score", *map(str, words), "--json", "--device", "cpu"])
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def text(tmp_path):
    """A text of 50,000 characters: 45,000 to learn from, 2,500 to choose by and 2,500 to report on."""
    path, written = tmp_path / "text.txt", write_text(50_000)
    path.write_text(written)
    return path, written[45_000:47_500], written[47_500:]


# ------------------------------------------------------------------------------------------------ language models


@pytest.mark.parametrize("mix", [False, True])
def test_the_test_loss_is_that_of_the_other_half_as_score_says_it(text, tmp_path, capsys, mix):
    path, chooses, reports = text
    run = train([path], mix=mix)
    (tmp_path / "half.txt").write_text(reports)
    told, found = score(capsys, run.path, tmp_path / "half.txt"), figures(run)
    assert found["test_loss"] == pytest.approx(told["loss"], rel=1e-6)
    assert found["test_bits_per_byte"] == pytest.approx(told["bits_per_byte"], rel=1e-6)
    assert found["test_tokens"] == told["tokens"] == len(reports) + 1                # with its end
    if mix:
        assert found["test_network_loss"] == pytest.approx(told["network"]["loss"], rel=1e-6)
        assert found["test_ngram_loss"] == pytest.approx(told["n-gram"]["loss"], rel=1e-6)
    (tmp_path / "other.txt").write_text(chooses)
    assert abs(found["test_loss"] - score(capsys, run.path, tmp_path / "other.txt")["loss"]) > 1e-4


class OnGPU(torch.Tensor):
    """A tensor that has to be copied before numpy sees it, as one on a GPU has."""

    def numpy(self, **options):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def cpu(self, **options):
        return self.as_subclass(torch.Tensor)


def test_a_mixture_whose_network_is_on_a_gpu_is_measured_too(text, monkeypatch):
    by_name = PartScores.by_name
    monkeypatch.setattr(PartScores, "by_name", lambda scores, mixture: {
        name: each.as_subclass(OnGPU) for name, each in by_name(scores, mixture).items()})
    assert figures(train([text[0]], mix=True))["test_loss_interval"]


def test_the_interval_of_the_test_loss_is_that_of_its_stretches(text, tmp_path):
    run = train([text[0]])
    (tmp_path / "half.txt").write_text(text[2])
    scores = run.token_scores(run.encode_files([str(tmp_path / "half.txt")])).double().numpy()
    units = [-scores[first:first + 256] for first in range(0, len(scores), 256)]
    sums, sizes = np.array([each.sum() for each in units]), np.array([len(each) for each in units])
    found, draw = figures(run), np.random.default_rng(1).integers(len(units), size=(4000, len(units)))
    drawn = np.sort(sums[draw].sum(1) / sizes[draw].sum(1))
    (low, high), half = found["test_loss_interval"], (drawn[3899] - drawn[100]) / 2
    assert (low, high) == pytest.approx((drawn[100], drawn[3899]), abs=0.3 * half) and half > 0
    assert low < found["test_loss"] < high and found["test_interval_over"] == "stretches of 256 tokens"


def test_the_three_parts_are_the_ones_that_can_be_counted_by_hand(text):
    path, chooses, reports = text
    corpus = plan_new(TrainRequest((str(path),), settings=SMALL, device="cpu"), lambda line: None).corpus
    assert corpus.tokenizer.decode(corpus.valid.tokens) == chooses
    assert corpus.tokenizer.decode(corpus.test().tokens) == reports
    assert len(corpus.train.tokens) == 45_000 and corpus.measured_on == "half"
    parts = find_parts(DataSettings((str(path),), halve=True))                       # what `regard data check` looks at
    assert {name: "".join(each()).removesuffix("\n") for name, each in parts.items()} == {
        "train": path.read_text()[:45_000], "valid": chooses, "test": reports}


def test_check_looks_at_the_same_three_parts(text, tmp_path, capsys):
    """The last line of the text stands in the training part too: that is an overlap of test, and not of valid."""
    path, line = text[0], "a line of several words that stands here twice"
    path.write_text(f"{line}\n{path.read_text()}\n{line}")
    main(["data", "check", str(path), "--json"])
    parts = {each["part"]: each for each in json.loads(capsys.readouterr().out)["parts"]}
    assert set(parts) == {"valid", "test"} and (parts["valid"]["same"], parts["test"]["same"]) == (0, 1)
    (tmp_path / "test.txt").write_text("nothing of the sort stands in there\n")
    main(["data", "check", str(path), "--test", str(tmp_path / "test.txt"), "--json"])
    parts = {each["part"]: each for each in json.loads(capsys.readouterr().out)["parts"]}
    assert (parts["valid"]["same"], parts["test"]["same"]) == (1, 0)


def choose_on(files, test, out):
    """Train so that the best step depends on the text that chooses; return the weights and the mixture."""
    fast = {**SMALL, "training": dict(steps=12, valid_every=2, batch=4, compile="no", learning_rate=0.03,
                                      optimizer="adamw", schedule="constant")}
    run = train([files[0]], out=out, settings=fast, mix=True, valid=(str(files[1]),), test=(str(test),))
    return [(run.path / name).read_bytes() for name in ("model.safetensors", "mixture.json")], figures(run)


@pytest.fixture
def far_apart(tmp_path):
    """A text to learn, one to choose by, one like them, and one that gets worse the longer one learns."""
    texts = {"train": write_text(20_000, 1), "valid": write_text(3000, 2), "like": write_text(3000, 3),
             "unlike": write_text(3000, 4, ["ehe", "tth", "uuu", "zzz", "jjj jjj"])}
    for name, written in texts.items():
        (tmp_path / name).write_text(written)
    return {name: tmp_path / name for name in texts}


def test_nothing_is_chosen_by_the_test_part(far_apart, tmp_path):
    files = far_apart["train"], far_apart["valid"]
    first, told = choose_on(files, far_apart["like"], tmp_path / "a")
    second, other = choose_on(files, far_apart["unlike"], tmp_path / "b")
    assert first == second
    assert other["test_loss"] > told["test_loss"] + 0.5


def test_a_choice_on_the_test_part_would_be_seen(far_apart, tmp_path, monkeypatch):
    def held_out(corpus, s, context):
        return lm.held_out(replace(corpus, valid=corpus.test()), s, context)

    monkeypatch.setattr(lm, "TASK", replace(lm.TASK, held_out=held_out))
    files = far_apart["train"], far_apart["valid"]
    first, _ = choose_on(files, far_apart["like"], tmp_path / "a")
    second, _ = choose_on(files, far_apart["unlike"], tmp_path / "b")
    assert first[0] != second[0]


def test_a_long_test_part_is_measured_from_its_beginning_and_the_line_says_so(text, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("regard.tasks.lm.score.MOST_TOKENS", 1000)
    path, _, reports = text
    run = run_training(TrainRequest((str(path),), family="transformer", out=str(tmp_path / "run"), settings=SMALL,
                                    device="cpu"))
    assert "on the first 1,000 of 2,501 tokens by which nothing was chosen" in capsys.readouterr().err
    (tmp_path / "half.txt").write_text(reports[:1000])
    scores = run.token_scores(run.encode_files([str(tmp_path / "half.txt")]))[:1000]              # without its end
    assert figures(run)["test_loss"] == pytest.approx(-float(scores.double().mean()), rel=1e-6)


def test_documents_are_not_cut_by_the_limit(tmp_path):
    (tmp_path / "lines.txt").write_text("".join(f"line {number} of some\n" for number in range(400)))
    settings = {**SMALL, "data": {"documents": "line"}}
    corpus = plan_new(TrainRequest((str(tmp_path / "lines.txt"),), settings=settings, device="cpu"),
                      lambda line: None).corpus
    whole = corpus.test()
    part = whole.first(100)
    assert len(whole.ends) == 20 and len(part.ends) == part.counts.documents == 5
    assert len(part) == part.ends[-1] == whole.ends[4] <= 100 < whole.ends[5]
    assert part.counts.bytes == round(whole.counts.bytes * len(part) / len(whole)) and whole.first(10**6) is whole


def test_an_n_gram_alone_reports_too(text, tmp_path, capsys):
    run = run_training(TrainRequest((str(text[0]),), family="ngram", out=str(tmp_path / "run"), device="cpu",
                                    quiet=True))
    (tmp_path / "half.txt").write_text(text[2])
    assert figures(run)["test_loss"] == pytest.approx(score(capsys, run.path, tmp_path / "half.txt")["loss"], rel=1e-6)


def test_an_infinite_loss_is_json_all_the_same(text, tmp_path):
    text[0].write_text(text[0].read_text()[:-5] + "zqxzq")
    run = run_training(TrainRequest((str(text[0]),), family="ngram", out=str(tmp_path / "run"), quiet=True,
                                    device="cpu", settings={"model": {"smoothing": "none"}}))
    assert figures(run)["test_loss"] is None


# ---------------------------------------------------------------------------------------------------- other tasks


def write_pairs(tmp_path, name, number, seed):
    draw = random.Random(seed)
    rows = [[draw.choice(WORDS) for _ in range(draw.randint(3, 7))] for _ in range(number)]
    for end, turn in (("fr", 1), ("en", -1)):
        (tmp_path / f"{name}.{end}").write_text("".join(" ".join(row[::turn]) + "\n" for row in rows))
    return tmp_path / f"{name}.fr", tmp_path / f"{name}.en"


def keep_odd(tmp_path, *files):
    """Every other line of some files, from the second on: the half of a file of its own that is reported on."""
    kept = [tmp_path / f"odd-{file.name}" for file in files]
    for file, path in zip(files, kept, strict=True):
        path.write_text("".join(file.read_text().splitlines(True)[1::2]))
    return kept


def test_a_translator_reports_on_every_other_pair(tmp_path, capsys):
    valid = write_pairs(tmp_path, "valid", 40, 2)
    run = train(write_pairs(tmp_path, "train", 200, 1), "translate", settings=PAIRED, valid=tuple(map(str, valid)))
    found = figures(run)
    told = score(capsys, run.path, *keep_odd(tmp_path, *valid), "--beam", "1")
    assert found.pop("test_bleu_interval") == pytest.approx(told["bleu_interval"], rel=1e-9)
    assert found.pop("test_interval_over") == "pairs"
    assert found == pytest.approx({"test_bleu": told["bleu"], "test_loss": told["loss"], "test_pairs": 20}, rel=1e-5)


def test_pairs_that_are_all_too_long_have_no_loss_and_end_no_training(tmp_path):
    test = write_pairs(tmp_path, "test", 4, 3)
    for path in test:
        path.write_text(path.read_text().replace("\n", " the" * 40 + "\n"))
    run = train(write_pairs(tmp_path, "train", 200, 1), "translate", settings=PAIRED, test=tuple(map(str, test)))
    assert set(figures(run)) == {"test_bleu", "test_pairs"}


def test_a_summariser_reports_its_rouge(tmp_path, capsys):
    valid = write_pairs(tmp_path, "valid", 40, 2)
    run = train(write_pairs(tmp_path, "train", 200, 1), "summarise", settings=PAIRED, valid=tuple(map(str, valid)))
    told = score(capsys, run.path, *keep_odd(tmp_path, *valid), "--beam", "1")
    found = figures(run)
    assert found.pop("test_rouge_interval") == pytest.approx(told["rougeL_interval"], rel=1e-9)
    assert found.pop("test_interval_over") == "pairs"
    assert found == pytest.approx({"test_rouge": told["rougeL"], "test_loss": told["loss"], "test_pairs": 20}, rel=1e-5)


def write_labelled(path, number, seed):
    draw = random.Random(seed)
    rows = [(label, [label, *draw.choices(WORDS, k=5)]) for label in draw.choices("xyz", k=number)]
    path.write_text("".join(f"{label}\t{' '.join(words)} {n}\n" for n, (label, words) in enumerate(rows)))
    return path


def test_a_classifier_reports_its_accuracy(tmp_path, capsys):
    valid = write_labelled(tmp_path / "valid.tsv", 60, 2)
    run = train([write_labelled(tmp_path / "train.tsv", 200, 1)], "classify", settings=LABELLED, valid=(str(valid),))
    told, found = score(capsys, run.path, *keep_odd(tmp_path, valid)), figures(run)
    assert (found["test_texts"], found["test_accuracy"]) == (30, pytest.approx(100 * told["accuracy"]))
    assert found["test_accuracy_interval"] == pytest.approx([100 * each for each in told["accuracy_interval"]], abs=7)
    low, high = found["test_accuracy_interval"]                                  # in steps of a text
    assert low <= found["test_accuracy"] <= high and found["test_interval_over"] == "texts"


def write_tagged(path, number, seed):
    draw = random.Random(seed)
    path.write_text("".join(" ".join(f"{word}/{'ABC'[len(word) % 3]}" for word in draw.choices(WORDS, k=6)) + "\n"
                            for _ in range(number)))
    return path


def test_a_tagger_reports_its_accuracy(tmp_path, capsys):
    valid = write_tagged(tmp_path / "valid.txt", 40, 2)
    run = train([write_tagged(tmp_path / "train.txt", 200, 1)], "tag", settings=LABELLED, valid=(str(valid),))
    told, found = score(capsys, run.path, *keep_odd(tmp_path, valid)), figures(run)
    assert (found["test_words"], found["test_accuracy"]) == (120, pytest.approx(100 * told["accuracy"]))


def test_labels_are_cut_between_texts_by_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.tasks.classify.task.MOST_TOKENS", 100)
    for task, files in (("classify", [write_labelled(tmp_path / "train.tsv", 400, 1)]),
                        ("tag", [write_tagged(tmp_path / "train.txt", 400, 1)])):
        run = train(files, task, out=tmp_path / task, settings=LABELLED)
        number = figures(run)["test_texts" if task == "classify" else "test_words"]
        assert 1 <= number < 20 * (1 if task == "classify" else 6)


def test_a_test_label_that_was_never_seen_is_refused_before_training(tmp_path):
    (tmp_path / "test.tsv").write_text("w\tsome words of it\n")
    with pytest.raises(regard.errors.RegardError, match="w"):
        train([write_labelled(tmp_path / "train.tsv", 200, 1)], "classify", settings=LABELLED,
              test=(str(tmp_path / "test.tsv"),))
    assert not (tmp_path / "run").exists()


def test_a_masked_model_reports_on_hidden_tokens(text, tmp_path):
    run = train([text[0]], "masked")
    (tmp_path / "half.txt").write_text(text[2])
    told, found = run.guess_files([str(tmp_path / "half.txt")]), figures(run)
    low, high = found.pop("test_accuracy_interval")
    assert low <= found["test_accuracy"] <= high and found.pop("test_interval_over") == "stretches of the text"
    assert found == pytest.approx({"test_loss": told.loss, "test_accuracy": 100 * told.accuracy,
                                   "test_blanks": told.blanks, "test_tokens": 2501})


# ------------------------------------------------------------------------------------------- what a new run holds out


def test_every_task_that_knows_halves_reports_and_no_other_is_halved():
    for task in TASKS.values():
        knows = hasattr(task.data(files=("x",)), "halve")
        assert (task.test is not None) == knows, task.name


@pytest.mark.parametrize(("data", "halved", "tested"), [
    ({}, True, "half"), ({"halve": False}, False, ""), ({"test": ("other.txt",)}, False, "test"),
    ({"valid": ("other.txt",)}, True, "half")])
def test_what_the_user_says_wins(text, tmp_path, monkeypatch, data, halved, tested):
    monkeypatch.chdir(tmp_path)
    Path("other.txt").write_text(write_text(5000, 7))
    plan = plan_new(TrainRequest((str(text[0]),), settings={**SMALL, "data": data}, device="cpu"), lambda line: None)
    assert (plan.data.halve, plan.corpus.measured_on) == (halved, tested)
    assert plan.tables()["data"]["halve"] is halved


def test_a_small_text_is_not_divided_and_has_no_test_part(tmp_path):
    (tmp_path / "text.txt").write_text(write_text(40_000))                           # 4,000 held out: 96 too few
    run = train([tmp_path / "text.txt"])
    assert not (run.path / "test.json").exists()


def test_the_sizes_of_the_parts_and_the_figures_are_said(text, tmp_path, capsys):
    main(["train", "lm", str(text[0]), "--family", "transformer", "--tokenizer", "char", "--layers", "1", "--width",
          "16", "--heads", "2", "--context", "16", "--steps", "2", "--batch", "4", "--json", "--out",
          str(tmp_path / "run")])
    out, err = capsys.readouterr()
    found = RunFolder(tmp_path / "run").read_test()
    assert "text       45,000 characters to learn from, 2,500 held out to choose by, 2,500 to report on" in err
    assert err.splitlines()[-1] == (f"test       loss {found['test_loss']:.4f} · {found['test_bits_per_byte']:.4f} "
                                    "bits per byte, on 2,501 tokens by which nothing was chosen")
    assert {name: value for name, value in json.loads(out).items() if name.startswith("test_")} == found


@pytest.mark.parametrize(("task", "flags", "wanted"), [
    ("lm", ["--test", "a", "--test", "b"], ("a", "b")), ("masked", ["--test", "a"], ("a",)),
    ("classify", ["--test", "a"], ("a",)), ("tag", ["--test", "a", "--test", "b"], ("a", "b")),
    ("translate", ["--test", "a", "b"], ("a", "b")), ("translate", ["--test-pairs", "a"], ("a",)),
    ("summarise", ["--test", "a", "b"], ("a", "b")), ("summarise", ["--test-pairs", "a"], ("a",))])
def test_test_files_are_named_by_flags(task, flags, wanted, monkeypatch):
    asked = []
    monkeypatch.setattr("regard.training.run.run_training", lambda request, *rest: asked.append(request))
    main(["train", task, "x", *flags])
    assert asked[0].settings["data"]["test"] == wanted


# ------------------------------------------------------------------------------------------------------- resuming


def test_a_run_begun_without_halves_goes_on_without_them(text, tmp_path):
    run = train([text[0]], halve=False)
    settings = tmp_path / "run" / "run.toml"
    lines = settings.read_text().splitlines(True)
    settings.write_text("".join(line for line in lines if not line.startswith(("halve", "test ="))))      # as it was
    again = train([text[0]], settings={"training": {"steps": 4}}, resume=True)
    four = {**SMALL, "training": {**SMALL["training"], "steps": 4}}
    whole = train([text[0]], out="whole", settings=four, halve=False)
    assert not (run.path / "test.json").exists() and not (again.path / "test.json").exists()
    losses = [[row["valid_loss"] for row in map(json.loads, (path / "metrics.jsonl").read_text().splitlines())
               if "valid_loss" in row][-1] for path in (again.path, whole.path)]
    assert losses[0] == losses[1]


def test_a_resumed_run_reports_at_its_end_and_one_at_its_end_again(text, tmp_path):
    first = train([text[0]], mix=True)
    before = figures(first)
    assert figures(train([text[0]], settings={}, resume=True, mix=True)) == before
    longer = figures(train([text[0]], settings={"training": {"steps": 6}}, resume=True, mix=True))
    assert longer["test_tokens"] == before["test_tokens"] and longer["test_network_loss"] != before["test_network_loss"]


def test_figures_of_other_weights_are_not_shown(text, tmp_path):
    run = train([text[0]])
    folder = RunFolder(run.path)
    assert folder.read_test() == figures(run)
    folder.save_weights({name: tensor + 1 for name, tensor in run.model.saved_tensors().items()})
    assert folder.read_test() is None and (run.path / "test.json").exists()


def test_damaged_figures_are_seen(text):
    run = train([text[0]])
    path = run.path / "test.json"
    path.write_text(path.read_text().replace("2501", "2502"))
    with pytest.raises(RunError, match=r"test.json is not as it was written"):
        RunFolder(run.path).read_test()


def test_test_files_cannot_be_added_to_a_run_but_may_lie_elsewhere(text, tmp_path):
    (tmp_path / "test.txt").write_text(text[2])
    train([text[0]])
    with pytest.raises(SettingError, match=r"data.test cannot change"):
        train([text[0]], settings={"data": {"test": (str(tmp_path / "test.txt"),)}}, resume=True)
    train([text[0]], out="named", test=(str(tmp_path / "test.txt"),))
    moved = (tmp_path / "test.txt").rename(tmp_path / "moved.txt")
    assert train([text[0]], out="named", settings={"data": {"test": (str(moved),)}}, resume=True)
    moved.write_text(text[1])
    with pytest.raises(RunError, match="the text has changed"):
        train([text[0]], out="named", settings={"data": {"test": (str(moved),)}}, resume=True)


# ---------------------------------------------------------------------------------------------------- the minutes


def test_the_time_of_the_test_pass_is_kept_free():
    s = TrainingSettings(steps=100, minutes=2.0, lead=1.0, valid_one_in=2)
    without = make_pace(s, 100, 10**6, 20_000, 0)
    assert without.passes_after == 0.0
    assert make_pace(s, 100, 10**6, 20_000, 0, 20_000).passes_after == 2.0           # a validation measures 10,000
    assert make_pace(s, 100, 10**6, 20_000, 0, None).passes_after == 1.0
    assert make_pace(s, 100, 10**6, 20_000, 10_000, 20_000).passes_after == pytest.approx(FITTING * (1 + 2))
    steps = [make_pace(s, 100, 10**6, 20_000, 0, tested) for tested in (0, 20_000)]
    for pace in steps:
        pace.step_seconds, pace.validation = 0.1, 5.0
    assert steps[0].affordable(0, 0.0, s) > steps[1].affordable(0, 0.0, s)


