"""Small run folders that would take the machine down: each is refused in one line, soon and with little memory."""

import json
import os
import shutil
import sys

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("limits of memory are Linux's", allow_module_level=True)

import torch

import regard
from regard.data.tokens.subwords import train_subwords
from regard.data.tokens.tokenizers import tokenizer_from_json
from regard.errors import DataError, one_line
from tests.bounded import run_bounded
from tests.fixtures.runs import HERE

RUNS = HERE / "runs"


@pytest.fixture
def run(tmp_path):
    """A copy of a run without its manifest, which would show that it was changed: a forger leaves it out."""

    def copied(name="lm-transformer"):
        folder = shutil.copytree(RUNS / name, tmp_path / name)
        (folder / "manifest.json").unlink(missing_ok=True)
        return folder

    return copied


def set_value(folder, table, name, value):
    """Put another value into run.toml."""
    text = (folder / "run.toml").read_text()
    head, mark, rest = text.partition(f"[{table}]\n")
    assert mark, table
    lines = rest.split("\n")
    found = [at for at, line in enumerate(lines) if line.startswith(f"{name} = ")]
    if found:
        lines[found[0]] = f"{name} = {value}"
    else:
        lines.insert(0, f"{name} = {value}")
    (folder / "run.toml").write_text(head + mark + "\n".join(lines))


def assert_refused(folder, match, megabytes=300, seconds=10):
    found = run_bounded(lambda: regard.load(folder, "cpu"), seconds, megabytes)
    assert found.how == "refused", (found.how, found.line)
    assert match in found.line and "\n" not in found.line and len(one_line(found.line)) < 2000, found.line


# ------------------------------------------------------------------------------------------------ settings


@pytest.mark.parametrize(("name", "table", "value"), [
    ("layers", "model", 2**20), ("width", "model", 2**20), ("layers", "model", 4096), ("heads", "model", 16)])
def test_a_model_larger_than_its_weights_is_refused_before_it_is_built(run, name, table, value):
    folder = run()
    set_value(folder, table, name, value)
    assert_refused(folder, "model")


@pytest.mark.parametrize(("name", "setting", "value"), [
    ("lm-rnn", "hidden", 2**20), ("lm-window", "order", 2**20), ("translate-transformer", "layers", 2**20),
    ("translate-rnn-attention-additive", "hidden", 2**20), ("caption-transformer", "image", 2**16),
    ("masked-rnn", "layers", 2**20), ("classify-lstm", "hidden", 2**20), ("tag-window", "words", 2**20),
    ("lm-mamba", "state", 2**20), ("lm-hybrid", "layers", 2**20)])
def test_no_task_and_family_builds_what_its_weights_do_not_fill(run, name, setting, value):
    folder = run(name)
    set_value(folder, "model", setting, value)
    assert_refused(folder, "")


def test_two_threads_that_build_count_apart(run):
    """The hooks that count are the process's, and another thread may be loading a large model."""
    from regard.families.outline import TooMany, counted

    with counted(10_000), torch.device("meta"):
        layer = torch.nn.Linear(2, 2)
    assert layer.weight.is_meta
    with pytest.raises(TooMany, match="84 parameters"), counted(10), torch.device("meta"):
        for _ in range(50):
            torch.nn.Linear(2, 2)


@pytest.mark.parametrize("text", [
    "a" + ".a" * 20_000 + " = 1\n", "[a" + ".a" * 20_000 + "]\n", "[x]\ny = {a" + ".a" * 20_000 + " = 1}\n",
    "[x]\na" + " . 'a'" * 20_000 + " = 1\n", "[model]\nx = " + "[" * 100_000, "[model]\nx = " + "9" * 100_000,
    "[model]\nx = " + "{a=" * 50_000, "#" * (2**20 + 1), "[model]\nx = 0x" + "f" * 100_000 + "\n"],
    ids=["dotted", "header", "inline", "spaced", "deep", "digits", "tables", "large", "hexadecimal"])
def test_settings_are_bounded_in_size_and_depth(run, text):
    folder = run()
    (folder / "run.toml").write_text(text)
    assert_refused(folder, "run.toml" if "0x" not in text else "run", seconds=5)


@pytest.mark.parametrize("value", [
    "0x" + "f" * 5000, "[" * 200 + "]" * 200, '"' + "x" * 100_000 + '"', "{a = 1}", "1979-05-27", "[1]", "nan", "-1",
    "9223372036854775808", "1e400"])
@pytest.mark.parametrize(("table", "name"), [("model", "width"), ("run", "family"), ("run", "task"),
                                             ("data", "files"), ("data", "content"), ("run", "format")])
def test_a_value_of_a_wrong_kind_is_one_line(run, table, name, value):
    folder = run()
    set_value(folder, table, name, value)
    found = run_bounded(lambda: regard.load(folder, "cpu"), 10, 300)
    assert found.how in ("refused", "done") and "\n" not in found.line, (found.how, found.line)
    assert found.how == "refused" or (table, name) in (("data", "files"), ("data", "content"))


def test_more_threads_than_any_machine_has_are_refused():
    from regard.errors import SettingError
    from regard.training.settings import TrainingSettings

    with pytest.raises(SettingError, match=r"training\.threads = 100000: must be at most 1024"):
        TrainingSettings(threads=100_000)


