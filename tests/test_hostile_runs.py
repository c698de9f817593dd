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
from regard.errors import DataError, RegardNote, RunError, one_line
from regard.manifest import FORMAT
from regard.run_folder import RunFolder
from regard.storage import digest
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
    empty = (name, what) == ("manifest.json", "/proc/kmsg")              # damaged, of which a note is given
    assert found.how == ("done" if empty else "refused") and "\n" not in found.line, (found.how, found.line)


@pytest.mark.parametrize("name", ["lock", "metrics.jsonl", "checkpoints/x"])
def test_no_pipe_is_waited_for_when_a_run_is_resumed(run, name):
    from tests.fixtures.runs import resume

    folder = run()
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    found = run_bounded(lambda: resume(folder), 10, 400)
    assert found.how == "refused" and name in found.line and "pipe" in found.line, (found.how, found.line)


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


# ------------------------------------------------------------------------------------------ what is no number

ONE_OF_EACH_TASK = ("lm-transformer", "masked-rnn", "translate-rnn", "summarise-transformer", "caption-rnn-attention",
                    "classify-lstm", "tag-window")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", ONE_OF_EACH_TASK)
def test_weights_that_are_no_numbers_are_refused_whatever_they_are_used_for(run, name, number):
    from safetensors.torch import load_file, save_file

    folder = run(name)
    tensors = load_file(folder / "model.safetensors")
    last = max(tensors)
    tensors[last].view(-1)[-1] = number
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(RunError, match=rf"model\.safetensors is damaged: {last} holds what is no finite number"):
        regard.load(folder, "cpu")


@pytest.mark.parametrize("arguments", [
    ["score", "RUN", "text.txt"], ["generate", "RUN", "--prompt", "a cat"], ["show", "RUN", "a cat"],
    ["check", "RUN"], ["export", "RUN", "--to", "safetensors", "--out", "there"],
    ["train", "lm", "text.txt", "--from", "RUN", "--steps", "1"]], ids=lambda arguments: arguments[0])
def test_every_command_ends_in_one_line_and_with_1(run, arguments, tmp_path, monkeypatch, capfd):
    from safetensors.torch import load_file, save_file

    from regard.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    shutil.copy(HERE / "data" / "text.txt", tmp_path)
    folder = run()
    tensors = load_file(folder / "model.safetensors")
    save_file({name: torch.full_like(each, torch.nan) for name, each in tensors.items()}, folder / "model.safetensors")
    with pytest.raises(SystemExit) as end:
        main([str(folder) if each == "RUN" else each for each in arguments])
    told = capfd.readouterr()
    assert end.value.code == 1 and told.out == "" and "Traceback" not in told.err
    assert "holds what is no finite number; take it from a copy, or train again" in told.err.splitlines()[-1]


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", '"x"', "null", "[[1]]"])
def test_numbers_of_a_mixture_are_numbers(tmp_path, value):
    (tmp_path / "mixture.json").write_text(f'{{"numbers": [[{value}, 1]], "cache": []}}')
    with pytest.raises(RunError, match=r"mixture\.json holds no numbers of a mixture"):
        RunFolder(tmp_path).read_mixture()


# ------------------------------------------------------------------------------------------------ forged manifests


def forge(folder, **values):
    """A manifest with its own right SHA-256, of whatever values."""
    from regard.manifest import digest_values

    (folder / "manifest.json").write_text(json.dumps({**values, "sha256": digest_values(values)}))


@pytest.mark.parametrize("files", [None, [], "x", 3, {"run.toml": 3}, {"run.toml": None}, {"run.toml": ["a"]}])
def test_a_manifest_without_hashes_is_damaged(run, files):
    folder = run()
    forge(folder, format=1, files=files, before={}, checkpointed=True)
    with pytest.warns(RegardNote, match=r"manifest\.json is damaged"):
        regard.load(folder, "cpu")


@pytest.mark.parametrize("raw", ["{" * 100_000, "[" * 100_000, "null", "3", '{"format": 1}', '{"format": 1e400}'])
def test_a_manifest_that_is_none_is_damaged(run, raw):
    folder = run()
    (folder / "manifest.json").write_text(raw)
    with pytest.warns(RegardNote, match=r"manifest\.json is damaged"):
        regard.load(folder, "cpu")


# ------------------------------------------------------------------------------------------------ checkpoints


@pytest.fixture
def resumed(run, tmp_path, monkeypatch):
    """Resume a run whose newest checkpoint holds other files, under hashes that are right; the outcome."""
    from tests.fixtures.runs import resume

    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))

    def outcome(change, **manifest):
        folder = run()
        set_value(folder, "training", "threads", 0)              # then the checkpoint says how many there were
        newest = sorted((folder / "checkpoints").iterdir())[-1]
        files = {path.name: path.read_bytes() for path in newest.iterdir() if path.name != "manifest.json"}
        files = change(files)
        for path in newest.iterdir():
            path.unlink()
        for name, data in files.items():
            (newest / name).write_bytes(data)
        forge(newest, **{"step": 6, "files": {name: digest(data) for name, data in files.items()}, **manifest})
        for other in (folder / "checkpoints").iterdir():
            if other != newest:
                shutil.rmtree(other)
        return run_bounded(lambda: resume(folder), 20, 600)

    return outcome


