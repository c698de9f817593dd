"""Each thing a user can get wrong ends in one clear line and the right exit code, and leaves no run behind."""

import errno
import re

import pytest
import torch

from regard import storage

from .conftest import TINY

RNN = ["--family", "rnn", "--steps", "2", "--device", "cpu"]
NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


@pytest.fixture
def refused(regard, here):
    """Training is refused, with a line like this, and nothing that looks like a run is left."""

    def check(message, *arguments, stdin=b""):
        line = regard("train", "lm", *arguments, stdin=stdin).mistake()
        assert re.search(message, line), line
        assert not list(here.rglob("run.toml")) and not list(here.rglob("*.safetensors"))
        return line

    return check


# ------------------------------------------------------------------------------------------- the text


def test_a_missing_file(refused):
    refused(r"^nowhere.txt does not exist: check the name", "nowhere.txt", *TINY)


@pytest.mark.parametrize("content", [b"", b"\n\n  \n", b"\xef\xbb\xbf"])
def test_an_empty_file(refused, here, content):
    (here / "empty.txt").write_bytes(content)
    refused(r"^there is no text in empty.txt|too (small|short)|empty", "empty.txt", "--documents", "line", *TINY)


def test_a_binary_file(refused, here):
    (here / "photo.jpg").write_bytes(bytes(range(256)) * 50)
    refused(r"^photo.jpg looks binary, not text \(byte 0x00 at offset 0\): give a UTF-8 text file", "photo.jpg", *TINY)


def test_a_folder_without_text(refused, here):
    (here / "empty").mkdir()
    refused(r"^empty has no text in it: a folder is searched for .txt", "empty", *TINY)


def test_bad_utf8_names_file_line_and_byte(refused, here):
    (here / "bad.txt").write_bytes(b"a good line\nand a bad \xff one\n")
    refused(r"^bad.txt line 2, byte 11 \(0xff\) is not UTF-8: mend it, or pass --on-bad-text replace", "bad.txt", *TINY)


@pytest.mark.parametrize("how", ["replace", "drop"])
def test_bad_utf8_can_be_mended(regard, here, how):
    (here / "bad.txt").write_bytes((here / "text.txt").read_bytes() + b"and a bad \xff one\n")
    regard("train", "lm", "bad.txt", *TINY, "--on-bad-text", how, "--out", "run").done()


def test_bad_utf8_on_stdin(refused):
    refused(r"^<stdin> line 1, byte 5 \(0xfe\) is not UTF-8", "-", *TINY, stdin=b"some\xfe text")


@pytest.mark.parametrize("documents", ["file", "line", "blank-line"])
def test_one_giant_line_is_read(regard, here, documents):
    (here / "giant.txt").write_text("word " * 250_000)
    regard("train", "lm", "giant.txt", "--valid", "text.txt", *TINY, "--documents", documents, "--out", "run").done()
    assert (here / "run" / "run.toml").exists()


def test_one_giant_line_of_which_nothing_can_be_held_out(refused, here):
    (here / "giant.txt").write_text("word " * 250_000)
    refused(r"--valid", "giant.txt", *TINY, "--documents", "line")


def test_a_text_too_short_to_hold_anything_out(regard, here):
    (here / "short.txt").write_text("a")
    outcome = regard("train", "lm", "short.txt", *TINY, "--out", "run")
    assert not outcome.code or outcome.mistake()


# ---------------------------------------------------------------------------------------- the settings


@pytest.mark.parametrize("setting, message", [
    ("training.learning_rat=1", r"^unknown setting training.learning_rat: did you mean training.learning_rate\?$"),
    ("trainin.batch=1", r"^unknown table \[trainin\]: did you mean training\?$"),
    ("model.widht=8", r"^unknown setting model.widht: did you mean model.width\?$"),
    ("batch", r"^--set batch: write it as --set table.name=value, e.g. --set training.batch=8$"),
    ("training.batch=many", r"^training.batch = 'many': expected a whole number$"),
    ("training.batch=0", r"^training.batch = 0: must be at least 1$"),
    ("training.optimizer=adam", r"^training.optimizer = 'adam': did you mean adamw\?$"),
    ("model.positions=rotory", r"^model.positions = 'rotory': did you mean rotary\?$"),
    ("model.norm=batch", r"^model.norm = 'batch'"),
    ("model.activation=gleu", r"^model.activation = 'gleu'"),
    ("training.warmup=2", r"^training.warmup = 2.0: must be from 0 up to"),
    ("training.learning_rate=nan", r"^training.learning_rate = nan: must be"),
    ("tokenizer.kind=bpee", r"^unknown tokenizer.kind 'bpee': did you mean bpe\?$"),
    ("data.documents=lines", r"^unknown data.documents 'lines': did you mean line\?$"),
])
def test_a_setting_that_cannot_be(refused, setting, message):
    refused(message, "text.txt", *TINY, "--set", setting)


