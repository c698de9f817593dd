"""`train masked`, `fill` and `vectors`, through the command line."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from regard.cli import main

from .conftest import TEXT, TINY


@pytest.fixture(scope="session")
def masked(tmp_path_factory):
    """Small masked runs: of words line by line, and of characters."""
    folder = tmp_path_factory.mktemp("masked-runs")
    (folder / "text.txt").write_text(TEXT)
    text = str(folder / "text.txt")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        main(["train", "masked", text, *TINY, "--tokenizer", "word", "--out", str(folder / "words"), "--quiet"])
        main(["train", "masked", text, "--family", "rnn", "--cell", "gru", "--width", "8", "--hidden", "6",
              "--context", "16", "--steps", "3", "--device", "cpu", "--out", str(folder / "letters"), "--quiet"])
        main(["train", "lm", text, "--family", "ngram", "--order", "2", "--out", str(folder / "ngram"), "--quiet"])
    return folder


def rows(outcome):
    return [json.loads(line) for line in outcome.done().splitlines()]


def test_training_tells_what_it_does_and_gives_its_outcome_as_json(regard, here):
    outcome = regard("train", "masked", "text.txt", *TINY, "--tokenizer", "word", "--json")
    (row,) = rows(outcome)
    assert row["run"] == "runs/text-masked-transformer" and row["step"] == 3 and row["valid_loss"] > 0
    assert "training   3 steps × 4 documents" in outcome.err
    settings = (here / row["run"] / "run.toml").read_text()
    assert 'task = "masked"' in settings and 'family = "transformer"' in settings
    again = regard("train", "masked", "text.txt", "--resume", "--steps", "5", "--json")
    assert rows(again)[0]["step"] == 5 and "resuming runs/text-masked-transformer at step 3 of 5" in again.err


def test_the_cell_of_a_recurrent_encoder_is_a_setting(masked):
    assert 'cell = "gru"' in (masked / "letters" / "run.toml").read_text()


def test_blanks_are_filled_with_candidates_and_their_probabilities(regard, masked):
    told = regard("fill", masked / "words", "the cat ___ on mat [MASK]", "--top", "2").done().splitlines()
    assert len(told) == 7 and "___" not in told[0] and told[1].strip() == "blank 1" and told[4].strip() == "blank 2"
    assert all(line.split()[0].endswith("%") for line in (*told[2:4], *told[5:]))
    alone = regard("fill", masked / "words", "the cat ___ on mat 5", "--top", "3").done().splitlines()
    assert len(alone) == 4 and "blank" not in "".join(alone)


def test_lines_of_stdin_are_filled_as_json(regard, masked):
    told = rows(regard("fill", masked / "words", "--json", stdin=b"the ___ sat\n\nthe cat ___\n"))
    assert [row["given"] for row in told] == ["the ___ sat", "the cat ___"]
    for row in told:
        ((first, *others),) = row["blanks"]
        assert row["text"] == row["given"].replace("___", first["text"]) and len(others) == 4
        assert 0 < first["probability"] <= 1 and set(first) == {"text", "probability"}


def test_a_blank_of_letters_has_the_length_that_was_asked_for(regard, masked):
    (row,) = rows(regard("fill", masked / "letters", "the c___ sat", "--length", "2", "--top", "1", "--json"))
    assert len(row["text"]) == len("the cat sat")
    assert regard("fill", masked / "letters", "the c___ sat", "--top", "1").done()


def test_each_line_gets_a_vector(regard, masked, here):
    (here / "lines.txt").write_text("the cat sat\n\non mat 3\n")
    told = rows(regard("vectors", masked / "words", "lines.txt"))
    assert [row["text"] for row in told] == ["the cat sat", "on mat 3"] and {len(row["vector"]) for row in told} == {16}
    again = rows(regard("vectors", masked / "words", stdin=b"the cat sat\non mat 3\n"))
    assert [row["vector"] for row in again] == [row["vector"] for row in told]
    for name in ("v.npy", "v.safetensors"):
        assert regard("vectors", masked / "words", "lines.txt", "--normalise", "--out", name).done() == ""
    saved, other = np.load(here / "v.npy"), load_file(here / "v.safetensors")["vectors"]
    raw = np.array([row["vector"] for row in told])
    np.testing.assert_allclose(saved, raw / np.linalg.norm(raw, axis=1, keepdims=True), atol=1e-6)
    np.testing.assert_array_equal(saved, other)


def test_the_lines_nearest_to_a_text_are_listed(regard, masked, here):
    (here / "lines.txt").write_text("the cat sat\non mat 3\nnumber 4 number 5\n")
    told = rows(regard("vectors", masked / "words", "lines.txt", "--similar", "on mat 3", "--top", "2", "--json"))
    assert [told[0]["text"], told[0]["line"]] == ["on mat 3", 2] and told[0]["similarity"] == pytest.approx(1, abs=1e-4)
    assert len(told) == 2 and told[1]["similarity"] < 1
    told = regard("vectors", masked / "words", "lines.txt", "--similar", "on mat 3").done()
    assert told.startswith(" 1.0000  on mat 3")


# ------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(("arguments", "message"), [
    (["generate", "words"], "is a run of the task masked: use it with regard fill, or regard vectors"),
    (["score", "words", "text.txt"], "is a run of the task masked: use it with regard fill"),
    (["fill", "ngram", "the ___"], "is a run of the task lm: use it with regard generate, or regard score"),
    (["vectors", "ngram", "text.txt"], "is a run of the task lm: use it with regard generate"),
    (["fill", "words", "no gap"], "there is no blank in 'no gap': write ___ or [MASK]"),
    (["fill", "nowhere", "the ___"], "there is no run at"),
    (["vectors", "words", "absent.txt"], "absent.txt does not exist"),
    (["vectors", "words", "text.txt", "--out", "v.csv"], "--out v.csv: vectors are written to a .npy or .safetensors"),
])
def test_a_mistake_is_one_clear_line(regard, masked, arguments, message):
    command, run, *others = arguments
    assert message in regard(command, masked / run, *others).mistake()


@pytest.mark.parametrize(("arguments", "message"), [
    (["--family", "ngram"], "unknown family ngram (there are: rnn, transformer)"),
    (["--set", "model.cell=lstm"], "unknown setting model.cell"),
    (["--family", "rnn", "--cell", "lstm", "--set", "model.cell=mlp"], "model.cell = 'mlp'"),
    (["--set", "training.reading=streams", "--steps", "1"], "a masked model reads in both directions"),
])
def test_a_wrong_setting_of_training_is_one_clear_line(regard, arguments, message):
    assert message in regard("train", "masked", "text.txt", *arguments).mistake()