CHANGES = {
    "no weights": lambda files: {name: data for name, data in files.items() if name != "model.safetensors"},
    "no position": lambda files: {name: data for name, data in files.items() if name != "at.json"},
    "nothing": lambda files: {"x": b""},
    "a step of text": lambda files: {**files, "at.json": b'{"step": "soon"}'},
    "a list for a position": lambda files: {**files, "at.json": b"[1]"},
    "a deep position": lambda files: {**files, "at.json": b"[" * 100_000},
    "many threads": lambda files: {**files, "session.json": b'{"conditions": {"threads": 100000}}'},
    "odd conditions": lambda files: {**files, "session.json": b'{"conditions": [1], "logs": 3}'},
    "other weights": lambda files: {**files, "model.safetensors": files["training.safetensors"]},
    "no generators": lambda files: {**files, "training.safetensors": files["model.safetensors"]},
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_a_checkpoint_that_holds_something_else_is_one_line(resumed, change):
    found = resumed(CHANGES[change])
    assert found.how == "refused" and "\n" not in found.line, (found.how, found.line)


def test_a_checkpoint_of_a_later_version_is_refused_and_kept(resumed, tmp_path):
    found = resumed(lambda files: files, format=FORMAT + 1)
    assert found.how == "refused" and f"has format {FORMAT + 1}" in found.line and "update Regard" in found.line
    assert len(list((tmp_path / "lm-transformer" / "checkpoints").iterdir())) == 1


def test_settings_of_a_resumed_run_are_compared_with_its_checkpoint(run, tmp_path, monkeypatch):
    from tests.fixtures.runs import resume

    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    folder = run()
    set_value(folder, "model", "width", 2**20)
    found = run_bounded(lambda: resume(folder), 20, 600)
    assert found.how == "refused" and "the weights do not fit the model" in found.line, (found.how, found.line)


# ------------------------------------------------------------------------------------------------ found by the soak


@pytest.mark.parametrize("name", ONE_OF_EACH_TASK)
def test_weights_with_which_nothing_can_be_computed_are_refused(run, name):
    """Finite ones of 1e38 gave `loss nan`, and a translator a traceback."""
    from safetensors.torch import load_file, save_file

    folder = run(name)
    tensors = {each: torch.full_like(tensor, 1e38) for each, tensor in load_file(folder / "model.safetensors").items()}
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(RunError, match=r"holds what is beyond 1e\+08; take it from a copy, or train again"):
        regard.load(folder, "cpu")


def test_scores_that_are_no_numbers_are_told(run, monkeypatch):
    from regard.metrics.perplexity import Surprise

    with pytest.raises(RunError, match=r"probabilities are no numbers \(nan\)"):
        Surprise(float("nan"), tokens=3)
    translator = regard.load(run("translate-rnn"), "cpu")
    step = type(translator.model).step
    monkeypatch.setattr(type(translator.model), "step", lambda *given: (step(*given)[0] * torch.nan, step(*given)[1]))
    with pytest.raises(RunError, match="no target a probability that is a number"):
        translator.translate(["un chat"])


@pytest.mark.parametrize("name", ["tokenizer.json", "checkpoints/00000006/training.safetensors", "metrics.jsonl",
                                  "checkpoints/00000006/at.json", "model.safetensors"])
def test_a_file_that_says_it_has_a_terabyte_is_not_read_through(run, name):
    """A file may have a length without having the bytes: each was hashed, or read into memory."""
    from tests.fixtures.runs import resume

    folder = run()
    forged = {path.name: digest(path.read_bytes()) for path in folder.iterdir() if path.is_file()}
    forge(folder, format=1, files=forged, before={}, checkpointed=True)
    with open(folder / name, "ab") as file:
        file.truncate(2**40)
    use = regard.load if name == "model.safetensors" else resume                # which would take the checkpoint's
    found = run_bounded(lambda: use(folder), 10, 400)
    assert found.how == "refused" and "\n" not in found.line, (found.how, found.line)


def test_what_is_said_of_a_resumed_run_is_one_plain_line(run, tmp_path, monkeypatch, capfd):
    """All that a CPU says of itself was printed, a hundred lines; what another wrote there went to the terminal."""
    from regard.training.run import TrainRequest, run_training

    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    folder = run("classify-window")
    path = folder / "checkpoints" / "00000006" / "session.json"
    values = json.loads(path.read_text())
    assert len(values["conditions"]["processor"].splitlines()) > 20
    values["conditions"]["torch"] = "\x1b[31m2.0\n[/red]"
    path.write_text(json.dumps(values))
    files = {each.name: digest(each.read_bytes()) for each in path.parent.iterdir() if each.name != "manifest.json"}
    forge(path.parent, step=6, files=files)
    run_training(TrainRequest((str(HERE / "data" / "labels.tsv"),), task="classify", out=str(folder), resume=True,
                              settings={"training": {"steps": 7}}, device="cpu"))
    (said,) = [line for line in capfd.readouterr().err.splitlines() if "last bits" in line]
    assert said.isprintable() and "was \\x1b[31m2.0 [/red]" in said and len(said) < 400


def test_a_cpu_is_known_again_by_what_it_can_and_not_by_its_clock():
    from regard.kernels.cpu.onednn import cpu_name

    told = "processor\t: {0}\nmodel name\t: AMD EPYC\ncpu MHz\t\t: {1}\nflags\t\t: fpu {2}\n\n"
    one = cpu_name(told.format(0, 2445.4, "avx2") + told.format(1, 2000.0, "avx2"))
    assert one == cpu_name(told.format(0, 3100.0, "avx2")) and one.startswith("AMD EPYC (") and "\n" not in one
    assert one != cpu_name(told.format(0, 2445.4, "avx512f")) and cpu_name(one) == one
