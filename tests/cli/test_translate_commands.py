"""`translate`, and `score` of pairs, through the command line."""

import gzip
import json
import math
import re
from dataclasses import replace

import pytest

from regard.cli import main
from regard.data import embedded
from tests.cli.scores import WARNING, warned

WORDS = {"un": "one", "deux": "two", "trois": "three", "quatre": "four", "été": "summer"}
SOURCES = [" ".join(list(WORDS)[(at * step) % 5] for at in range(1, 2 + step % 4)) for step in range(1, 41)]
TARGETS = [" ".join(WORDS[word] for word in line.split()) for line in SOURCES]
RUN = ["--tokenizer", "word", "--context", "16", "--batch", "64", "--steps", "3", "--device", "cpu", "--quiet",
       "--rate", "0.004", "--set", "training.optimizer=adamw"]          # slow: a model that has learned little goes on


def write(folder):
    (folder / "pairs.fr").write_text("".join(f"{line}\n" for line in SOURCES))
    (folder / "pairs.en").write_text("".join(f"{line}\n" for line in TARGETS))


@pytest.fixture
def short_phrasebook(monkeypatch):
    """A phrasebook of 1,000 pairs: its test part begins after 100 others, which are all made."""
    monkeypatch.setitem(embedded.PAIRED, "phrasebook", replace(embedded.PAIRED["phrasebook"], count=1_000))