# --------------------------------------------------------------------------------------------- kinds of files

FILES = ("run.toml", "tokenizer.json", "model.safetensors", "manifest.json", "labels.json", "baseline.safetensors")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("what", ["/dev/zero", "/dev/tty", "a pipe", "a folder", "/proc/kmsg"])
def test_only_plain_files_are_read(run, name, what):
    folder = run("classify-lstm")
    (folder / name).unlink(missing_ok=True)
    if what == "a pipe":
        os.mkfifo(folder / name)
    elif what == "a folder":
        (folder / name).mkdir()
    else:
        (folder / name).symlink_to(what)
    found = run_bounded(lambda: regard.load(folder, "cpu"), 10, 300)
    empty = (name, what) == ("manifest.json", "/proc/kmsg")              # nothing to read: damaged, of which a note is given
    assert found.how == ("done" if empty else "refused") and "\n" not in found.line, (found.how, found.line)


@pytest.mark.parametrize("what", ["/dev/zero", "a pipe"])
def test_a_log_is_a_plain_file(run, what):
    from regard.run_folder import read_log

    path = run() / "metrics.jsonl"
    path.unlink()
    os.mkfifo(path) if what == "a pipe" else path.symlink_to(what)
    found = run_bounded(lambda: read_log(path), 5, 300)
    assert found.how == "refused" and "plain file" in found.line, (found.how, found.line)


# ------------------------------------------------------------------------------------------------ tokenizers


@pytest.fixture(scope="module")
def subwords():
    text = ["the cat sat on the mat and the dog saw the cat " * 20]
    return {kind: train_subwords(kind, text, 280).to_dict() for kind in ("bpe", "unigram")}


HOSTILE = {
    "padding": {"padding": {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None,
                            "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"}},
    "truncation": {"truncation": {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}},
    "normalizer": {"normalizer": {"type": "Replace", "pattern": {"Regex": "."}, "content": "x" * 10**6}},
    "endless pattern": {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated",
                                          "invert": False}},
    "post-processor": {"post_processor": {"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": "<eos>", "type_id": 0}}] * 1000, "pair": [], "special_tokens": {}}},
}


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("part", list(HOSTILE))
def test_of_a_tokenizer_the_model_is_taken_and_nothing_else(subwords, kind, part):
    text = "the dog sat " + "a" * 40 + "b"
    plain = tokenizer_from_json(json.dumps(subwords[kind])).encode(text).tolist()
    found = run_bounded(lambda: check_same(json.dumps({**subwords[kind], **HOSTILE[part]}), text, plain), 10, 300)
    assert found.how == "done", (found.how, found.line)


def check_same(value, text, plain):
    assert tokenizer_from_json(value).encode(text).tolist() == plain


@pytest.mark.parametrize("part", list(HOSTILE))
def test_a_tokenizer_of_another_program_is_used_or_refused(subwords, part):
    value = {**subwords["bpe"], **HOSTILE[part], "regard": {"specials": [0, 1, 2, 3], "size": 280}}
    found = run_bounded(lambda: tokenizer_from_json(json.dumps(value)).encode("the dog " + "a" * 40 + "b"), 10, 300)
    refused = part in ("normalizer", "endless pattern")
    assert found.how == ("refused" if refused else "done"), (found.how, found.line)


@pytest.mark.parametrize("size", [10**12, -1, 0])
def test_a_tokenizer_does_not_say_how_much_memory_it_takes(subwords, size):
    value = {**subwords["bpe"], "regard": {"specials": [0, 1, 2, 3], "size": size}}
    found = run_bounded(lambda: tokenizer_from_json(json.dumps(value)), 5, 300)
    assert found.how == "refused", (found.how, found.line)


def test_a_panic_of_the_library_is_one_line(subwords):
    value = {**subwords["bpe"], "regard": {"specials": [0, 1, 2, 3], "size": 280},
             "normalizer": {"type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAAAA"}}
    found = run_bounded(lambda: tokenizer_from_json(json.dumps(value)).encode("the dog"), 5, 300)
    assert found.how in ("refused", "done"), (found.how, found.line)


def test_a_vocabulary_without_some_byte_is_refused(subwords):
    value = json.loads(json.dumps(subwords["unigram"]))
    value["model"]["vocab"] = [entry for entry in value["model"]["vocab"] if entry[0] != "q"]
    with pytest.raises(DataError, match="it lacks 1 of the 256 bytes"):
        tokenizer_from_json(json.dumps(value))


# ------------------------------------------------------------------------------------------------ metrics


def test_a_log_with_a_column_for_each_row_is_read_in_linear_time(tmp_path):
    from regard.compare.measure import read_metrics
    from regard.serve.run_logs import FollowedRun

    shutil.copy(RUNS / "lm-transformer" / "run.toml", tmp_path / "run.toml")
    rows = (json.dumps({"step": at, "tokens": at, "seconds": at, f"column {at}": at}) for at in range(20_000))
    (tmp_path / "metrics.jsonl").write_text("".join(f"{row}\n" for row in rows))
    found = run_bounded(lambda: (FollowedRun("x", tmp_path, True).about(), read_metrics(tmp_path / "metrics.jsonl")),
                        8, 300)
    assert found.how == "done", (found.how, found.line)