@pytest.mark.parametrize("size", ["--width", "--layers", "--heads", "--context"])
@pytest.mark.parametrize("value", ["0", "-16"])
def test_a_size_of_nothing_or_less(refused, size, value):
    refused(rf"model.{size[2:]} = {value}: must be at least 1", "text.txt", *TINY, size, value)


@pytest.mark.parametrize("size", ["--width", "--layers", "--hidden", "--context"])
@pytest.mark.parametrize("value", ["0", "-16"])
def test_a_recurrent_size_of_nothing_or_less(refused, size, value):
    refused(rf"model.{size[2:]} = {value}: must be at least 1", "text.txt", *RNN, size, value)


@pytest.mark.parametrize("arguments, message", [
    (["--heads", "3"], r"^model.heads = 3 does not divide model.width = 16: try model.heads = 2$"),
    (["--width", "10", "--heads", "2"], r"^heads of width 5 cannot turn in pairs"),
    (["--width", "1000000000"], r"width|memory"),
    (["--batch", "0"], r"^training.batch = 0: must be at least 1$"),
    (["--batch", "-1"], r"^training.batch = -1: must be at least 1$"),
    (["--steps", "-1"], r"^training.steps = -1: must be at least 0$"),
    (["--minutes", "-1"], r"^training.minutes = -1.0: must be at least 0$"),
    (["--dropout", "1.5"], r"dropout"),
    (["--dropout", "-0.5"], r"dropout"),
    (["--vocab", "-4"], r"^tokenizer.vocab -4 is impossible for char: give at least 5"),
    (["--tokenizer", "bpe", "--vocab", "10"], r"^tokenizer.vocab 10 is impossible for bpe: give at least 260"),
    (["--hidden", "12"], r"^unknown setting model.hidden"),
    (["--order", "3"], r"^unknown setting model.order"),
    (["--family", "transfomer"], r"^unknown family transfomer: did you mean transformer\?$"),
    (["--from", "nowhere"], r"^there is no run at nowhere"),
])
def test_a_choice_that_cannot_be(refused, arguments, message):
    refused(message, "text.txt", *TINY, *arguments)


@pytest.mark.parametrize("order", ["0", "-1", "99"])
def test_an_ngram_of_impossible_order(refused, order):
    refused(rf"order.* {order}: an n-gram has between 1 and 7 words", "text.txt", "--family", "ngram", "--order", order)


def test_a_context_larger_than_the_text_is_no_mistake(regard, here):
    regard("train", "lm", "text.txt", *TINY, "--context", "5000", "--steps", "1", "--out", "run").done()
    assert (here / "run" / "model.safetensors").exists()


@NO_GPU
def test_a_device_that_is_not_there(refused):
    refused(r"^--device cuda cannot be used here .*: try --device cpu$", "text.txt", *TINY, "--device", "cuda")


# ------------------------------------------------------------------------------------------- the disk


def test_a_full_disk(refused, monkeypatch):
    def full(operation, path):
        if operation == "write":
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(storage, "before_operation", full)
    refused(r"^the disk is full \(\d+ MB free\): could not write .*; free some space \(.*\), or give another folder",
            "text.txt", *TINY, "--out", "run")


def test_a_folder_that_may_not_be_written(refused, monkeypatch):
    def closed(operation, path):
        if "run" in path.parts:
            raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(storage, "before_operation", closed)
    refused(r"^no permission to make .*run.*: choose a folder you may write to with --out",
            "text.txt", *TINY, "--out", "run")