@pytest.fixture(scope="session")
def translators(tmp_path_factory):
    """Small runs: of words with attention and without, and of bytes."""
    folder = tmp_path_factory.mktemp("translators")
    write(folder)
    files = [str(folder / "pairs.fr"), str(folder / "pairs.en")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        for name, options in {
            "attention": ["--family", "rnn-attention", "--width", "8", "--hidden", "12"],
            "blind": ["--family", "rnn", "--width", "8", "--hidden", "12"],
            "bytes": ["--layers", "1", "--width", "16", "--heads", "2", "--tokenizer", "byte"],
        }.items():
            main(["train", "translate", *files, *RUN, *options, "--out", str(folder / name)])
    return folder


@pytest.fixture(autouse=True)
def files(here):
    write(here)
    return here


def rows(outcome):
    return [json.loads(line) for line in outcome.done().splitlines()]


# -------------------------------------------------------------------------------------------- translate


@pytest.mark.parametrize("run", ["attention", "blind", "bytes"])
def test_one_line_comes_out_for_each_that_goes_in(regard, translators, run):
    given = "un deux\n\ntrois\n   \nun été".encode()
    told = regard("translate", translators / run, "--beam", "2", stdin=given).done()
    assert told.count("\n") == 5 and [not line for line in told.split("\n")][1::2] == [True, True, True]


def test_a_file_is_translated_as_stdin_is_and_may_be_packed(regard, translators, here):
    from_stdin = regard("translate", translators / "attention", stdin=(here / "pairs.fr").read_bytes()).done()
    assert regard("translate", translators / "attention", "pairs.fr").done() == from_stdin
    (here / "pairs.fr.gz").write_bytes(gzip.compress((here / "pairs.fr").read_bytes().replace(b"\n", b"\r\n")))
    assert regard("translate", translators / "attention", "pairs.fr.gz", "--batch", "7").done() == from_stdin
    assert regard("translate", translators / "attention", "pairs.fr", "-o", "out.en").done() == ""
    assert (here / "out.en").read_text() == from_stdin


def test_scores_and_alignments_are_columns(regard, translators):
    given = b"un deux trois\n\n"
    told = regard("translate", translators / "attention", "--scores", "--alignments", stdin=given).done()
    text, score, links = told.splitlines()[0].split(" ||| ")
    assert float(score) < 0 and len(links.split()) == len(text.replace(".", " .").split())
    assert all(0 <= int(link.split("-")[0]) < 3 for link in links.split())


def test_the_n_best_are_listed_with_their_index(regard, translators):
    told = regard("translate", translators / "attention", "--n-best", "3", stdin=b"un\n\ndeux\n").done().splitlines()
    parts = [line.split(" ||| ") for line in told]
    assert [part[0] for part in parts] == ["0"] * 3 + ["1"] + ["2"] * 3
    scores = [float(part[2]) for part in parts]
    assert scores[:3] == sorted(scores[:3], reverse=True)


def test_json_tells_everything(regard, translators):
    told = rows(regard("translate", translators / "bytes", "--json", "--alignments", "--n-best", "2", "--beam", "3",
                       stdin="été un\n\n".encode()))
    first, blank = told
    assert first["source"] == "été un" and len(first["n_best"]) == 2 and first["n_best"][0]["text"] == first["text"]
    assert len(first["weights"]) == len(first["target_pieces"]) and first["source_pieces"][0] == "<0xC3>"
    assert blank["text"] == "" and blank["sentences"] == 0 and blank["weights"] == []


def test_samples_are_the_same_for_the_same_seed(regard, translators):
    def drawn(seed):
        return regard("translate", translators / "attention", "pairs.fr", "--sample", "--seed", seed).done()

    assert drawn(1) == drawn(1) != drawn(2)


def test_a_line_that_is_too_long_is_cut_and_the_user_is_told(regard, translators):
    long = " ".join(["Un deux trois quatre été."] * 6).encode()
    outcome = regard("translate", translators / "attention", "--beam", "1", stdin=long + b"\nun\n")
    assert outcome.done().count("\n") == 2
    assert "1 line longer than the 16 tokens that the model reads: cut into sentences" in outcome.err


def test_lines_before_a_bad_one_are_not_lost(regard, translators):
    outcome = regard("translate", translators / "attention", stdin=b"un\ndeux\nx\xff\ntrois\n")
    assert outcome.code == 1 and outcome.out.count("\n") == 2
    assert outcome.err == ("regard: <stdin> line 3, byte 2 (0xff) is not UTF-8: mend it, or pass --on-bad-text replace "
                           "(bad bytes become U+FFFD)\n")
    mended = regard("translate", translators / "attention", "--on-bad-text", "replace", stdin=b"un\nx\xff\n")
    assert mended.done().count("\n") == 2


@pytest.mark.parametrize(("arguments", "message"), [
    (["translate", "blind", "--alignments"], "this model has no attention to its source"),
    (["translate", "blind", "--coverage", "0.2"], "this model has no attention to its source"),
    (["translate", "attention", "--beam", "0"], "--beam 0: must be at least 1"),
    (["translate", "attention", "--n-best", "9"], "--n-best 9: must be from 1 to the 5 beams"),
    (["translate", "attention", "--n-best", "2", "--alignments"], "leave --n-best out, or use --json"),
    (["translate", "attention", "--batch", "0"], "--batch 0: must be at least 1 token"),
    (["translate", "attention", "--sample", "--temperature", "-1"], "--temperature -1.0"),
    (["translate", "attention", "absent.fr"], "absent.fr does not exist"),
    (["translate", "nowhere"], "there is no run at"),
    (["generate", "attention"], "is a run of the task translate: use it with regard translate, or regard score"),
    (["score", "attention", "pairs.fr"], "pairs.fr is plain text and not sentence pairs by itself"),
    (["score", "attention", "pairs.fr", "short.en"], "pairs.fr has 40 lines and short.en has 1"),
    (["score", "attention", "pairs.fr", "pairs.en", "--part", "valid"], "--part valid is of an embedded corpus"),
    (["score", "attention", "pairs.fr", "pairs.en", "--per-line"], "--per-line means nothing for a run of the task"),
    (["score", "attention", "pairs.fr", "pairs.en", "--gold", "wrong.txt"], "alignment 1 has the link 9-0"),
    (["score", "blind", "pairs.fr", "pairs.en", "--gold", "right.txt"], "no attention to its source"),
    (["score", "attention", "pairs.fr", "pairs.en", "--against", "short.en"], "1 translations and 40 references"),
])
def test_a_mistake_is_one_clear_line(regard, translators, here, arguments, message):
    (here / "short.en").write_text("one\n")
    (here / "wrong.txt").write_text("9-0\n" * 40)
    (here / "right.txt").write_text("0-0\n" * 40)
    command, run, *others = arguments
    assert message in regard(command, translators / run, *others, stdin=b"un\n").mistake()


def test_options_of_pairs_are_refused_for_a_language_model(regard, runs):
    told = regard("score", runs / "rnn", "text.txt", "--beam", 2).mistake()
    assert "--beam means nothing for a run of the task lm" in told


# ------------------------------------------------------------------------------------------------ score


def test_a_translator_is_scored_on_files(regard, translators, here):
    (told,) = rows(regard("score", translators / "attention", "pairs.fr", "pairs.en", "--json"))
    assert {"bleu", "chrf", "signature", "exact_match", "loss", "perplexity", "tokens", "seconds",
            "sentences_per_second", "kernels"} <= set(told)
    assert told["sentences"] == 40 and told["tokens"] == sum(len(line.split()) + 1 for line in TARGETS)
    assert told["bleu_interval"][0] <= told["bleu"] <= told["bleu_interval"][1] and "aer" not in told
    (here / "pairs.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in zip(SOURCES, TARGETS, strict=True)))
    (again,) = rows(regard("score", translators / "attention", "pairs.tsv", "--json"))
    assert again["loss"] == pytest.approx(told["loss"]) and again["bleu"] == told["bleu"]
    (few,) = rows(regard("score", translators / "attention", "pairs.fr", "pairs.en", "--first", "3", "--json"))
    assert few["sentences"] == 3


def test_gold_alignments_give_an_error_rate_for_every_head(regard, translators, here):
    (here / "gold.txt").write_text("".join(
        " ".join(f"{at}-{at}" for at in range(len(line.split()))) + "\n" for line in SOURCES))
    (told,) = rows(regard("score", translators / "bytes", "pairs.fr", "pairs.en", "--gold", "gold.txt", "--json"))
    assert 0 <= told["aer_best"] <= 1 and len(told["aer_heads"]) == 1 and len(told["aer_heads"][0]) == 2
    assert told["aer_best"] == min(told["aer_heads"][0]) and told["aligned_pairs"] <= 40
    shown = regard("score", translators / "bytes", "pairs.fr", "pairs.en", "--gold", "gold.txt", "--heads").done()
    assert "alignment error" in shown and "  layer 1" in shown


def test_the_phrasebook_has_its_own_gold_alignments(regard, translators, short_phrasebook):
    for run, known in (("attention", True), ("blind", False)):
        (told,) = rows(regard("score", translators / run, "phrasebook", "--part", "unseen", "--first", "5", "--json"))
        assert told["sentences"] == 5 and (told["aer"] is not None) == known
    assert "none: this model has no attention" in regard(
        "score", translators / "blind", "phrasebook", "--first", "2").done()


def test_the_phrasebook_is_scored_on_its_test_part_unless_told(regard, translators, monkeypatch):
    monkeypatch.setitem(embedded.PAIRED, "phrasebook", replace(embedded.PAIRED["phrasebook"], count=100))
    loss = {part: rows(regard("score", translators / "attention", "phrasebook", *(("--part", part) if part else ()),
                              "--beam", "1", "--json"))[0]["loss"] for part in (None, "test", "valid")}
    assert loss[None] == loss["test"] != loss["valid"]


def test_quality_is_told_by_the_length_of_the_source(regard, translators, short_phrasebook):
    (told,) = rows(regard("score", translators / "attention", "phrasebook", "--first", "30", "--by-length", "--json"))
    assert sum(each["sentences"] for each in told["by_length"]) == 30 and told["by_length"][0]["words"] == "1-5"
    shown = regard("score", translators / "attention", "phrasebook", "--first", "9", "--by-length").done()
    assert "6-10 words     BLEU" in shown


def test_two_systems_are_compared_on_the_same_sentences(regard, translators, here):
    (told,) = rows(regard("score", translators / "attention", "pairs.fr", "pairs.en", "--against",
                          translators / "blind", "--json"))
    assert told["against"]["names"] == ["attention", "blind"]
    assert told["against"]["bleu"]["a"] == pytest.approx(told["bleu"])
    shown = regard("score", translators / "attention", "pairs.fr", "pairs.en", "--against", "pairs.en").done()
    assert "pairs.en is better" in shown and "p = " in shown
    told = [line for line in shown.splitlines() if line.startswith(("BLEU", "chrF"))]     # two scores, two differences
    assert len(told) == 4 and all(re.search(r"\(-?[\d.]+ to -?[\d.]+, 95% over sentences\)", line) for line in told)


@pytest.mark.parametrize("run, unknown", [("attention", 1), ("bytes", 0)])
def test_unknown_words_of_targets_are_warned_of(regard, translators, here, run, unknown):
    for name, lines in (("new.fr", "un deux\nZorglub\nun\n"), ("new.en", "one two\nNew\none\n")):
        (here / name).write_text(lines)
    rows, found = warned(regard, translators / run, "new.fr", "new.en", "--beam", 1)
    assert (len(rows), found["oov"], found["comparable"]) == (unknown, unknown, not unknown)
    assert (found["words"], found["bytes"]) == (4, 13)
    assert found["bits_per_byte"] == pytest.approx(found["loss"] * found["tokens"] / math.log(2) / 13)
    assert all(row.endswith(WARNING) for row in rows)


def test_pairs_that_are_too_long_are_in_no_ratio(regard, translators, here):
    (here / "new.fr").write_text("un deux\n" + "un\n" * 2)
    (here / "new.en").write_text("one two\n" + "one " * 99 + "\none\n")
    rows, found = warned(regard, translators / "attention", "new.fr", "new.en", "--beam", 1)
    assert not rows and (found["words"], found["bytes"], found["tokens"]) == (3, 10, 5)
