import json
import math
import os
import re
import signal
import subprocess
import sys

import pytest

import regard as library

from .conftest import TEXT, TINY
from .scores import WARNING, warned

SLOW_MODULES = ("torch", "tokenizers", "rich", "numpy", "safetensors")
REGARD = [sys.executable, "-c", "from regard.cli import main; main()"]


def environment(here):
    return os.environ | {"OMP_NUM_THREADS": "1", "REGARD_CACHE": str(here.parent / "cache")}


# ------------------------------------------------------------------------------------------- starting


def test_help_imports_nothing_slow():
    asked = f"""
import sys
from regard.cli import main
for arguments in (["--help"], ["train", "--help"], ["train", "lm", "--help"], ["generate", "--help"], ["score", "-h"],
                  ["data", "--help"], ["check", "--help"], ["compare", "--help"], ["compare", "lm", "--help"],
                  ["train", "masked", "--help"], ["fill", "--help"], ["vectors", "--help"], ["--version"]):
    try:
        main(arguments)
    except SystemExit as end:
        assert end.code == 0, arguments
print("slow:", [name for name in {SLOW_MODULES} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "slow: []"


def test_help_names_every_command_and_each_has_help(regard):
    from regard.cli import COMMANDS

    text = regard("--help").done()
    for name in COMMANDS:
        assert f"  {name} " in text
        assert "Usage: regard" in regard(name, "--help").done()


def test_the_version_is_the_librarys(regard):
    assert library.__version__ in regard("--version").done()


# -------------------------------------------------------------------------------------------- training


def test_training_with_only_a_file_shows_its_choices(regard, here):
    outcome = regard("train", "lm", "text.txt", "--steps", "2", "--device", "cpu")
    assert outcome.done() == ""
    rows = {line.split()[0] for line in outcome.err.splitlines() if line}
    assert {"text", "tokenizer", "model", "training", "machine", "run", "done:"} <= rows
    assert (here / "runs" / "text-transformer" / "run.toml").exists()


def test_training_again_takes_another_folder(regard, here):
    for _ in range(2):
        regard("train", "lm", "text.txt", *TINY, "--quiet").done()
    assert sorted(path.name for path in (here / "runs").iterdir()) == ["text-transformer", "text-transformer-2"]


def test_quiet_training_says_nothing_and_json_one_object(regard):
    outcome = regard("train", "lm", "text.txt", *TINY, "--out", "run", "--quiet", "--json")
    told = json.loads(outcome.done())
    assert outcome.err == ""
    assert told["run"] == "run" and told["family"] == "transformer" and told["step"] == 3
    assert {"parameters", "tokens", "seconds", "valid_loss", "best_step"} <= set(told)


def test_training_from_stdin(regard, here):
    regard("train", "lm", "-", *TINY, "--quiet", stdin=TEXT.encode()).done()
    assert (here / "runs" / "text-transformer" / "run.toml").exists()


def test_a_flag_and_set_are_the_same_thing_and_set_wins(regard):
    changes = ("--set", "model.width=8", "--set", "training.seed=4")
    regard("train", "lm", "text.txt", *TINY, "--out", "run", "--quiet", *changes).done()
    tables = library.load("run", device="cpu").tables
    assert tables["model"]["width"] == 8 and tables["model"]["heads"] == 2 and tables["training"]["seed"] == 4


def test_resuming_a_finished_run_with_more_steps_goes_on(regard):
    regard("train", "lm", "text.txt", *TINY, "--out", "run", "--quiet").done()
    outcome = regard("train", "lm", "text.txt", "--resume", "--out", "run", "--steps", "5", "--device", "cpu")
    outcome.done()
    assert "resuming run at step 3 of 5" in outcome.err and "training.steps 3 -> 5" in outcome.err


def test_an_interrupt_saves_everything_and_is_exit_code_130(regard, here):
    budget = ["--steps", "100000", "--set", "training.valid_every=2"]
    long = [*REGARD, "train", "lm", "text.txt", *TINY, *budget, "--out", "run"]
    with subprocess.Popen(long, stderr=subprocess.PIPE, text=True, env=environment(here)) as training:
        told = []
        for line in training.stderr:
            told.append(line)
            if line.startswith("step 4 "):
                training.send_signal(signal.SIGINT)
                break
        told += training.stderr.readlines()
        assert training.wait(60) == 130, told
    line = r"regard: stopped at step ([\d,]+) of 100,000; everything is saved: go on with --resume\n"
    stopped = re.fullmatch(line, told[-1])
    assert stopped and not any("Traceback" in line for line in told), told
    step = int(stopped[1].replace(",", ""))
    outcome = regard("train", "lm", "text.txt", "--resume", "--out", "run", "--steps", str(step + 2), "--device", "cpu")
    outcome.done()
    assert f"resuming run at step {step:,} of {step + 2:,}" in outcome.err


# ------------------------------------------------------------------------------------------ generating


@pytest.mark.parametrize("family", ["transformer", "rnn", "ngram"])
def test_generating_prints_the_prompt_and_its_continuation(regard, runs, family):
    text = regard("generate", runs / family, "--prompt", "the cat", "--tokens", "8", "--seed", "3").done()
    model = library.load(runs / family, device="cpu")
    assert text == "the cat" + model.generate("the cat", new_tokens=8, seed=3) + "\n"


def test_generating_several_texts_as_json(regard, runs):
    command = ("generate", runs / "transformer", "-n", "3", "--tokens", "8", "--prompt", "the")
    told = [json.loads(line) for line in regard(*command, "--json").done().splitlines()]
    assert [each["row"] for each in told] == [0, 1, 2] and {each["prompt"] for each in told} == {"the"}
    assert len({each["text"] for each in told}) > 1


def test_a_prompt_from_stdin(regard, runs):
    command = ("generate", runs / "transformer", "--tokens", "8", "--greedy")
    expected = regard(*command, "--prompt", "the cat").done()
    assert regard(*command, "--prompt", "-", stdin=b"the cat\n").done() == expected


def test_greedy_is_temperature_zero_whatever_the_seed(regard, runs):
    command = ("generate", runs / "transformer", "--tokens", "8")
    assert regard(*command, "--greedy").done() == regard(*command, "--temperature", "0", "--seed", "9").done()


def test_past_the_context_it_says_so_once_on_stderr_and_not_in_the_text(regard, runs):
    outcome = regard("generate", runs / "transformer", "--tokens", "60", "-n", "4", "--seed", "1")
    assert "past the" not in outcome.done()
    assert outcome.err == "(past the 16 tokens the model can read at once: it goes on from the last 8)\n"


# -------------------------------------------------------------------------------------------- scoring


@pytest.mark.parametrize("family", ["transformer", "rnn", "ngram"])
@pytest.mark.parametrize("documents", [None, "file", "line"])
def test_the_rows_of_tokens_add_up_to_the_total(regard, runs, family, documents):
    command = ["score", runs / family, "text.txt", "--json", *(["--documents", documents] if documents else [])]
    total = json.loads(regard(*command).done())
    rows = [json.loads(line) for line in regard(*command, "--per-token").done().splitlines()]
    assert len(rows) == total["tokens"]
    assert -sum(row["log_prob"] for row in rows) == pytest.approx(total["loss"] * total["tokens"], rel=1e-5)
    assert total["perplexity"] == pytest.approx(math.exp(total["loss"]))
    assert total["bits_per_byte"] == pytest.approx(total["loss"] * total["tokens"] / math.log(2) / total["bytes"])


@pytest.mark.parametrize("family", ["transformer", "rnn", "ngram"])
def test_the_rows_of_lines_add_up_to_the_total(regard, runs, family):
    command = ("score", runs / family, "text.txt", "--json")
    total = json.loads(regard(*command, "--documents", "line").done())
    rows = [json.loads(line) for line in regard(*command, "--per-line").done().splitlines()]
    assert len(rows) == 80 and [row["text"] for row in rows] == TEXT.splitlines()
    assert sum(row["tokens"] for row in rows) == total["tokens"]
    assert -sum(row["log_prob"] for row in rows) == pytest.approx(total["loss"] * total["tokens"], rel=1e-5)


def test_scores_for_people(regard, runs):
    text = regard("score", runs / "transformer", "text.txt").done()
    assert [line.split("  ")[0] for line in text.splitlines()] == [
        "loss", "perplexity", "bits per byte", "over", "network", "n-gram", "mixture"]
    assert len(regard("score", runs / "transformer", "text.txt", "--per-line").done().splitlines()) == 80
    assert len(regard("score", runs / "transformer", "text.txt", "--per-token").done().splitlines()) > 1000


def test_stdin_scores_like_the_file(regard, runs):
    expected = regard("score", runs / "ngram", "text.txt").done()
    assert regard("score", runs / "ngram", "-", stdin=TEXT.encode()).done() == expected


def test_an_embedded_corpus_is_scored_on_its_test_part_unless_told(regard, here):
    regard("train", "lm", "ab", "--family", "ngram", "--order", "3", "--out", "counted", "--quiet").done()
    loss = {}
    for part in ("train", "valid", "test"):
        regard("data", "get", "ab", "--part", part, "--out", f"{part}.txt").done()
        told = json.loads(regard("score", "counted", "ab", "--part", part, "--json").done())
        assert told == json.loads(regard("score", "counted", f"{part}.txt", "--json").done())
        loss[part] = told["loss"]
    assert len(set(loss.values())) == 3
    assert json.loads(regard("score", "counted", "ab", "--json").done())["loss"] == loss["test"]
    shown = [regard("score", "counted", "ab", *part).done().splitlines()[-1] for part in ((), ("--part", "valid"))]
    assert shown == [f"{'of':<16} the {part} part of ab" for part in ("test", "valid")]
    assert json.loads(regard("train", "lm", "ab", "--family", "ngram", "--order", "3", "--out", "again", "--quiet",
                             "--json").done())["valid_loss"] == pytest.approx(loss["valid"])
    for arguments, said in ((("ab", "--part", "unseen"), "ab has no part unseen: it has train, valid, test"),
                            (("valid.txt", "--part", "valid"), "--part valid is of an embedded corpus, and valid.txt")):
        assert said in regard("score", "counted", *arguments).mistake()


# ------------------------------------------------------------------------------------------------ data


def test_the_corpora_are_listed(regard):
    assert {"stories", "ab", "sally"} <= {line.split()[0] for line in regard("data", "list").done().splitlines()}
    rows = json.loads(regard("data", "list", "--json").done())
    assert {"name", "about", "count", "unit", "parts"} == set(rows[0])


def test_a_corpus_is_shown_and_written(regard, here):
    shown = regard("data", "show", "ab", "--lines", "3").done()
    assert len(shown.splitlines()) == 3
    assert regard("data", "get", "ab", "--lines", "3").done() == "3 lines in ab.txt\n"
    assert (here / "ab.txt").read_text() == shown
    regard("data", "get", "stories", "--out", "mine.txt", "--lines", "2").done()
    assert len((here / "mine.txt").read_text().splitlines()) == 2


def test_a_file_is_counted(regard):
    assert regard("data", "show", "text.txt").done().splitlines() == [
        "80 lines read: 80 kept, 0 dropped",
        f"{len(TEXT):,} characters ({len(set(TEXT))} distinct), 640 words, 1 document"]


def test_data_that_is_not_there(regard, here):
    assert regard("data", "get", "story").mistake() == "there is no corpus story: did you mean stories?"
    assert regard("data", "show", "nowhere").mistake().startswith("nowhere does not exist")
    assert not (here / "story.txt").exists()


# ------------------------------------------------------------------------------------------------ check

GOOD = '''
import torch
from dataclasses import dataclass
import regard

@dataclass
class Kept(regard.State):
    h: torch.Tensor

class Leaky(regard.SequenceLayer):
    """h[t] = (h[t-1] + x[t]) / 2"""

    def __init__(self, width=4):
        super().__init__()
        self.d_in = self.d_out = width
        self.scale = torch.nn.Parameter(torch.ones(width))

    def start(self, batch, capacity=None, memory=None):
        return None if capacity is None else Kept(self.scale.new_zeros(batch, self.d_in))

    def forward(self, x, state=None, lengths=None):
        h = self.scale.new_zeros(len(x), self.d_in) if state is None else state.h
        ys = []
        for t, c in enumerate(x.unbind(1)):
            new = (h + c * self.scale) / 2
            h = new if lengths is None else torch.where((t < lengths)[:, None], new, h)
            ys.append(new)
        return torch.stack(ys, 1), None if state is None else Kept(h)
'''
BROKEN = GOOD.replace("return torch.stack(ys, 1),", "return torch.stack(ys, 1) + x.mean(1, keepdim=True),")


def test_a_good_layer_of_ones_own_passes(regard, here):
    (here / "good_leaky.py").write_text(GOOD)
    assert regard("check", "good_leaky:Leaky").done().startswith("Leaky: every law holds")


def test_a_layer_that_sees_the_future_is_told_so(regard, here):
    (here / "broken_leaky.py").write_text(BROKEN)
    outcome = regard("check", "broken_leaky:Leaky")
    assert outcome.code == 1 and outcome.err == ""
    assert re.match(r"Leaky: \d+ laws are broken", outcome.out) and "usual cause" in outcome.out
    told = regard("check", "broken_leaky:Leaky", "--json")
    assert told.code == 1 and json.loads(told.out)["ok"] is False


def test_a_layer_that_is_not_there(regard, here):
    (here / "my_leaky.py").write_text(GOOD)
    assert "my_leaky has no Leeky: did you mean Leaky?" in regard("check", "my_leaky:Leeky").mistake()
    assert "there is no module nowhere" in regard("check", "nowhere:Leaky").mistake()
    (here / "wrong_leaky.py").write_text("def f(:\n")
    assert "wrong_leaky cannot be imported: SyntaxError" in regard("check", "wrong_leaky:Leaky").mistake()


@pytest.mark.parametrize("family", ["transformer", "rnn", "ngram"])
def test_a_run_passes(regard, runs, family):
    assert "every law holds" in regard("check", runs / family).done()


# ------------------------------------------------------------------------------------------------ pipes


def test_a_reader_that_leaves_early_is_no_mistake(here):
    command = f"{sys.executable} -c 'from regard.cli import main; main()' data show stories --lines 20000"
    piped = f"{command} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", piped], capture_output=True, text=True, env=environment(here))
    assert done.stderr == ""
    assert done.stdout.splitlines()[1:] == ["0"]


@pytest.mark.parametrize("run, text, unknown", [
    ("rnn", "the cat sat on a Zorglub\n", 2), ("rnn", "the cat sat on mat 1\n", 0),
    ("transformer", "the cat sat on mat 1\n", 0), ("transformer", "the cat sat @ mat\n", 1)])
def test_unknown_words_of_a_text_are_warned_of(regard, runs, here, run, text, unknown):
    (here / "new.txt").write_text(text)
    rows, found = warned(regard, runs / run, "new.txt")
    assert (len(rows), found["oov"], found["comparable"]) == (bool(unknown), unknown, not unknown)
    if unknown:
        assert rows[0].endswith(WARNING) and f" {unknown} of the {found['tokens']} " in rows[0]
        assert rows[0].split(maxsplit=1)[1] == found["warning"]
    else:
        assert "warning" not in found