def test_an_out_that_is_a_file(refused):
    refused(r"text.txt", "text.txt", *TINY, "--out", "text.txt")


# --------------------------------------------------------------------------------------- runs that exist


def test_a_run_is_never_overwritten(regard, runs):
    before = (runs / "transformer" / "run.toml").read_bytes()
    line = regard("train", "lm", "text.txt", *TINY, "--out", runs / "transformer").mistake()
    assert "already holds a run: go on with --resume, or choose another folder with --out" in line
    assert (runs / "transformer" / "run.toml").read_bytes() == before


@pytest.mark.parametrize("change, message", [
    (["--width", "32"], r"^model.width cannot change from 16 to 32 when a run is resumed: leave it out"),
    (["--batch", "8"], r"^training.batch cannot change from 4 to 8 when a run is resumed"),
    (["--seed", "5"], r"^training.seed cannot change from 0 to 5 when a run is resumed"),
])
def test_resuming_with_a_setting_that_cannot_change(regard, runs, change, message):
    arguments = ("train", "lm", runs / "text.txt", "--resume", "--device", "cpu", "--out", runs / "transformer")
    assert re.search(message, regard(*arguments, *change).mistake())


def test_a_counted_run_has_nothing_to_resume(regard, runs):
    line = regard("train", "lm", runs / "text.txt", "--resume", "--family", "ngram", "--out", runs / "ngram").mistake()
    assert "was counted in one go: there is nothing to resume" in line


@pytest.mark.parametrize("arguments, message", [
    (["--temperature", "-1"], r"^--temperature -1.0: must be 0 \(greedy\) or more$"),
    (["--top-k", "-2"], r"^--top-k -2: must be 0 \(all\) or more$"),
    (["--top-p", "0"], r"^--top-p 0.0: must be above 0 and at most 1$"),
    (["--tokens", "-1"], r"^--tokens -1: must be 0 or more$"),
    pytest.param(["--device", "cuda"], r"^--device cuda cannot be used here", marks=NO_GPU),
])
def test_generating_with_a_choice_that_cannot_be(regard, runs, arguments, message):
    assert re.search(message, regard("generate", runs / "transformer", *arguments).mistake())


@pytest.mark.parametrize("command", [["generate", "nowhere"], ["score", "nowhere", "text.txt"], ["check", "nowhere"]])
def test_a_missing_run(regard, command):
    assert regard(*command).mistake() == "there is no run at nowhere: train one with `regard train`, or check the path"


def test_a_folder_that_is_no_run(regard, here):
    assert regard("generate", here).mistake().endswith("is not a run folder: it has no run.toml")


def test_scoring_what_is_not_there_or_is_empty(regard, runs, here):
    (here / "empty.txt").touch()
    assert regard("score", runs / "transformer", "empty.txt").mistake().startswith("there is no text in empty.txt")
    assert regard("score", runs / "transformer", "nowhere.txt").mistake().startswith("nowhere.txt does not exist")
    assert regard("score", runs / "transformer", "-").mistake().startswith("there is no text in <stdin>")


# --------------------------------------------------------------------------------------------- usage


@pytest.mark.parametrize("arguments, message", [
    (["genrate", "run"], "there is no command genrate: did you mean generate?"),
    (["trian"], "there is no command trian: did you mean train?"),
    (["train", "lm"], "Missing argument 'FILES...'"),
    (["train", "lm", "text.txt", "--tokenizer", "bqe"], "'bqe' is not one of 'auto', 'char', 'byte'"),
    (["train", "lm", "text.txt", "--layers", "many"], "'many' is not a valid integer"),
    (["train", "lm", "text.txt", "--widht", "8"], "--widht"),
    (["generate"], "Missing argument 'RUN'"),
    (["generate", "run", "-n", "0"], "0 is not in the range x>=1"),
    (["score", "run"], "Missing argument 'FILES...'"),
    (["data", "show", "ab", "--lines", "-1"], "-1 is not in the range x>=0"),
])
def test_wrong_usage_is_exit_code_2(regard, here, arguments, message):
    outcome = regard(*arguments)
    assert outcome.code == 2 and message in outcome.err and "Traceback" not in outcome.err
    assert not list(here.rglob("run.toml"))
