"""Training on several ranks is training: the weights of one process, but for the order of sums.

All cases run in one pair of processes, and then each in one process. REGARD_RANKS=4 has four, and `make ranks` every
family and task.
"""

import json
import os

import pytest
import torch

from regard.run_folder import RunFolder, unpack
from regard.training.checkpoint import saved_state
from tests.training.ranks import DEADLINE, run_ranks

COUNT = int(os.environ.get("REGARD_RANKS", "2"))
LINES = "".join("the cat " * (1 + i * 5 % 7) + f"sat on mat {i * 7 % 13}\n" for i in range(120))
SIZES = dict(width=16, layers=1, context=24, dropout=0.0)
USUAL = dict(steps=12, batch=6, valid_every=6, learning_rate=1e-2, samples=False)
EXACT, ROUNDED = 1e-10, 1e-5


def case(name, family, model=None, plant=None, dtype="float64", documents="line", **training):
    return {"name": name, "family": family, "plant": plant, "dtype": dtype, "files": ["lines.txt"],
            "settings": {"model": {**SIZES, **(model or {})}, "training": {**USUAL, **training},
                         "tokenizer": {"kind": "char"}, "data": {"documents": documents}}}


def task(name, family, files, **model):
    """A task that judges what the model writes or tells at each validation."""
    data = {"task": name, "files": files, "settings": {
        "model": {"width": 12, "hidden": 12, "context": 24, "dropout": 0.0, **model}, "tokenizer": {"kind": "word"},
        "data": {"halve": False, "valid_share": 0.2}, "training": {**USUAL, "batch": 60, "optimizer": "adamw"}}}
    return {**case(name, family), **data}


TRANSFORMER = case("transformer", "transformer", dict(heads=2, layers=2), optimizer="muon", clip=0.05, ema=0.9)
BUCKETS = case("buckets", "transformer", dict(heads=2, layers=2), optimizer="muon", clip=0.05, ema=0.9, micro_batch=1)
BUCKETS = {**BUCKETS, "parallel": "buckets", "bucket": 2**12}
CASES = [
    TRANSFORMER,
    BUCKETS,
    case("accumulated", "transformer", dict(heads=2), optimizer="adamw", micro_batch=2, clip=0.05),
    case("gru", "gru", dict(hidden=12), optimizer="adamw", reading="streams", documents="file", ema=0.9),
    case("mamba", "mamba", optimizer="muon"),
    case("linear-rnn", "linear-rnn", optimizer="adamw", clip=0.05),
    case("average", "average", dict(hidden=12), optimizer="muon", reading="windows", documents="file"),
    case("uneven rows", "average", dict(hidden=12), optimizer="adamw", batch=5),
    case("fewer rows than ranks", "gru", dict(hidden=12), optimizer="muon", batch=1),
    task("translate", "rnn-attention", ["a.fr", "a.en"]),
    task("classify", "average", ["labels.tsv"], word_dropout=0.0),
    case("float32", "transformer", dict(heads=2), dtype="float32", optimizer="adamw"),
]
STREAMS = case("streams", "gru", dict(hidden=12), optimizer="muon", reading="streams", documents="file", ema=0.9)


def resumed(whole):
    """A run on all ranks that is stopped by a signal to the last, taken up and stopped in one process, and ended on
    all ranks."""
    name = f"resumed {whole['name']}"
    parts = [{"stop": (COUNT - 1, 4)}, {"stop": (0, 7), "resume": True, "taken up": True}, {"resume": True}]
    return [{**whole, **part, "name": f"{name} {number}", "run": name, "alone": False}
            for number, part in enumerate(parts)]


RESUMED = [TRANSFORMER, STREAMS]
NOISY = case("noisy", "transformer", dict(heads=2, dropout=0.2), optimizer="adamw", ema=0.9)
AGAIN = [{**NOISY, "name": "noisy again 1", "run": "noisy again", "stop": (0, 4)},
         {**NOISY, "name": "noisy again 2", "run": "noisy again", "resume": True, "alone": False}]
PLANTED = [{**TRANSFORMER, "name": plant, "plant": plant, "alone": False}
           for plant in ("mean", "rows of another", "lost parts", "partial norm", "drift")]
PLANTED.append({**BUCKETS, "name": "buckets too soon", "plant": "buckets too soon", "alone": False})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("ranks")
    (path / "lines.txt").write_text(LINES)
    parts = [part for whole in RESUMED for part in resumed(whole)]
    write_pairs(path)
    cases = [{**each, "files": [str(path / name) for name in each["files"]]}
             for each in (*CASES, STREAMS, *PLANTED, *parts, {**NOISY, "alone": False}, {**AGAIN[0], "alone": False},
                          AGAIN[1])]
    return run_cases(path, cases)


def run_cases(path, cases, count=COUNT, deadline=DEADLINE):
    (path / "cases.json").write_text(json.dumps(cases))
    for code, _, err in run_ranks(count, ["-m", "tests.training.rank_worker", path], deadline):
        assert code == 0, err
    return path


def write_pairs(path):
    """Sentence pairs of unequal length, and labelled texts."""
    words = [("le", "the"), ("chien", "dog"), ("chat", "cat"), ("dort", "sleeps"), ("noir", "black")]
    drawn = [[words[(i * 3 + j * j) % 5] for j in range(1 + i * 7 % 6)] for i in range(80)]
    for name, side in (("a.fr", 0), ("a.en", 1)):
        (path / name).write_text("".join(" ".join(word[side] for word in line) + "\n" for line in drawn))
    (path / "labels.tsv").write_text("".join(
        f"{('fr', 'en')[i % 2]}\t{' '.join(word[i % 2] for word in line)}\n" for i, line in enumerate(drawn)))


def tensors(run):
    """Return everything that a run has learned and remembers, but for the generators."""
    files, damaged = RunFolder(run).newest_checkpoint()
    assert files and not damaged
    weights, training = saved_state(RunFolder(run), files)
    best = unpack((run / "model.safetensors").read_bytes(), "")
    return {**weights, **{f"best/{name}": each for name, each in best.items()},
            **{name: value for name, value in training.items() if not name.startswith("random/")}}


def difference(one, other):
    """Return the largest difference of any number between two runs."""
    ours, theirs = tensors(one), tensors(other)
    assert set(ours) == set(theirs)
    return max(float((ours[name].double() - theirs[name].double()).abs().max()) for name in ours)


def figures(run):
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(name, row["step"], row[name]) for row in rows for name in row
            if name in ("train_loss", "gradient_norm") or name.startswith("valid_")]


@pytest.mark.parametrize("each", CASES, ids=lambda each: each["name"])
def test_ranks_end_with_the_weights_of_one_process(folder, each):
    together, alone = folder / "together" / each["name"], folder / "alone" / each["name"]
    assert json.loads((folder / "errors.json").read_text())[each["name"]] == ""
    exact = each["dtype"] == "float64"
    assert difference(together, alone) < (EXACT if exact else ROUNDED)
    found, expected = figures(together), figures(alone)
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    assert len(found) == 2 * 12 + 2 * (1 + ("task" in each))
    assert [row[2] for row in found] == pytest.approx([row[2] for row in expected],
                                                      rel=0, abs=EXACT if exact else ROUNDED)
    if exact:
        assert any(tensor.dtype == torch.float64 for tensor in tensors(together).values())


@pytest.mark.parametrize("each", CASES, ids=lambda each: each["name"])
def test_each_row_is_read_once_by_one_rank(folder, each):
    alone = json.loads((folder / "rows-alone.json").read_text())[each["name"]]
    ranks = [json.loads((folder / f"rows-{rank}.json").read_text())[each["name"]] for rank in range(COUNT)]
    assert len(alone) == 12 and sum(map(len, alone.values())) >= 12
    for step, rows in alone.items():
        shares = [rank.get(step, []) for rank in ranks]
        assert sorted(row for share in shares for row in share) == sorted(rows)
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("plant", PLANTED, ids=lambda each: each["name"])
def test_a_planted_bug_is_seen(folder, plant):
    error = json.loads((folder / "errors.json").read_text())[plant["name"]]
    if plant["name"] == "drift":
        assert "the weights of rank 1 on" in error and "are no longer those of rank 0" in error
    else:
        together, alone = folder / "together" / plant["name"], folder / "alone" / "transformer"
        apart = [abs(ours[2] - theirs[2]) for ours, theirs in zip(figures(together), figures(alone), strict=True)]
        assert not error and difference(together, alone) > 10 * EXACT and max(apart) > 1e-4


@pytest.mark.parametrize("whole", RESUMED, ids=lambda each: each["name"])
def test_a_run_goes_on_with_another_number_of_ranks(folder, whole):
    parts, errors = resumed(whole), json.loads((folder / "errors.json").read_text())
    assert [errors[part["name"]] for part in parts] == [
        f"stopped at step {step} of 12; everything is saved: go on with --resume" for step in (5, 8)] + [""]
    assert difference(folder / "together" / parts[0]["run"], folder / "alone" / whole["name"]) < EXACT
    expected = json.loads((folder / "rows-alone.json").read_text())[whole["name"]]
    ranks = [json.loads((folder / f"rows-{rank}.json").read_text()) for rank in range(COUNT)]
    seen = [{step for rank in ranks for step in rank.get(part["name"], {})} for part in parts]
    assert [sorted(map(int, steps)) for steps in seen] == [[*range(5)], [*range(5, 8)], [*range(8, 12)]]
    for step, rows in expected.items():
        found = [row for rank in ranks for part in parts for row in rank.get(part["name"], {}).get(step, [])]
        assert sorted(found) == sorted(rows)


def test_noise_is_the_same_for_the_same_number_of_ranks_wherever_a_run_was_stopped(folder):
    errors = json.loads((folder / "errors.json").read_text())
    assert "stopped at step 5" in errors[AGAIN[0]["name"]] and not errors[AGAIN[1]["name"]]
    assert difference(folder / "together" / "noisy", folder / "together" / "noisy again") == 0.0


def test_the_bytes_that_are_foretold_are_those_of_the_messages(folder):
    counted = json.loads((folder / "bytes.json").read_text())
    for name, muon in (("transformer", True), ("mamba", True), ("accumulated", False)):
        gradients, updates = counted[name]["foretold"]
        assert counted[name]["all-reduce"] == 12 * gradients
        assert counted[name]["all-gather"] == (12 * updates if muon else 0)



@pytest.mark.skipif("REGARD_RANKS" not in os.environ, reason="make ranks runs it")
@pytest.mark.parametrize("whole", RESUMED, ids=lambda each: each["name"])
def test_a_run_goes_on_from_two_ranks_in_one_process_and_on_four(tmp_path, whole):
    (tmp_path / "lines.txt").write_text(LINES)
    parts = [{**part, "files": [str(tmp_path / "lines.txt")]} for part in resumed(whole)]
    parts[0]["stop"] = (1, 4)
    rows = {}
    for count, some in ((2, parts[:2]), (4, [parts[2], {**parts[0], "name": "whole", "run": "whole", "alone": True}])):
        (tmp_path / "cases.json").write_text(json.dumps(some))
        for code, _, err in run_ranks(count, ["-m", "tests.training.rank_worker", tmp_path]):
            assert code == 0, err
        for rank in range(count):
            for name, steps in json.loads((tmp_path / f"rows-{rank}.json").read_text()).items():
                for step, read in steps.items() if name != "whole" else ():
                    rows.setdefault(step, []).extend(read)
    assert difference(tmp_path / "together" / parts[0]["run"], tmp_path / "alone" / "whole") < EXACT
    alone = json.loads((tmp_path / "rows-alone.json").read_text())["whole"]
    assert {step: sorted(read) for step, read in rows.items()} == {step: sorted(read) for step, read in alone.items()}
